import type { Reason } from '#shared/api/reasons.ts';
import {
  type Check,
  type Decision,
  acting,
  blocked,
  firstHit,
  settled,
  waiting,
} from '#shared/kernel/decision.ts';
import type { Effect } from '#shared/kernel/effect.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import {
  advanceRecord,
  advanceWhereNew,
  clearForeign,
  restRecord,
  unreadableText,
} from '#shared/kernel/own-record.ts';
import type { Wake } from '#shared/kernel/record.ts';
import type { ObjectRef } from '#shared/kube/resources.ts';
import { managedGroupsOf } from './manifests.ts';
import { warningEvent, withWarning } from './backup-warning.ts';
import { needsClaims, planOf, wantsChange, worksOfOneLook } from './plan.ts';
import type { PoolPodsRecord, PoolPodsState } from './record.ts';
import type { PoolPodsSnapshot } from './snapshot.ts';
import { type Standing, memberGauges, standingOfMembers, statusEffect } from './status.ts';

export type PoolPodsEffect =
  | 'advance'
  | 'applyStatus'
  | 'createObject'
  | 'patchObject'
  | 'emitEvent';
type PoolPodsDecision = Decision<PoolPodsEffect>;
type PoolPodsCheck = Check<PoolPodsSnapshot, PoolPodsEffect>;

/** When to look again: soon where it goes on by itself, slowly where a person or a repair is needed, in seconds. */
const soon: Wake = { every: 5 };
const slowly: Wake = { every: 60 };

/**
 * Decides which claims, pods, Service and disruption budgets of a shard are to be made or changed.
 *
 * What can go wrong and which guard covers it: README.md beside this file. Pure: same snapshot and instant, same decision.
 */
export function decide(snapshot: PoolPodsSnapshot, now: Instant): PoolPodsDecision {
  const decision = firstHit(checks, snapshot, now) ?? nothingToMake(snapshot, now);
  return { ...decision, gauges: memberGauges(snapshot) };
}

export const checks: readonly PoolPodsCheck[] = [
  targetBeingDeleted,
  pausedByUser,
  pausedByDatabase,
  recordUnreadable,
  foreignRecord,
  membersUnknown,
  drainUnreadable,
  databaseMissing,
  makeWhatIsMissing,
  claimsUnknown,
  objectsUnknown,
  nameTaken,
  waitForName,
];

function targetBeingDeleted({ shard }: PoolPodsSnapshot): PoolPodsDecision | undefined {
  return shard.isBeingDeleted
    ? settled('TargetBeingDeleted', 'the shard is being deleted; its pods go with their owner')
    : undefined;
}

function pausedByUser(snapshot: PoolPodsSnapshot, now: Instant): PoolPodsDecision | undefined {
  return snapshot.shard.isPaused
    ? rest(snapshot, now, {
        kind: 'paused',
        reason: 'Paused',
        message: 'the shard is paused: everything is observed, nothing is made',
      })
    : undefined;
}

function pausedByDatabase(snapshot: PoolPodsSnapshot, now: Instant): PoolPodsDecision | undefined {
  const { database, pods } = snapshot;
  // A shard that lacks nothing is as ready as ever. Whether it does may be unknown by now.
  const mayLack = pods.kind !== 'present' || wantsChange(snapshot);
  return database.kind === 'present' && database.value.isPaused && mayLack
    ? rest(snapshot, now, {
        kind: 'paused',
        reason: 'Paused',
        message: 'the database is paused: everything is observed, nothing is made',
      })
    : undefined;
}

/** From a newer version, or broken: hands off. `millrace reset` is the way out. */
function recordUnreadable(snapshot: PoolPodsSnapshot, now: Instant): PoolPodsDecision | undefined {
  const { record, shard } = snapshot;
  if (record.kind !== 'unreadable') {
    return undefined;
  }
  const { message, needs } = unreadableText('pool-pods', 'Shard', shard, record.why);
  return blocked(
    'RecordUnreadable',
    message,
    needs,
    slowly,
    changedStatus(snapshot, now, { kind: 'stuck', reason: 'RecordUnreadable', message }),
  );
}

function foreignRecord({ shard, record }: PoolPodsSnapshot): PoolPodsDecision | undefined {
  return clearForeign(shard, record);
}

function membersUnknown(snapshot: PoolPodsSnapshot, now: Instant): PoolPodsDecision | undefined {
  const { pods } = snapshot;
  return pods.kind === 'present'
    ? undefined
    : wait(snapshot, now, {
        kind: 'stuck',
        reason: 'MembersUnknown',
        message: `the shard's pods cannot be read: ${whyOf(pods)}`,
      });
}

/** A drain may be open at any index. Unknown is never safe. */
function drainUnreadable(snapshot: PoolPodsSnapshot, now: Instant): PoolPodsDecision | undefined {
  const { drain, shard } = snapshot;
  if (drain.kind !== 'unreadable' || !wantsChange(snapshot)) {
    return undefined;
  }
  const { message, needs } = unreadableText('drain-step', 'Shard', shard, drain.why);
  return block(snapshot, now, 'RecordUnreadable', `nothing is made: ${message}`, needs);
}

/** Without its Database nobody knows whether the shard is paused, nor what a pod needs to reach its repository. */
function databaseMissing(snapshot: PoolPodsSnapshot, now: Instant): PoolPodsDecision | undefined {
  const { database, shard } = snapshot;
  if (database.kind === 'present' || managedGroupsOf(shard).length === 0) {
    return undefined;
  }
  return database.kind === 'absent'
    ? block(
        snapshot,
        now,
        'DatabaseMissing',
        `nothing is made: the Database ${shard.databaseName} does not exist`,
        `create the Database ${shard.databaseName} in namespace ${shard.namespace}`,
      )
    : wait(snapshot, now, {
        kind: 'stuck',
        reason: 'DatabaseUnknown',
        message: `nothing is made: the Database cannot be read: ${database.why}`,
      });
}

/**
 * The status goes first, also where it says nothing new: it is written under the version of the Shard that was read, so
 * whoever looks at an old spec, or has not heard of a drain that was opened since, makes nothing.
 */
function makeWhatIsMissing(snapshot: PoolPodsSnapshot, now: Instant): PoolPodsDecision | undefined {
  const plan = planOf(snapshot);
  const works = worksOfOneLook(plan);
  if (works.length === 0) {
    return undefined;
  }
  const made = works.filter(({ kind }) => kind === 'make').map(({ object }) => textOf(object));
  const updated = works.filter(({ kind }) => kind === 'update').map(({ object }) => textOf(object));
  const message = [
    ...(made.length === 0 ? [] : [`making ${made.join(', ')}`]),
    ...(updated.length === 0 ? [] : [`updating ${updated.join(', ')}`]),
  ].join('; ');
  const reason = made.length === 0 ? 'ObjectsUpdated' : 'ObjectsMade';
  // Only a pod's change brings the next look, so the status stays open for no other kind.
  const standing: Standing = works.some(({ object }) => object.kind === 'Pod')
    ? { kind: 'moving', reason, message }
    : standingOfMembers(snapshot);
  const pods = works.filter(({ kind, object }) => kind === 'make' && object.kind === 'Pod');
  const remains =
    works.length < plan.works.length ||
    plan.obstacles.length > 0 ||
    !isAllKnown(snapshot) ||
    !areClaimsKnown(snapshot);
  return acting(reason, message, [
    statusEffect(snapshot, now, withWarning(snapshot, standing)).effect,
    ...(remains ? keepAwake(snapshot, now, 'making', reason, soon) : []),
    ...works.flatMap(({ effects }) => effects),
    ...warningEvent(
      snapshot,
      pods.map(({ object }) => textOf(object)),
    ),
  ]);
}

function claimsUnknown(snapshot: PoolPodsSnapshot, now: Instant): PoolPodsDecision | undefined {
  const { claims } = snapshot;
  return areClaimsKnown(snapshot)
    ? undefined
    : wait(snapshot, now, {
        kind: 'stuck',
        reason: 'ClaimsUnknown',
        message: `members are missing, and the shard's claims cannot be read: ${whyOf(claims)}`,
      });
}

function objectsUnknown(snapshot: PoolPodsSnapshot, now: Instant): PoolPodsDecision | undefined {
  if (isAllKnown(snapshot)) {
    return undefined;
  }
  const { service, budgets } = snapshot;
  const whys = [service, budgets].flatMap((read) => (read.kind === 'unknown' ? [read.why] : []));
  return wait(snapshot, now, {
    kind: 'stuck',
    reason: 'ObjectsUnknown',
    message: `the shard's Service or disruption budgets cannot be read: ${whys.join('; ')}`,
  });
}

/** Never touched: whoever made it may need it. */
function nameTaken(snapshot: PoolPodsSnapshot, now: Instant): PoolPodsDecision | undefined {
  const taken = planOf(snapshot).obstacles.filter(({ kind }) => kind === 'foreign');
  const names = taken.map(({ object }) => textOf(object)).join(', ');
  return taken.length === 0
    ? undefined
    : block(
        snapshot,
        now,
        'NameTaken',
        `somebody else's object has a name that the shard needs: ${names}`,
        'remove it, or give it the labels and the owner that the shard would give it',
      );
}

/** Claims and Services are not watched, so their going is no event. */
function waitForName(snapshot: PoolPodsSnapshot, now: Instant): PoolPodsDecision | undefined {
  const { obstacles } = planOf(snapshot);
  const names = obstacles.map(({ object }) => textOf(object)).join(', ');
  return obstacles.length === 0
    ? undefined
    : wait(
        snapshot,
        now,
        {
          kind: 'moving',
          reason: 'NameBeingFreed',
          message: `waiting until the former object of this name is gone: ${names}`,
        },
        soon,
      );
}

/** Converged, or only pods have to become ready, which is an event. */
function nothingToMake(snapshot: PoolPodsSnapshot, now: Instant): PoolPodsDecision {
  return rest(snapshot, now, withWarning(snapshot, standingOfMembers(snapshot)));
}

/** Nothing to do and nothing to wait for but events: no record. */
function rest(snapshot: PoolPodsSnapshot, now: Instant, standing: Standing): PoolPodsDecision {
  return settled(standing.reason, standing.message, [
    ...(snapshot.record.kind === 'ours'
      ? [advanceRecord(snapshot.shard, null, snapshot.record.text)]
      : []),
    ...changedStatus(snapshot, now, standing),
  ]);
}

function wait(
  snapshot: PoolPodsSnapshot,
  now: Instant,
  standing: Standing,
  wake: Wake = slowly,
): PoolPodsDecision {
  const { reason, message } = standing;
  return waiting(reason, message, wake, [
    ...keepAwake(snapshot, now, 'waiting', reason, wake),
    ...changedStatus(snapshot, now, standing),
  ]);
}

function block(
  snapshot: PoolPodsSnapshot,
  now: Instant,
  reason: Reason,
  message: string,
  needs: string,
): PoolPodsDecision {
  const standing: Standing = { kind: 'stuck', reason, message: `${message}; to go on: ${needs}` };
  return blocked(reason, message, needs, slowly, [
    ...keepAwake(snapshot, now, 'blocked', reason, slowly),
    ...changedStatus(snapshot, now, standing),
  ]);
}

function changedStatus(
  snapshot: PoolPodsSnapshot,
  now: Instant,
  standing: Standing,
): Effect<'applyStatus'>[] {
  const { effect, isThere } = statusEffect(snapshot, now, standing);
  return isThere ? [] : [effect];
}

/** A record that carries the wake; written once for each generation, state and reason. */
function keepAwake(
  snapshot: PoolPodsSnapshot,
  now: Instant,
  state: PoolPodsState,
  reason: Reason,
  wake: Wake,
): Effect<'advance'>[] {
  const { shard, record } = snapshot;
  const next: PoolPodsRecord = restRecord(
    'pool-pods',
    shard,
    { state, reason, wake, data: {} },
    now,
  );
  return advanceWhereNew(shard, record, next);
}

/** Nothing to read is known as well: an attached shard has no Service and no budgets of ours. */
function isAllKnown({ shard, service, budgets }: PoolPodsSnapshot): boolean {
  return (
    managedGroupsOf(shard).length === 0 ||
    (service.kind !== 'unknown' && budgets.kind === 'present')
  );
}

/** Claims that nobody needs need not be known. */
function areClaimsKnown(snapshot: PoolPodsSnapshot): boolean {
  return snapshot.claims.kind === 'present' || !needsClaims(snapshot);
}

function whyOf(read: { readonly kind: string; readonly why?: string }): string {
  return read.why ?? 'the API server does not serve them';
}

/** `Pod orders-main-zone-a-0a1b2c3d-0` */
function textOf({ kind, name }: ObjectRef): string {
  return `${kind} ${name}`;
}
