import type { Reason } from '#shared/api/reasons.ts';
import { ownerObjectName, ownerText } from '#shared/api/repository-owner.ts';
import {
  type Check,
  type Decision,
  acting,
  blocked,
  settled,
  waiting,
} from '#shared/kernel/decision.ts';
import type { DatabaseRef, Effect, ObjectGuard } from '#shared/kernel/effect.ts';
import { type Instant, parseInstant, secondsBetween } from '#shared/kernel/instant.ts';
import { advanceRecord, advanceWhereNew, restRecord } from '#shared/kernel/own-record.ts';
import type { Wake } from '#shared/kernel/record.ts';
import type { DatabaseChange } from '#shared/topology/topology.ts';
import type { BackupConfigRecord, BackupConfigState, Intent } from './record.ts';
import type { BackupConfigSnapshot } from './snapshot.ts';
import { type Standing, statusEffect } from './status.ts';

export type BackupConfigEffect = 'advance' | 'applyStatus' | 'putRepositoryObject' | 'topologyTxn';
export type BackupConfigDecision = Decision<BackupConfigEffect>;
export type BackupConfigCheck = Check<BackupConfigSnapshot, BackupConfigEffect>;

/** When to look again: soon where it goes on by itself, slowly where a person or a repair is needed, in seconds. */
export const soon: Wake = { every: 5 };
export const slowly: Wake = { every: 60 };

/** How often the owner object is sent before its not being there is an obstacle, and when it is tried again after that. */
const maxTries = 3;
const nextTrySeconds = 600;

/**
 * The write of the topology's record that may still be under way. None once the revision that it compares has moved, or
 * its key has gone; where that cannot be seen, it may be.
 */
export function openIntent({ record, topology }: BackupConfigSnapshot): Intent | null {
  const intent = record.kind === 'ours' ? record.record.data.intent : undefined;
  const isOver =
    topology.kind === 'absent' ||
    (topology.kind === 'present' && topology.value.modRevision !== intent?.modRevision);
  return intent === undefined || isOver ? null : intent;
}

/** Nothing to do and nothing to wait for but events: no record. */
export function rest(
  snapshot: BackupConfigSnapshot,
  now: Instant,
  standing: Standing,
): BackupConfigDecision {
  return settled(standing.reason, standing.message, [
    ...(snapshot.record.kind === 'ours' ? [advance(snapshot, null)] : []),
    ...changedStatus(snapshot, now, standing),
  ]);
}

/** Only time or a repair elsewhere changes it. */
export function wait(
  snapshot: BackupConfigSnapshot,
  now: Instant,
  standing: Standing,
): BackupConfigDecision {
  const { reason, message } = standing;
  return waiting(reason, message, slowly, [
    ...keepAwake(snapshot, now, { state: 'waiting', reason, wake: slowly }),
    ...changedStatus(snapshot, now, standing),
  ]);
}

/** A person has to do what `needs` says. What the data plane was told last stays. */
export function block(
  snapshot: BackupConfigSnapshot,
  now: Instant,
  reason: Reason,
  message: string,
  needs: string,
): BackupConfigDecision {
  const standing: Standing = {
    kind: 'unmet',
    reason,
    message: `${message}; to go on: ${needs}`,
  };
  return blocked(reason, message, needs, slowly, [
    ...keepAwake(snapshot, now, { state: 'blocked', reason, wake: slowly }),
    ...changedStatus(snapshot, now, standing),
  ]);
}

/** Writes the topology's record, last, and under a record of ours that says so first. */
export function rewrite(
  snapshot: BackupConfigSnapshot,
  now: Instant,
  move: { readonly reason: Reason; readonly message: string; readonly intent: Intent },
  change: DatabaseChange,
): BackupConfigDecision {
  const { reason, message, intent } = move;
  const { database } = snapshot;
  return acting(
    reason,
    message,
    [
      ...keepAwake(snapshot, now, { state: 'applying', reason, wake: soon, intent }),
      ...changedStatus(snapshot, now, { kind: 'moving', reason, message }),
    ],
    {
      kind: 'topologyTxn',
      database: refOf(snapshot),
      operation: { kind: 'rewriteDatabase', name: database.dataPlaneName, change },
      guard: { modRevision: intent.modRevision, recordKey: keyOf(snapshot) },
    },
  );
}

/**
 * Whether the owner object was sent often enough without being seen. A server can say that it is there and not show it: one
 * counts the mark of a deletion in a versioned bucket as an object.
 */
export function isUnclaimable({ database, record }: BackupConfigSnapshot, now: Instant): boolean {
  if (record.kind !== 'ours' || record.record.generation !== database.generation) {
    return false;
  }
  const { state, reason, attempt, since } = record.record;
  const sinceInstant = parseInstant(since);
  return state === 'claiming'
    ? attempt >= maxTries - 1
    : reason === 'RepositoryUnclaimable' &&
        sinceInstant !== undefined &&
        Math.abs(secondsBetween(sinceInstant, now)) < nextTrySeconds;
}

/** How often the owner object was sent without being seen; once it was an obstacle, one more is as often as it gets. */
function triesBefore({ database, record }: BackupConfigSnapshot): number {
  if (record.kind !== 'ours' || record.record.generation !== database.generation) {
    return 0;
  }
  const { state, reason, attempt } = record.record;
  if (reason === 'RepositoryUnclaimable') {
    return maxTries - 1;
  }
  return state === 'claiming' ? attempt + 1 : 0;
}

/** Writes the owner object. A bucket tells nobody of its changes, so the wake looks whether it is there. */
export function putOwner(
  snapshot: BackupConfigSnapshot,
  now: Instant,
  move: { readonly reason: Reason; readonly message: string },
  guard: ObjectGuard,
): BackupConfigDecision {
  const { reason, message } = move;
  const put: Effect<'putRepositoryObject'> = {
    kind: 'putRepositoryObject',
    database: refOf(snapshot),
    key: ownerObjectName,
    text: ownerText(snapshot.database),
    guard,
  };
  return acting(reason, message, [
    ...keepAwake(snapshot, now, {
      state: 'claiming',
      reason,
      wake: soon,
      attempt: triesBefore(snapshot),
    }),
    ...changedStatus(snapshot, now, { kind: 'moving', reason, message }),
    put,
  ]);
}

export function changedStatus(
  snapshot: BackupConfigSnapshot,
  now: Instant,
  standing: Standing,
): Effect<'applyStatus'>[] {
  const { effect, isThere } = statusEffect(snapshot, now, standing);
  return isThere ? [] : [effect];
}

export function advance(
  { database, record }: BackupConfigSnapshot,
  next: BackupConfigRecord | null,
): Effect<'advance'> {
  return advanceRecord(database, next, record.text);
}

/** A record that carries the wake, and the write that may be under way; written only where it differs. */
function keepAwake(
  snapshot: BackupConfigSnapshot,
  now: Instant,
  move: {
    readonly state: BackupConfigState;
    readonly reason: Reason;
    readonly wake: Wake;
    readonly intent?: Intent;
    readonly attempt?: number;
  },
): Effect<'advance'>[] {
  const { database, record } = snapshot;
  const intent = move.intent ?? openIntent(snapshot);
  const data = intent === null ? {} : { intent };
  const next: BackupConfigRecord = restRecord('backup-config', database, { ...move, data }, now);
  return advanceWhereNew(database, record, next);
}

function keyOf({ database }: BackupConfigSnapshot): string {
  return `backup-config/${database.uid}/${database.generation}`;
}

/** The Database in the very spec that was read: another one has another repository. */
function refOf({ database }: BackupConfigSnapshot): DatabaseRef {
  const { namespace, name, uid, generation } = database;
  return { namespace, name, uid, generation };
}
