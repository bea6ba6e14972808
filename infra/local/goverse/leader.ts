import { isPinned } from '#shared/goverse/shard-value.ts';
import type { ClusterView, KnownShard } from './cluster-view.ts';
import type { Rewrite } from './rules.ts';
import { timing } from './timing.ts';

/** What a leader remembers between its ticks. It is gone with the leader. */
export interface LeaderMemory {
  /** When it looked for unclaimed shards last. */
  readonly checkedAtMs: number | null;
  /** Since when each shard was found unclaimed at every such look. */
  readonly unclaimedSinceMs: ReadonlyMap<number, number>;
}

export const noMemory: LeaderMemory = { checkedAtMs: null, unclaimedSinceMs: new Map() };

export interface LeaderWork {
  readonly kind: 'targets' | 'unclaimed' | 'rebalance' | 'nothing';
  readonly writes: readonly Rewrite[];
  readonly memory: LeaderMemory;
}

interface LeaderOptions {
  readonly shardCount: number;
  /** Divides the minute that unclaimed shards are given. */
  readonly speed: number;
}

/** More than this part of the ideal share between the most and the least is levelled. */
const toleratedImbalance = 0.2;

/** A leader does one thing in a tick: the first of these that finds something to do. */
export function leaderWork(
  view: ClusterView,
  memory: LeaderMemory,
  options: LeaderOptions,
  nowMs: number,
): LeaderWork {
  const targets = missingTargets(view, options.shardCount);
  if (targets.length > 0) {
    return { kind: 'targets', writes: targets, memory };
  }
  const unclaimed = unclaimedShards(view, memory, options, nowMs);
  if (unclaimed.writes.length > 0) {
    return { kind: 'unclaimed', ...unclaimed };
  }
  const moves = rebalance(view, options.shardCount);
  return {
    kind: moves.length > 0 ? 'rebalance' : 'nothing',
    writes: moves,
    memory: unclaimed.memory,
  };
}

/**
 * Shards without a living target: one without a target stays where it is, the others are spread by their numbers. A pinned
 * one that has a target keeps it, dead or not.
 */
export function missingTargets(view: ClusterView, shardCount: number): Rewrite[] {
  const nodes = [...view.nodes].toSorted();
  return numbersBelow(shardCount).flatMap((shard) => {
    const known = view.shards.get(shard) ?? absentShard;
    const isKept = known.target !== '' && isPinned(known);
    if (nodes.length === 0 || isKept || view.nodes.has(known.target)) {
      return [];
    }
    const isHeld = known.target === '' && view.nodes.has(known.current);
    const target = isHeld ? known.current : (nodes[shard % nodes.length] ?? '');
    return { shard, ...known, target };
  });
}

/**
 * Once a minute: takes the target from shards that nobody has, though their target lives, at two looks a minute apart. What
 * happened between the looks is not known, so one that was claimed and released again counts as well.
 */
export function unclaimedShards(
  view: ClusterView,
  memory: LeaderMemory,
  { speed }: Pick<LeaderOptions, 'speed'>,
  nowMs: number,
): { readonly writes: readonly Rewrite[]; readonly memory: LeaderMemory } {
  const patienceMs = timing.unclaimedMs / speed;
  if (memory.checkedAtMs !== null && nowMs - memory.checkedAtMs < patienceMs) {
    return { writes: [], memory };
  }
  const unclaimed = [...view.shards].filter(
    ([, known]) => known.current === '' && view.nodes.has(known.target) && !isPinned(known),
  );
  const sinceMs = (shard: number) => memory.unclaimedSinceMs.get(shard) ?? nowMs;
  const isOverdue = (shard: number) => nowMs - sinceMs(shard) >= patienceMs;
  return {
    writes: unclaimed
      .filter(([shard]) => isOverdue(shard))
      .map(([shard, known]) => ({ shard, ...known, target: '' })),
    memory: {
      checkedAtMs: nowMs,
      unclaimedSinceMs: new Map(
        unclaimed.filter(([shard]) => !isOverdue(shard)).map(([shard]) => [shard, sinceMs(shard)]),
      ),
    },
  };
}

/**
 * One batch from the node with the most targets to the one with the fewest, the first in sorted order among equals. It
 * does nothing while a shard has no target, and ends as a whole where the node with the most has nothing unpinned.
 */
export function rebalance(view: ClusterView, shardCount: number): Rewrite[] {
  const shards = numbersBelow(shardCount).map((shard) => view.shards.get(shard) ?? absentShard);
  if (view.nodes.size === 0 || shards.some(({ target }) => target === '')) {
    return [];
  }
  const loads = loadsOf(view, shards);
  const moves: Rewrite[] = [];
  while (moves.length < Math.max(1, Math.floor(shardCount / 128))) {
    const { most, least } = extremesOf(loads);
    const difference = most.count - least.count;
    if (difference < 2 || difference <= toleratedImbalance * (shardCount / loads.length)) {
      break;
    }
    const shard = most.movable.shift();
    if (shard === undefined) {
      break;
    }
    moves.push({ shard, ...(shards[shard] ?? absentShard), target: least.node });
    most.count -= 1;
    least.count += 1;
  }
  return moves;
}

interface Load {
  readonly node: string;
  /** Shards that have this node as their target. */
  count: number;
  /** Those of them that may be moved: neither pinned nor moved in this batch already. */
  readonly movable: number[];
}

function loadsOf(view: ClusterView, shards: readonly KnownShard[]): Load[] {
  const loads = [...view.nodes].toSorted().map((node): Load => ({ node, count: 0, movable: [] }));
  const byNode = new Map(loads.map((load) => [load.node, load]));
  for (const [shard, known] of shards.entries()) {
    const load = byNode.get(known.target);
    if (load !== undefined) {
      load.count += 1;
      load.movable.push(...(isPinned(known) ? [] : [shard]));
    }
  }
  return loads;
}

/** @param loads at least one */
function extremesOf(loads: readonly Load[]): { most: Load; least: Load } {
  return {
    most: loads.reduce((most, load) => (load.count > most.count ? load : most)),
    least: loads.reduce((least, load) => (load.count < least.count ? load : least)),
  };
}

const absentShard: KnownShard = { target: '', current: '', flags: [], modRevision: 0 };

function numbersBelow(count: number): number[] {
  return Array.from({ length: count }, (_, number) => number);
}
