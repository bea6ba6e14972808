import { expect, test } from 'vitest';
import { shardLabel } from '#shared/api/labels.ts';
import { plusSeconds } from '#shared/kernel/instant.ts';
import { Tally } from '#test/world/oracles/tally.ts';
import { Chronicle } from '#test/world/run/chronicle.ts';
import { deadRecords, hideCell, standingRecords } from '#test/world/run/dead-records.ts';
import { loseLabels } from '#test/world/run/faults.ts';
import { worldNamespace } from '#test/world/run/handler.ts';
import { remove } from '#test/world/run/person.ts';
import { beginningOf } from '#test/world/run/plans.ts';
import { runToEnd, runToQuiet } from '#test/world/run/run.ts';
import type { Workload } from '#test/world/run/workload.ts';
import type { World } from '#test/world/run/world.ts';
import { pods } from '#test/world/workloads/cluster.ts';
import { workloads } from '#test/world/workloads/etcd-cleanup.ts';

function named(name: string): Workload {
  const found = workloads.find((workload) => workload.name === name);
  if (found === undefined) {
    throw new Error(`there is no workload ${name}`);
  }
  return found;
}

/** Everything stands, and nobody has begun anything. */
async function aQuietWorld(name: string): Promise<World> {
  const workload = named(name);
  const world = workload.create(new Tally());
  await runToQuiet(world, { workload, strikes: [] }, 200);
  return world;
}

async function storyOf(name: string): Promise<{ lines: readonly string[]; tally: Tally }> {
  const workload = named(name);
  const tally = new Tally();
  const world = await beginningOf(workload, tally);
  const lines: string[] = [];
  world.listen(new Chronicle((line) => lines.push(line)));
  await runToEnd(world, { workload, strikes: [] });
  return { lines, tally };
}

test('every promise of etcd-cleanup is asked about where a killed member leaves its record (G1 to G5)', async () => {
  const { tally } = await storyOf('a killed replica leaves its record');

  const asked = Object.keys(tally.toJson()).filter((id) => id.startsWith('G'));
  expect(asked.toSorted()).toEqual(['G1', 'G2', 'G3', 'G4', 'G5']);
});

test('a pooler that runs on without its pod is heard, and its record goes only once it does not (G5)', async () => {
  const { lines } = await storyOf('a pooler runs on without its pod');

  const heard = lines.findIndex(
    (line) => line.includes('(Answers)') || line.includes('PoolerAnswers'),
  );
  const changed = lines.findIndex((line) => line.includes(': retire:'));
  const over = lines.findIndex((line) => line.includes('the node is heard of again'));
  expect(heard).toBeGreaterThan(0);
  expect(heard).toBeLessThan(over);
  expect(changed).toBeGreaterThan(over);
});

test('what runs in a pod goes on when its label is lost, and ends with the pod', async () => {
  const world = await aQuietWorld('a killed replica leaves its record');
  const { state } = world.multigres;
  const [pod] = pods(world);
  const { uid = '', name = '' } = pod?.metadata ?? {};

  loseLabels(world, (each) => each === name);
  world.settle();
  const unlabelled = pods(world).filter(
    ({ metadata }) => metadata.labels?.[shardLabel] === undefined,
  );
  const process = state.members[uid]?.process;
  remove(world, { kind: 'Pod', namespace: worldNamespace, name }, 0);
  world.settle();

  expect(unlabelled).toHaveLength(1);
  expect(process).toBe('running');
  expect(world.multigres.state.members[uid]).toBeUndefined();
});

test('a cell that is hidden is found again, in the copy that is gone on with alone', async () => {
  const world = await aQuietWorld('a cell is not found for a while');
  const valueIn = ({ etcd }: World) => etcd.read('/multigres/global/cells/zone-b/Cell')?.value;
  const before = valueIn(world);

  hideCell(world, 'zone-b', 30);
  const copy = world.fork();
  copy.passTo(plusSeconds(copy.now, 30));
  copy.settle();

  expect(valueIn(copy)).toEqual(before);
  expect(valueIn(world)).not.toEqual(before);
});

test('records of the dead are those that nobody runs for, in either generation', async () => {
  const world = await beginningOf(named('those put aside stay, in either generation'), new Tally());

  const names = deadRecords(world).map(({ record }) => record.id.name);

  expect(names.toSorted()).toEqual(['drained', 'gone', 'quarantined']);
  expect(standingRecords(world).length).toBeGreaterThan(names.length);
});
