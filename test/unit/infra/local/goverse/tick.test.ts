import { describe, expect, test } from 'vitest';
import type { LiveView } from '#infra/local/goverse/cluster-view.ts';
import { noMemory } from '#infra/local/goverse/leader.ts';
import { LocalObjects, objectIds } from '#infra/local/goverse/objects.ts';
import type { Rewrite } from '#infra/local/goverse/rules.ts';
import { type GoverseNodeState, type TickLink, tick } from '#infra/local/goverse/tick.ts';
import { viewOf } from './view-of.ts';

const quietMs = 60_000;

function aNode(view: LiveView, shardCount: number): GoverseNodeState {
  const objects = new LocalObjects(objectIds(20), shardCount);
  return { self: 'a', shardCount, speed: 1, view, objects, memory: noMemory };
}

/** A link on which every write succeeds but those of the shards named. */
function aLink(view: LiveView, lost: readonly number[] = []) {
  const seen: Rewrite[] = [];
  const campaigns: number[] = [];
  const link: TickLink = {
    campaign: async (revision) => void campaigns.push(revision),
    write: async (writes) => {
      const written = writes.filter(({ shard }) => !lost.includes(shard));
      for (const { shard, ...value } of written) {
        view.wrote(shard, value, 1_000);
      }
      seen.push(...written);
      return written;
    },
  };
  return { link, seen, campaigns };
}

describe('one tick', () => {
  test('a leader that changed anything neither claims nor releases', async () => {
    const view = viewOf({ nodes: ['a', 'b'], leader: 'a', shards: ['a,', 'b,a', 'gone,'] });
    const { link, seen } = aLink(view);

    const told = await tick(aNode(view, 3), link, () => quietMs);

    expect(told).toEqual([{ work: 'targets', count: 1 }]);
    expect(seen).toMatchObject([{ shard: 2 }]);
  });

  test('a leader whose writes all lost goes on as any node', async () => {
    const view = viewOf({ nodes: ['a', 'b'], leader: 'a', shards: ['a,', 'b,b', 'gone,'] });
    const { link } = aLink(view, [2]);

    const told = await tick(aNode(view, 3), link, () => quietMs);

    expect(told).toEqual([{ work: 'claim', count: 1 }]);
  });

  test('a node claims, evicts and releases in one tick', async () => {
    const view = viewOf({ nodes: ['a', 'b'], leader: 'b', shards: ['a,', 'b,a'] });
    const node = aNode(view, 2);
    node.objects.load([0, 1]);
    const { link } = aLink(view);

    const told = await tick(node, link, () => quietMs);

    expect(told).toEqual([
      { work: 'claim', count: 1 },
      { work: 'release', count: 1 },
    ]);
    expect(node.objects.shards()).toEqual([0]);
  });

  test('a node that is not sure of the cluster does nothing but try to lead', async () => {
    const view = viewOf({ nodes: ['a', 'b'], leader: 'gone', shards: ['a,', 'b,a', 'gone,'] });
    const { link, seen, campaigns } = aLink(view);

    const told = await tick(aNode(view, 3), link, () => 9_999);

    expect([told, seen, campaigns]).toEqual([[], [], [view.leaderRevision]]);
  });

  test('what changes while a tick writes stops the rest of it', async () => {
    const view = viewOf({ nodes: ['a', 'b'], leader: 'b', shards: ['a,', 'b,a'] });
    const { link } = aLink(view);
    const interrupted: TickLink = {
      ...link,
      async write(writes) {
        view.take({ key: '/goverse/nodes/c', value: 'c', modRevision: 99 }, quietMs);
        return link.write(writes);
      },
    };

    const told = await tick(aNode(view, 2), interrupted, () => quietMs);

    expect(told).toEqual([{ work: 'claim', count: 1 }]);
  });

  test('the window of ten seconds shrinks with the speed', async () => {
    const view = viewOf({ nodes: ['a', 'b'], leader: 'b', shards: ['a,'] });
    const { link, seen } = aLink(view);

    await tick({ ...aNode(view, 1), speed: 10 }, link, () => 1_000);

    expect(seen).toHaveLength(1);
  });
});
