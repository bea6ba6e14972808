import { type ShardValue, withPin, withoutPin } from '#shared/goverse/shard-value.ts';

/** A shard as it is, or as it shall be. */
export interface PlacedShard extends ShardValue {
  readonly shard: number;
}

interface Handover {
  /** The survivor whose pins hold the rebalance. */
  readonly holder: string;
  /** What the holder has already, pinned. */
  readonly pins: readonly PlacedShard[];
  /** What the leaving node has, retargeted to the survivors; the holder's are first, and pinned. */
  readonly retargets: readonly PlacedShard[];
}

/**
 * How a node's shards are handed over so that GoVerse's leader leaves them alone: level among the others, and every shard
 * pinned that the one with the most of them will have.
 */
export function handover(
  shards: readonly PlacedShard[],
  nodes: readonly string[],
  leaving: string,
  id: string,
): Handover {
  const survivors = nodes.filter((node) => node !== leaving).toSorted();
  const retargets = levelled(shards, survivors, (shard) => shard.target === leaving);
  const counts = countsOf(survivors, [
    ...shards.filter(({ target }) => target !== leaving),
    ...retargets,
  ]);
  const holder = survivors.reduce((most, node) =>
    (counts.get(node) ?? 0) > (counts.get(most) ?? 0) ? node : most,
  );
  const isHolders = ({ target }: PlacedShard) => target === holder;
  return {
    holder,
    pins: shards.filter(isHolders).flatMap((shard) => pinned(shard, id)),
    retargets: [
      ...retargets.filter(isHolders).flatMap((shard) => pinned(shard, id)),
      ...retargets.filter((shard) => !isHolders(shard)),
    ],
  };
}

/**
 * Those of the shards that are movable, level among the nodes, each node's in one run of numbers. GoVerse spreads shards
 * by their numbers: who gave every second one to a node would meet its pattern.
 */
export function levelled(
  shards: readonly PlacedShard[],
  nodes: readonly string[],
  isMovable: (shard: PlacedShard) => boolean,
): PlacedShard[] {
  const movable = shards.filter(isMovable);
  const counts = countsOf(
    nodes,
    shards.filter((shard) => !isMovable(shard)),
  );
  const targets = movable.map(() => {
    const least = nodes.reduce((least, node) =>
      (counts.get(node) ?? 0) < (counts.get(least) ?? 0) ? node : least,
    );
    counts.set(least, (counts.get(least) ?? 0) + 1);
    return least;
  });
  return targets
    .toSorted()
    .flatMap((target, place) =>
      movable.slice(place, place + 1).map((shard) => ({ ...shard, target })),
    );
}

/** The shards that carry the mark, without it. */
export function unpins(shards: readonly PlacedShard[], id: string): PlacedShard[] {
  return shards.flatMap((shard) => {
    const left = withoutPin(shard, id);
    return left === shard ? [] : { ...shard, ...left };
  });
}

export function pinned(shard: PlacedShard, id: string): PlacedShard[] {
  const value = withPin(shard, id);
  return value === undefined ? [] : [{ ...shard, ...value }];
}

function countsOf(nodes: readonly string[], shards: readonly PlacedShard[]): Map<string, number> {
  const counts = new Map(nodes.map((node) => [node, 0]));
  for (const { target } of shards) {
    if (counts.has(target)) {
      counts.set(target, (counts.get(target) ?? 0) + 1);
    }
  }
  return counts;
}
