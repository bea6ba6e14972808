import * as z from 'zod';
import { recordAnnotation } from '#shared/api/annotations.ts';
import {
  envelopeSchema,
  readRecord,
  type RecordRead,
  type StepRecord,
} from '#shared/kernel/record.ts';

/** Nodes that are handed over at a time; others wait. */
export const mostLeavers = 8;

/** Pods that were shut down quickly and are still there, which were counted. */
export const mostCounted = 32;

/** Eight leavers with the longest names there are, and what else is kept. */
export const mostRecordBytes = 8_192;

const hash = z.string().regex(/^[0-9a-f]{8}$/);

/** Seconds since the epoch. */
const seconds = z.number().int().nonnegative();

const leaver = z.strictObject({
  pod: z.string().min(1).max(253),
  uid: z.string().min(1).max(64),
  /** The address it is registered under. */
  node: z.string().min(1).max(300),
  why: z.enum(['deleted', 'requested']),
  /** When it was first seen to go. */
  since: seconds,
  /** Shards it had then. */
  had: z.number().int().nonnegative(),
  /**
   * How its hand-over ended. `released`: all its shards have another node. `timeout`: it is let go with what it has.
   * `givenUp`: it stays, and has its share again.
   */
  end: z.enum(['released', 'timeout', 'givenUp']).optional(),
});

const data = z.strictObject({
  /** A hash of who is registered and who leads, and since when it has been seen to be so. */
  still: z.tuple([hash, seconds]).optional(),
  leavers: z.array(leaver).max(mostLeavers).optional(),
  /** Hashes of the uids of pods whose quick shutdown was counted. */
  quick: z.array(hash).max(mostCounted).optional(),
});

export type Leaver = z.infer<typeof leaver>;
export type ReleaseData = z.infer<typeof data>;

/**
 * `resting`: nothing may be written to a shard. `awaiting`: somebody goes, and it cannot begin yet. `moving`: shards may be
 * retargeted under pins. `released`: all are handed over; the pins stay until their nodes have left. `levelling`: shards
 * are brought to a level share, and the pins are taken off.
 */
export const releaseStates = ['resting', 'awaiting', 'moving', 'released', 'levelling'] as const;
export type ReleaseState = (typeof releaseStates)[number];

export type ReleaseRecord = StepRecord<ReleaseState, ReleaseData>;

export const releaseRecordSchema: z.ZodType<ReleaseRecord> = envelopeSchema.extend({
  state: z.enum(releaseStates),
  data,
}) as z.ZodType<ReleaseRecord>;

/** Reads shard-release's record from a GoverseCluster's annotations. */
export function readReleaseRecord(cluster: {
  readonly uid: string;
  readonly annotations?: { readonly [key: string]: string };
}): RecordRead<ReleaseRecord> {
  return readRecord(
    cluster.annotations?.[recordAnnotation('shard-release')],
    cluster.uid,
    releaseRecordSchema,
  );
}
