import type { DataPlaneState } from '#infra/local/data-plane/state.ts';
import type { PoolerId } from '#shared/topology/topology.ts';

/**
 * What the data plane itself has at one instant, whatever anybody was told of it. A member that is cut off counts until
 * the data plane finds out: nobody could know better. Plain and never changed.
 */
export interface Truth {
  readonly leader: PoolerId | null;
  readonly rule: { readonly term: number; readonly subterm: number } | null;
  readonly cohort: readonly PoolerId[];
  readonly requiredCount: number;
  readonly isProposalOpen: boolean;
  /** Members of the cohort that hold what the leader writes, the leader among them. */
  readonly healthy: readonly PoolerId[];
}

export function truthOf({ consensus, config, members }: DataPlaneState): Truth {
  const { decision, proposal } = consensus;
  const working = Object.values(members).filter(
    (member) =>
      member.process === 'running' &&
      member.isPostgresUp &&
      (member.role === 'primary' || member.isStreaming),
  );
  const cohort = decision?.cohort ?? [];
  return Object.freeze({
    leader: decision?.leader ?? null,
    rule: decision?.rule ?? null,
    cohort,
    requiredCount: config.requiredCount,
    isProposalOpen: proposal !== null,
    healthy: cohort.filter(({ cell, name }) =>
      working.some(({ id }) => id.cell === cell && id.name === name),
    ),
  });
}
