import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import * as z from 'zod';
import { GoverseObserver } from '#infra/local/goverse/observer.ts';
import { type GoverseMemberProcess, startGoverseNode } from '#infra/local/goverse/start.ts';
import type { Condition } from '#shared/api/condition.ts';
import { seeded } from '#test/unit/events/relay/seeded.ts';
import { useStage } from './a-stage.ts';
import { objectsOf } from './stage-objects.ts';

/** How much faster than measured GoVerse runs; `MILLRACE_GOVERSE_SPEED=1` is as it is. Millrace's own waits stay. */
const speed = Number(process.env['MILLRACE_GOVERSE_SPEED'] ?? 4);
const shardCount = Number(process.env['MILLRACE_GOVERSE_SHARDS'] ?? 2_048);
/** Three ticks: a leader that had anything left to do would have done it. */
const quietMs = 15_000 / speed;
const timeoutMs = 120_000;

const stageUnderTest = useStage({ hasPolicies: true });

const { ask, create } = objectsOf(stageUnderTest);

const mirrorSchema = z.object({ state: z.string().nullable(), released: z.boolean() });
const statusSchema = z.object({
  status: z.object({ conditions: z.array(z.custom<Condition>()) }).optional(),
});

/** A cluster of processes, a pod for each, and its GoverseCluster. Nobody but Millrace acts on the pods. */
async function aCluster(name: string, count: number, spec: object = {}) {
  const { topologyEndpoint: endpoint } = stageUnderTest().stage;
  const prefix = `/${name}`;
  const observer = await GoverseObserver.open({ endpoint, prefix, shardCount });
  onTestFinished(() => observer[Symbol.asyncDispose]());
  const nodes = new Map<string, GoverseMemberProcess>();

  async function start(number: number): Promise<void> {
    const pod = `${name}-${number}`;
    const node = await startGoverseNode({
      endpoint,
      prefix,
      address: `${pod}.nodes.show.svc:48000`,
      shardCount,
      speed,
    });
    onTestFinished(() => node.stop());
    nodes.set(pod, node);
    await create('Pod', {
      metadata: { name: pod, labels: { 'millrace.dev/goverse': name } },
      spec: {
        // So that a deleted pod stays until its kubelet, which is this test, has stopped it.
        nodeName: 'somewhere',
        terminationGracePeriodSeconds: 120,
        containers: [{ name: 'goverse', image: 'goverse' }],
      },
    });
  }

  for (let number = 0; number < count; number += 1) {
    await start(number);
  }
  await create('GoverseCluster', {
    apiVersion: 'millrace.dev/v1alpha1',
    kind: 'GoverseCluster',
    metadata: { name },
    spec: {
      topology: { endpoints: [endpoint], prefix },
      shards: shardCount,
      shutdown: { mode: 'clean', timeout: '60s' },
      ...spec,
    },
  });
  await observer.settled(quietMs, timeoutMs);
  const podOf = (address: string) => address.split('.')[0] ?? '';
  const nodeOf = (pod: string) => nodes.get(pod) ?? expect.unreachable(pod);
  return {
    observer,
    nodeOf,
    leader: () => podOf(observer.leader),
    followers: () => observer.nodes.map(podOf).filter((pod) => pod !== podOf(observer.leader)),
    /** What the process and its pod do that is quickly shut down. */
    stop: async (pod: string) => {
      await nodeOf(pod).stop();
      await ask('DELETE', 'Pod', pod, { gracePeriodSeconds: 0 });
    },
    /** Deletes a pod, whose preStop hook waits until the relay says that it may go. */
    shutDown: async (pod: string) => {
      const deleted = await ask('DELETE', 'Pod', pod);
      expect(deleted.status).toBe(200);
      await untilMirror(pod, 'released');
      await nodeOf(pod).stop();
      await ask('DELETE', 'Pod', pod, { gracePeriodSeconds: 0 });
    },
    untilClean: () =>
      observer.until((seen) => seen.marked().length === 0, timeoutMs).then(() => settled(name)),
  };
}

async function untilMirror(pod: string, state: string): Promise<void> {
  const { stage } = stageUnderTest();
  const url = `${stage.millrace.relayUrl}/v1/pods/${stage.namespace}/${pod}`;
  await expect
    .poll(
      async () => {
        const answer = await fetch(url);
        return answer.ok ? mirrorSchema.parse(await answer.json()).state : answer.status;
      },
      { timeout: timeoutMs, interval: 100 },
    )
    .toBe(state);
}

/** The GoverseCluster says that nothing waits any more. */
async function settled(name: string): Promise<void> {
  await expect
    .poll(
      async () => {
        const { status } = statusSchema.parse((await ask('GET', 'GoverseCluster', name)).body);
        return Object.fromEntries(
          (status?.conditions ?? []).map((condition) => [condition.type, condition.status]),
        );
      },
      { timeout: timeoutMs, interval: 200 },
    )
    .toEqual({ Ready: 'True', Reconciling: 'False', Stalled: 'False', Released: 'True' });
}

function tell(
  what: string,
  { allOwnedMs, unowned, unroutable }: Awaited<ReturnType<GoverseObserver['settled']>>,
) {
  const seconds = (ms: number) => (ms / 1000).toFixed(1);
  process.stderr.write(
    `${what} at speed ${speed}: all owned after ${seconds(allOwnedMs)} s, unowned ${seconds(unowned.meanMs)} / ${seconds(unowned.maxMs)} s, unroutable ${seconds(unroutable.meanMs)} / ${seconds(unroutable.maxMs)} s for ${unroutable.count} shards\n`,
  );
}

describe('shard-release on a real API server and etcd', { timeout: 400_000 }, () => {
  test('a clean shutdown leaves its shards out for less time than a quick one, and no mark (H3, H4)', async () => {
    const { observer, followers, stop, shutDown, untilClean } = await aCluster('clean', 4);
    const [first = '', second = ''] = followers();

    observer.begin();
    await stop(first);
    const quick = await observer.settled(quietMs, timeoutMs);
    tell('SIGTERM', quick);
    await settled('clean');
    // The leader spreads what it takes over by number, so nothing is left to level.
    observer.begin();
    await shutDown(second);
    await untilClean();
    const clean = await observer.settled(quietMs, timeoutMs);
    tell('clean', clean);

    expect(clean.unroutable.meanMs).toBeLessThan(quick.unroutable.meanMs);
    expect(clean.unowned.meanMs).toBeLessThan(quick.unowned.meanMs);
    expect(observer.nodes).toHaveLength(2);
    expect(observer.marked()).toEqual([]);
  });

  test.each([1, 2, 3])('the worker is killed at any moment of it (seed %i)', async (seed) => {
    const random = seeded(seed);
    const { observer, followers, shutDown, untilClean } = await aCluster(`killed-${seed}`, 3);
    const [leaving = ''] = followers();

    observer.begin();
    const gone = shutDown(leaving);
    await observer.until((seen) => seen.history().length > 0, timeoutMs);
    // The moment is the seed's, whatever stands by then: nothing is proven by the delay.
    await delay(random() * 3_000);
    await stageUnderTest().stage.millrace.killAndAwaitRestart('worker');
    await gone;
    await untilClean();
    const seen = await observer.settled(quietMs, timeoutMs);
    tell('worker killed', seen);

    expect(observer.nodes).toHaveLength(2);
    expect(observer.loads().get(observer.leader)?.current).toBe(shardCount / 2);
  });

  test('the holder dies: its shards have other nodes, and no pin is left (H4)', async () => {
    const { observer, followers, leader, nodeOf, untilClean } = await aCluster('holder', 4);
    const [leaving = ''] = followers().toReversed();

    await ask('PATCH', 'Pod', leaving, {
      metadata: { annotations: { 'millrace.dev/drain': 'maintenance' } },
    });
    await untilMirror(leaving, 'released');
    const held = (seen: GoverseObserver) =>
      new Set(seen.marked().map((shard) => seen.shard(shard)?.target ?? ''));
    await observer.until((seen) => held(seen).size === 1, timeoutMs);
    const holder = [...held(observer)][0]?.split('.')[0] ?? '';
    observer.begin();
    observer.killed(nodeOf(holder).address);
    await nodeOf(holder).kill();
    await ask('DELETE', 'Pod', holder, { gracePeriodSeconds: 0 });
    await observer.until((seen) => !seen.nodes.includes(nodeOf(holder).address), timeoutMs);
    await ask('PATCH', 'Pod', leaving, {
      metadata: { annotations: { 'millrace.dev/drain': null } },
    });
    await untilClean();
    const seen = await observer.settled(quietMs, timeoutMs);
    tell(`holder killed${holder === leader() ? ', the leader' : ''}`, seen);

    expect(observer.marked()).toEqual([]);
    expect([...observer.loads().keys()].toSorted()).toEqual(observer.nodes);
  });
});
