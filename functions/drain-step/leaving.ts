import type { DrainCause, Leaver } from '#shared/api/drain-record.ts';
import { type Read, mapRead, present } from '#shared/kernel/read.ts';
import type { ClaimMember, ClaimView, DrainSnapshot, Member, PoolView } from './snapshot.ts';

/** A member that has to leave, and why. */
export interface Candidate {
  readonly member: Member;
  readonly cause: DrainCause;
}

/** A claim that has outlived its member. */
export interface LeftClaim {
  readonly claim: ClaimView;
  readonly member: ClaimMember;
}

/**
 * Who should leave, in the order in which they should: the failed, the requested, then the surplus.
 *
 * A pool in a cell is a set of members, counted: as many as exceed the desired number are surplus, and whoever
 * has failed or was asked to go counts towards them first. Among the rest the primary is never taken while another is
 * there, then those that are not ready, then the highest index.
 *
 * @param primaryPod the primary's pod, `null` when it is not known: then nobody is picked as surplus only
 */
export function whoShouldLeave(
  snapshot: Pick<DrainSnapshot, 'shard' | 'members' | 'nodes'>,
  primaryPod: string | null,
): readonly Candidate[] {
  if (snapshot.members.kind !== 'present') {
    return [];
  }
  const members = snapshot.members.value;
  return snapshot.shard.pools
    .flatMap((pool) => pool.cells.map((cell) => ({ pool, cell })))
    .flatMap(({ pool, cell }) =>
      leaversOfGroup(snapshot, membersOf(members, pool, cell), pool, primaryPod),
    )
    .toSorted((a, b) => rank(a) - rank(b));
}

/** Whether observing must ask for everything: somebody is leaving, or has to. */
export function mayHaveLeavers(
  snapshot: Pick<DrainSnapshot, 'shard' | 'members' | 'nodes'>,
): boolean {
  return hasSurplus(snapshot) || whoShouldLeave(snapshot, null).length > 0;
}

/**
 * The claims of surplus members whose pods went without the end of a drain: deleted from outside, lost with their node,
 * or forgotten with a record. The highest index comes first. Only pools that delete the claims of surplus members have any.
 *
 * While its group lacks a member, a claim is none: pool-pods makes the next member on it. Nor is one that carries the
 * mark `released`: it was kept on purpose, under another policy.
 */
export function claimsLeftBehind({
  shard,
  members,
  claims,
  claimsInUse,
}: Pick<DrainSnapshot, 'shard' | 'members' | 'claims' | 'claimsInUse'>): Read<
  readonly LeftClaim[]
> {
  const groups = shard.pools
    .filter((pool) => !pool.isAttached && pool.whenScaled === 'Delete')
    .flatMap((pool) => pool.cells.map((cell) => ({ pool, cell })));
  if (members.kind !== 'present' && groups.length > 0) {
    return members;
  }
  const pods = members.kind === 'present' ? members.value : [];
  const complete = groups.filter(
    ({ pool, cell }) => membersOf(pods, pool, cell).length >= pool.replicasPerCell,
  );
  if (complete.length === 0) {
    return present([]);
  }
  const left = mapRead(claims, (list) =>
    list
      .flatMap((claim): LeftClaim[] =>
        claim.member === null ? [] : [{ claim, member: claim.member }],
      )
      .filter(
        ({ claim, member }) =>
          !claim.isBeingDeleted &&
          claim.released === null &&
          complete.some(({ pool, cell }) => pool.name === member.pool && cell === member.cell) &&
          !pods.some(({ pod }) => pod === member.pod),
      )
      .toSorted((a, b) => b.member.index - a.member.index),
  );
  return left.kind !== 'present' || left.value.length === 0
    ? left
    : mapRead(claimsInUse, (names) =>
        left.value.filter(({ claim }) => !names.includes(claim.name)),
      );
}

/** Whether a claim is left behind, as far as is known: not knowing is no reason to rest. */
export function mayHaveClaimsLeft(snapshot: Parameters<typeof claimsLeftBehind>[0]): boolean {
  const left = claimsLeftBehind(snapshot);
  return left.kind !== 'present' || left.value.length > 0;
}

/** How many members of the leaver's pool and cell are too many while the leaver is counted as one of them. */
export function surplusWith(snapshot: DrainSnapshot, leaver: Leaver): number {
  const pool = snapshot.shard.pools.find((candidate) => candidate.name === leaver.pool);
  if (snapshot.members.kind !== 'present' || pool === undefined || pool.isAttached) {
    return 0;
  }
  const others = membersOf(snapshot.members.value, pool, leaver.cell).filter(
    (member) => member.uid !== leaver.podUid,
  );
  return others.length + 1 - pool.replicasPerCell;
}

/** Whether too many members exist, whoever they are; needs no knowledge of the primary. */
function hasSurplus(snapshot: Pick<DrainSnapshot, 'shard' | 'members'>): boolean {
  const { members, shard } = snapshot;
  return (
    members.kind === 'present' &&
    shard.pools.some(
      (pool) =>
        !pool.isAttached &&
        pool.cells.some(
          (cell) => membersOf(members.value, pool, cell).length > pool.replicasPerCell,
        ),
    )
  );
}

/** Its containers have ended for good, or its node is gone. A crash loop is not failed. */
export function hasFailed(member: Member, nodes: DrainSnapshot['nodes']): boolean {
  return member.hasEnded || (member.node !== '' && nodes[member.node]?.kind === 'absent');
}

/** Another controller owns its pod, or another operator has begun to drain it. */
export function isOfOthers(member: Member | undefined): boolean {
  return member !== undefined && (member.control === 'foreign' || member.isMarkedByOthers);
}

/** Members whose leaving is ours to bring about: not somebody else's, not going already. */
function membersOf(members: readonly Member[], pool: PoolView, cell: string): readonly Member[] {
  return members.filter(
    (member) =>
      member.pool === pool.name &&
      member.cell === cell &&
      !isOfOthers(member) &&
      !member.isBeingDeleted,
  );
}

function leaversOfGroup(
  snapshot: Pick<DrainSnapshot, 'nodes'>,
  members: readonly Member[],
  pool: PoolView,
  primaryPod: string | null,
): readonly Candidate[] {
  const failed = pool.isAttached
    ? []
    : members.filter((member) => hasFailed(member, snapshot.nodes));
  const requested = members.filter((member) => member.request !== null && !failed.includes(member));
  const surplus = pool.isAttached ? 0 : Math.max(0, members.length - pool.replicasPerCell);
  const first = [
    ...failed.map((member): Candidate => ({ member, cause: 'failed' })),
    ...requested.map((member): Candidate => ({ member, cause: 'requested' })),
  ].map((candidate, position): Candidate =>
    position < surplus ? { ...candidate, cause: 'surplus' } : candidate,
  );
  const rest =
    primaryPod === null
      ? []
      : members.filter((member) => !first.some((other) => other.member === member));
  return [
    ...first,
    ...rest
      .toSorted(
        (a, b) => leaveOrder(a, primaryPod) - leaveOrder(b, primaryPod) || b.index - a.index,
      )
      .slice(0, Math.max(0, surplus - first.length))
      .map((member): Candidate => ({ member, cause: 'surplus' })),
  ];
}

function leaveOrder(member: Member, primaryPod: string | null): number {
  return member.pod === primaryPod ? 2 : member.isReady ? 1 : 0;
}

function rank(candidate: Candidate): number {
  return candidate.member.hasEnded ? 0 : candidate.member.request === null ? 2 : 1;
}
