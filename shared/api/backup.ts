import * as z from 'zod';
import { durationPattern, maxDurationLength } from './duration.ts';
import { type ApiRule, label, listMap, text, withRules } from './fields.ts';

/** How much a backup holds: all, or what changed since the last full one, or since the last one of any sort. */
export const backupTypes = ['full', 'differential', 'incremental'] as const;
export type BackupType = (typeof backupTypes)[number];

/** Who makes a backup: the data plane by its own means, or a container that people bring along. */
export const backupEngines = ['admin', 'job'] as const;
export type BackupEngine = (typeof backupEngines)[number];

/** How a slot can end. Every slot ends once. */
export const slotResults = ['succeeded', 'failed', 'skipped', 'adopted', 'unknown'] as const;
export type SlotResult = (typeof slotResults)[number];

const isCron: ApiRule = {
  rule: "self.matches('^[-0-9A-Za-z*,/#]+( [-0-9A-Za-z*,/#]+){4}$')",
  message:
    'write cron with five fields and one space between them: minute, hour, day of month, month, day of week, for example 0 2 * * *; there is no field for seconds, and no ?, + or @',
};
const isInterval: ApiRule = {
  rule: `self.matches('${durationPattern}') && !self.contains('.') && !self.contains('ms') && duration(self) >= duration('10s')`,
  message: 'give every as a duration of at least 10s in whole seconds, for example 6h or 90m',
};
const isZone: ApiRule = {
  rule: "self.matches('^[A-Za-z][A-Za-z0-9_+/-]*$')",
  message: 'give timeZone as a name of the IANA database, for example Europe/London or UTC',
};
const isStartingDeadline: ApiRule = {
  rule: `self.matches('${durationPattern}') && duration(self) >= duration('5m')`,
  message:
    'give startingDeadline as a duration of at least 5m: a look may come as late as that; a slot never waits for longer than until the next one of its schedule is due',
};
const isRunDeadline: ApiRule = {
  rule: `self.matches('${durationPattern}') && duration(self) >= duration('1m')`,
  message: 'give runDeadline as a duration of at least 1m, for example 6h',
};
const isJitter: ApiRule = {
  rule: `self.matches('${durationPattern}') && !self.contains('.') && !self.contains('ms')`,
  message: 'give jitter as a duration in whole seconds, for example 10m',
};
const oneTiming: ApiRule = {
  rule: 'has(self.cron) != has(self.every)',
  message: 'give either cron or every: one of them, not both',
};
const jitterFits: ApiRule = {
  rule: `!has(self.every) || !self.every.matches('${durationPattern}') || !self.jitter.matches('${durationPattern}') || duration(self.jitter) + duration(self.jitter) < duration(self.every)`,
  message: 'give a jitter that is shorter than half of every',
};

/** When a sort of backup is made. */
export const backupScheduleSchema = z
  .object({
    name: label(20, 'Its name, unique in the Shard.'),
    cron: text(
      100,
      'When it is due, in five fields: minute, hour, day of month, month, day of week. A time that the zone leaves out in spring is left out, one that comes twice in autumn counts once, the first time.',
      isCron,
    ).optional(),
    every: text(
      maxDurationLength,
      'How often it is due, from 10s on; counted from 1970-01-01T00:00:00Z.',
      isInterval,
    ).optional(),
    timeZone: text(64, 'The zone `cron` is meant in, by its IANA name.', isZone).default('UTC'),
    type: z.enum(backupTypes).meta({ description: 'What is made.' }),
    engine: z.enum(backupEngines).default('admin').meta({
      description:
        'Who makes it: `admin`, the data plane, asked through its admin service; `job`, a Job of Kubernetes made from `jobTemplate`.',
    }),
    suspend: z.boolean().default(false).meta({
      description:
        'Nothing is started, and what was due meanwhile is never made up for. A running backup goes on.',
    }),
    catchUp: z.enum(['latest', 'none']).default('latest').meta({
      description:
        'A slot that could not start in time: `latest` starts the newest one within `startingDeadline`, `none` starts none that is more than 5m late.',
    }),
    startingDeadline: text(
      maxDurationLength,
      'How late a slot may start; at least 5m.',
      isStartingDeadline,
    ).default('1h'),
    runDeadline: text(
      maxDurationLength,
      'How long a backup is watched. After it the slot ends as `failed` or `unknown`; the backup itself is left alone.',
      isRunDeadline,
    ).default('6h'),
    jitter: text(
      maxDurationLength,
      "Each slot starts later by a part of it that depends on the Shard and the schedule's name alone; shorter than half the time between two slots.",
      isJitter,
    ).default('0s'),
    onUnknown: z.enum(['report', 'rerun']).default('report').meta({
      description:
        'If nobody can tell what became of a backup: say so, or make another within `startingDeadline`, at most two more.',
    }),
  })
  .meta({ description: 'When a sort of backup is made.', ...withRules(oneTiming, jitterFits) });

/** A schedule as the API server returns it: every default is there. */
export type BackupSchedule = z.output<typeof backupScheduleSchema>;

function instant(meaning: string) {
  return z.string().meta({ description: meaning, format: 'date-time' });
}

/** What backup-trigger writes into the status of a Shard. */
export const backupStatusFields = {
  backups: z
    .array(
      z.object({
        schedule: z.string().meta({ description: 'The schedule.' }),
        lastSlot: instant('The last slot that has ended or runs.').optional(),
        lastResult: z
          .enum([...slotResults, 'running'])
          .optional()
          .meta({ description: 'How that ended.' }),
        lastReason: z.string().optional().meta({ description: 'Why it ended so.' }),
        lastSuccess: instant('When its last good backup was complete.').optional(),
        lastDurationSeconds: z
          .int()
          .min(0)
          .optional()
          .meta({ description: 'How long its last good backup took.', format: 'int64' }),
        lastSizeBytes: z
          .int()
          .min(0)
          .optional()
          .meta({ description: 'What its last good backup holds.', format: 'int64' }),
        next: z.array(z.string()).max(3).meta({
          description: 'Its next slots, jitter included.',
          'x-kubernetes-list-type': 'atomic',
        }),
      }),
    )
    .optional()
    .meta({ description: 'How each schedule stands (backup-trigger).', ...listMap('schedule') }),
  backupRun: z
    .object({
      schedule: z
        .string()
        .meta({ description: 'Its schedule; `@now` for one that was asked for.' }),
      slot: z.string().meta({ description: 'Its slot, or what was asked for.' }),
      type: z.enum(backupTypes).meta({ description: 'What is made.' }),
      attempt: z.int().min(0).meta({ description: 'Tries before it.', format: 'int32' }),
      since: instant('When it was asked for.'),
      job: z
        .string()
        .optional()
        .meta({ description: 'The job in the data plane, or the Job, once known.' }),
    })
    .optional()
    .meta({ description: 'The backup that runs (backup-trigger).' }),
  backupRequest: z
    .object({
      request: z.string().meta({ description: 'The annotation as it was obeyed.' }),
      result: z.enum([...slotResults, 'running']).meta({ description: 'What became of it.' }),
    })
    .optional()
    .meta({ description: 'The last backup that was asked for (backup-trigger).' }),
  lastBackup: z
    .object({
      any: instant('When the newest good backup was complete.').optional(),
      full: instant('When the newest good full backup was complete.').optional(),
    })
    .optional()
    .meta({
      description: 'How old the backups in the repository are, whoever made them (backup-trigger).',
    }),
  nextBackup: instant('When the next slot of any schedule is due (backup-trigger).').optional(),
};
