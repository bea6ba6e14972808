import * as z from 'zod';
import { recordAnnotation } from '#shared/api/annotations.ts';
import {
  envelopeSchema,
  readRecord,
  type RecordRead,
  type StepRecord,
} from '#shared/kernel/record.ts';

/** Records that are watched at a time: as many as fit into 1 KiB. */
export const maxWatched = 10;

/** int64, as a decimal string. */
const revision = z.string().regex(/^\d{1,19}$/);

/** Seconds since the epoch. */
const seconds = z.number().int().nonnegative();

const data = z.strictObject({
  /** Records that no member explains: a hash of the key, the mod revision, and when they were first seen together. */
  seen: z.array(z.tuple([z.string().regex(/^[0-9a-f]{8}$/), revision, seconds])).max(maxWatched),
  /** When the last pass began, and how many records it has marked or deleted. */
  pass: z.tuple([seconds, z.number().int().positive()]).optional(),
  /** The one record that may be changed, in the one revision in which it may. */
  act: z.strictObject({ pooler: z.string().min(1), rev: revision }).optional(),
});

export type CleanupData = z.infer<typeof data>;
export type SeenEntry = CleanupData['seen'][number];
export type CleanupAct = NonNullable<CleanupData['act']>;

/**
 * `watching`: nothing may be changed. `retiring`: the record of `act` may be marked as stopped. `deleting`: it may be
 * deleted.
 */
export const cleanupStates = ['watching', 'retiring', 'deleting'] as const;
export type CleanupState = (typeof cleanupStates)[number];

export type CleanupRecord = StepRecord<CleanupState, CleanupData>;

export const cleanupRecordSchema: z.ZodType<CleanupRecord> = envelopeSchema
  .extend({ state: z.enum(cleanupStates), data })
  .refine((record) => (record.state === 'watching') === (record.data.act === undefined), {
    path: ['data', 'act'],
    error: 'there is an act, or the state is watching, not both',
  }) as z.ZodType<CleanupRecord>;

/** Reads etcd-cleanup's record from a Shard's annotations. */
export function readCleanupRecord(shard: {
  readonly uid: string;
  readonly annotations?: { readonly [key: string]: string };
}): RecordRead<CleanupRecord> {
  return readRecord(
    shard.annotations?.[recordAnnotation('etcd-cleanup')],
    shard.uid,
    cleanupRecordSchema,
  );
}
