import * as z from 'zod';
import { parseInstant } from './instant.ts';

/** When to look again although nothing changes: every so many seconds, or once at an instant (RFC 3339). */
export type Wake = { readonly every: number } | { readonly at: string };

/**
 * A step's one annotation on its target: its idempotency key and its progress, ≤ 1 KiB as compact JSON unless the step
 * declares more.
 *
 * Written only by compare-and-swap, in the same write as the intent it authorises.
 */
export interface StepRecord<State extends string = string, Data = unknown> {
  readonly v: 1;
  /** The target's uid. A record with another uid was copied or restored: cleared, never obeyed. */
  readonly uid: string;
  /** `<step>/<target uid>/<what it is about>`. */
  readonly key: string;
  readonly state: State;
  /** The target's `metadata.generation` the record was claimed under. */
  readonly generation: number;
  /** Failed tries in a row; reset by progress. */
  readonly attempt: number;
  /** When `state` was entered, RFC 3339. */
  readonly since: string;
  readonly reason: string;
  readonly wake?: Wake;
  readonly data: Data;
}

/** What a step found where its record lives. `text` is the annotation's value, the token of the next compare-and-swap. */
export type RecordRead<R extends StepRecord = StepRecord> =
  | { readonly kind: 'none'; readonly text: null }
  | { readonly kind: 'ours'; readonly text: string; readonly record: R }
  | { readonly kind: 'foreign'; readonly text: string; readonly uid: string }
  | { readonly kind: 'unreadable'; readonly text: string; readonly why: string };

const everySchema = z.strictObject({ every: z.number().int().min(1).max(86_400) });
const atSchema = z.strictObject({
  at: z.string().refine((text) => parseInstant(text) !== undefined),
});
const wakeSchema = z.union([everySchema, atSchema]);

/** The part of a record that is the same for every step. */
export const envelopeSchema = z.strictObject({
  v: z.literal(1),
  uid: z.string().min(1),
  key: z.string().min(1),
  state: z.string().min(1),
  generation: z.number().int().nonnegative(),
  attempt: z.number().int().nonnegative(),
  since: z.string().refine((text) => parseInstant(text) !== undefined),
  reason: z.string(),
  wake: wakeSchema.optional(),
  data: z.unknown(),
});

/** Whose a record is, whatever else stands in it. */
const ownerSchema = z.looseObject({ v: z.literal(1), uid: z.string() });

/** What the relay reads of a record. Whatever a newer step says besides, it is woken: an early look does no harm. */
const wakeOnlySchema = z.looseObject({ wake: z.union([everySchema.strip(), atSchema.strip()]) });

/** The longest record a step may write that declares no other length, in bytes of its JSON. */
export const maxRecordBytes = 1024;

/**
 * Reads a step's record from its annotation value.
 *
 * @param text the annotation's value, `undefined` when there is none
 * @param uid the uid of the object that carries it
 * @param schema the step's own record schema; what it does not accept is `unreadable`, whoever wrote it
 */
export function readRecord<R extends StepRecord>(
  text: string | undefined,
  uid: string,
  schema: z.ZodType<R>,
): RecordRead<R> {
  if (text === undefined) {
    return { kind: 'none', text: null };
  }
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    return { kind: 'unreadable', text, why: 'it is not JSON' };
  }
  const owner = ownerSchema.safeParse(body);
  if (owner.success && owner.data.uid !== uid) {
    return { kind: 'foreign', text, uid: owner.data.uid };
  }
  const parsed = schema.safeParse(body);
  if (!parsed.success) {
    return { kind: 'unreadable', text, why: firstProblem(parsed.error) };
  }
  return { kind: 'ours', text, record: parsed.data };
}

/** The wake of any step's record, for the relay: it reads nothing else. */
export function wakeOf(text: string): Wake | undefined {
  try {
    const parsed = wakeOnlySchema.safeParse(JSON.parse(text));
    return parsed.success ? parsed.data.wake : undefined;
  } catch {
    return undefined;
  }
}

/** The record as it is stored: compact JSON, keys in the order of {@link StepRecord}. */
export function recordText(record: StepRecord): string {
  const { v, uid, key, state, generation, attempt, since, reason, wake, data } = record;
  return JSON.stringify({
    v,
    uid,
    key,
    state,
    generation,
    attempt,
    since,
    reason,
    ...(wake === undefined ? {} : { wake }),
    data,
  });
}

/** Deeper than that, parts of a path may be names out of the record itself. */
const mostParts = 2;

/** Where it is wrong, and how. Nothing of what stands there is repeated, since anybody may have written it. */
function firstProblem(error: z.ZodError): string {
  const issue = error.issues[0];
  if (issue === undefined) {
    return 'it has an unknown form';
  }
  const place = issue.path.slice(0, mostParts).join('.') || 'it';
  return issue.code === 'unrecognized_keys'
    ? `${place}: there are fields that this release does not know`
    : `${place}: ${issue.message}`;
}
