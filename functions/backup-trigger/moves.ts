import type { DatabaseView } from '#shared/kernel/shard-database.ts';
import type { BackupRecord, BackupData, BackupState, Run } from './record.ts';
import type { Reason } from '#shared/api/reasons.ts';
import type { Check, Count, Decision } from '#shared/kernel/decision.ts';
import type { Effect } from '#shared/kernel/effect.ts';
import { type Instant, toText } from '#shared/kernel/instant.ts';
import { advanceRecord, restRecord } from '#shared/kernel/own-record.ts';
import type { Wake } from '#shared/kernel/record.ts';
import { type Accounts, type PassedOver, mostCounted } from './accounts.ts';
import type { HoldUp } from './hold-ups.ts';
import type { BackupSnapshot } from './snapshot.ts';

export type BackupEffect =
  | 'advance'
  | 'applyStatus'
  | 'emitEvent'
  | 'patchObject'
  | 'startBackup'
  | 'startJob';
export type BackupDecision = Decision<BackupEffect>;

/** What the rows look at: what was read, and what follows from it for the schedules. */
export interface BackupInput {
  readonly snapshot: BackupSnapshot;
  /** Why nothing can be begun now; `null` where something can. */
  readonly holdUp: HoldUp | null;
  readonly accounts: Accounts;
}

export type BackupCheck = Check<BackupInput, BackupEffect>;

/** How often a look comes by itself, in seconds: while something waits to begin, while a backup is young, later on. */
export const waitSeconds = 15;
export const youngRunSeconds = 5;
export const oldRunSeconds = 30;

/** While only a person can help, in seconds. */
export const slowWakeSeconds = 60;

/** A run is young for so long, in seconds: short backups end soon, and long ones need not be asked often. */
const youngForSeconds = 60;

export function recordOf({ record }: BackupSnapshot): BackupRecord | null {
  return record.kind === 'ours' ? record.record : null;
}

export function dataOf(snapshot: BackupSnapshot): BackupData {
  return recordOf(snapshot)?.data ?? { schedules: {} };
}

export function runOf(snapshot: BackupSnapshot): Run | undefined {
  return dataOf(snapshot).run;
}

/** The rows about a run are only asked where there is one. */
export function running({ snapshot }: BackupInput): { record: BackupRecord; run: Run } {
  const record = recordOf(snapshot);
  if (record?.data.run === undefined) {
    throw new Error('a row about the run ran without one');
  }
  return { record, run: record.data.run };
}

export function databaseOf({ database }: BackupSnapshot): DatabaseView {
  if (database.kind !== 'present') {
    throw new Error('a row that needs the database ran without it');
  }
  return database.value;
}

/** The record with these data, between runs. */
export function idleRecord(
  snapshot: BackupSnapshot,
  data: Omit<BackupData, 'run'>,
  reason: Reason,
  wake: Wake | undefined,
  now: Instant,
): BackupRecord {
  const idle = { state: 'idle' as const, reason, data, ...(wake === undefined ? {} : { wake }) };
  return {
    ...restRecord('backup-trigger', snapshot.shard, idle, now),
    since: sinceOf(snapshot, 'idle', now),
  };
}

/** The record with these data, while a run is on. */
export function runRecord(
  snapshot: BackupSnapshot,
  state: Exclude<BackupState, 'idle'>,
  data: BackupData & { readonly run: Run },
  reason: Reason,
  now: Instant,
): BackupRecord {
  const { uid, generation: current } = snapshot.shard;
  const { run } = data;
  // That of the intent as long as the run is on: what has changed since shows only beside it.
  const generation =
    runOf(snapshot) === undefined ? current : (recordOf(snapshot)?.generation ?? current);
  // An instant that is far from now was written by a clock that was wrong, whichever way: nobody looks often for an hour.
  const isYoung = Math.abs(now - Date.parse(run.at)) < youngForSeconds * 1000;
  return {
    v: 1,
    uid,
    key: `backup-trigger/${uid}/${run.schedule}/${run.slot}/${run.attempt}`,
    state,
    generation,
    attempt: run.attempt,
    since: sinceOf(snapshot, state, now),
    reason,
    wake: { every: isYoung ? youngRunSeconds : oldRunSeconds },
    data,
  };
}

function sinceOf(snapshot: BackupSnapshot, state: BackupState, now: Instant): string {
  const before = recordOf(snapshot);
  return before?.state === state ? before.since : toText(now);
}

/** Writes the record, unless it says all that already. Under which generation and for which reason it was written is no news
 * alone. */
export function advanceTo(
  { shard, record }: BackupSnapshot,
  next: BackupRecord | null,
): Effect<'advance'>[] {
  const isSame =
    record.kind === 'ours'
      ? next !== null && newsOf(record.record) === newsOf(next)
      : record.kind === 'none' && next === null;
  return isSame ? [] : [advanceRecord(shard, next, record.text)];
}

function newsOf({ state, wake, data }: BackupRecord): string {
  return JSON.stringify([state, wake, data]);
}

/** So shortly before something is due, in seconds, the looks that follow do not wait for that instant. */
const dueSoonSeconds = 5;

/**
 * When a look must come between two runs: soon where something waits, else when something is due next. A handler whose clock
 * is somewhat behind is woken at that instant and finds nothing due yet, and the same instant would wake nobody again for
 * minutes.
 */
export function wakeOf({ accounts: { due, nextAt } }: BackupInput, now: Instant): Wake | undefined {
  if (due.length > 0) {
    return { every: waitSeconds };
  }
  if (nextAt === null) {
    return undefined;
  }
  const isDueSoon = nextAt > now && nextAt <= now + dueSoonSeconds * 1000;
  return isDueSoon ? { every: dueSoonSeconds } : { at: toText(nextAt) };
}

export function event(
  type: 'Normal' | 'Warning',
  reason: Reason,
  message: string,
): Effect<'emitEvent'> {
  return { kind: 'emitEvent', type, reason, message };
}

/** `nightly 2026-01-01T02:00:00Z` */
export function nameOf({ schedule, slot }: Pick<Run, 'schedule' | 'slot'>): string {
  return `${schedule} ${slot}`;
}

export function runCount({ schedule, type }: Run, result: string): Count {
  return { metric: 'backup_runs_total', labels: { schedule, type, result }, count: 1 };
}

export function skipCount({ schedule, count, why }: PassedOver): Count {
  return { metric: 'backup_skipped_total', labels: { schedule, reason: why }, count };
}

export function passedText({ schedule, slot, count, result, why }: PassedOver): string {
  const many = count >= mostCounted ? `${count} or more` : String(count);
  const slots = count === 1 ? `slot ${toText(slot)}` : `${many} slots up to ${toText(slot)}`;
  return `${schedule}: ${slots} ${result} (${why})`;
}
