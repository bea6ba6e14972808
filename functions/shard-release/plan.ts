import type { GoverseShard, GoverseView, ShardWrite } from '#shared/goverse/goverse.ts';
import { marksOf, pinOf, withPin, withoutPin } from '#shared/goverse/shard-value.ts';

/**
 * What is to be written to the shards next. Each plan follows from the keys alone, so whoever died half-way is gone on for
 * by whoever looks next; and in the order of the writes every one of them may be the last.
 *
 * No write says anything else of `current` than what the key said at the mod revision that it compares.
 */
export type Move =
  | { readonly kind: 'write'; readonly what: MoveKind; readonly writes: readonly ShardWrite[] }
  /** So many shards are not yet with the node that they are meant for. */
  | { readonly kind: 'claims'; readonly count: number }
  /** What comes next moves shards, and waits until no node, gate or leader has changed for a while. */
  | { readonly kind: 'window' }
  | { readonly kind: 'done' };

export type MoveKind = 'handover' | 'loosen' | 'orphans' | 'hold' | 'level' | 'unpin';

/** Which shards are meant for which of the nodes. */
interface Placement {
  /** Addresses, in GoVerse's order. */
  readonly nodes: readonly string[];
  readonly shards: readonly GoverseShard[];
}

/** GoVerse's leader levels what is more uneven than this part of an even share, and by two shards at least. */
const toleratedImbalance = 0.2;

/**
 * Hands the shards of the leaving nodes to the others.
 *
 * The leader sees a node without targets and would move shards to it, from the node with the most. It leaves everything
 * alone while that node, the holder, has nothing unpinned. So every shard is pinned that the holder has or will have:
 * those it has first, then the ones it gets, in the same write as their target, then the rest.
 *
 * The rest are pinned too until they are claimed: the leader takes the target from a shard that it finds between two owners at
 * two looks a minute apart, which two hand-overs in a row are enough for.
 *
 * A node that joins meanwhile gets its part of what the leaving ones still have.
 *
 * @param leaving at least one other node is registered
 * @param id in each pin of ours, so that it is known as ours without any record
 */
export function handOver(view: GoverseView, leaving: ReadonlySet<string>, id: string): Move {
  const others = namesOf(view).filter((node) => !leaving.has(node));
  const leave = (shard: GoverseShard) => leaving.has(shard.target) && pinOf(shard) !== 'foreign';
  const retargets = spread(view.shards, others, leave);
  const isRetargeted = new Set(retargets.map(({ shard }) => shard));
  // Retargeted before, and its owner has it still: another target costs nobody anything.
  const isOnItsWay = (shard: GoverseShard) =>
    leaving.has(shard.current) && marksOf(shard).includes(id) && !isRetargeted.has(shard.shard);
  const planned = { nodes: others, shards: replaced(view.shards, retargets) };
  const holder = fullest(countTargets(others, planned.shards));
  const moves = [
    ...retargets.filter(({ target }) => target === holder),
    ...retargets.filter(({ target }) => target !== holder),
    ...(isUnevenAmong(planned) ? levelling(planned, holder, isOnItsWay) : []),
  ].map((shard) => pinned(shard, id));
  const writes = [...pinsOf(view, holder, id), ...moves];
  if (writes.length > 0) {
    return { kind: 'write', what: 'handover', writes };
  }
  const isOther = new Set(others);
  const count = view.shards.filter(
    ({ target, current }) => isOther.has(target) && current !== target,
  ).length;
  return count > 0 ? { kind: 'claims', count } : { kind: 'done' };
}

function replaced(
  shards: readonly GoverseShard[],
  by: readonly GoverseShard[],
): readonly GoverseShard[] {
  const news = new Map(by.map((shard) => [shard.shard, shard]));
  return shards.map((shard) => news.get(shard.shard) ?? shard);
}

/** Pins that hold nothing, since their shard is claimed and not the holder's: off with them, whatever becomes of us. */
export function looseEnds(view: GoverseView, leaving: ReadonlySet<string>, id: string): Move {
  const others = namesOf(view).filter((node) => !leaving.has(node));
  const holder = fullest(countTargets(others, view.shards));
  const writes = view.shards
    .filter(
      (shard) =>
        shard.target !== holder && shard.current === shard.target && marksOf(shard).includes(id),
    )
    .map((shard) => ({ ...shard, ...withoutPin(shard, id) }));
  return writes.length > 0 ? { kind: 'write', what: 'loosen', writes } : { kind: 'done' };
}

/**
 * Brings the cluster back to where GoVerse may be left alone with it: no shard of ours is pinned to a dead node, targets
 * are level under the pins, everything is claimed, and then no pin of ours is left. An imbalance is never handed to the
 * leader: while it works on one, the shards of its own stand still for minutes.
 *
 * @param isStill whether nodes hand over at all: none does shortly after a node, a gate or the leader changed
 */
export function settle(
  view: GoverseView,
  id: string,
  { shardCount, isStill }: { readonly shardCount: number; readonly isStill: boolean },
): Move {
  const nodes = namesOf(view);
  const orphaned = new Set(orphans(view, id));
  if (nodes.length === 0) {
    return { kind: 'window' };
  }
  if (orphaned.size > 0) {
    const writes = spread(view.shards, nodes, (shard) => orphaned.has(shard));
    return { kind: 'write', what: 'orphans', writes };
  }
  const placed = { nodes, shards: view.shards };
  if (isUnevenAmong(placed)) {
    const holder = fullest(countTargets(nodes, view.shards));
    const pins = pinsOf(view, holder, id);
    if (pins.length > 0) {
      return { kind: 'write', what: 'hold', writes: pins };
    }
    const isMovable = (shard: GoverseShard) => pinOf(shard) !== 'foreign';
    const writes = levelling(placed, holder, isMovable).map((shard) => pinned(shard, id));
    if (writes.length > 0) {
      return isStill ? { kind: 'write', what: 'level', writes } : { kind: 'window' };
    }
  }
  const count = unsettled(view, shardCount);
  if (count > 0) {
    return { kind: 'claims', count };
  }
  const writes = view.shards
    .filter((shard) => marksOf(shard).includes(id))
    .map((shard) => ({ ...shard, ...withoutPin(shard, id) }));
  return writes.length > 0 ? { kind: 'write', what: 'unpin', writes } : { kind: 'done' };
}

/** Whether any shard carries this mark. */
export function isMarked(view: GoverseView, id: string): boolean {
  return view.shards.some((shard) => marksOf(shard).includes(id));
}

/** Shards that we pinned to a node that is gone: nobody but us can give them another one. */
export function orphans(view: GoverseView, id: string): readonly GoverseShard[] {
  const nodes = new Set(namesOf(view));
  return view.shards.filter((shard) => marksOf(shard).includes(id) && !nodes.has(shard.target));
}

/** Whether GoVerse's leader would move shards now, if it found any that are not pinned. */
export function isUneven(view: GoverseView): boolean {
  return isUnevenAmong({ nodes: namesOf(view), shards: view.shards });
}

function isUnevenAmong({ nodes, shards }: Placement): boolean {
  const counts = [...countTargets(nodes, shards).values()];
  const difference = Math.max(...counts) - Math.min(...counts);
  return difference >= 2 && difference > toleratedImbalance * (shards.length / counts.length);
}

/**
 * How many shards are not with the living node that they are meant for, keys that are missing included. Those that
 * somebody else has pinned to a dead node stay so until it is back.
 */
export function unsettled(view: GoverseView, shardCount: number): number {
  const nodes = new Set(namesOf(view));
  const open = view.shards.filter(
    (shard) =>
      (shard.current !== shard.target || !nodes.has(shard.target)) && !isStuck(shard, nodes),
  );
  return open.length + Math.max(0, shardCount - view.shards.length);
}

/** Shards that a node has or is meant to have, those left out that somebody else has pinned to it. */
export function shardsLeft(view: GoverseView, node: string): number {
  return view.shards.filter(
    (shard) =>
      (shard.current === node || shard.target === node) &&
      !(shard.target === node && pinOf(shard) === 'foreign'),
  ).length;
}

/** Shards of these nodes that somebody else has pinned: they are left alone. */
export function pinnedByOthers(view: GoverseView, nodes: ReadonlySet<string>): number {
  return view.shards.filter((shard) => nodes.has(shard.target) && pinOf(shard) === 'foreign')
    .length;
}

function namesOf({ nodes }: GoverseView): readonly string[] {
  return nodes.map(({ address }) => address);
}

function isStuck(shard: GoverseShard, nodes: ReadonlySet<string>): boolean {
  return pinOf(shard) === 'foreign' && shard.target !== '' && !nodes.has(shard.target);
}

/** The pins that the holder lacks. What others have pinned needs none, and keeps theirs. */
function pinsOf(view: GoverseView, holder: string, id: string): readonly ShardWrite[] {
  return view.shards
    .filter(
      (shard) =>
        shard.target === holder && pinOf(shard) !== 'foreign' && !marksOf(shard).includes(id),
    )
    .map((shard) => pinned(shard, id));
}

function pinned<T extends ShardWrite>(shard: T, id: string): T {
  return { ...shard, ...withPin(shard, id) };
}

/**
 * The movable shards, level among the nodes, each node's in one run of numbers: GoVerse spreads shards by their numbers,
 * and who gave every second one to a node would meet its pattern.
 */
function spread(
  shards: readonly GoverseShard[],
  nodes: readonly string[],
  isMovable: (shard: GoverseShard) => boolean,
): readonly GoverseShard[] {
  const movable = shards.filter(isMovable);
  const counts = countTargets(
    nodes,
    shards.filter((shard) => !isMovable(shard)),
  );
  const targets = movable.map(() => {
    const least = emptiest(counts);
    counts.set(least, (counts.get(least) ?? 0) + 1);
    return least;
  });
  const inRuns = targets.toSorted();
  return movable.map((shard, place) => ({ ...shard, target: inRuns[place] ?? shard.target }));
}

/**
 * Moves from the nodes that have too much to those that have too little. The holder's come last: until then it has the
 * most, and the leader finds nothing to take from it. A shard goes back where it still is, where that helps.
 */
function levelling(
  { nodes, shards }: Placement,
  holder: string,
  isMovable: (shard: GoverseShard) => boolean,
): readonly ShardWrite[] {
  const counts = countTargets(nodes, shards);
  const movable = shards.filter(isMovable);
  const pools = new Map(nodes.map((node) => [node, poolOf(movable, node)]));
  const moves: { readonly from: string; readonly write: ShardWrite }[] = [];
  for (;;) {
    const from = fullest(new Map([...counts].filter(([node]) => (pools.get(node)?.size ?? 0) > 0)));
    const to = emptiest(counts);
    const shard = takeFrom(pools.get(from), from, to);
    const difference = (counts.get(from) ?? 0) - (counts.get(to) ?? 0);
    if (shard === undefined || difference < 2) {
      break;
    }
    moves.push({ from, write: { ...shard, target: to } });
    counts.set(from, (counts.get(from) ?? 0) - 1);
    counts.set(to, (counts.get(to) ?? 0) + 1);
  }
  return [
    ...moves.filter(({ from }) => from !== holder),
    ...moves.filter(({ from }) => from === holder),
  ].map(({ write }) => write);
}

/** What may be taken from a node, by who has it now. */
function poolOf(movable: readonly GoverseShard[], node: string): Map<string, GoverseShard[]> {
  const pool = new Map<string, GoverseShard[]>();
  for (const shard of movable.filter(({ target }) => target === node)) {
    const shards = pool.get(shard.current) ?? [];
    shards.push(shard);
    pool.set(shard.current, shards);
  }
  return pool;
}

/** One that goes back to where it still is, else one that the node has, else any. */
function takeFrom(
  pool: Map<string, GoverseShard[]> | undefined,
  from: string,
  to: string,
): GoverseShard | undefined {
  const current = [to, from, ...(pool?.keys() ?? [])].find((name) => pool?.has(name) === true);
  const shards = pool?.get(current ?? '') ?? [];
  const shard = shards.pop();
  if (shards.length === 0) {
    pool?.delete(current ?? '');
  }
  return shard;
}

/** In the order of the nodes, which is GoVerse's among equals. */
function countTargets(
  nodes: readonly string[],
  shards: readonly { readonly target: string }[],
): Map<string, number> {
  const counts = new Map(nodes.map((node) => [node, 0]));
  for (const { target } of shards) {
    const count = counts.get(target);
    if (count !== undefined) {
      counts.set(target, count + 1);
    }
  }
  return counts;
}

/** The first of those with the most; empty where there is none. */
function fullest(counts: ReadonlyMap<string, number>): string {
  let most = '';
  for (const [node, count] of counts) {
    most = most === '' || count > (counts.get(most) ?? 0) ? node : most;
  }
  return most;
}

/** The first of those with the fewest; empty where there is none. */
function emptiest(counts: ReadonlyMap<string, number>): string {
  let least = '';
  for (const [node, count] of counts) {
    least = least === '' || count < (counts.get(least) ?? 0) ? node : least;
  }
  return least;
}
