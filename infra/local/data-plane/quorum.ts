import { type PoolerId, isSamePooler } from '#shared/topology/topology.ts';

/** One look at who could vote. `requiredCount` members must hold a write before it counts, the leader among them. */
export interface Quorum {
  readonly requiredCount: number;
  readonly cohort: readonly PoolerId[];
}

export function includes(ids: readonly PoolerId[], id: PoolerId): boolean {
  return ids.some((other) => isSamePooler(other, id));
}

export function without(ids: readonly PoolerId[], id: PoolerId): PoolerId[] {
  return ids.filter((other) => !isSamePooler(other, id));
}

/**
 * Whether a write of this leader is acknowledged. The leader counts for itself, whether the cohort names it or not; the
 * others must be in the cohort.
 *
 * @param followers who receives from the leader
 */
export function canCommit(
  { requiredCount, cohort }: Quorum,
  leader: PoolerId,
  followers: readonly PoolerId[],
): boolean {
  const acknowledging = without(cohort, leader).filter((id) => includes(followers, id));
  return acknowledging.length >= requiredCount - 1;
}

/**
 * Whether a new leader can be appointed from those that answer: they must overlap with every set of members that may
 * have acknowledged a write of the old one, and the new one must be able to commit.
 */
export function canAppoint(
  { requiredCount, cohort }: Quorum,
  candidate: PoolerId,
  recruits: readonly PoolerId[],
): boolean {
  const recruited = cohort.filter((id) => includes(recruits, id)).length;
  return (
    recruited >= cohort.length - requiredCount + 1 &&
    canCommit({ requiredCount, cohort }, candidate, recruits)
  );
}

/** Whether, after the member has left the cohort, the leader could be lost as well and be replaced. */
export function isRemovalSafe(
  { requiredCount, cohort }: Quorum,
  removed: PoolerId,
  leader: PoolerId,
  followers: readonly PoolerId[],
): boolean {
  const remaining = without(cohort, removed);
  const survivors = without(remaining, leader).filter((id) => includes(followers, id));
  return (
    survivors.length >= remaining.length - requiredCount + 1 && survivors.length >= requiredCount
  );
}
