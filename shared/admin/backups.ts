import * as z from 'zod';
import type { BackupType } from '#shared/api/backup.ts';
import { describeError } from '#shared/kernel/errors.ts';
import { maxAnswerLength } from '#shared/kernel/effect.ts';
import { type Read, absent, present, unknown } from '#shared/kernel/read.ts';
import type { ShardKey } from '#shared/topology/topology.ts';
import type { Backup, BackupJob, StartResult } from './admin.ts';
import type { AdminAnswer, AdminRoute, Limits } from './route.ts';
import { notFoundSchema, pathSegment, refusals } from './wire.ts';

/** The id of a job has its instant and its pooler in it; a longer one is none that a record could keep. */
const jobSchema = z.string().max(maxAnswerLength).regex(pathSegment);

const startedSchema = z.object({ jobId: jobSchema });

const text = z
  .string()
  .nullish()
  .transform((value) => (value === undefined || value === '' ? null : value));

const jobBodySchema = z
  .object({
    jobId: z.string(),
    status: z.string().default(''),
    backupId: text,
    errorMessage: text,
  })
  .transform(({ jobId, status, backupId, errorMessage }) => ({
    jobId,
    job: {
      status: jobStatuses.get(status) ?? 'unknown',
      backup: backupId,
      why: errorMessage?.slice(0, maxReasonLength) ?? null,
    } satisfies BackupJob,
  }));

/** What is kept of an error's text, in characters: it is of the data plane, and may quote anything. */
const maxReasonLength = 200;

const jobStatuses: ReadonlyMap<string, BackupJob['status']> = new Map([
  ['JOB_STATUS_PENDING', 'pending'],
  ['JOB_STATUS_RUNNING', 'running'],
  ['JOB_STATUS_COMPLETED', 'completed'],
  ['JOB_STATUS_FAILED', 'failed'],
]);

const time = z.iso
  .datetime({ offset: true })
  .nullish()
  .transform((value) => value ?? null);

const listSchema = z.object({
  backups: z
    .array(
      z.object({
        backupId: z.string().min(1),
        tableGroup: z.string().default(''),
        shard: z.string().default(''),
        type: z.string().default(''),
        status: z.string().default(''),
        jobId: text,
        startTimestamp: time,
        stopTimestamp: time,
        backupSizeBytes: z
          .union([z.string().regex(/^\d{1,19}$/), z.int().min(0).transform(String)])
          .nullish()
          .transform((value) => value ?? null),
      }),
    )
    .default([]),
});

/** pgBackRest's own words are shorter than those in which a backup is asked for. */
const types: ReadonlyMap<string, BackupType> = new Map([
  ['full', 'full'],
  ['diff', 'differential'],
  ['differential', 'differential'],
  ['incr', 'incremental'],
  ['incremental', 'incremental'],
]);

const backupStatuses: ReadonlyMap<string, Backup['status']> = new Map([
  ['BACKUP_STATUS_COMPLETE', 'complete'],
  ['BACKUP_STATUS_INCOMPLETE', 'incomplete'],
  ['BACKUP_STATUS_FAILED', 'failed'],
]);

export async function backupJob(
  route: AdminRoute,
  shard: ShardKey,
  job: string,
  limits: Limits,
): Promise<Read<BackupJob>> {
  const subject = 'the status of the backup';
  if (!jobSchema.safeParse(job).success) {
    return unknown(`${subject}: its job has no valid id`);
  }
  const answer = await ask(route, subject, `/api/v1/jobs/${job}?${queryOf(shard)}`, limits);
  if (answer.kind !== 'present') {
    return answer;
  }
  const parsed = jobBodySchema.safeParse(answer.value.body);
  return parsed.success && parsed.data.jobId === job
    ? present(parsed.data.job)
    : unknown(`${subject}: the answer has another shape`);
}

/** Without a limit: one keeps the oldest. */
export async function backups(
  route: AdminRoute,
  shard: ShardKey,
  limits: Limits,
): Promise<Read<readonly Backup[]>> {
  const subject = 'the list of backups';
  const answer = await ask(route, subject, `/api/v1/backups?${queryOf(shard)}`, limits);
  if (answer.kind !== 'present') {
    // That there is no such shard does not say that it has no backups.
    return answer.kind === 'absent' ? unknown(`${subject}: nobody can be asked`) : answer;
  }
  const parsed = listSchema.safeParse(answer.value.body);
  if (!parsed.success) {
    return unknown(`${subject}: the answer has another shape`);
  }
  return present(
    parsed.data.backups
      .filter((backup) => backup.tableGroup === shard.tableGroup && backup.shard === shard.shard)
      .map((backup) => ({
        id: backup.backupId,
        type: types.get(backup.type) ?? 'unknown',
        status: backupStatuses.get(backup.status) ?? 'unknown',
        job: backup.jobId,
        startedAt: backup.startTimestamp,
        stoppedAt: backup.stopTimestamp,
        sizeBytes: backup.backupSizeBytes,
      })),
  );
}

export async function startBackup(
  route: AdminRoute,
  shard: ShardKey,
  type: BackupType,
  limits: Limits,
): Promise<StartResult> {
  let answer: AdminAnswer;
  try {
    answer = await route({
      method: 'POST',
      path: '/api/v1/backups',
      body: { ...shard, type },
      ...limits,
    });
  } catch (error) {
    return { kind: 'unknown', why: `asking for a backup: ${describeError(error)}` };
  }
  const why = `asking for a backup: ${answer.from} answers ${answer.status}`;
  if (refusals.has(answer.status)) {
    return { kind: 'refused', why };
  }
  const started = startedSchema.safeParse(answer.body);
  return answer.status === 200 && started.success
    ? { kind: 'started', job: started.data.jobId }
    : { kind: 'unknown', why };
}

async function ask(
  route: AdminRoute,
  subject: string,
  path: string,
  limits: Limits,
): Promise<Read<AdminAnswer>> {
  let answer: AdminAnswer;
  try {
    answer = await route({ method: 'GET', path, ...limits });
  } catch (error) {
    return unknown(`${subject}: ${describeError(error)}`);
  }
  if (answer.status === 404 && notFoundSchema.safeParse(answer.body).success) {
    return absent;
  }
  return answer.status === 200
    ? present(answer)
    : unknown(`${subject}: ${answer.from} answers ${answer.status}`);
}

function queryOf({ database, tableGroup, shard }: ShardKey): string {
  return new URLSearchParams({ database, tableGroup, shard }).toString();
}
