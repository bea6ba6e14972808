import { describe, expect, test } from 'vitest';
import { plusSeconds } from '#shared/kernel/instant.ts';
import { Tally } from '#test/world/oracles/tally.ts';
import { goverseNode, placeShard } from '#test/world/run/goverse-keys.ts';
import { beginningOf } from '#test/world/run/plans.ts';
import { runToEnd } from '#test/world/run/run.ts';
import type { Workload } from '#test/world/run/workload.ts';
import type { World } from '#test/world/run/world.ts';
import { workloads } from '#test/world/workloads/shard-release.ts';

function named(name: string): Workload {
  const found = workloads.find((workload) => workload.name === name);
  if (found === undefined) {
    throw new Error(`there is no workload ${name}`);
  }
  return found;
}

/** Three nodes whose shards are all in their places, and nobody who looks after them. */
async function aCluster(): Promise<World> {
  const world = await beginningOf({ ...named('nodes go quickly'), begin: () => {} }, new Tally());
  world.activeSteps = new Set();
  return world;
}

/** Lets so much time pass. */
function wait(world: World, seconds: number): void {
  const until = plusSeconds(world.now, seconds);
  while (world.now < until) {
    world.settle();
    world.passTo(Math.min(world.nextInstant(), until) as typeof until);
  }
  world.settle();
}

function loads(world: World): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { target } of world.goverse?.viewAt(world)?.shards.values() ?? []) {
    counts[target] = (counts[target] ?? 0) + 1;
  }
  return counts;
}

describe('nodes of GoVerse in the world', () => {
  test('spread their shards, and are still then', async () => {
    const world = await aCluster();

    expect(loads(world)).toEqual({ 'world-0:48000': 8, 'world-1:48000': 8, 'world-2:48000': 8 });
    expect(world.goverse?.isStill(world)).toBe(true);
  });

  test('that are killed are gone with their lease, and their shards go to the others', async () => {
    const world = await aCluster();
    const leader = goverseNode(world, 'leader');

    world.goverse?.kill(leader, world.now);
    wait(world, 9);
    const whileLeased = world.goverse?.viewAt(world)?.nodes.size;
    wait(world, 20);

    expect(whileLeased).toBe(3);
    expect(goverseNode(world, 'leader')).not.toBe(leader);
    expect(loads(world)[leader]).toBeUndefined();
  });

  test('come back in their pods, and get their share again from the leader', async () => {
    const world = await aCluster();

    world.goverse?.kill('world-1:48000', world.now);
    wait(world, 200);

    expect(new Set(Object.values(loads(world)))).toEqual(new Set([8]));
    expect(world.goverse?.isStill(world)).toBe(true);
  });

  test('leave a shard alone that is pinned to a dead one', async () => {
    const world = await aCluster();
    const pinned = { target: 'world-1:48000', current: 'world-1:48000', flags: ['pinned'] };
    placeShard(world, 0, pinned);

    world.goverse?.kill('world-1:48000', world.now);
    wait(world, 29);

    expect(world.goverse?.viewAt(world)?.shards.get(0)).toMatchObject(pinned);
  });

  test('of a copy go their own way', async () => {
    const world = await aCluster();
    const copy = world.fork();
    const before = JSON.stringify([world.goverse?.remembered, loads(world)]);

    copy.goverse?.kill('world-1:48000', copy.now);
    copy.goverse?.scale(2);
    wait(copy, 60);

    expect(JSON.stringify([world.goverse?.remembered, loads(world)])).toBe(before);
    expect(Object.keys(loads(copy)).toSorted()).toEqual(['world-0:48000', 'world-1:48000']);
  });
});

test('every promise of shard-release is asked about where the holder dies (H1 to H6)', async () => {
  const workload = named('a node that was emptied goes after the holder has died');
  const tally = new Tally();

  await runToEnd(await beginningOf(workload, tally), { workload, strikes: [] });

  const asked = Object.keys(tally.toJson()).filter((id) => id.startsWith('H'));
  expect(asked.toSorted()).toEqual(['H1', 'H2', 'H3', 'H4', 'H5', 'H6']);
});
