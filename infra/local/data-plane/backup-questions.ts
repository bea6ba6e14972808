import { backupsBody, jobBody } from './admin-bodies.ts';
import { failure, reply } from './admin-answers.ts';
import type { RepositoryQuestion, Turn } from './state.ts';

/*
 * What multiadmin makes of a pooler's answer about the repository, or of none.
 */

export function answerQuestion(turn: Turn, question: RepositoryQuestion): void {
  const { requestId, about } = question;
  const { backups, config } = turn.state;
  const { stored } = backups;
  if (about.kind === 'list') {
    const listed = about.limit === 0 ? stored : stored.slice(0, about.limit);
    reply(turn, requestId, { status: 200, body: backupsBody(config.shard, listed) });
    return;
  }
  const { jobId, shard } = about;
  const backup = stored.find((candidate) => candidate.jobId === jobId);
  if (backup === undefined) {
    failQuestion(turn, question);
    return;
  }
  const found = { jobId, shard, status: 'completed', backupId: backup.id, error: null } as const;
  reply(turn, requestId, { status: 200, body: jobBody(found) });
}

/** A job that nobody can be asked about is one that nobody knows. */
export function failQuestion(
  turn: Turn,
  { requestId, about }: Pick<RepositoryQuestion, 'requestId' | 'about'>,
): void {
  reply(
    turn,
    requestId,
    about.kind === 'list'
      ? failure('internal', 'failed to get backups: code = Unavailable')
      : failure('notFound', `job not found: ${about.jobId}`),
  );
}
