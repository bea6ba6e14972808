import type { Reason } from '#shared/api/reasons.ts';
import type { Check, Decision } from '#shared/kernel/decision.ts';
import type { Effect } from '#shared/kernel/effect.ts';
import { type Instant, plusSeconds, toText } from '#shared/kernel/instant.ts';
import { advanceRecord, advanceWhereNew, restRecord } from '#shared/kernel/own-record.ts';
import type { Wake } from '#shared/kernel/record.ts';
import { isRetired } from '#shared/topology/topology.ts';
import type { DatabaseView } from '#shared/kernel/shard-database.ts';
import type { CleanupAct, CleanupData, CleanupRecord } from './record.ts';
import type { CleanupSnapshot } from './snapshot.ts';
import { type Stale, type Witness, hashOf, idText, isNeeded, watched } from './stale.ts';

export type CleanupEffect = 'advance' | 'applyStatus' | 'emitEvent' | 'topologyTxn';
export type CleanupDecision = Decision<CleanupEffect>;

/** What the rows look at: what was read, and what follows from it for the records. */
export interface CleanupInput {
  readonly snapshot: CleanupSnapshot;
  readonly stale: readonly Stale[];
  readonly witness: Witness;
}

export type CleanupCheck = Check<CleanupInput, CleanupEffect>;

/** While a record may be changed, a look comes this often by itself, in seconds. */
export const actSeconds = 15;

/** While something is due that may not be done, in seconds. */
export const heldSeconds = 60;

/** While only a person or an outside repair can help, in seconds. */
export const slowWakeSeconds = 300;

/** So shortly before something is due, in seconds, the looks that follow do not wait for that instant. */
const dueSoonSeconds = 5;

export function recordOf({ record }: CleanupSnapshot): CleanupRecord | null {
  return record.kind === 'ours' ? record.record : null;
}

/** The rows about a change under way are only asked where there is one. */
export function actingRecord(snapshot: CleanupSnapshot): {
  record: CleanupRecord;
  act: CleanupAct;
} {
  const record = recordOf(snapshot);
  if (record?.data.act === undefined) {
    throw new Error('a row about a change ran without one');
  }
  return { record, act: record.data.act };
}

export function databaseOf({ database }: CleanupSnapshot): DatabaseView {
  if (database.kind !== 'present') {
    throw new Error('a row that needs the database ran without it');
  }
  return database.value;
}

/**
 * When a record that is seen like this may be changed at the earliest. Times are kept in whole seconds, the first sight
 * rounded up: no wait is shorter than it is said to be.
 */
export function dueAt({ shard }: CleanupSnapshot, { record, seen }: Stale, now: Instant): Instant {
  const { quietSeconds, deleteAfterSeconds } = shard;
  const isMarked = moveOf({ record }) === 'deleting';
  const first = ((seen?.[2] ?? wholeSeconds(now)) * 1000) as Instant;
  return plusSeconds(first, isMarked ? Math.max(quietSeconds, deleteAfterSeconds) : quietSeconds);
}

/** What is done to a record in its time: it is marked first, and deleted only with the mark. */
export function moveOf({ record }: Pick<Stale, 'record'>): 'retiring' | 'deleting' {
  return isRetired(record) ? 'deleting' : 'retiring';
}

export interface Obstacle {
  readonly reason: Reason;
  readonly message: string;
  /** Whether the record was a candidate by mistake, so that its wait begins anew. */
  readonly isFinal: boolean;
}

/** Why a record may not be changed now, whatever time has passed; `null` where it may. */
export function obstacleOf({ snapshot, witness }: CleanupInput, stale: Stale): Obstacle | null {
  const { id } = stale.record;
  const name = idText(id);
  const final = (reason: Reason, message: string) => ({ reason, message, isFinal: true });
  const passing = (reason: Reason, message: string) => ({ reason, message, isFinal: false });
  if (stale.cause === 'Leads' || stale.cause === 'SetAside') {
    return final('RecordsLeft', `${name} is left to people (${stale.cause})`);
  }
  if (stale.cause === 'Answers') {
    return final('PoolerAnswers', `${name} has no pod, but its pooler answers`);
  }
  if (!snapshot.shard.isEnabled) {
    return final('CleanupOff', 'cleanup is not enabled');
  }
  if (witness.kind === 'none') {
    return passing('NoAgreedPrimary', `${name} stays as long as nobody leads: ${witness.why}`);
  }
  const needed = isNeeded(witness, id);
  if (needed.toLead) {
    return passing('NoAgreedPrimary', `a rule counts on ${name} to lead`);
  }
  return moveOf(stale) === 'deleting' && needed.toVote
    ? passing('AwaitingCohortExit', `${name} has stopped and is still in the cohort`)
    : null;
}

/** How far the pass is: when it began, what it has done, and whether it may do more. */
export function passOf(snapshot: CleanupSnapshot, now: Instant) {
  const { shard, topology } = snapshot;
  const known = recordOf(snapshot)?.data.pass;
  const endsAt = plusSeconds(((known?.[0] ?? 0) * 1000) as Instant, shard.quietSeconds);
  const [startedAt, done] = known === undefined || now >= endsAt ? [wholeSeconds(now), 0] : known;
  const records = topology.kind === 'present' ? topology.value.poolers.length : 0;
  const most = Math.min(shard.maxPerPass, Math.ceil(records / 3));
  return { startedAt, done, hasRoom: done < most, endsAt };
}

/** The books after this look: what was seen keeps its time, what is new begins. */
export function dataAfter(input: CleanupInput, now: Instant): CleanupData {
  const pass = recordOf(input.snapshot)?.data.pass;
  return {
    seen: watched(input.stale).map(({ record, seen }) => [
      hashOf(record),
      record.modRevision,
      seen?.[2] ?? wholeSeconds(now),
    ]),
    ...(pass === undefined ? {} : { pass }),
  };
}

/** The record that authorises one change of one pooler record, in the revision it was seen in. */
export function actRecord(
  { snapshot: { shard } }: CleanupInput,
  { record }: Stale,
  reason: Reason,
  data: CleanupData,
  now: Instant,
): CleanupRecord {
  const { uid, generation } = shard;
  return {
    v: 1,
    uid,
    key: `etcd-cleanup/${uid}/${hashOf(record)}/${record.modRevision}`,
    state: moveOf({ record }),
    generation,
    attempt: 0,
    since: toText(now),
    reason,
    wake: { every: actSeconds },
    data: { ...data, act: { pooler: idText(record.id), rev: record.modRevision } },
  };
}

/** The one change, under the record with this key. */
export function changeOf(
  { snapshot }: CleanupInput,
  { record }: Stale,
  recordKey: string,
): Effect<'topologyTxn'> {
  const { storeCell: cell, key, modRevision } = record;
  const kind = moveOf({ record }) === 'deleting' ? 'removePooler' : 'retirePooler';
  return {
    kind: 'topologyTxn',
    database: databaseOf(snapshot).ref,
    operation: { kind, cell, key },
    guard: { modRevision, recordKey },
  };
}

/** Writes the record between changes; none where there is nothing to remember. */
export function advanceTo(
  { shard, record }: CleanupSnapshot,
  rest: { readonly reason: Reason; readonly wake?: Wake; readonly data: CleanupData },
  now: Instant,
): Effect<'advance'>[] {
  return advanceWhereNew(
    shard,
    record,
    restRecord('etcd-cleanup', shard, { state: 'watching', ...rest }, now),
  );
}

export function clearRecord({ shard, record }: CleanupSnapshot): Effect<'advance'>[] {
  return record.kind === 'none' ? [] : [advanceRecord(shard, null, record.text)];
}

/**
 * Woken at the instant itself. A handler whose clock is somewhat behind finds nothing due yet, and the same instant would
 * wake nobody again for minutes.
 */
export function wakeAt(instant: Instant, now: Instant): Wake {
  return instant <= plusSeconds(now, dueSoonSeconds)
    ? { every: dueSoonSeconds }
    : { at: toText(instant) };
}

export function event(
  type: 'Normal' | 'Warning',
  reason: Reason,
  message: string,
): Effect<'emitEvent'> {
  return { kind: 'emitEvent', type, reason, message };
}

function wholeSeconds(instant: Instant): number {
  return Math.ceil(instant / 1000);
}
