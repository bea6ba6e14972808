import * as z from 'zod';
import {
  envelopeSchema,
  readRecord,
  type RecordRead,
  type StepRecord,
} from '#shared/kernel/record.ts';
import { recordAnnotation } from './annotations.ts';

/**
 * Where a drain stands. `choosing`: someone has to leave and nobody can be picked yet; it names no pod.
 * The others follow one another; the only ways back are a cancel (before `finished`, the record is cleared) and
 * `finished → requested` when the member became primary.
 */
export const drainStates = [
  'choosing',
  'requested',
  'draining',
  'acknowledged',
  'finished',
] as const;
export type DrainState = (typeof drainStates)[number];

/** Why a member leaves: too many of them, a person asked, its pod has failed. */
export const drainCauses = ['surplus', 'requested', 'failed'] as const;
export type DrainCause = (typeof drainCauses)[number];

const poolerId = z.strictObject({ cell: z.string(), name: z.string() });
const ruleNumber = z.strictObject({
  term: z.string().regex(/^\d+$/),
  subterm: z.string().regex(/^\d+$/),
});

const leaver = z.strictObject({
  pod: z.string().min(1),
  /** Where all that is left is a claim, whose pod went unseen, the claim's own uid stands for that of the pod. */
  podUid: z.string().min(1),
  /** Empty while the pod was not bound to a node. */
  node: z.string(),
  /** The data claim the pod used, empty where it used none. */
  claimUid: z.string(),
  pool: z.string(),
  cell: z.string(),
  index: z.number().int().nonnegative(),
  pooler: poolerId,
  cause: z.enum(drainCauses),
  /** When the member was picked, RFC 3339: the deadline runs from here. */
  startedAt: z.iso.datetime(),
  /** Whether a person went past an unmet gate with `force-drain`. */
  forced: z.boolean(),
  /** The switchover away from this member that was asked for: under which rule, and when. */
  intent: z.strictObject({ rule: ruleNumber, at: z.iso.datetime() }).optional(),
});

/** The member that is leaving. The record is the shard's lock: one member at a time. */
export type Leaver = z.infer<typeof leaver>;

export type ChoosingRecord = StepRecord<'choosing', Record<string, never>>;
export type LeavingRecord = StepRecord<Exclude<DrainState, 'choosing'>, Leaver>;
export type DrainRecord = ChoosingRecord | LeavingRecord;

/** drain-step's record. Shared because pool-pods makes nothing at an index whose drain is open. */
export const drainRecordSchema: z.ZodType<DrainRecord> = z.discriminatedUnion('state', [
  envelopeSchema.extend({ state: z.literal('choosing'), data: z.strictObject({}) }),
  envelopeSchema.extend({
    state: z.enum(['requested', 'draining', 'acknowledged', 'finished']),
    data: leaver,
  }),
]) as z.ZodType<DrainRecord>;

/** Reads drain-step's record from a Shard's annotations. */
export function readDrainRecord(shard: {
  readonly uid: string;
  readonly annotations?: { readonly [key: string]: string };
}): RecordRead<DrainRecord> {
  return readRecord(
    shard.annotations?.[recordAnnotation('drain-step')],
    shard.uid,
    drainRecordSchema,
  );
}
