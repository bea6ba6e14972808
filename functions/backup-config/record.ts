import * as z from 'zod';
import { envelopeSchema, type StepRecord } from '#shared/kernel/record.ts';

/**
 * Why backup-config has to look again without an event: only time or a repair elsewhere changes something (`waiting`), a
 * person is needed (`blocked`), the owner object was sent and is to be seen (`claiming`), or the topology's record was
 * (`applying`).
 */
export const backupConfigStates = ['waiting', 'blocked', 'claiming', 'applying'] as const;
export type BackupConfigState = (typeof backupConfigStates)[number];

const intent = z.strictObject({
  /** The revision of the topology's record that the write compares. */
  modRevision: z.string().regex(/^\d+$/),
  /** The `metadata.generation` whose repository it writes. */
  generation: z.int().min(0),
});

/**
 * A write of the topology's record that may still be under way: it was meant, and the revision that it compares still
 * stands. It is carried from record to record until that revision has moved, since from then on it cannot succeed.
 */
export type Intent = z.infer<typeof intent>;

/** Key `backup-config/<database uid>/<generation>`. */
export type BackupConfigRecord = StepRecord<BackupConfigState, { readonly intent?: Intent }>;

export const backupConfigRecordSchema: z.ZodType<BackupConfigRecord> = envelopeSchema.extend({
  state: z.enum(backupConfigStates),
  data: z.strictObject({ intent: intent.optional() }),
}) as z.ZodType<BackupConfigRecord>;
