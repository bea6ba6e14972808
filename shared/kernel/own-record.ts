import type { StepName } from '#shared/api/steps.ts';
import { recordAnnotation } from '#shared/api/annotations.ts';
import type { Reason } from '#shared/api/reasons.ts';
import { type TargetKind, shortNames } from '#shared/kube/resources.ts';
import { acting } from './decision.ts';
import type { Effect } from './effect.ts';
import { type Instant, toText } from './instant.ts';
import { type RecordRead, type StepRecord, type Wake, recordText } from './record.ts';

/** The object that carries a step's record, in the version that was read. */
export interface RecordOwner {
  readonly uid: string;
  readonly generation: number;
}

/**
 * Writes a step's record.
 *
 * @param next `null` clears it
 * @param previous the record's text as this look found it, or as an advance before this one leaves it
 */
export function advanceRecord(
  { uid, generation }: RecordOwner,
  next: StepRecord | null,
  previous: string | null,
): Effect<'advance'> {
  return { kind: 'advance', record: next, guard: { uid, generation, previous } };
}

/** Copied or restored from another object: never obeyed, only cleared. `undefined` where it is not. */
export function clearForeign(owner: RecordOwner, record: RecordRead) {
  return record.kind === 'foreign'
    ? acting(
        'RecordForeign',
        `the record belongs to another object (uid ${record.uid}) and is cleared`,
        [advanceRecord(owner, null, record.text)],
      )
    : undefined;
}

/** What to say of a record that cannot be read: from a newer version, or broken. Nothing of ours may touch it. */
export function unreadableText(
  step: StepName,
  kind: TargetKind,
  target: { readonly namespace: string; readonly name: string },
  why: string,
): { readonly message: string; readonly needs: string } {
  return {
    message: `the record ${recordAnnotation(step)} cannot be read: ${why}`,
    needs: `check who wrote it, then run: millrace reset ${shortNames[kind]}/${target.name} ${step} -n ${target.namespace}`,
  };
}

/** What a look leaves behind that only has to come again: why, and when. */
export interface Rest<State extends string, Data> {
  readonly state: State;
  readonly reason: Reason;
  readonly wake?: Wake;
  readonly attempt?: number;
  readonly data: Data;
}

/** A record of the target's present generation as a whole; it authorises nothing that it does not name. */
export function restRecord<State extends string, Data>(
  step: StepName,
  { uid, generation }: RecordOwner,
  { state, reason, wake, attempt = 0, data }: Rest<State, Data>,
  now: Instant,
): StepRecord<State, Data> {
  return {
    v: 1,
    uid,
    key: `${step}/${uid}/${generation}`,
    state,
    generation,
    attempt,
    since: toText(now),
    reason,
    ...(wake === undefined ? {} : { wake }),
    data,
  };
}

/** Writes the record, unless one is in force that differs at most in when it was written. */
export function advanceWhereNew(
  owner: RecordOwner,
  record: RecordRead,
  next: StepRecord,
): Effect<'advance'>[] {
  const isInForce =
    record.kind === 'ours' &&
    recordText({ ...record.record, since: next.since }) === recordText(next);
  return isInForce ? [] : [advanceRecord(owner, next, record.text)];
}
