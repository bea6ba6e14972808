import * as z from 'zod';
import { backupTypes, slotResults } from '#shared/api/backup.ts';
import { recordAnnotation } from '#shared/api/annotations.ts';
import {
  envelopeSchema,
  readRecord,
  type RecordRead,
  type StepRecord,
} from '#shared/kernel/record.ts';

/** With eight schedules whose names are as long as they may be, and a run with the longest job, it has less. */
export const backupRecordBytes = 2048;

/** pgBackRest names a backup with at most 33 characters, its full one included. */
export const maxSeenLength = 36;

/** Why a slot was passed over, or ended without a success. In the record, in the status, and a label of a metric. */
export const slotReasons = [
  'Superseded',
  'Late',
  'NotCaughtUp',
  'Suspended',
  'SpecChanged',
  'RunInProgress',
  'DatabaseMissing',
  'DatabaseUnknown',
  'LeaseUnknown',
  'BackupsUnknown',
  'AwaitingDrain',
  'DrainUnknown',
  'LeaseHeld',
  'EarlierRuns',
  'Refused',
  'Failed',
  'RunDeadline',
  'NotListed',
  'NoTrace',
] as const;
export type SlotReason = (typeof slotReasons)[number];

/** Seconds since the epoch: eight schedules have to fit. */
const seconds = z.number().int().nonnegative();

const entry = z.strictObject({
  /** Every slot up to here is accounted for. */
  at: seconds,
  /** Slots that were missed are counted from here: its last good backup, or when it came to be in force. */
  from: seconds,
  /** `from` is when its last good backup was complete. */
  good: z.literal(true).optional(),
  /** What says when it is due, as a hash: another one makes it another schedule. */
  timing: z.string(),
  /** It was last seen suspended. */
  off: z.literal(true).optional(),
  /** The slot `at` may be begun once more, as this attempt. */
  again: z.number().int().positive().optional(),
  /** The last slot that ended or runs, how it ended (absent while it runs), and why. */
  slot: seconds.optional(),
  end: z.enum(slotResults).optional(),
  why: z.enum(slotReasons).optional(),
});

/** How far one schedule is. */
export type ScheduleEntry = z.infer<typeof entry>;

const run = z.strictObject({
  /** `@now`: a person asked for it. */
  schedule: z.string().min(1),
  /** RFC 3339, or the token of who asked. */
  slot: z.string().min(1),
  type: z.enum(backupTypes),
  attempt: z.number().int().nonnegative(),
  /** A Job makes it, whose name follows from slot and attempt. Absent: the data plane does. */
  engine: z.literal('job').optional(),
  /** When it was asked for, by the clock of who asked. */
  at: z.iso.datetime(),
  /** How long it is watched. */
  until: z.iso.datetime(),
  /** The newest backup that was there before, where its id is one that a record can keep. */
  seen: z.string().min(1).max(maxSeenLength).optional(),
  /** The data plane's job, or the Job, once it is known. */
  job: z.string().optional(),
  refused: z.string().optional(),
  /** Since when nothing shows that it runs. */
  lost: z.iso.datetime().optional(),
});

/** The one backup of the shard that was asked for and has not ended. */
export type Run = z.infer<typeof run>;

const data = z.strictObject({
  schedules: z.record(z.string(), entry),
  /** The job of an earlier run that ended without anybody knowing whether it goes on. */
  left: z.string().optional(),
  /** The Job of an earlier run: it may go on, or has to be released once it has ended. */
  leftJob: z.string().optional(),
  /** The last request of a person that was obeyed, as it was written, and how its run ended. */
  now: z.strictObject({ request: z.string(), end: z.enum(slotResults).optional() }).optional(),
  run: run.optional(),
});

/**
 * `idle`: nothing of ours runs. `asked`: the intent is recorded, and nobody knows the answer. `refused`: the data plane said
 * no. `running`: the job is known.
 */
export const backupStates = ['idle', 'asked', 'refused', 'running'] as const;
export type BackupState = (typeof backupStates)[number];

export type BackupData = z.infer<typeof data>;
export type BackupRecord = StepRecord<BackupState, BackupData>;

export const backupRecordSchema: z.ZodType<BackupRecord> = envelopeSchema
  .extend({ state: z.enum(backupStates), data })
  .refine((record) => (record.state === 'idle') === (record.data.run === undefined), {
    path: ['data', 'run'],
    error: 'there is a run, or the state is idle, not both',
  }) as z.ZodType<BackupRecord>;

/** Reads backup-trigger's record from a Shard's annotations. */
export function readBackupRecord(shard: {
  readonly uid: string;
  readonly annotations?: { readonly [key: string]: string };
}): RecordRead<BackupRecord> {
  return readRecord(
    shard.annotations?.[recordAnnotation('backup-trigger')],
    shard.uid,
    backupRecordSchema,
  );
}
