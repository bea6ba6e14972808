import type { Reason } from '#shared/api/reasons.ts';
import {
  acting,
  blocked,
  firstHit,
  settled,
  waiting,
  type Check,
} from '#shared/kernel/decision.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import { clearForeign, unreadableText } from '#shared/kernel/own-record.ts';
import { type PoolerRecord, isRetired } from '#shared/topology/topology.ts';
import {
  type CleanupCheck,
  type CleanupDecision,
  type CleanupEffect,
  type CleanupInput,
  actRecord,
  actingRecord,
  advanceTo,
  changeOf,
  clearRecord,
  dataAfter,
  dueAt,
  event,
  heldSeconds,
  moveOf,
  obstacleOf,
  passOf,
  recordOf,
  slowWakeSeconds,
  wakeAt,
} from './moves.ts';
import type { CleanupSnapshot } from './snapshot.ts';
import {
  type Stale,
  idText,
  staleRecords,
  unexplainedByMembers,
  watched,
  witnessOf,
} from './stale.ts';
import { conditionEffects, statusEffects } from './status.ts';

/**
 * Decides whether a pooler record is marked as stopped, or deleted.
 *
 * Protocol, goals and the argument why no live pooler's record is changed: README.md beside this file.
 * Pure: same snapshot and instant, same decision.
 */
export function decide(snapshot: CleanupSnapshot, now: Instant): CleanupDecision {
  const first = firstHit(beforeAnything, snapshot, now);
  if (first !== undefined) {
    return first;
  }
  const input = { snapshot, stale: staleRecords(snapshot), witness: witnessOf(snapshot) };
  const isUnderWay = recordOf(snapshot)?.data.act !== undefined;
  return firstHit(isUnderWay ? underWay : betweenChanges, input, now) ?? clean(input, now);
}

type EarlyCheck = Check<CleanupSnapshot, CleanupEffect>;

/** People and the unknown come first. */
export const beforeAnything: readonly EarlyCheck[] = [
  targetBeingDeleted,
  pausedByUser,
  recordUnreadable,
  foreignRecord,
  databaseUnknown,
  pausedByDatabase,
  topologyUnknown,
  drainUnknown,
  membersUnknown,
  noMembers,
  podsUnknown,
];

/** One record may be changed: it was, or it is again, or no more. */
export const underWay: readonly CleanupCheck[] = [
  recordGone,
  recordMarked,
  recordWritten,
  explainedNow,
  notDueAnyMore,
  heldUp,
  changeAgain,
];

/** Nothing may be changed: something is due, or not. */
export const betweenChanges: readonly CleanupCheck[] = [change, watchOn, leaveToPeople];

function targetBeingDeleted({ shard }: CleanupSnapshot): CleanupDecision | undefined {
  return shard.isBeingDeleted
    ? settled('TargetBeingDeleted', 'the shard is being deleted; its records stay as they are')
    : undefined;
}

function pausedByUser({ shard }: CleanupSnapshot): CleanupDecision | undefined {
  return shard.isPaused
    ? settled('Paused', 'the shard is paused: everything is observed, nothing is done')
    : undefined;
}

/** From a newer version, or broken: hands off. `millrace reset` is the way out. */
function recordUnreadable(snapshot: CleanupSnapshot, now: Instant): CleanupDecision | undefined {
  const { record, shard } = snapshot;
  if (record.kind !== 'unreadable') {
    return undefined;
  }
  const { message, needs } = unreadableText('etcd-cleanup', 'Shard', shard, record.why);
  return blocked(
    'RecordUnreadable',
    message,
    needs,
    { every: slowWakeSeconds },
    conditionEffects(snapshot, { status: 'Unknown', reason: 'RecordUnreadable', message }, now),
  );
}

function foreignRecord({ shard, record }: CleanupSnapshot): CleanupDecision | undefined {
  return clearForeign(shard, record);
}

function databaseUnknown(snapshot: CleanupSnapshot, now: Instant): CleanupDecision | undefined {
  const { database, shard } = snapshot;
  switch (database.kind) {
    case 'present':
      return undefined;
    case 'absent': {
      const message = `the Database ${shard.databaseName} does not exist`;
      return standStill(snapshot, now, 'DatabaseMissing', message, 'create the Database');
    }
    case 'unknown': {
      const message = `the Database ${shard.databaseName} cannot be read: ${database.why}`;
      return standStill(snapshot, now, 'DatabaseUnknown', message, 'let the step read it');
    }
  }
}

function pausedByDatabase({ database }: CleanupSnapshot): CleanupDecision | undefined {
  return database.kind === 'present' && database.value.isPaused
    ? settled('Paused', 'the database is paused: everything is observed, nothing is done')
    : undefined;
}

/** One cell that cannot be read is enough: who leads may be in it. */
function topologyUnknown(snapshot: CleanupSnapshot, now: Instant): CleanupDecision | undefined {
  const { topology } = snapshot;
  return topology.kind === 'present'
    ? undefined
    : standStill(
        snapshot,
        now,
        'TopologyUnknown',
        `the pooler records cannot be read: ${topology.kind === 'absent' ? 'there is no topology' : topology.why}`,
        'make the topology store of every cell reachable',
      );
}

/** Whose record must be left alone is not known. */
function drainUnknown(snapshot: CleanupSnapshot, now: Instant): CleanupDecision | undefined {
  const { drain } = snapshot;
  return drain.kind === 'unknown'
    ? standStill(
        snapshot,
        now,
        'DrainUnknown',
        `whether a member is leaving is unknown: ${drain.why}`,
        'see what drain-step says of its record',
      )
    : undefined;
}

function membersUnknown(snapshot: CleanupSnapshot, now: Instant): CleanupDecision | undefined {
  return podsMissing(snapshot, snapshot.members, now);
}

/** Labels that were lost, or a wrong namespace, look like this: all records would seem to be stale. */
function noMembers(snapshot: CleanupSnapshot, now: Instant): CleanupDecision | undefined {
  const { topology, members } = snapshot;
  const hasRecords = topology.kind === 'present' && topology.value.poolers.length > 0;
  return hasRecords && members.kind === 'present' && members.value.length === 0
    ? standStill(
        snapshot,
        now,
        'NoMembers',
        'the shard has pooler records and no pod with its label',
        'see whether its pods have lost their labels',
      )
    : undefined;
}

function podsUnknown(snapshot: CleanupSnapshot, now: Instant): CleanupDecision | undefined {
  return unexplainedByMembers(snapshot).length > 0
    ? podsMissing(snapshot, snapshot.pods, now)
    : undefined;
}

/** A list that failed, or is not whole, says of no pod that it is gone. */
function podsMissing(
  snapshot: CleanupSnapshot,
  pods: CleanupSnapshot['pods'],
  now: Instant,
): CleanupDecision | undefined {
  return pods.kind === 'present'
    ? undefined
    : standStill(
        snapshot,
        now,
        'MembersUnknown',
        `the pods cannot be listed: ${pods.kind === 'absent' ? 'the API does not serve them' : pods.why}`,
        'let the step list the pods of the namespace',
      );
}

/** What was seen before is kept, what is authorised stays so, and nothing is done. */
function standStill(
  snapshot: CleanupSnapshot,
  now: Instant,
  reason: Reason,
  message: string,
  needs: string,
): CleanupDecision {
  const own = recordOf(snapshot);
  const status = conditionEffects(snapshot, { status: 'Unknown', reason, message }, now);
  if (own?.data.act !== undefined && own.wake !== undefined) {
    return blocked(reason, message, needs, own.wake, status);
  }
  const wake = { every: slowWakeSeconds };
  const { act: _, ...data } = own?.data ?? { seen: [] };
  return blocked(reason, message, needs, wake, [
    ...advanceTo(snapshot, { reason, wake, data }, now),
    ...status,
  ]);
}

/** Only a complete list says so, and one in which no unreadable record stands under its key. */
function recordGone(input: CleanupInput, now: Instant): CleanupDecision | undefined {
  const { record, act } = actingRecord(input.snapshot);
  if (actedOn(input) !== undefined || isUndecodable(input, act.pooler)) {
    return undefined;
  }
  const message = `the record of ${act.pooler} is deleted`;
  return record.state === 'deleting'
    ? done(input, now, 'PoolerDeleted', message, act.pooler)
    : cancel(input, now, `the record of ${act.pooler} is gone`);
}

function recordMarked(input: CleanupInput, now: Instant): CleanupDecision | undefined {
  const { record, act } = actingRecord(input.snapshot);
  const found = actedOn(input);
  return record.state === 'retiring' &&
    found !== undefined &&
    found.modRevision !== act.rev &&
    isRetired(found)
    ? done(input, now, 'PoolerRetired', `the record of ${act.pooler} is marked as stopped`)
    : undefined;
}

/** Somebody else wrote it: its pooler is back, or it is none any more. */
function recordWritten(input: CleanupInput, now: Instant): CleanupDecision | undefined {
  const { act } = actingRecord(input.snapshot);
  return actedOn(input)?.modRevision === act.rev
    ? undefined
    : cancel(input, now, `the record of ${act.pooler} was written by somebody else`);
}

/** A pod, a member to be made or a drain explains it now. */
function explainedNow(input: CleanupInput, now: Instant): CleanupDecision | undefined {
  const { act } = actingRecord(input.snapshot);
  return staleOf(input) === undefined
    ? cancel(input, now, `${act.pooler} has a member now`)
    : undefined;
}

/** People want more patience than when it was authorised: a longer wait holds for what has not been done yet. */
function notDueAnyMore(input: CleanupInput, now: Instant): CleanupDecision | undefined {
  const { act } = actingRecord(input.snapshot);
  const stale = staleOf(input);
  return stale !== undefined && dueAt(input.snapshot, stale, now) > input.snapshot.readAt
    ? cancel(input, now, `the record of ${act.pooler} is to be left alone for longer`)
    : undefined;
}

function heldUp(input: CleanupInput, now: Instant): CleanupDecision | undefined {
  const { record } = actingRecord(input.snapshot);
  const stale = staleOf(input);
  const obstacle = stale === undefined ? null : obstacleOf(input, stale);
  if (obstacle === null) {
    return undefined;
  }
  return obstacle.isFinal || record.wake === undefined
    ? cancel(input, now, obstacle.message)
    : waiting(obstacle.reason, obstacle.message, record.wake, []);
}

/** Authorised, and not seen done: what it was authorised by has just been read again. */
function changeAgain(input: CleanupInput): CleanupDecision | undefined {
  const stale = staleOf(input);
  return stale === undefined
    ? undefined
    : acting(
        reasonOf(stale),
        textOf(stale),
        [],
        changeOf(input, stale, actingRecord(input.snapshot).record.key),
      );
}

/** The point of no return of one record: it is written down which one, in which revision, and then changed. */
function change(input: CleanupInput, now: Instant): CleanupDecision | undefined {
  const { startedAt, done: count, hasRoom } = passOf(input.snapshot, now);
  const stale = hasRoom
    ? dueNow(input, now).find((candidate) => obstacleOf(input, candidate) === null)
    : undefined;
  if (stale === undefined || input.snapshot.record.kind !== 'ours') {
    return undefined;
  }
  const data = { ...dataAfter(input, now), pass: [startedAt, count + 1] as [number, number] };
  const record = actRecord(input, stale, reasonOf(stale), data, now);
  const { shard, record: before } = input.snapshot;
  const { uid, generation } = shard;
  return acting(
    reasonOf(stale),
    textOf(stale),
    [{ kind: 'advance', record, guard: { uid, generation, previous: before.text } }],
    changeOf(input, stale, record.key),
  );
}

function watchOn(input: CleanupInput, now: Instant): CleanupDecision | undefined {
  const { snapshot } = input;
  const candidates = watched(input.stale);
  if (candidates.length === 0) {
    return undefined;
  }
  const data = dataAfter(input, now);
  const status = statusEffects(input, data, now);
  if (!snapshot.shard.isEnabled) {
    const message = 'cleanup is not enabled: stale records are told, and stay';
    const rest = { reason: 'CleanupOff' as const, data };
    return settled('CleanupOff', message, [...advanceTo(snapshot, rest, now), ...status]);
  }
  const { reason, message, wake } = waitOf(input, candidates, now);
  return waiting(reason, message, wake, [
    ...advanceTo(snapshot, { reason, wake, data }, now),
    ...status,
  ]);
}

function leaveToPeople(input: CleanupInput, now: Instant): CleanupDecision | undefined {
  const { snapshot, stale } = input;
  const isUndecodable =
    snapshot.topology.kind === 'present' && snapshot.topology.value.undecodable.length > 0;
  return stale.length > 0 || isUndecodable
    ? settled('RecordsLeft', 'what is left of stale records is for people', atRest(input, now))
    : undefined;
}

/** The converged state. */
function clean(input: CleanupInput, now: Instant): CleanupDecision {
  return settled('TopologyClean', 'every pooler record has its member', atRest(input, now));
}

function atRest(input: CleanupInput, now: Instant) {
  return [...clearRecord(input.snapshot), ...statusEffects(input, { seen: [] }, now)];
}

/** What is waited for: an obstacle, the end of the pass, or the time of the candidate that is due next. */
function waitOf(input: CleanupInput, candidates: readonly Stale[], now: Instant) {
  const due = dueNow(input, now);
  const [obstacle] = due.flatMap((stale) => obstacleOf(input, stale) ?? []);
  if (obstacle !== undefined) {
    const { reason, message } = obstacle;
    return { reason, message, wake: { every: heldSeconds } };
  }
  if (due.length > 0) {
    const { hasRoom, endsAt } = passOf(input.snapshot, now);
    const message = 'this pass has removed as many records as it may';
    return { reason: 'PassFull' as const, message, wake: wakeAt(hasRoom ? now : endsAt, now) };
  }
  const next = Math.min(...candidates.map((stale) => dueAt(input.snapshot, stale, now)));
  const reason = 'StaleRecords' as const;
  const message = 'records without a member are watched';
  return { reason, message, wake: wakeAt(next as Instant, now) };
}

/**
 * Candidates whose time had come when this look began to read. One at first sight never is: it is looked at twice, and the
 * whole of the wait lies between the two, however long either of them took.
 */
function dueNow({ snapshot, stale }: CleanupInput, now: Instant): readonly Stale[] {
  return watched(stale).filter(
    (candidate) => candidate.seen !== null && dueAt(snapshot, candidate, now) <= snapshot.readAt,
  );
}

function done(
  input: CleanupInput,
  now: Instant,
  reason: 'PoolerRetired' | 'PoolerDeleted',
  message: string,
  removed?: string,
): CleanupDecision {
  const move = reason === 'PoolerRetired' ? 'marked' : 'deleted';
  return {
    ...acting(reason, message, [
      ...backToWatching(input, now, reason, removed),
      event('Normal', reason, message),
    ]),
    counts: [{ metric: 'pooler_records_cleaned_total', labels: { move }, count: 1 }],
  };
}

function cancel(input: CleanupInput, now: Instant, message: string): CleanupDecision {
  const reason = 'CleanupCancelled';
  return acting(reason, message, backToWatching(input, now, reason));
}

/** A look follows by itself: the next candidate may be due already. */
function backToWatching(input: CleanupInput, now: Instant, reason: Reason, removed?: string) {
  const { snapshot } = input;
  const data = dataAfter(input, now);
  const candidates = watched(input.stale);
  const wake = candidates.length === 0 ? undefined : waitOf(input, candidates, now).wake;
  return [
    ...advanceTo(snapshot, { reason, data, ...(wake === undefined ? {} : { wake }) }, now),
    ...statusEffects(input, data, now, removed),
  ];
}

/** The record that may be changed, as it stands now. */
function actedOn({ snapshot }: CleanupInput): PoolerRecord | undefined {
  const { act } = actingRecord(snapshot);
  return snapshot.topology.kind === 'present'
    ? snapshot.topology.value.poolers.find(({ id }) => idText(id) === act.pooler)
    : undefined;
}

function staleOf({ snapshot, stale }: CleanupInput): Stale | undefined {
  const { act } = actingRecord(snapshot);
  return stale.find(({ record }) => idText(record.id) === act.pooler);
}

function isUndecodable({ snapshot: { topology } }: CleanupInput, pooler: string): boolean {
  const ending = `/poolers/multipooler-${pooler.replace('/', '-')}/Pooler`;
  return (
    topology.kind === 'present' &&
    topology.value.undecodable.some(({ key }) => key.endsWith(ending))
  );
}

function reasonOf(stale: Stale): 'PoolerToRetire' | 'PoolerToDelete' {
  return moveOf(stale) === 'deleting' ? 'PoolerToDelete' : 'PoolerToRetire';
}

function textOf(stale: Stale): string {
  const name = idText(stale.record.id);
  return moveOf(stale) === 'deleting'
    ? `${name} has stopped long ago: its record is deleted`
    : `${name} has no member: its record is marked as stopped`;
}
