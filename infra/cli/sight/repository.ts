import { withoutAdvice } from './words.ts';
import type { Todo } from './model.ts';
import { settledRepository } from './catalogue/repository.ts';
import { ownRecord } from './records.ts';
import type { Finding, Scene } from './scene.ts';
import { conditionOf } from './seen.ts';

/** What backup-config is at. All that it finds stands in its condition; the record only carries the wake. */
export function repositoryFinding({ target }: Scene): Finding {
  const configured = conditionOf(target, 'BackupConfigured');
  const record = ownRecord('backup-config', target);
  const isNewer = record.kind === 'ours' && record.record.reason !== configured?.reason;
  const reason = isNewer ? record.record.reason : (configured?.reason ?? '');
  const { repository } = target.status;
  const isSettled = settledRepository.has(reason);
  return {
    reason,
    message: isNewer ? undefined : configured?.message,
    since: record.kind === 'ours' ? record.record.since : configured?.lastTransitionTime,
    isSettled,
    lookedAt: configured?.observedGeneration,
    ...(reason === 'RepositoryOfOthers' ? { todo: ownPlace(configured?.message ?? '') } : {}),
    notes:
      isSettled || repository === undefined
        ? []
        : [`Backups still go to the last repository that was in order (${repository.hash}).`],
  };
}

/** Where the owner object is, the step says; what a person can do about it is two things, one of which destroys. */
function ownPlace(message: string): readonly Todo[] {
  const object = / remove (\S+)$/.exec(withoutAdvice(message).advice ?? '')?.[1];
  return [
    {
      text: 'give this Database a place of its own: another spec.backup.repository.s3.keyPrefix, or another bucket',
    },
    {
      text: `only if that Database is gone for good and its backups are to be this one's: remove ${object ?? 'the object that names it as the owner'}`,
    },
  ];
}
