import type { Reason } from '#shared/api/reasons.ts';
import {
  type Check,
  acting,
  blocked,
  firstHit,
  settled,
  waiting,
} from '#shared/kernel/decision.ts';
import type { Effect } from '#shared/kernel/effect.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import { clearForeign, unreadableText } from '#shared/kernel/own-record.ts';
import type { Wake } from '#shared/kernel/record.ts';
import { type Books, keepBooks, openLeavers, withReleased } from './books.ts';
import {
  type ReleaseCheck,
  type ReleaseDecision,
  type ReleaseEffect,
  type ReleaseInput,
  advanceTo,
  mirrorEffects,
  recordAfter,
  recordOf,
  shardWrites,
  slowWakeSeconds,
  soon,
} from './moves.ts';
import {
  type Move,
  type MoveKind,
  handOver,
  isMarked,
  isUneven,
  looseEnds,
  orphans,
  pinnedByOthers,
  settle,
  shardsLeft,
  unsettled,
} from './plan.ts';
import type { Leaver, ReleaseState } from './record.ts';
import type { ReleaseSnapshot } from './snapshot.ts';
import { type Standing, statusEffects } from './status.ts';

/**
 * Decides what is written to the shards of a cluster of GoVerse, and when a node that goes may go.
 *
 * Protocol, goals and why GoVerse's own leader does not undo any of it: README.md beside this file.
 * Pure: same snapshot and instant, same decision.
 */
export function decide(snapshot: ReleaseSnapshot, now: Instant): ReleaseDecision {
  const first = firstHit(beforeAnything, snapshot, now);
  if (first !== undefined) {
    return first;
  }
  const input = inputOf(snapshot, now);
  return firstHit(rows, input, now) ?? begin(input, now);
}

type EarlyCheck = Check<ReleaseSnapshot, ReleaseEffect>;

/** People and the unknown come first. */
export const beforeAnything: readonly EarlyCheck[] = [
  targetBeingDeleted,
  pausedByUser,
  recordUnreadable,
  foreignRecord,
  membersUnknown,
  keysUnknown,
];

/** The pins first: one whose node is gone keeps its shard from everybody. Then who goes. */
export const rows: readonly ReleaseCheck[] = [
  keysUnreadable,
  levelOut,
  nobodyLeaves,
  lastNode,
  goOn,
  noLiveLeader,
  awaitStillness,
  awaitOwners,
];

function targetBeingDeleted({ cluster }: ReleaseSnapshot): ReleaseDecision | undefined {
  return cluster.isBeingDeleted
    ? settled('TargetBeingDeleted', 'the cluster is being deleted; its shards stay as they are')
    : undefined;
}

function pausedByUser(snapshot: ReleaseSnapshot, now: Instant): ReleaseDecision | undefined {
  const reason = 'Paused';
  const message = 'the cluster is paused: everything is observed, nothing is done';
  return snapshot.cluster.isPaused
    ? settled(
        reason,
        message,
        statusEffects(snapshot, { kind: 'paused', reason, message }, null, now),
      )
    : undefined;
}

/** From a newer version, or broken: hands off. `millrace reset` is the way out. */
function recordUnreadable(snapshot: ReleaseSnapshot, now: Instant): ReleaseDecision | undefined {
  const { record, cluster } = snapshot;
  if (record.kind !== 'unreadable') {
    return undefined;
  }
  const reason = 'RecordUnreadable';
  const { message, needs } = unreadableText('shard-release', 'GoverseCluster', cluster, record.why);
  return blocked(
    reason,
    message,
    needs,
    { every: slowWakeSeconds },
    statusEffects(snapshot, { kind: 'unknown', reason, message }, null, now),
  );
}

function foreignRecord({ cluster, record }: ReleaseSnapshot): ReleaseDecision | undefined {
  return clearForeign(cluster, record);
}

function membersUnknown(snapshot: ReleaseSnapshot, now: Instant): ReleaseDecision | undefined {
  const { pods } = snapshot;
  return pods.kind === 'present'
    ? undefined
    : notKnown(
        snapshot,
        'MembersUnknown',
        `the pods cannot be listed: ${pods.kind === 'unknown' ? pods.why : 'there is no list'}`,
        now,
      );
}

/** Nothing is guessed about shards; but the time of a node that goes runs on, and it is let go when that is over. */
function keysUnknown(snapshot: ReleaseSnapshot, now: Instant): ReleaseDecision | undefined {
  const { view } = snapshot;
  return view.kind === 'present'
    ? undefined
    : notKnown(
        snapshot,
        'KeysUnknown',
        view.kind === 'unknown' ? view.why : 'there are no keys',
        now,
      );
}

function notKnown(
  snapshot: ReleaseSnapshot,
  reason: Reason,
  message: string,
  now: Instant,
): ReleaseDecision {
  const pods = snapshot.pods.kind === 'present' ? snapshot.pods.value : [];
  const books = keepBooks(snapshot, null, pods, now);
  const state = recordOf(snapshot)?.state ?? 'resting';
  const wake: Wake =
    openLeavers(books).length > 0 ? soon(snapshot, state, now) : { every: slowWakeSeconds };
  const mirrors =
    snapshot.pods.kind === 'present' && snapshot.record.kind === 'ours'
      ? mirrorEffects(snapshot, books, pods)
      : [];
  return {
    ...waiting(reason, message, wake, [
      ...advanceTo(snapshot, recordAfter(snapshot, books, { state, reason, wake }, now)),
      ...mirrors,
      ...statusEffects(snapshot, { kind: 'unknown', reason, message }, null, now),
      ...events(snapshot, books),
    ]),
    counts: books.counts,
    gauges: books.gauges,
  };
}

function inputOf(snapshot: ReleaseSnapshot, now: Instant): ReleaseInput {
  const { view, pods, cluster } = snapshot;
  if (view.kind !== 'present' || pods.kind !== 'present') {
    throw new Error('a row that needs keys and pods ran without them');
  }
  const books = keepBooks(snapshot, view.value, pods.value, now);
  const state = recordOf(snapshot)?.state ?? null;
  return {
    snapshot,
    view: view.value,
    pods: pods.value,
    books,
    state: stateByPins(state, isMarked(view.value, cluster.mark), books),
  };
}

/** Pins without a record say that it got lost on the way; a record without pins, that nothing has begun in the keys yet. */
function stateByPins(
  state: ReleaseState | null,
  isPinned: boolean,
  { leaving }: Books,
): ReleaseState {
  if (state === null) {
    return isPinned && leaving.size > 0 ? 'moving' : 'resting';
  }
  return state === 'moving' && !isPinned ? 'awaiting' : state;
}

/** A key that cannot be read may be any node or shard, so nothing follows from the others. */
function keysUnreadable(input: ReleaseInput, now: Instant): ReleaseDecision | undefined {
  const [first] = input.view.unreadable;
  return first === undefined
    ? undefined
    : stuck(
        input,
        'KeysUnreadable',
        `the key ${first.key} cannot be read: ${first.why}`,
        'correct spec.topology.prefix and spec.shards, or the key',
        now,
      );
}

/**
 * Pins of ours without a hand-over they would serve: to dead nodes, after one that ended or was given up, or left by
 * somebody who lost their record. And, where the spec wants it, what is uneven with nobody on the way out.
 */
function levelOut(input: ReleaseInput, now: Instant): ReleaseDecision | undefined {
  const { snapshot, view, books, state } = input;
  const { mark, rebalance, shardCount } = snapshot.cluster;
  const isOurs = isMarked(view, mark);
  const isAlone = view.nodes.every(({ address }) => books.leaving.has(address));
  const isHandover = books.leaving.size > 0 && (state === 'moving' || state === 'released');
  const isWanted = isOurs
    ? !isHandover || isAlone || orphans(view, mark).length > 0
    : rebalance === 'outside' && books.leaving.size === 0 && isUneven(view);
  if (!isWanted) {
    return undefined;
  }
  const move = settle(view, mark, { shardCount, isStill: books.isStill });
  return move.kind === 'done' ? undefined : moving(input, 'levelling', move, now);
}

/** Nor is anything begun for nodes whose time is over: they go as they are. */
function nobodyLeaves(input: ReleaseInput, now: Instant): ReleaseDecision | undefined {
  const { snapshot, books, view, state } = input;
  const hasBegun = state === 'moving' || state === 'released';
  const isLate = !hasBegun && openLeavers(books).length === 0;
  if (books.leaving.size > 0 && !isLate) {
    return undefined;
  }
  const standing = restingStanding(input);
  const { reason, message } = standing;
  const rest = { state: 'resting', reason: 'ShardsInPlace' } as const;
  const wake = restingWake(input);
  const after = recordAfter(snapshot, books, wake === undefined ? rest : { ...rest, wake }, now);
  const effects = [
    ...advanceTo(snapshot, after),
    ...mirrorEffects(snapshot, books, input.pods),
    ...statusEffects(snapshot, standing, { view, books }, now),
    ...events(snapshot, books),
  ];
  const { counts, gauges } = books;
  return wake === undefined
    ? { ...settled(reason, message, effects), counts, gauges }
    : { ...waiting(reason, message, wake, effects), counts, gauges };
}

/** What GoVerse is at, and who leads next, shows in etcd alone: no event tells of it. */
function restingWake({ snapshot, view, books }: ReleaseInput): Wake | undefined {
  if (books.data.still !== undefined && !books.isStill) {
    return { every: 5 };
  }
  return unsettled(view, snapshot.cluster.shardCount) > 0 ? { every: 15 } : undefined;
}

function restingStanding({ snapshot, books, pods }: ReleaseInput): Standing {
  const { cluster } = snapshot;
  const [stranger] = books.unidentified;
  const [givenUp] = (books.data.leavers ?? []).filter(({ end }) => end === 'givenUp');
  const [hasty] = pods.filter(
    (pod) => (pod.mode ?? cluster.mode) === 'clean' && pod.graceSeconds <= cluster.timeoutSeconds,
  );
  if (stranger !== undefined) {
    const message = `${stranger.name} goes, and it cannot be told which node it is: of ${books.members.strays.join(', ')} no pod is known, or more than one`;
    return { kind: 'unmet', reason: 'NodeUnidentified', message };
  }
  if (givenUp !== undefined) {
    const message = `the shards of ${givenUp.pod} could not be handed over in time; it has its share again`;
    return { kind: 'unmet', reason: 'HandoverTimedOut', message };
  }
  if (hasty !== undefined) {
    const message = `${hasty.name} has ${hasty.graceSeconds}s to stop in, which is not longer than the ${cluster.timeoutSeconds}s that a hand-over may take`;
    return { kind: 'resting', reason: 'GraceTooShort', message };
  }
  return { kind: 'resting', reason: 'ShardsInPlace', message: 'nobody waits for a hand-over' };
}

function lastNode(input: ReleaseInput, now: Instant): ReleaseDecision | undefined {
  const { view, books } = input;
  return view.nodes.some(({ address }) => !books.leaving.has(address))
    ? undefined
    : stuck(
        input,
        'LastNode',
        `${[...books.leaving].join(', ')} would leave no node to take the shards`,
        'let another node join, or let it go with its shards',
        now,
      );
}

/** Once begun, a hand-over goes on whatever joins: taking the pins off now is the worst that can be done. */
function goOn(input: ReleaseInput, now: Instant): ReleaseDecision | undefined {
  const { state, view, books, snapshot } = input;
  return state === 'moving' || state === 'released'
    ? hand(input, handOver(view, books.leaving, snapshot.cluster.mark), now)
    : undefined;
}

function noLiveLeader(input: ReleaseInput, now: Instant): ReleaseDecision | undefined {
  const { view } = input;
  return view.nodes.some(({ address }) => address === view.leader?.address)
    ? undefined
    : stuck(
        input,
        'NoLiveLeader',
        'no registered node leads, so nobody hands anything over',
        'look why no node becomes the leader',
        now,
      );
}

/** What is retargeted within the window is out of reach until it is over. */
function awaitStillness(input: ReleaseInput, now: Instant): ReleaseDecision | undefined {
  return input.books.isStill
    ? undefined
    : awaitStart(
        input,
        'AwaitingStillness',
        'a node, a gate or the leader has changed just now',
        now,
      );
}

function awaitOwners(input: ReleaseInput, now: Instant): ReleaseDecision | undefined {
  const open = unsettled(input.view, input.snapshot.cluster.shardCount);
  return open === 0
    ? undefined
    : awaitStart(input, 'ShardsUnsettled', `${open} shards are on their way to a node`, now);
}

function awaitStart(
  input: ReleaseInput,
  reason: Reason,
  why: string,
  now: Instant,
): ReleaseDecision {
  return goingOn(
    input,
    input.books,
    'awaiting',
    { reason, message: `${namesOf(input)} waits: ${why}` },
    now,
  );
}

function begin(input: ReleaseInput, now: Instant): ReleaseDecision {
  const { view, books, snapshot } = input;
  return hand(input, handOver(view, books.leaving, snapshot.cluster.mark), now);
}

/** A move of a hand-over; one that is done lets go whoever has no shard left. */
function hand(input: ReleaseInput, move: Move, now: Instant): ReleaseDecision {
  const { snapshot, view, books, state } = input;
  if (move.kind !== 'done') {
    return moving(input, 'moving', move, now);
  }
  const released = withReleased(books, view, now);
  const left = openLeavers(released).reduce((sum, { node }) => sum + shardsLeft(view, node), 0);
  if (left > 0) {
    return moving({ ...input, books: released }, 'moving', { kind: 'claims', count: left }, now);
  }
  const stays = pinnedByOthers(view, books.leaving);
  const message = `${namesOf(input)} may go${stays === 0 ? '' : `; ${stays} shards stay behind, pinned by others`}`;
  // Nobody has to wait for these: they come with a look after the one that lets go.
  const loose = looseEnds(view, books.leaving, snapshot.cluster.mark);
  return state === 'released' && loose.kind === 'write'
    ? moving({ ...input, books: released }, 'released', loose, now)
    : goingOn(input, released, 'released', { reason: 'ShardsReleased', message }, now);
}

/** What each kind of write is for, as a reason and as words. */
const tellings: { readonly [K in MoveKind]: readonly [reason: Reason, doing: string] } = {
  handover: ['HandingOver', 'are retargeted to the others, or pinned'],
  loosen: ['ShardsReleased', 'are claimed and lose a pin that holds nothing'],
  orphans: ['OrphansMoved', 'that were pinned to a node which is gone get another one'],
  hold: ['Levelling', 'are pinned so that they can be levelled'],
  level: ['Levelling', 'are retargeted to a level share'],
  unpin: ['PinsTakenOff', 'lose our pin'],
};

function moving(
  input: ReleaseInput,
  state: ReleaseState,
  move: Exclude<Move, { kind: 'done' }>,
  now: Instant,
): ReleaseDecision {
  switch (move.kind) {
    case 'write': {
      const [reason, doing] = tellings[move.what];
      const told = { reason, message: `${move.writes.length} shards ${doing}` };
      return goingOn(input, input.books, state, told, now, move);
    }
    case 'claims': {
      const message = `${move.count} shards are not yet with the node that they are meant for`;
      return goingOn(input, input.books, state, { reason: 'AwaitingClaims', message }, now);
    }
    case 'window': {
      const message = 'a node, a gate or the leader has changed just now, or no node is there';
      return goingOn(input, input.books, state, { reason: 'AwaitingStillness', message }, now);
    }
  }
}

/** Writes down where it stands, tells it, and does at last what is to be done to the shards. */
function goingOn(
  { snapshot, view, pods }: ReleaseInput,
  books: Books,
  state: ReleaseState,
  told: { readonly reason: Reason; readonly message: string },
  now: Instant,
  move?: Extract<Move, { kind: 'write' }>,
): ReleaseDecision {
  const { reason, message } = told;
  const wake = soon(snapshot, state, now);
  const record = recordAfter(snapshot, books, { state, reason, wake }, now);
  const advance = advanceTo(snapshot, record);
  const kind = state === 'released' ? 'resting' : 'moving';
  const effects = [
    ...advance,
    ...mirrorEffects(snapshot, books, pods),
    // Told as often as something moves on, not as often as somebody looks.
    ...(advance.length === 0
      ? []
      : statusEffects(snapshot, { kind, reason, message }, { view, books }, now)),
    ...events(snapshot, books),
  ];
  const { counts, gauges } = books;
  return move === undefined || record === null
    ? { ...waiting(reason, message, wake, effects), counts, gauges }
    : {
        ...acting(reason, message, effects, shardWrites(snapshot, move.writes, record.key)),
        counts,
        gauges,
      };
}

/** One Event for each node that begins to go, and for each whose going ended, with this look. */
function events({ record, cluster }: ReleaseSnapshot, books: Books): Effect<'emitEvent'>[] {
  const before = record.kind === 'ours' ? (record.record.data.leavers ?? []) : [];
  const beginnings = (books.data.leavers ?? [])
    .filter(({ uid, why }) => !before.some((known) => known.uid === uid && known.why === why))
    .map(({ pod, why, had }) =>
      event('Normal', 'HandoverBegun', `${pod} ${goings[why]}: its ${had} shards are handed over`),
    );
  const quick = books.quick.map(({ name, mode }) =>
    event(
      'Normal',
      'ShutdownQuick',
      `${name} is deleted, quickly as ${mode === null ? `gvc/${cluster.name} says` : 'it says itself'}: its shards stay as they are`,
    ),
  );
  const ends = (books.data.leavers ?? [])
    .filter(({ uid, end }) => before.find((known) => known.uid === uid)?.end !== end)
    .flatMap(endEvent);
  const broken = books.broken.map(({ pod, had }): Effect<'emitEvent'> => ({
    ...event('Warning', 'HandoverBroken', `${pod} left before its ${had} shards were handed over`),
    level: 'error',
  }));
  return [...beginnings, ...quick, ...ends, ...broken];
}

const goings = { deleted: 'is deleted', requested: 'is asked to leave' } as const;

function endEvent({ pod, end, had }: Leaver): Effect<'emitEvent'>[] {
  switch (end) {
    case undefined:
      return [];
    case 'released':
      return [event('Normal', 'ShardsReleased', `the ${had} shards of ${pod} have other nodes`)];
    case 'timeout':
    case 'givenUp': {
      const message = `the shards of ${pod} could not be handed over in time`;
      return [event('Warning', 'HandoverTimedOut', message)];
    }
  }
}

function event(type: 'Normal' | 'Warning', reason: Reason, message: string): Effect<'emitEvent'> {
  return { kind: 'emitEvent', type, reason, message };
}

/** Nothing goes on by itself; but whoever goes is let go when its time is over. */
function stuck(
  { snapshot, view, books, pods, state }: ReleaseInput,
  reason: Reason,
  message: string,
  needs: string,
  now: Instant,
): ReleaseDecision {
  const rest = state === 'resting' && books.leaving.size > 0 ? 'awaiting' : state;
  const wake: Wake =
    openLeavers(books).length > 0 ? soon(snapshot, rest, now) : { every: slowWakeSeconds };
  const record = recordAfter(snapshot, books, { state: rest, reason, wake }, now);
  return {
    ...blocked(reason, message, needs, wake, [
      ...advanceTo(snapshot, record),
      ...mirrorEffects(snapshot, books, pods),
      ...statusEffects(snapshot, { kind: 'unmet', reason, message }, { view, books }, now),
      ...events(snapshot, books),
    ]),
    counts: books.counts,
    gauges: books.gauges,
  };
}

function namesOf({ books }: ReleaseInput): string {
  return (books.data.leavers ?? [])
    .filter(({ end }) => end !== 'givenUp')
    .map(({ pod }) => pod)
    .join(', ');
}
