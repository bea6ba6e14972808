import type { Observation } from '#infra/local/goverse/observer.ts';
import { type Figure, figure } from './figure.ts';

/** Seconds that a real cluster took, the middle of what was seen: all owned, then mean and max of both outages. */
export interface Seen {
  readonly allOwned: number;
  readonly unowned: readonly [number, number];
  readonly unroutable: readonly [number, number];
}

/** What happened to a cluster's shards, beside what a real cluster was seen to do. */
export function outageFigures(
  name: string,
  { allOwnedMs, unowned, unroutable }: Observation,
  seen: Seen,
  goals: Partial<Seen> = {},
): Figure[] {
  const seconds = (what: string, ms: number, peer: number, goal: number | undefined) =>
    figure(`${name}: ${what}`, ms / 1000, 's', { peer, ...(goal === undefined ? {} : { goal }) });
  return [
    seconds('all owned', allOwnedMs, seen.allOwned, goals.allOwned),
    seconds('unowned, mean', unowned.meanMs, seen.unowned[0], goals.unowned?.[0]),
    seconds('unowned, max', unowned.maxMs, seen.unowned[1], goals.unowned?.[1]),
    seconds('unroutable, mean', unroutable.meanMs, seen.unroutable[0], goals.unroutable?.[0]),
    seconds('unroutable, max', unroutable.maxMs, seen.unroutable[1], goals.unroutable?.[1]),
  ];
}
