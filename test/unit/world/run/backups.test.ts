import { describe, expect, test } from 'vitest';
import { plusSeconds } from '#shared/kernel/instant.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import { BackupOracles } from '#test/world/oracles/backup-oracles.ts';
import { Tally } from '#test/world/oracles/tally.ts';
import { Chronicle } from '#test/world/run/chronicle.ts';
import { beginningOf } from '#test/world/run/plans.ts';
import { runToEnd, runToQuiet } from '#test/world/run/run.ts';
import type { Workload } from '#test/world/run/workload.ts';
import type { World } from '#test/world/run/world.ts';
import { workloads } from '#test/world/workloads/backup-trigger.ts';
import { editShard } from '#test/world/workloads/cluster.ts';

function named(name: string): Workload {
  const found = workloads.find((workload) => workload.name === name);
  if (found === undefined) {
    throw new Error(`there is no workload ${name}`);
  }
  return found;
}

async function storyOf(workload: Workload): Promise<{ lines: readonly string[]; tally: Tally }> {
  const tally = new Tally();
  const world = await beginningOf(workload, tally);
  const lines: string[] = [];
  world.listen(new Chronicle((line) => lines.push(line)));
  await runToEnd(world, { workload, strikes: [] });
  return { lines, tally };
}

test('while a pooler backs up nobody tells the list, and who asks waits no longer than he has time', async () => {
  const { lines } = await storyOf(named('a backup hangs'));

  expect(lines.some((line) => line.includes('waits no longer'))).toBe(true);
  expect(lines.some((line) => line.includes('no answer came in time'))).toBe(true);
});

test('every promise of backup-trigger is asked about where a drain comes between (B1 to B9)', async () => {
  const { tally } = await storyOf(named('a drain in the middle of a slot'));

  const asked = Object.keys(tally.toJson()).filter((id) => id.startsWith('B'));
  expect(asked.toSorted()).toEqual(['B1', 'B2', 'B3', 'B4', 'B5', 'B6', 'B7', 'B8', 'B9']);
});

test('what became of the slots is known at the end, and a copy of the oracle knows it as well', async () => {
  const workload = named('somebody else backs up');
  const world = await beginningOf(workload, new Tally());
  await runToEnd(world, { workload, strikes: [] });
  const oracle = world.fork().companions.find((witness) => witness instanceof BackupOracles);

  expect(oracle?.resultsOf('often')).toEqual(['skipped', 'succeeded', 'failed']);
});

describe('a relay that is away', () => {
  test('sends nothing, and everything once it is back', async () => {
    const world = await aQuietWorld();
    world.silenceRelay(60);
    editShard(world, { spec: { drain: { deadline: '6m' } } });

    const before = await world.deliverNext();
    world.passTo(plusSeconds(world.now, 60));
    world.settle();
    const after = await world.deliverNext();

    expect([before, after]).toEqual([false, true]);
  });

  test('that goes away twice is back when both times are over', async () => {
    const world = await aQuietWorld();
    world.silenceRelay(60);
    world.silenceRelay(20);
    editShard(world, { spec: { drain: { deadline: '6m' } } });

    world.passTo(plusSeconds(world.now, 20));
    world.settle();

    expect(await world.deliverNext()).toBe(false);
  });

  test('is away in the copies of its world as well', async () => {
    const world = await aQuietWorld();
    world.silenceRelay(60);
    const copy = world.fork();
    editShard(copy, { spec: { drain: { deadline: '6m' } } });

    expect(await copy.deliverNext()).toBe(false);
  });
});

test('who reads a shard is told when its spec last changed, and of no other change', async () => {
  const world = await aQuietWorld();
  const begun = specTimeIn(world);
  world.passTo(plusSeconds(world.now, 10));

  editShard(world, { metadata: { labels: { 'example.com/tier': 'gold' } } });
  const labelled = specTimeIn(world);
  editShard(world, { spec: { drain: { deadline: '6m' } } });

  expect(begun).toMatch(/^2026-01-01T00:\d\d:\d\dZ$/);
  expect(labelled).toBe(begun);
  expect(Date.parse(specTimeIn(world.fork()) ?? '')).toBe(Math.floor(world.now / 1000) * 1000);
});

async function aQuietWorld(): Promise<World> {
  const workload = named('a backup every half minute');
  const world = workload.create(new Tally());
  await runToQuiet(world, { workload, strikes: [] }, 200);
  return world;
}

function specTimeIn(world: World): string | undefined {
  const path = '/apis/millrace.dev/v1alpha1/namespaces/db/shards/orders';
  const { response } = world.api.handle({ method: 'GET', path }, world.now);
  const { metadata } = response.body as KubeObject<'Shard'>;
  return metadata.managedFields?.find(({ fieldsV1 }) => fieldsV1?.['f:spec'] !== undefined)?.time;
}
