import { drainRequest } from '#shared/api/annotations.ts';
import { goverseLabel } from '#shared/api/labels.ts';
import { keysOf, shardKey } from '#shared/goverse/keys.ts';
import { type ShardValue, formatShard } from '#shared/goverse/shard-value.ts';
import type { Fault } from './faults.ts';
import type { World } from './world.ts';

/** The node that leads, one that is to leave, or of the others the one with the most shards meant for it; empty for none. */
export function goverseNode(world: World, who: 'holder' | 'leader' | 'leaver'): string {
  const { goverse } = world;
  const view = goverse?.viewAt(world);
  if (goverse === undefined || view === undefined) {
    return '';
  }
  const leaving = leavingNodes(world);
  const load = (node: string): number =>
    [...view.shards.values()].filter(({ target }) => target === node).length;
  const [fullest = ''] = goverse.running
    .filter((node) => !leaving.includes(node))
    .toSorted((a, b) => load(b) - load(a) || (a < b ? -1 : 1));
  switch (who) {
    case 'holder':
      return fullest;
    case 'leader':
      return view.leader;
    case 'leaver':
      return leaving[0] ?? '';
  }
}

/** Nodes whose pods are deleted, or asked to leave. */
function leavingNodes({ api, goverse }: World): readonly string[] {
  return api
    .list('Pod')
    .filter(
      ({ metadata: { labels, annotations, deletionTimestamp } }) =>
        labels?.[goverseLabel] !== undefined &&
        (deletionTimestamp !== undefined || annotations?.[drainRequest] !== undefined),
    )
    .map(({ metadata: { name } }) => goverse?.addressOf(name) ?? '');
}

export function killNode(who: 'holder' | 'leader' | 'leaver'): Fault['strike'] {
  return (_operation, world) => {
    world.goverse?.kill(goverseNode(world, who), world.now);
    return 'served';
  };
}

/** Every second shard is written as it is: its revision moves. */
export function rewriteShards(world: World): void {
  const shards = world.goverse?.viewAt(world)?.shards ?? new Map<number, ShardValue>();
  for (const [shard, value] of shards) {
    if (shard % 2 === 0) {
      placeShard(world, shard, value);
    }
  }
}

/** Somebody writes a shard, whatever it was. */
export function placeShard(world: World, shard: number, value: ShardValue): void {
  const { prefix = '' } = world.goverse?.parts ?? {};
  world.etcd.put(shardKey(keysOf(prefix), shard), Buffer.from(formatShard(value)));
}
