import { releasedClaim } from '#shared/api/annotations.ts';
import {
  budgetName,
  claimName,
  podName,
  serviceName,
  sharedBackupClaimName,
} from '#shared/api/names.ts';
import type { Effect } from '#shared/kernel/effect.ts';
import type { ObjectRef, ResourceKind } from '#shared/kube/resources.ts';
import {
  type Group,
  type ManagedGroup,
  budgetToCreate,
  claimToCreate,
  managedGroupsOf,
  memberLabels,
  minAvailable,
  needsOwnClaim,
  needsSharedClaim,
  podMetadata,
  podToCreate,
  selectorOf,
  serviceToCreate,
  sharedClaimToCreate,
} from './manifests.ts';
import type { RepositoryWiring } from './repository-wiring.ts';
import type {
  BudgetView,
  ClaimView,
  OwnedView,
  PodView,
  PoolPodsSnapshot,
  ShardView,
} from './snapshot.ts';

/**
 * What is missing, and where it has to stand. Shared by `observe`, which asks for claims only when something is to be
 * made, and by `decide`, so that both mean the same by "missing".
 */
export interface Plan {
  /** In the order in which they are to be done. */
  readonly works: readonly Work[];
  readonly obstacles: readonly Obstacle[];
}

/** Writes that belong together: a member's claim before its pod. */
export interface Work {
  readonly kind: 'make' | 'update';
  /** The object it is about. */
  readonly object: ObjectRef;
  readonly effects: readonly Effect<'createObject' | 'patchObject'>[];
}

/** An object under a name that is needed. `foreign` stays until a person decides; `leaving` goes by itself. */
export interface Obstacle {
  readonly kind: 'foreign' | 'leaving';
  readonly object: ObjectRef;
}

/** A pod of ours and the index in its name. */
export interface Member {
  readonly pod: PodView;
  readonly index: number;
}

/** Writes in one look; what remains is done in the next. Creates can be repeated, so the bound is only for fairness. */
const maxWritesPerLook = 10;

/** The highest index with which every pod name is a DNS label (naming). */
const maxIndex = 99;

export function planOf(snapshot: PoolPodsSnapshot): Plan {
  const groups = managedGroupsOf(snapshot.shard);
  // Without its Database nobody knows what a pod is to be.
  const isKnown = snapshot.pods.kind === 'present' && snapshot.database.kind === 'present';
  if (!isKnown || groups.length === 0) {
    return { works: [], obstacles: [] };
  }
  // Budgets come before pods: each new pod changes the status, and so the version, of the budget that selects it.
  const parts = [
    ...serviceWork(snapshot),
    ...groups.flatMap((group) => budgetWork(snapshot, group)),
    ...sharedClaimWork(snapshot),
    ...groups.flatMap((group) => claimWorks(snapshot, group)),
    ...groups.flatMap((group) => memberWorks(snapshot, group)),
    ...groups.flatMap((group) => metadataWorks(snapshot, group)),
  ];
  return {
    works: parts.filter((part) => !isObstacle(part)),
    obstacles: parts.filter(isObstacle),
  };
}

/** The first works that fit into one look; none is split. */
export function worksOfOneLook({ works }: Plan): readonly Work[] {
  let writes = 0;
  return works.filter(({ effects }) => (writes += effects.length) <= maxWritesPerLook);
}

/** Whether anything has to be made or changed. Needs no knowledge of claims. */
export function wantsChange(snapshot: PoolPodsSnapshot): boolean {
  const { works, obstacles } = planOf(snapshot);
  return (
    works.length > 0 ||
    obstacles.length > 0 ||
    managedGroupsOf(snapshot.shard).some((group) => missingMembers(snapshot, group) > 0)
  );
}

/** Whether a member is missing, or lacks a claim, that lives on one. */
export function needsClaims(snapshot: PoolPodsSnapshot): boolean {
  return (
    sharedClaimWork(snapshot).length > 0 ||
    managedGroupsOf(snapshot.shard).some(
      (group) =>
        (livesOnClaims(snapshot, group) && missingMembers(snapshot, group) > 0) ||
        claimWorks(snapshot, group).length > 0,
    )
  );
}

/** Whether a member has yet to start that lives on a claim: nobody can tell yet whether it has one. */
export function mayLackClaims(snapshot: PoolPodsSnapshot): boolean {
  return managedGroupsOf(snapshot.shard).some(
    (group) => livesOnClaims(snapshot, group) && startingMembers(snapshot, group).length > 0,
  );
}

/**
 * The pods of ours in a group, by the index in their names. The name and not the labels says where a pod belongs:
 * nobody can change it.
 */
export function membersOf({ pods }: PoolPodsSnapshot, group: Group): readonly Member[] {
  return pods.kind === 'present'
    ? pods.value.flatMap((pod) => {
        const index = indexIn(group, pod.name);
        return index === undefined || pod.owner !== 'ours' ? [] : [{ pod, index }];
      })
    : [];
}

/**
 * How many members have to be made. A pod counts until it is gone: one that was deleted from outside comes back at its
 * own index on its own claim, and if its place were filled while it stops, there would be one too many. For the same
 * reason the place of a leaver that is to come back is kept until its drain is cleared.
 */
export function missingMembers(snapshot: PoolPodsSnapshot, group: Group): number {
  const { pods } = snapshot;
  if (pods.kind !== 'present') {
    return 0;
  }
  const members = membersOf(snapshot, group);
  const open = openDrain(snapshot, group);
  const isPlaceKept =
    open !== undefined &&
    open.cause !== 'surplus' &&
    !members.some(({ index }) => index === open.index);
  return Math.max(0, group.pool.replicasPerCell - members.length - (isPlaceKept ? 1 : 0));
}

/** How many pods of ours exist beyond what is wanted; drain-step brings them out. */
export function surplusMembers(snapshot: PoolPodsSnapshot, group: Group): number {
  return Math.max(0, membersOf(snapshot, group).length - group.pool.replicasPerCell);
}

function serviceWork(snapshot: PoolPodsSnapshot): (Work | Obstacle)[] {
  const { shard, service } = snapshot;
  const object = refOf(shard, 'Service', serviceName(shard.name));
  if (service.kind === 'present') {
    const selector = selectorPatch(service.value.selector, selectorOf(shard.name));
    return update(object, service.value, selector === null ? null : { spec: { selector } });
  }
  return service.kind === 'absent'
    ? [{ kind: 'make', object, effects: [serviceToCreate(shard)] }]
    : [];
}

function budgetWork(snapshot: PoolPodsSnapshot, group: Group): (Work | Obstacle)[] {
  const { shard, budgets } = snapshot;
  const name = budgetName(group.base);
  const object = refOf(shard, 'PodDisruptionBudget', name);
  if (budgets.kind !== 'present') {
    return [];
  }
  const budget = budgets.value.find((candidate) => candidate.name === name);
  return budget === undefined
    ? [{ kind: 'make', object, effects: [budgetToCreate(shard, group)] }]
    : update(object, budget, budgetPatch(shard, group, budget));
}

function budgetPatch(shard: ShardView, group: Group, budget: BudgetView) {
  const matchLabels = selectorPatch(budget.selector, selectorOf(shard.name, group));
  return matchLabels === null && budget.minAvailable === minAvailable(group)
    ? null
    : {
        spec: {
          minAvailable: minAvailable(group),
          maxUnavailable: null,
          ...(matchLabels === null ? {} : { selector: { matchLabels } }),
        },
      };
}

/**
 * The claim that the shard's backups are on, before the first member that mounts it. It is nobody's own, so it is counted
 * with no member, never marked, and never deleted. Whether there is one matters only to those that have yet to start.
 */
function sharedClaimWork(snapshot: PoolPodsSnapshot): (Work | Obstacle)[] {
  const { shard, claims } = snapshot;
  const wiring = wiringIn(snapshot);
  const isNeeded = managedGroupsOf(shard).some(
    (group) =>
      needsSharedClaim(shard, group, wiring) &&
      (missingMembers(snapshot, group) > 0 || startingMembers(snapshot, group).length > 0),
  );
  if (!isNeeded || wiring.kind !== 'sharedClaim' || claims.kind !== 'present') {
    return [];
  }
  const object = refOf(shard, 'PersistentVolumeClaim', sharedBackupClaimName(shard.name));
  const claim = claims.value.find(({ name }) => name === object.name);
  if (claim === undefined) {
    return [{ kind: 'make', object, effects: [sharedClaimToCreate(shard, wiring.storage)] }];
  }
  const isOurs = !claim.hasController && hasEntries(claim.labels, selectorOf(shard.name));
  return isOurs && !claim.isBeingDeleted
    ? []
    : [{ kind: claim.isBeingDeleted ? 'leaving' : 'foreign', object }];
}

/**
 * The claims of members that cannot start without them: one that went while its pod was made is made again, as nobody else
 * would. While the former one is still going it is waited for.
 */
function claimWorks(snapshot: PoolPodsSnapshot, group: ManagedGroup): (Work | Obstacle)[] {
  const { shard, claims } = snapshot;
  if (claims.kind !== 'present' || !needsOwnClaim(group)) {
    return [];
  }
  return startingMembers(snapshot, group).flatMap(({ pod, index }): (Work | Obstacle)[] => {
    const object = refOf(shard, 'PersistentVolumeClaim', claimName(pod.name));
    const claim = claims.value.find(({ name }) => name === object.name);
    if (claim === undefined) {
      return [{ kind: 'make', object, effects: [claimToCreate(shard, group, index)] }];
    }
    return claim.isBeingDeleted ? [{ kind: 'leaving', object }] : [];
  });
}

/** Members that have not started and do not leave. */
function startingMembers(snapshot: PoolPodsSnapshot, group: ManagedGroup): readonly Member[] {
  const drained = openDrain(snapshot, group)?.index;
  return membersOf(snapshot, group).filter(
    ({ pod, index }) => !pod.hasStarted && !pod.isBeingDeleted && index !== drained,
  );
}

function livesOnClaims(snapshot: PoolPodsSnapshot, group: ManagedGroup): boolean {
  return needsOwnClaim(group) || needsSharedClaim(snapshot.shard, group, wiringIn(snapshot));
}

/** Where the Database is not known nothing is made, so whatever is asked about its repository has no effect. */
function wiringIn({ database }: PoolPodsSnapshot): RepositoryWiring {
  return database.kind === 'present' ? database.value.wiring : { kind: 'none' };
}

/** One work or obstacle for each missing member of a group. */
function memberWorks(snapshot: PoolPodsSnapshot, group: ManagedGroup): (Work | Obstacle)[] {
  const missing = missingMembers(snapshot, group);
  const { shard, claims } = snapshot;
  if (missing === 0 || (livesOnClaims(snapshot, group) && claims.kind !== 'present')) {
    return [];
  }
  const isKeptOffBackups =
    needsSharedClaim(shard, group, wiringIn(snapshot)) &&
    sharedClaimWork(snapshot).some(isObstacle);
  if (isKeptOffBackups) {
    return [];
  }
  const known = claims.kind === 'present' ? claims.value : [];
  return placesFor(snapshot, group, known)
    .slice(0, missing)
    .map((index) => memberWork(snapshot, group, index, known));
}

/**
 * The indices at which members may be made, best first: those whose claim lost its pod without having been released,
 * because their data is nearly up to date; then the lowest that are free.
 */
function placesFor(
  snapshot: PoolPodsSnapshot,
  group: ManagedGroup,
  claims: readonly ClaimView[],
): readonly number[] {
  const taken = new Set(membersOf(snapshot, group).map(({ index }) => index));
  const drained = openDrain(snapshot, group)?.index;
  const claimAt = (index: number) =>
    claims.find(({ name }) => name === claimName(podName(group.base, index)));
  const open = Array.from({ length: maxIndex + 1 }, (_, index) => index).filter(
    (index) => !taken.has(index) && index !== drained,
  );
  const hasLostItsPod = (index: number) => claimAt(index)?.released === null;
  // A released claim that somebody deletes is not waited for: any other index is as good.
  const isFree = (index: number) =>
    !hasLostItsPod(index) && claimAt(index)?.isBeingDeleted !== true;
  return [...open.filter(hasLostItsPod), ...open.filter(isFree)];
}

function memberWork(
  snapshot: PoolPodsSnapshot,
  group: ManagedGroup,
  index: number,
  claims: readonly ClaimView[],
): Work | Obstacle {
  const { shard, pods } = snapshot;
  const name = podName(group.base, index);
  const object = refOf(shard, 'Pod', name);
  const standing =
    pods.kind === 'present' ? pods.value.find((pod) => pod.name === name) : undefined;
  if (standing !== undefined) {
    return obstacle(object, standing);
  }
  const pod = podToCreate(shard, group, index, wiringIn(snapshot));
  if (!needsOwnClaim(group)) {
    return { kind: 'make', object, effects: [pod] };
  }
  const claim = claims.find((candidate) => candidate.name === claimName(name));
  if (claim === undefined) {
    return { kind: 'make', object, effects: [claimToCreate(shard, group, index), pod] };
  }
  const claimObject = refOf(shard, 'PersistentVolumeClaim', claim.name);
  if (claim.isBeingDeleted) {
    return { kind: 'leaving', object: claimObject };
  }
  if (claim.hasController || !hasEntries(claim.labels, memberLabels(shard.name, group, index))) {
    return { kind: 'foreign', object: claimObject };
  }
  const unmark: Effect<'patchObject'> = {
    kind: 'patchObject',
    object: claimObject,
    patch: { metadata: { annotations: { [releasedClaim]: null } } },
    guard: { uid: claim.uid, resourceVersion: claim.resourceVersion },
  };
  return { kind: 'make', object, effects: claim.released === null ? [pod] : [unmark, pod] };
}

/** Labels and annotations of running pods follow the spec in place; nothing else of a pod can. */
function metadataWorks(snapshot: PoolPodsSnapshot, group: ManagedGroup): Work[] {
  const { shard } = snapshot;
  return membersOf(snapshot, group).flatMap(({ pod, index }) => {
    const wanted = podMetadata(shard.name, group, index);
    const isSame =
      hasEntries(pod.labels, wanted.labels) && hasEntries(pod.annotations, wanted.annotations);
    return isSame || pod.isBeingDeleted
      ? []
      : [updateWork(refOf(shard, 'Pod', pod.name), pod, { metadata: wanted })];
  });
}

/** What an object that should be ours needs: nothing, a patch, or that whatever stands there goes. */
function update(
  object: ObjectRef,
  view: OwnedView,
  patch: Effect<'patchObject'>['patch'] | null,
): (Work | Obstacle)[] {
  if (view.owner !== 'ours' || view.isBeingDeleted) {
    return [obstacle(object, view)];
  }
  return patch === null ? [] : [updateWork(object, view, patch)];
}

function updateWork(
  object: ObjectRef,
  { uid, resourceVersion }: OwnedView,
  patch: Effect<'patchObject'>['patch'],
): Work {
  const guard = { uid, resourceVersion };
  return { kind: 'update', object, effects: [{ kind: 'patchObject', object, patch, guard }] };
}

function isObstacle(part: Work | Obstacle): part is Obstacle {
  return !('effects' in part);
}

function obstacle(object: ObjectRef, view: OwnedView): Obstacle {
  const isLeaving = view.isBeingDeleted || view.owner === 'former';
  return { kind: isLeaving ? 'leaving' : 'foreign', object };
}

/** The leaver of this group while its drain is open. A record of another object's is no drain of ours. */
function openDrain({ drain }: PoolPodsSnapshot, group: Group) {
  if (drain.kind !== 'ours' || drain.record.state === 'choosing') {
    return undefined;
  }
  const index = indexIn(group, drain.record.data.pod);
  return index === undefined ? undefined : { index, cause: drain.record.data.cause };
}

function indexIn({ base }: Group, pod: string): number | undefined {
  const digits = pod.startsWith(`${base}-`) ? pod.slice(base.length + 1) : '';
  return /^(0|[1-9]\d?)$/.test(digits) ? Number(digits) : undefined;
}

function hasEntries(
  found: { readonly [key: string]: string },
  wanted: { readonly [key: string]: string },
): boolean {
  return Object.entries(wanted).every(([key, value]) => found[key] === value);
}

/** The merge patch that makes a selector exactly the wanted one, `null` where it is. */
function selectorPatch(
  found: { readonly [key: string]: string },
  wanted: { readonly [key: string]: string },
): { readonly [key: string]: string | null } | null {
  const further = Object.keys(found).filter((key) => !(key in wanted));
  return further.length === 0 && hasEntries(found, wanted)
    ? null
    : { ...Object.fromEntries(further.map((key) => [key, null])), ...wanted };
}

function refOf<K extends ResourceKind>(shard: ShardView, kind: K, name: string): ObjectRef<K> {
  return { kind, namespace: shard.namespace, name };
}
