import { templateHash } from '#shared/api/annotations.ts';
import {
  type Condition,
  type ConditionFacts,
  applyConditions,
  hasConditions,
} from '#shared/api/condition.ts';
import { cellLabel, poolLabel } from '#shared/api/labels.ts';
import { type Reason, isStalled } from '#shared/api/reasons.ts';
import type { Gauge } from '#shared/kernel/decision.ts';
import type { Effect } from '#shared/kernel/effect.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import type { Absent, Unknown } from '#shared/kernel/read.ts';
import { type Group, groupsOf, managedGroupsOf, podHash } from './manifests.ts';
import { membersOf, missingMembers, surplusMembers } from './plan.ts';
import type { RepositoryWiring } from './repository-wiring.ts';
import type { PodView, PoolPodsSnapshot, ShardView } from './snapshot.ts';

/** Where this look leaves the shard, as far as pool-pods is concerned. */
export interface Standing {
  /** `done`: nothing to do. `moving`: it goes on by itself. `stuck`: it does not. `paused`: a person holds it. */
  readonly kind: 'done' | 'moving' | 'stuck' | 'paused';
  readonly reason: Reason;
  readonly message: string;
}

type PoolStatus = ShardView['poolStatuses'][number];

const ownTypes: ReadonlySet<string> = new Set(['Ready', 'Reconciling', 'Stalled', 'PodsUpToDate']);

/** pool-pods' own part of the status, and whether it is there already. */
export function statusEffect(
  snapshot: PoolPodsSnapshot,
  now: Instant,
  standing: Standing,
): { readonly effect: Effect<'applyStatus'>; readonly isThere: boolean } {
  const { shard, pods } = snapshot;
  const conditions = applyConditions(
    shard.conditions,
    [
      ready(snapshot),
      reconciling(shard, standing),
      stalled(shard, standing),
      podsUpToDate(snapshot),
    ],
    shard.generation,
    now,
  );
  const pools = pods.kind === 'present' ? poolStatuses(snapshot) : shard.poolStatuses;
  return {
    effect: {
      kind: 'applyStatus',
      status: {
        observedGeneration: shard.generation,
        conditions: conditions.map((condition) => ({ ...condition })),
        pools: pools.map((pool) => ({ ...pool })),
      },
      guard: { uid: shard.uid, resourceVersion: shard.resourceVersion },
    },
    isThere:
      shard.observedGeneration === shard.generation &&
      hasConditions(shard.conditions, conditions) &&
      isSamePools(shard.poolStatuses, pools),
  };
}

/** What the members themselves say while there is nothing to make: all ready, starting, or one too many. */
export function standingOfMembers(snapshot: PoolPodsSnapshot): Standing {
  const surplus = managedGroupsOf(snapshot.shard).filter(
    (group) => surplusMembers(snapshot, group) > 0,
  );
  if (surplus.length > 0) {
    return {
      kind: 'moving',
      reason: 'SurplusMembers',
      message: `more members than wanted in ${surplus.map(nameOf).join(', ')}; they leave one by one`,
    };
  }
  const short = shortGroups(snapshot);
  return short.length > 0
    ? {
        kind: 'moving',
        reason: 'MembersStarting',
        message: `waiting for members of ${short.map(nameOf).join(', ')} to become ready`,
      }
    : { kind: 'done', reason: 'MembersReady', message: readyText(snapshot) };
}

/**
 * Whether members are to join others: some are missing or not ready, and one at least is ready. A shard of which none is
 * ready begins, or comes back on the claims that it has.
 */
export function isGrowing(snapshot: PoolPodsSnapshot): boolean {
  return (
    shortGroups(snapshot).some(({ pool }) => pool.podTemplate !== undefined) &&
    poolStatuses(snapshot).some(({ ready: count }) => count > 0)
  );
}

function ready(snapshot: PoolPodsSnapshot): ConditionFacts {
  const type = 'Ready';
  if (snapshot.pods.kind !== 'present') {
    return { type, status: 'Unknown', reason: 'MembersUnknown', message: unknownText };
  }
  return shortGroups(snapshot).length === 0
    ? { type, status: 'True', reason: 'MembersReady', message: readyText(snapshot) }
    : { type, status: 'False', reason: 'MembersNotReady', message: readyText(snapshot) };
}

/** In progress, ours or another's; never together with Stalled, so that whoever waits knows whether waiting helps. */
function reconciling(shard: ShardView, standing: Standing): ConditionFacts {
  const type = 'Reconciling';
  const { reason, message } = standing;
  const stuck = stalled(shard, standing);
  if (stuck.status === 'True') {
    return { ...stuck, type, status: 'False' };
  }
  if (standing.kind === 'paused') {
    return { type, status: 'False', reason, message };
  }
  if (standing.kind === 'moving') {
    return { type, status: 'True', reason, message };
  }
  const drained = shard.conditions.find((condition) => condition.type === 'Drained');
  return drained?.status === 'False'
    ? { type, status: 'True', reason: drained.reason, message: drained.message }
    : { type, status: 'False', reason: 'NothingToDo', message: 'what is wanted is there' };
}

function stalled(shard: ShardView, standing: Standing): ConditionFacts {
  const type = 'Stalled';
  const { reason, message } = standing;
  if (standing.kind === 'paused') {
    return { type, status: 'False', reason, message };
  }
  if (standing.kind === 'stuck') {
    return { type, status: 'True', reason, message };
  }
  const other = shard.conditions.find(isStalledElsewhere);
  return other === undefined
    ? { type, status: 'False', reason: 'NothingStalled', message: 'nothing waits for a repair' }
    : { type, status: 'True', reason: other.reason, message: other.message };
}

/** Another step's condition that stands for something which does not go on by itself. */
function isStalledElsewhere({ type, status, reason }: Condition): boolean {
  return !ownTypes.has(type) && status !== 'True' && isStalled(reason);
}

/** Whether every pod is what the spec says: there, not too many, and made with the template as it is now. */
function podsUpToDate(snapshot: PoolPodsSnapshot): ConditionFacts {
  const type = 'PodsUpToDate';
  if (snapshot.pods.kind !== 'present') {
    return { type, status: 'Unknown', reason: 'MembersUnknown', message: unknownText };
  }
  const groups = managedGroupsOf(snapshot.shard);
  const short = groups.filter((group) => missingMembers(snapshot, group) > 0);
  if (short.length > 0) {
    const message = `members are missing in ${short.map(nameOf).join(', ')}`;
    return { type, status: 'False', reason: 'MembersMissing', message };
  }
  const surplus = groups.filter((group) => surplusMembers(snapshot, group) > 0);
  if (surplus.length > 0) {
    const message = `members are too many in ${surplus.map(nameOf).join(', ')}`;
    return { type, status: 'False', reason: 'SurplusMembers', message };
  }
  const { database } = snapshot;
  if (groups.length > 0 && database.kind !== 'present') {
    return { type, status: 'Unknown', ...doubtOf(snapshot.shard, database) };
  }
  const old = database.kind === 'present' ? outdatedPods(snapshot, database.value.wiring) : [];
  return old.length === 0
    ? { type, status: 'True', reason: 'PodsUpToDate', message: 'every pod is as the spec has it' }
    : {
        type,
        status: 'False',
        reason: 'TemplateChanged',
        message: `made with another pod template, or for another repository: ${old.toSorted().join(', ')}; a pod gets the present ones when it is made anew`,
      };
}

/** What a pod is to be depends on the Database's repository as well. */
function doubtOf({ databaseName }: ShardView, database: Absent | Unknown) {
  const what = 'which repository pods are to be made for is unknown';
  return database.kind === 'absent'
    ? ({
        reason: 'DatabaseMissing',
        message: `${what}: the Database ${databaseName} does not exist`,
      } as const)
    : ({
        reason: 'DatabaseUnknown',
        message: `${what}: the Database cannot be read: ${database.why}`,
      } as const);
}

function outdatedPods(snapshot: PoolPodsSnapshot, wiring: RepositoryWiring): readonly string[] {
  const { shard } = snapshot;
  return managedGroupsOf(shard).flatMap((group) =>
    membersOf(snapshot, group)
      .filter(
        ({ pod, index }) => pod.annotations[templateHash] !== podHash(shard, group, index, wiring),
      )
      .map(({ pod }) => pod.name),
  );
}

const unknownText = 'the pods of the shard cannot be read';

function readyText(snapshot: PoolPodsSnapshot): string {
  const pools = poolStatuses(snapshot);
  const sum = (count: (pool: PoolStatus) => number) =>
    pools.reduce((total, pool) => total + count(pool), 0);
  return `${sum(({ ready }) => ready)} of ${sum(({ desired }) => desired)} members are ready`;
}

function shortGroups(snapshot: PoolPodsSnapshot): readonly Group[] {
  return groupsOf(snapshot.shard).filter(
    (group) => readyPods(snapshot, group) < group.pool.replicasPerCell,
  );
}

function poolStatuses(snapshot: PoolPodsSnapshot): readonly PoolStatus[] {
  return groupsOf(snapshot.shard).map((group) => ({
    name: group.pool.name,
    cell: group.cell,
    desired: group.pool.replicasPerCell,
    ready: readyPods(snapshot, group),
  }));
}

/** How many members there shall be, and how many of them are not. Nothing is said where the pods could not be listed. */
export function memberGauges(snapshot: PoolPodsSnapshot): readonly Gauge[] {
  if (snapshot.pods.kind !== 'present' || snapshot.shard.isBeingDeleted) {
    return [];
  }
  return poolStatuses(snapshot).flatMap(({ name, cell, desired, ready: count }): Gauge[] => {
    const labels = { pool: name, cell };
    return [
      { metric: 'millrace_pool_members_wanted', labels, value: desired },
      { metric: 'millrace_pool_members_missing', labels, value: Math.max(0, desired - count) },
    ];
  });
}

function readyPods(snapshot: PoolPodsSnapshot, group: Group): number {
  const pods =
    group.pool.podTemplate === undefined
      ? attachedPods(snapshot, group)
      : membersOf(snapshot, group).map(({ pod }) => pod);
  return pods.filter((pod) => pod.isReady && !pod.isBeingDeleted).length;
}

/** Whoever made them gave them names of their own, so the labels say where they belong. */
function attachedPods({ pods }: PoolPodsSnapshot, { pool, cell }: Group): readonly PodView[] {
  return pods.kind === 'present'
    ? pods.value.filter(
        ({ labels }) => labels[poolLabel] === pool.name && labels[cellLabel] === cell,
      )
    : [];
}

function nameOf({ pool, cell }: Group): string {
  return `${pool.name}/${cell}`;
}

/** The order of a keyed list says nothing. */
function isSamePools(found: readonly PoolStatus[], wanted: readonly PoolStatus[]): boolean {
  return (
    found.length === wanted.length &&
    wanted.every(({ name, cell, desired, ready }) =>
      found.some(
        (pool) =>
          pool.name === name &&
          pool.cell === cell &&
          pool.desired === desired &&
          pool.ready === ready,
      ),
    )
  );
}
