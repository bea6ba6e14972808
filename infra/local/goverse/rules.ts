import type { ShardValue } from '#shared/goverse/shard-value.ts';
import type { ClusterView, KnownShard } from './cluster-view.ts';
import type { LocalObjects } from './objects.ts';

/** One shard's next value, to be written only while its key has the mod revision that the view knew; 0 for a new key. */
export interface Rewrite extends ShardValue {
  readonly shard: number;
  readonly modRevision: number;
}

/**
 * Whether a node may hand over, or lead: it is registered itself, and no node, gate or leader has changed for as long as
 * `stableMs`.
 */
export function isStable(
  view: ClusterView,
  { self, stableMs }: { readonly self: string; readonly stableMs: number },
  nowMs: number,
): boolean {
  return view.nodes.has(self) && nowMs - view.changedAtMs >= stableMs;
}

/** Whether a node tries to lead: nobody does, or who did is gone. It need not be quiet for that. */
export function mustCampaign(view: ClusterView, self: string): boolean {
  return view.nodes.has(self) && !view.nodes.has(view.leader) && view.leader !== self;
}

/** What a node takes: shards meant for it that nobody alive has. */
export function claimsOf(view: ClusterView, self: string): Rewrite[] {
  return rewritesWhere(
    view,
    ({ target, current }) => target === self && !view.nodes.has(current),
    (shard) => ({ ...shard, current: self }),
  );
}

/** What leaves a node's memory: objects of shards that it does not have, or that are meant for another. */
export function evictionsOf(view: ClusterView, self: string, objects: LocalObjects): number[] {
  return objects.shards().filter((shard) => {
    const known = view.shards.get(shard);
    return known?.current !== self || known.target !== self;
  });
}

/** What a node gives up: shards meant for another of which no object is left in its memory. */
export function releasesOf(view: ClusterView, self: string, objects: LocalObjects): Rewrite[] {
  return rewritesWhere(
    view,
    ({ target, current }, shard) =>
      current === self && target !== '' && target !== self && objects.countOf(shard) === 0,
    (shard) => ({ ...shard, current: '' }),
  );
}

/** Whether somebody alive has the shard. */
export function isOwned(nodes: ReadonlySet<string>, { current }: ShardValue): boolean {
  return current !== '' && nodes.has(current);
}

/** Whether a call to the shard's objects finds its node. It does not between two owners, and not from the retarget on. */
export function isRoutable(nodes: ReadonlySet<string>, shard: ShardValue): boolean {
  return isOwned(nodes, shard) && (shard.target === '' || shard.target === shard.current);
}

function rewritesWhere(
  view: ClusterView,
  isMeant: (known: KnownShard, shard: number) => boolean,
  rewrite: (known: KnownShard) => KnownShard,
): Rewrite[] {
  return [...view.shards]
    .filter(([shard, known]) => isMeant(known, shard))
    .map(([shard, known]) => ({ shard, ...rewrite(known) }));
}
