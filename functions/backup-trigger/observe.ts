import { backupNow } from '#shared/api/annotations.ts';
import { type BackupSchedule, backupTypes } from '#shared/api/backup.ts';
import { readDrainRecord } from '#shared/api/drain-record.ts';
import { durationSeconds } from '#shared/api/duration.ts';
import type { ObjectMetadata } from '#shared/api/metadata.ts';
import type { Ports } from '#shared/kernel/ports.ts';
import { type Present, mapRead, unknown } from '#shared/kernel/read.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import { type BackupRecord, readBackupRecord } from './record.ts';
import type {
  BackupSnapshot,
  DrainView,
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
  const { metadata, spec } = target.value;
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
  const view = mapRead(database, ({ metadata, spec: { name, paused } }) => ({
    shard: { database: name, tableGroup: spec.tableGroup, shard: spec.shard },
    ref: { namespace: shard.namespace, name: metadata.name, uid: metadata.uid },
    isPaused: paused,
  }));
  if (database.kind !== 'present' || view.kind !== 'present' || view.value.isPaused) {
    return { ...quiet, database: view };
  }
  const admin = ports.admin(database.value);
  const key = view.value.shard;
  const job = jobOf(record.kind === 'ours' ? record.record : null);
  const [lease, backups, jobRead] = await Promise.all([
    ports.topology(database.value).backupLease(key, signal),
    admin.backups(key, signal),
    job === undefined ? notAsked : admin.backupJob(key, job, signal),
  ]);
  return { ...quiet, database: view, lease, backups, job: jobRead };
}

const notAsked = unknown('it was not asked');

const nothingAsked = {
  database: notAsked,
  lease: notAsked,
  backups: notAsked,
  job: notAsked,
} as const;

function jobOf(record: BackupRecord | null): string | undefined {
  return record?.data.run === undefined ? record?.data.left : record.data.run.job;
}

function shardView({ metadata, spec, status }: KubeObject<'Shard'>): ShardView {
  return {
    namespace: metadata.namespace ?? '',
    name: metadata.name,
    uid: metadata.uid,
    generation: metadata.generation ?? 0,
    resourceVersion: metadata.resourceVersion,
    isPaused: spec.paused,
    isBeingDeleted: metadata.deletionTimestamp !== undefined,
    databaseName: spec.databaseRef.name,
    schedules: (spec.backup?.schedules ?? []).map(scheduleView),
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
