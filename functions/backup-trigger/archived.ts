import * as z from 'zod';
import { type BackupEngine, type BackupSchedule, type SlotResult } from '#shared/api/backup.ts';
import type { JobTemplate } from '#shared/api/job-template.ts';
import { allow, byKind, oneOf, readOf, recordReadOf } from '#shared/archive/allow-list.ts';
import {
  backup,
  backupLease,
  backupType,
  databaseView,
  jobFields,
} from '#shared/archive/data-plane.ts';
import {
  condition,
  hiddenTemplate,
  podMetadata,
  podSpec,
  targetFields,
} from '#shared/archive/kubernetes.ts';
import type { ArchivedForm } from '#shared/kernel/step.ts';
import type { ObjectRef } from '#shared/kube/resources.ts';
import { backupRecordSchema } from './record.ts';
import type { Timing } from './slots.ts';
import type {
  BackupSnapshot,
  DrainView,
  JobView,
  RequestView,
  ScheduleView,
  ShardView,
  StatusView,
} from './snapshot.ts';

type TimingOf<K> = Extract<Timing, { readonly kind: K }>;
type RequestOf<K> = Extract<RequestView, { readonly kind: K }>;
type DrainOf<K> = Extract<DrainView, { readonly kind: K }>;

const schedule = allow<ScheduleView>({
  name: z.string(),
  timing: byKind<Timing>({
    cron: allow<TimingOf<'cron'>>({
      kind: z.literal('cron'),
      cron: z.string(),
      timeZone: z.string(),
    }),
    every: allow<TimingOf<'every'>>({ kind: z.literal('every'), seconds: z.number() }),
  }),
  type: backupType,
  engine: oneOf<BackupEngine>({ admin: true, job: true }),
  isSuspended: z.boolean(),
  catchUp: oneOf<BackupSchedule['catchUp']>({ latest: true, none: true }),
  startingDeadlineSeconds: z.number(),
  runDeadlineSeconds: z.number(),
  jitterSeconds: z.number(),
  onUnknown: oneOf<BackupSchedule['onUnknown']>({ report: true, rerun: true }),
});

const request = byKind<RequestView>({
  none: allow<RequestOf<'none'>>({ kind: z.literal('none') }),
  valid: allow<RequestOf<'valid'>>({
    kind: z.literal('valid'),
    text: z.string(),
    type: backupType,
    token: z.string(),
  }),
  invalid: allow<RequestOf<'invalid'>>({ kind: z.literal('invalid') }),
});

type Fields = StatusView['fields'];

const result = oneOf<SlotResult | 'running'>({
  succeeded: true,
  failed: true,
  skipped: true,
  adopted: true,
  unknown: true,
  running: true,
});

/** backup-trigger's own part of the status. */
const fields = allow<Fields>({
  backups: z
    .array(
      allow<NonNullable<Fields['backups']>[number]>({
        schedule: z.string(),
        lastSlot: z.string().optional(),
        lastResult: result.optional(),
        lastReason: z.string().optional(),
        lastSuccess: z.string().optional(),
        lastDurationSeconds: z.number().optional(),
        lastSizeBytes: z.number().optional(),
        next: z.array(z.string()),
      }),
    )
    .optional(),
  backupRun: allow<NonNullable<Fields['backupRun']>>({
    schedule: z.string(),
    slot: z.string(),
    type: backupType,
    attempt: z.number(),
    since: z.string(),
    job: z.string().optional(),
  }).optional(),
  backupRequest: allow<NonNullable<Fields['backupRequest']>>({
    request: z.string(),
    result,
  }).optional(),
  lastBackup: allow<NonNullable<Fields['lastBackup']>>({
    any: z.string().optional(),
    full: z.string().optional(),
  }).optional(),
  nextBackup: z.string().optional(),
});

const shard = allow<ShardView>({
  ...targetFields,
  databaseName: z.string(),
  schedules: z.array(schedule),
  jobTemplate: allow<JobTemplate>({ metadata: podMetadata.optional(), spec: podSpec }).nullable(),
  request,
  specChangedAt: z.string().nullable(),
  status: allow<StatusView>({
    condition: condition.nullable(),
    fields,
  }),
});

const job = allow<JobView>({
  ...jobFields,
  object: allow<NonNullable<JobView['object']>>({
    ref: allow<ObjectRef<'Job'>>({
      kind: z.literal('Job'),
      namespace: z.string().optional(),
      name: z.string(),
    }),
    uid: z.string(),
    resourceVersion: z.string(),
    isReleased: z.boolean(),
  }).optional(),
});

/** What of backup-trigger's snapshots may be archived. */
export const archived: ArchivedForm<BackupSnapshot> = {
  schema: allow<BackupSnapshot>({
    shard,
    record: recordReadOf(backupRecordSchema),
    drain: byKind<DrainView>({
      clear: allow<DrainOf<'clear'>>({ kind: z.literal('clear') }),
      going: allow<DrainOf<'going'>>({ kind: z.literal('going'), pod: z.string() }),
      unknown: allow<DrainOf<'unknown'>>({ kind: z.literal('unknown'), why: z.string() }),
    }),
    database: readOf(databaseView),
    lease: readOf(backupLease),
    backups: readOf(z.array(backup)),
    job: readOf(job),
  }),
  hide: (snapshot) => {
    const { uid, jobTemplate } = snapshot.shard;
    return jobTemplate === null
      ? snapshot
      : {
          ...snapshot,
          shard: { ...snapshot.shard, jobTemplate: hiddenTemplate(jobTemplate, uid) },
        };
  },
};
