import * as z from 'zod';
import { stepNames } from '#shared/api/steps.ts';

/** The longest line of a segment, in bytes of its JSON. What would be longer goes without its snapshot, and says so. */
export const maxEntryBytes = 256 * 1024;

const targetSchema = z.object({
  kind: z.string(),
  namespace: z.string(),
  name: z.string(),
  uid: z.string(),
});

/** The hint that a look was made for, and why it was sent. */
const causeSchema = z.object({ id: z.string(), type: z.string(), time: z.string() });

/**
 * How a look ended: `done` with the kinds of effects that were performed; `lostRace`: a guard no longer held, and it was made
 * anew; `failed` with what becomes of the message: `ended` for good, `returned` to the queue for the time that a reason asks
 * for, or `unexpected`, which is returned too and of which nothing but its class is told.
 */
const resultSchema = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('done'), effects: z.array(z.string()) }),
  z.object({ kind: z.literal('lostRace'), effects: z.array(z.string()) }),
  z.object({
    kind: z.literal('failed'),
    ending: z.enum(['ended', 'returned', 'unexpected']),
    reason: z.string(),
  }),
]);

const outcome = z.enum(['settled', 'waiting', 'acting', 'blocked']);

/** A decision as the archive holds it: that of `decide` over the snapshot as the archive holds it. */
const decisionSchema = z.object({
  outcome,
  reason: z.string(),
  message: z.string(),
  needs: z.string().optional(),
  wake: z.union([z.object({ every: z.number() }), z.object({ at: z.string() })]).optional(),
  effects: z.array(z.looseObject({ kind: z.string() })),
});

/**
 * One look at one target. `snapshot` and `decision` are there where the look came so far; `cut` says that the snapshot was
 * left out for its length. `carriedOut` is what was decided over the snapshot as it was, where that is another decision: then
 * something was left out that it hung on.
 */
export const decisionEntrySchema = z.object({
  v: z.literal(1),
  kind: z.literal('decision'),
  /** The time that `decide` was told, else that of the failure: RFC 3339 with milliseconds. */
  at: z.iso.datetime(),
  /** The release that decided. */
  version: z.string(),
  /** The cluster id. */
  cluster: z.string(),
  step: z.enum(stepNames),
  target: targetSchema,
  hint: causeSchema,
  snapshot: z.unknown().optional(),
  cut: z.literal(true).optional(),
  decision: decisionSchema.optional(),
  carriedOut: z.object({ outcome, reason: z.string(), effects: z.array(z.string()) }).optional(),
  result: resultSchema,
});

/** A hint that the relay has sent, as it was sent. */
export const hintEntrySchema = z.object({
  v: z.literal(1),
  kind: z.literal('hint'),
  /** When the queue had taken it. */
  at: z.iso.datetime(),
  cluster: z.string(),
  step: z.enum(stepNames),
  /** The message's body. */
  hint: z.unknown(),
});

/** One line of a segment. A field that a newer release adds is left out when it is read; a newer `v` is no entry. */
export const entrySchema = z.discriminatedUnion('kind', [decisionEntrySchema, hintEntrySchema]);

export type DecisionEntry = z.infer<typeof decisionEntrySchema>;
export type HintEntry = z.infer<typeof hintEntrySchema>;
export type Entry = z.infer<typeof entrySchema>;
export type EntryKind = Entry['kind'];
