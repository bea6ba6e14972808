import * as z from 'zod';
import type { PoolerId, ShardKey } from '#shared/topology/topology.ts';
import { askedFor, failure, parseJson } from './admin-answers.ts';
import { jobBody } from './admin-bodies.ts';
import { answeringAdmin, poolersOnRecord } from './admin-reach.ts';
import { changeJob, failJob, jobOf, newJobId, rememberJob } from './backup-jobs.ts';
import { failQuestion } from './backup-questions.ts';
import { standInLine } from './backup-runs.ts';
import {
  type AdminReply,
  type AdminRequest,
  type DataPlaneState,
  type RepositoryQuestion,
  type Turn,
  after,
  hasFault,
} from './state.ts';
import { timing } from './timing.ts';

/*
 * What multiadmin is asked about backups. It knows the jobs it was asked for itself; the rest it asks a pooler.
 */

/** proto3 JSON takes a field under both of its names. */
const backupRequest = z
  .object({
    database: z.string().default(''),
    tableGroup: z.string().optional(),
    table_group: z.string().optional(),
    shard: z.string().default(''),
    type: z.string().default(''),
    forcePrimary: z.boolean().optional(),
    force_primary: z.boolean().optional(),
  })
  .transform(({ database, shard, type, ...names }) => ({
    shard: { database, tableGroup: names.tableGroup ?? names.table_group ?? '', shard },
    type,
    isPrimaryForced: names.forcePrimary ?? names.force_primary ?? false,
  }));

/** The job is made at once, for the pooler that the records name; whether that one lives is found out afterwards. */
export function acceptBackup(turn: Turn, { id, body }: AdminRequest): AdminReply | undefined {
  const { state } = turn;
  const parsed = backupRequest.safeParse(parseJson(body));
  if (!parsed.success) {
    return failure('invalidArgument', 'the body is no backup request');
  }
  const { shard, type, isPrimaryForced } = parsed.data;
  const pooler = isPrimaryForced ? leaderOnRecord(state, shard) : replicaOnRecord(state, shard);
  if (pooler === undefined) {
    const wanted = isPrimaryForced ? 'leader' : 'replica';
    return failure('failedPrecondition', `failed to find pooler: there is no ${wanted}`);
  }
  const jobId = newJobId(state.backups, pooler, state.nowMs);
  rememberJob(state, {
    jobId,
    pooler,
    shard,
    type,
    isPrimaryForced,
    status: 'pending',
    backupId: null,
    error: null,
    endedAtMs: null,
  });
  after(state, timing.callPoolerMs, { kind: 'callPooler', jobId });
  if (hasFault(state, 'lostBackupReply')) {
    state.faults = state.faults.filter(({ kind }) => kind !== 'lostBackupReply');
    turn.outputs.push({ kind: 'adminDrop', requestId: id });
    return undefined;
  }
  return { status: 200, body: { jobId } };
}

/** The job's pooler is asked to back up; one that does not answer ends the job. */
export function callPooler(turn: Turn, jobId: string): void {
  const { state } = turn;
  const job = jobOf(state, jobId);
  if (job === undefined) {
    return;
  }
  const { type, isPrimaryForced } = job;
  const member = answeringAdmin(state, job.pooler);
  if (member === undefined) {
    failJob(state, jobId, 'pooler backup failed: code = Unavailable');
    return;
  }
  changeJob(state, jobId, { status: 'running' });
  standInLine(turn, { kind: 'waiting', podUid: member.pod.uid, jobId, type, isPrimaryForced });
}

function poolersOf(state: DataPlaneState, { database, tableGroup, shard }: ShardKey) {
  return poolersOnRecord(state).filter(
    (record) =>
      record.shard.database === database &&
      record.shard.tableGroup === tableGroup &&
      (shard === '' || record.shard.shard === shard),
  );
}

/** The first in the order of the cells. Only the record counts: that of a killed one says SERVING for ever. */
function replicaOnRecord(state: DataPlaneState, shard: ShardKey): PoolerId | undefined {
  const [first] = poolersOf(state, shard)
    .filter(({ serving, role }) => serving === 'serving' && role !== 'primary')
    .map(({ id }) => id)
    .toSorted(byCell);
  return first;
}

function byCell(one: PoolerId, other: PoolerId): number {
  if (one.cell !== other.cell) {
    return one.cell < other.cell ? -1 : 1;
  }
  return one.name < other.name ? -1 : 1;
}

/** Of two that claim it, the one under the higher rule. */
function leaderOnRecord(state: DataPlaneState, shard: ShardKey): PoolerId | undefined {
  const [leader] = poolersOf(state, shard)
    .filter(({ role }) => role === 'primary')
    .toSorted((a, b) => Number(b.rule?.term ?? 0) - Number(a.rule?.term ?? 0));
  return leader?.id;
}

/** A job that this multiadmin does not remember may be that of a backup in the repository. */
export function showJob(turn: Turn, request: AdminRequest, jobId: string): AdminReply | undefined {
  const job = jobOf(turn.state, jobId);
  if (job !== undefined) {
    return { status: 200, body: jobBody(job) };
  }
  const shard = shardAskedFor(request);
  const isShardGiven = shard.database !== '' && shard.tableGroup !== '';
  const replica = isShardGiven ? replicaOnRecord(turn.state, shard) : undefined;
  if (replica === undefined) {
    return failure('notFound', `job not found: ${jobId}`);
  }
  askRepository(turn, request, replica, { kind: 'job', shard, jobId });
  return undefined;
}

const limitSchema = z.coerce.number().int().min(0).max(0xffff_ffff).default(0);

export function listBackups(turn: Turn, request: AdminRequest): AdminReply | undefined {
  const shard = shardAskedFor(request);
  const limit = limitSchema.safeParse(askedFor(request, 'limit')[0]);
  if (shard.database === '' || shard.tableGroup === '') {
    return failure('invalidArgument', 'a database and a table group are needed');
  }
  if (!limit.success) {
    return failure('invalidArgument', 'the limit is no number');
  }
  const replica = replicaOnRecord(turn.state, shard);
  if (replica === undefined) {
    return failure('notFound', 'failed to find replica pooler');
  }
  askRepository(turn, request, replica, { kind: 'list', limit: limit.data });
  return undefined;
}

function shardAskedFor(request: AdminRequest): ShardKey {
  const [database = ''] = askedFor(request, 'database');
  const [tableGroup = ''] = [
    ...askedFor(request, 'tableGroup'),
    ...askedFor(request, 'table_group'),
  ];
  const [shard = ''] = askedFor(request, 'shard');
  return { database, tableGroup, shard };
}

/** Any replica could tell, but only the one that is backed up by default is asked. */
function askRepository(
  turn: Turn,
  { id: requestId }: AdminRequest,
  replica: PoolerId,
  about: RepositoryQuestion['about'],
): void {
  const member = answeringAdmin(turn.state, replica);
  if (member === undefined) {
    failQuestion(turn, { requestId, about });
  } else {
    standInLine(turn, { kind: 'question', podUid: member.pod.uid, requestId, about });
  }
}
