import { backupNow } from '#shared/api/annotations.ts';
import { type BackupSchedule, backupTypes } from '#shared/api/backup.ts';
import { readDrainRecord } from '#shared/api/drain-record.ts';
import { durationSeconds } from '#shared/api/duration.ts';
import type { ObjectMetadata } from '#shared/api/metadata.ts';
import type { Ports } from '#shared/kernel/ports.ts';
import { type Present, type Read, absent, mapRead, present, unknown } from '#shared/kernel/read.ts';
import { databaseView } from '#shared/kernel/shard-database.ts';
import { targetView } from '#shared/kernel/target-view.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import { isJobOf, jobRef, jobView } from './job.ts';
import { type BackupRecord, type Run, readBackupRecord } from './record.ts';
import type {
  BackupSnapshot,
  DrainView,
  JobView,
  RequestView,
  ScheduleView,
  ShardView,
} from './snapshot.ts';

/**
 * Reads what backup-trigger decides from. The record came with the target, and everything a start is judged by is read
 * after it: a start is written down by comparing with that record, so no older evidence can stand behind a newer one.
 *
 * A shard with no schedules, no request and no record costs no read besides the target's.
 */
export async function observe(
  target: Present<KubeObject<'Shard'>>,
  ports: Ports,
  signal: AbortSignal,
): Promise<BackupSnapshot> {
  const { metadata } = target.value;
  const shard = shardView(target.value);
  const record = readBackupRecord(metadata);
  const quiet: BackupSnapshot = { shard, record, drain: drainView(metadata), ...nothingAsked };
  const hasNothingToDo =
    shard.schedules.length === 0 && shard.request.kind !== 'valid' && record.kind === 'none';
  if (
    hasNothingToDo ||
    shard.isPaused ||
    shard.isBeingDeleted ||
    record.kind === 'unreadable' ||
    record.kind === 'foreign'
  ) {
    return quiet;
  }
  const database = await ports.kube.get(
    { kind: 'Database', namespace: shard.namespace, name: shard.databaseName },
    signal,
  );
  const view = mapRead(database, (value) => databaseView(value, target.value));
  if (database.kind !== 'present' || view.kind !== 'present' || view.value.isPaused) {
    return { ...quiet, database: view };
  }
  const admin = ports.admin(database.value);
  const key = view.value.shard;
  const asked = jobOf(record.kind === 'ours' ? record.record : null);
  const [lease, backups, job] = await Promise.all([
    ports.topology(database.value).backupLease(key, signal),
    admin.backups(key, signal),
    asked.kind === 'dataPlane'
      ? admin.backupJob(key, asked.id, signal)
      : asked.kind === 'kubernetes'
        ? readJob(asked, shard, ports, signal)
        : notAsked,
  ]);
  return { ...quiet, database: view, lease, backups, job };
}

const notAsked = unknown('it was not asked');

const nothingAsked = {
  database: notAsked,
  lease: notAsked,
  backups: notAsked,
  job: notAsked,
} as const;

type JobQuestion =
  | { readonly kind: 'none' }
  | { readonly kind: 'dataPlane'; readonly id: string }
  /** The Job of the run, or the one of this name. */
  | { readonly kind: 'kubernetes'; readonly of: Run | string };

/** Who can tell how it stands with the run, or with an earlier one. */
function jobOf(record: BackupRecord | null): JobQuestion {
  const { run, left, leftJob } = record?.data ?? {};
  if (run?.engine === 'job') {
    return { kind: 'kubernetes', of: run };
  }
  if (run === undefined && leftJob !== undefined) {
    return { kind: 'kubernetes', of: leftJob };
  }
  const id = run === undefined ? left : run.job;
  return id === undefined ? { kind: 'none' } : { kind: 'dataPlane', id };
}

/** One that is somebody else's says nothing of ours, which is not there then. */
async function readJob(
  { of }: JobQuestion & { readonly kind: 'kubernetes' },
  shard: ShardView,
  ports: Ports,
  signal: AbortSignal,
): Promise<Read<JobView>> {
  const run = typeof of === 'string' ? undefined : of;
  const ref =
    typeof of === 'string'
      ? { kind: 'Job' as const, namespace: shard.namespace, name: of }
      : jobRef(shard, of);
  const read = await ports.kube.get(ref, signal);
  return read.kind !== 'present'
    ? read
    : isJobOf(shard, read.value, run)
      ? present(jobView(read.value))
      : absent;
}

function shardView(shard: KubeObject<'Shard'>): ShardView {
  const { metadata, spec, status } = shard;
  return {
    ...targetView(shard),
    databaseName: spec.databaseRef.name,
    schedules: (spec.backup?.schedules ?? []).map(scheduleView),
    jobTemplate: spec.backup?.jobTemplate ?? null,
    request: requestView(metadata.annotations?.[backupNow]),
    specChangedAt: specChangedAt(metadata),
    status: {
      condition:
        status?.conditions?.find((condition) => condition.type === 'BackupsOnSchedule') ?? null,
      fields: {
        ...(status?.backups === undefined ? {} : { backups: status.backups }),
        ...(status?.backupRun === undefined ? {} : { backupRun: status.backupRun }),
        ...(status?.backupRequest === undefined ? {} : { backupRequest: status.backupRequest }),
        ...(status?.lastBackup === undefined ? {} : { lastBackup: status.lastBackup }),
        ...(status?.nextBackup === undefined ? {} : { nextBackup: status.nextBackup }),
      },
    },
  };
}

function scheduleView(schedule: BackupSchedule): ScheduleView {
  const { cron, every, timeZone } = schedule;
  return {
    name: schedule.name,
    timing:
      cron === undefined
        ? { kind: 'every', seconds: durationSeconds(every ?? '') }
        : { kind: 'cron', cron, timeZone },
    type: schedule.type,
    engine: schedule.engine,
    isSuspended: schedule.suspend,
    catchUp: schedule.catchUp,
    startingDeadlineSeconds: durationSeconds(schedule.startingDeadline),
    runDeadlineSeconds: durationSeconds(schedule.runDeadline),
    jitterSeconds: durationSeconds(schedule.jitter),
    onUnknown: schedule.onUnknown,
  };
}

/** `<type>/<token>`; the token is part of the record's key and has to fit there. */
function requestView(text: string | undefined): RequestView {
  if (text === undefined) {
    return { kind: 'none' };
  }
  const [, word, token] = /^([a-z]+)\/([A-Za-z0-9._:-]{1,40})$/.exec(text) ?? [];
  const type = backupTypes.find((candidate) => candidate === word);
  return type === undefined || token === undefined
    ? { kind: 'invalid' }
    : { kind: 'valid', text, type, token };
}

/** Each manager's entry has the time of its last change to any of its fields, so this is never earlier than the truth. */
function specChangedAt({ managedFields = [] }: ObjectMetadata): string | null {
  const times = managedFields
    .filter(
      ({ subresource = '', fieldsV1 = {} }) =>
        subresource === '' && fieldsV1['f:spec'] !== undefined,
    )
    .flatMap(({ time }) => time ?? []);
  return times.toSorted().at(-1) ?? null;
}

function drainView(metadata: ObjectMetadata): DrainView {
  const record = readDrainRecord(metadata);
  switch (record.kind) {
    case 'unreadable':
      return { kind: 'unknown', why: record.why };
    case 'ours':
      return record.record.state === 'finished'
        ? { kind: 'going', pod: record.record.data.pod }
        : { kind: 'clear' };
    case 'none':
    case 'foreign':
      return { kind: 'clear' };
  }
}
