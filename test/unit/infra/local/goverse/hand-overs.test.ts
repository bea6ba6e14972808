import { describe, expect, test } from 'vitest';
import { handOver as movesOf } from '#functions/shard-release/plan.ts';
import { withoutPin } from '#shared/goverse/shard-value.ts';
import { type PlacedShard, type SimulatedGoverse, aSettledCluster } from './simulated-goverse.ts';

const id = 'drain-1';

/** What a real cluster needed, widened by what ticks and leases leave to chance. */
function expectSeconds(ms: number, [least, most]: readonly [number, number]): void {
  expect(ms / 1000).toBeGreaterThanOrEqual(least);
  expect(ms / 1000).toBeLessThanOrEqual(most);
}

function followerOf(cluster: SimulatedGoverse): string {
  return cluster.nodes.find((node) => node !== cluster.leader) ?? expect.unreachable();
}

/** A hand-over with the fewest pins that hold: those of the holder. */
function planOf(cluster: SimulatedGoverse, leaving: string) {
  const move = movesOf(cluster.view(), new Set([leaving]), id);
  const writes = move.kind === 'write' ? move.writes : expect.unreachable(move.kind);
  const holder = writes[0]?.target ?? expect.unreachable();
  const before = cluster.shards();
  const isRetarget = ({ shard, target }: PlacedShard) => before[shard]?.target !== target;
  return {
    holder,
    pins: writes.filter((write) => !isRetarget(write)),
    pinnedRetargets: writes.filter(isRetarget),
    retargets: writes
      .filter(isRetarget)
      .map((write) => (write.target === holder ? write : { ...write, ...withoutPin(write, id) })),
  };
}

function unpin(cluster: SimulatedGoverse, shards = cluster.shards()): void {
  cluster.place(shards.map((shard) => ({ ...shard, ...withoutPin(shard, id) })));
}

/** Hands all shards of the node over under pins, and lets them be claimed. */
async function handOver(cluster: SimulatedGoverse, leaving: string): Promise<string> {
  const plan = planOf(cluster, leaving);
  cluster.place(plan.pins);
  cluster.place(plan.retargets);
  await cluster.run(12_000);
  return plan.holder;
}

describe('what a real cluster was seen to do happens here within the same times', () => {
  test('a settled cluster has its shards level, and stays as it is', async () => {
    const cluster = await aSettledCluster();
    const before = cluster.shards();

    await cluster.run(300_000);

    expect(cluster.shards()).toEqual(before);
    expect(cluster.nodes.map((node) => cluster.load(node))).toEqual([2_731, 2_731, 2_730]);
  });

  test('SIGTERM', async () => {
    const cluster = await aSettledCluster();

    cluster.stop(followerOf(cluster));
    await cluster.run(60_000);

    const { allOwnedMs, unowned } = cluster.measured();
    expectSeconds(allOwnedMs, [15, 20]);
    expect(unowned.count).toBe(2_731);
  });

  test('SIGTERM of the leader: the window begins again with its successor', async () => {
    const cluster = await aSettledCluster();

    cluster.stop(cluster.leader);
    await cluster.run(60_000);

    expectSeconds(cluster.measured().allOwnedMs, [20, 25]);
  });

  test.each([10_000, 15_500])('SIGKILL, the lease ends %i ms later', async (leaseMs) => {
    const cluster = await aSettledCluster();

    cluster.kill(followerOf(cluster), leaseMs);
    await cluster.run(60_000);

    expectSeconds(cluster.measured().allOwnedMs - leaseMs, [15, 20]);
  });

  test('SIGKILL of the leader', async () => {
    const cluster = await aSettledCluster();

    cluster.kill(cluster.leader, 13_000);
    await cluster.run(60_000);

    expectSeconds(cluster.measured().allOwnedMs, [33, 38]);
  });

  test('a node joins: single shards of the leader cannot be routed for minutes', async () => {
    const cluster = await aSettledCluster();

    cluster.start('d');
    await cluster.run(300_000);

    const { allOwnedMs, unroutable } = cluster.measured();
    expectSeconds(allOwnedMs, [150, 175]);
    expectSeconds(unroutable.maxMs, [135, 165]);
    expect(cluster.load('d')).toBeGreaterThanOrEqual(1_740);
  });

  test('a second node joins one', async () => {
    const cluster = await aSettledCluster({ nodes: ['a', 'b'] });

    cluster.start('c');
    await cluster.run(300_000);

    expectSeconds(cluster.measured().allOwnedMs, [200, 225]);
  });

  test('a clean hand-over under the pins of the holder', async () => {
    const cluster = await aSettledCluster();
    const leaving = followerOf(cluster);

    await handOver(cluster, leaving);
    cluster.stop(leaving);
    unpin(cluster);
    await cluster.run(60_000);

    const { allOwnedMs, unowned, unroutable } = cluster.measured();
    expectSeconds(allOwnedMs, [2, 11]);
    expectSeconds(unowned.maxMs, [1, 6]);
    expectSeconds(unroutable.maxMs, [2, 11]);
  });

  test('its imbalance is handed to the leader by an unpin alone', async () => {
    const cluster = await aSettledCluster();
    await handOver(cluster, followerOf(cluster));
    cluster.begin();

    unpin(cluster);
    await cluster.run(400_000);

    const { allOwnedMs, unroutable } = cluster.measured();
    expectSeconds(allOwnedMs, [185, 210]);
    expectSeconds(unroutable.maxMs, [180, 206]);
  });

  test('nothing is moved back while every shard of the holder is pinned', async () => {
    const cluster = await aSettledCluster();
    const leaving = followerOf(cluster);

    await handOver(cluster, leaving);
    await cluster.run(120_000);

    expect(cluster.load(leaving)).toBe(0);
  });

  test('one pin that lacks lets a shard for each survivor go back', async () => {
    const cluster = await aSettledCluster();
    const leaving = followerOf(cluster);
    const holder = await handOver(cluster, leaving);
    const ours = cluster.shards().filter(({ target }) => target === holder);

    unpin(cluster, ours.slice(0, 100));
    await cluster.run(120_000);

    expect(cluster.load(leaving)).toBe(200);
  });

  test('pins on the moved shards alone hold nothing', async () => {
    const cluster = await aSettledCluster();
    const leaving = followerOf(cluster);

    cluster.place(planOf(cluster, leaving).pinnedRetargets);
    await cluster.run(60_000);

    expect(cluster.load(leaving)).toBeGreaterThan(600);
  });

  test('a dead holder’s shards stay orphaned as long as they are pinned', async () => {
    const cluster = await aSettledCluster();
    const holder = await handOver(cluster, 'c');
    cluster.begin();

    cluster.kill(holder, 13_000);
    await cluster.run(60_000);
    const orphans = cluster.shards().filter(({ target }) => target === holder);
    unpin(cluster);
    await cluster.run(400_000);

    expect(orphans).toHaveLength(4_096);
    expect(cluster.leader).toBe('b');
    expectSeconds(cluster.measured().allOwnedMs, [155, 175]);
  });

  test('an imbalance that goes to the leader is not levelled in ten minutes', async () => {
    const cluster = await aSettledCluster();
    const holder = await handOver(cluster, 'b');
    cluster.begin();

    cluster.kill(holder, 13_000);
    await cluster.run(20_000);
    unpin(cluster);
    await cluster.run(600_000);

    expect(cluster.leader).toBe('b');
    expect(cluster.measured().allOwnedMs).toBe(Infinity);
  });

  test('a gate that registers stalls every hand-over', async () => {
    const cluster = await aSettledCluster();
    const { retargets } = planOf(cluster, followerOf(cluster));

    cluster.registerGate('gate');
    cluster.place(retargets);
    await cluster.run(9_900);

    expect(cluster.measured()).toMatchObject({ unowned: { count: 0 } });
  });
});
