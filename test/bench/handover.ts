import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import pLimit from 'p-limit';
import * as z from 'zod';
import { makeHint } from '#events/hint.ts';
import { readReleaseRecord } from '#functions/shard-release/record.ts';
import { writeCredentials } from '#infra/cli/dev/credentials.ts';
import { drainRequest, goverseAddress } from '#shared/api/annotations.ts';
import { goverseLabel } from '#shared/api/labels.ts';
import { wallClock } from '#shared/kernel/instant.ts';
import { defaultShardCount } from '#shared/goverse/keys.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import type { JsonObject } from '#shared/kube/json.ts';
import { median } from './distribution.ts';
import { type Figure, figure } from './figure.ts';
import { type Seen, outageFigures } from './goverse-figures.ts';
import { type GoverseStage, openGoverseStage } from './goverse-stage.ts';
import {
  type Cluster,
  clusterId,
  millraceUser,
  startCluster,
  startMillrace,
} from './installation.ts';
import { create, namespace, patch, read, remove } from './objects.ts';
import { type Part, type PartOptions, scaled } from './part.ts';

/** Clusters that are measured at the same time: most of it is waiting. */
const concurrency = 2;

/** A hand-over that has not come to where the scenario waits for it by then is broken. */
const timeoutMs = 120_000;

/** How often a preStop hook asks, in milliseconds. */
const askMs = 250;

const rssGoalMib = 120;

/** What V8 may keep, in MiB: twice what a look at all shards needs. */
const heapMib = 48;
const youngMib = 1;

/** Looks of the handler alone, a second apart: a hand-over and its window take twenty. */
const looksAlone = 40;

const run = promisify(execFile);
const root = new URL('../..', import.meta.url).pathname;

/** How much longer than a real cluster's the worst cases may take. */
const tolerated = 1.5;

interface Scenario {
  readonly name: string;
  readonly nodes: number;
  /** Where much depends on when the owners tick, the middle of several runs counts. */
  readonly runs: number;
  readonly seen: Seen;
  readonly goals: Partial<Seen>;
  readonly rebalance?: 'outside';
  /** From a settled cluster on; the measurement begins anew where it says so. */
  readonly act: (cluster: RunningCluster) => Promise<void>;
}

/** A cluster of GoVerse with a pod for each node, on whose pods nobody but Millrace acts. */
interface RunningCluster {
  readonly stage: GoverseStage;
  /** A further node, and its pod. */
  join(): Promise<string>;
  /** Deletes a pod, whose preStop hook waits until the relay says that its node may go; then stops the node. */
  shutDown(address: string): Promise<void>;
  ask(address: string): Promise<void>;
  takeBack(address: string): Promise<void>;
  /** SIGKILL of the node, and its pod is gone. */
  kill(address: string): Promise<void>;
  untilReleased(address: string): Promise<void>;
}

const cleanGoals: Partial<Seen> = { allOwned: 13, unowned: [4, 6.5], unroutable: [7.5, 11] };

const joined: Seen = { allOwned: 18, unowned: [8.8, 15.3], unroutable: [10.7, 17.4] };
const leaderLeft: Seen = { allOwned: 10.8, unowned: [3.5, 5.6], unroutable: [5.4, 9.4] };
const holderDied: Seen = { allOwned: 24.8, unowned: [23.9, 24.7], unroutable: [23.9, 24.7] };
const takenBack: Seen = { allOwned: 4.3, unowned: [1.9, 3], unroutable: [3.4, 4] };
const levelled: Seen = { allOwned: 18.4, unowned: [5.3, 8], unroutable: [16.4, 17.9] };

/** What a real cluster was seen to do with these rules, each once or a few times. */
const scenarios: readonly Scenario[] = [
  {
    name: 'plain SIGTERM',
    nodes: 3,
    runs: 1,
    seen: { allOwned: 17.6, unowned: [16.6, 18.6], unroutable: [16.6, 18.6] },
    goals: {},
    act: async ({ stage }) => stage.node(firstOf(stage)).stop(),
  },
  {
    name: 'clean',
    nodes: 3,
    runs: 3,
    seen: { allOwned: 8.2, unowned: [2.9, 5.9], unroutable: [5.9, 9] },
    goals: cleanGoals,
    act: (cluster) => cluster.shutDown(firstOf(cluster.stage)),
  },
  {
    name: 'clean, of the leader',
    nodes: 3,
    runs: 1,
    seen: leaderLeft,
    goals: atMost(leaderLeft),
    act: (cluster) => cluster.shutDown(cluster.stage.observer.leader),
  },
  {
    name: 'clean, a node joins meanwhile',
    nodes: 3,
    runs: 1,
    seen: joined,
    goals: atMost(joined),
    async act(cluster) {
      const gone = cluster.shutDown(firstOf(cluster.stage));
      await cluster.stage.observer.until((seen) => seen.marked().length > 0, timeoutMs);
      await Promise.all([gone, cluster.join()]);
    },
  },
  {
    name: 'the holder dies',
    nodes: 3,
    runs: 1,
    seen: holderDied,
    goals: atMost(holderDied),
    async act(cluster) {
      const { observer, addresses } = cluster.stage;
      const [leaving = '', holder = ''] = addresses;
      await cluster.ask(leaving);
      await cluster.untilReleased(leaving);
      observer.begin();
      await cluster.kill(holder);
      await observer.until((seen) => !seen.nodes.includes(holder), timeoutMs);
      await cluster.takeBack(leaving);
    },
  },
  {
    name: 'taken back after the claims',
    nodes: 3,
    runs: 3,
    seen: takenBack,
    goals: atMost(takenBack),
    async act(cluster) {
      const leaving = firstOf(cluster.stage);
      await cluster.ask(leaving);
      await cluster.untilReleased(leaving);
      cluster.stage.observer.begin();
      await cluster.takeBack(leaving);
    },
  },
  {
    name: 'a node joins, levelled from outside',
    nodes: 3,
    runs: 1,
    seen: levelled,
    goals: atMost(levelled),
    rebalance: 'outside',
    async act(cluster) {
      const address = await cluster.join();
      await cluster.stage.observer.until(
        (seen) => (seen.loads().get(address)?.target ?? 0) > 0,
        timeoutMs,
      );
    },
  },
];

/**
 * How long shards are without an owner, and their callers get errors, when Millrace hands them over: relay, embedded queue
 * and worker as `millrace dev` runs them, GoVerse as processes of the stand-in, all at their real pace.
 */
export const handover: Part = {
  name: 'handover',
  title: 'the hand-over of 8,192 shards of GoVerse by Millrace, beside a plain SIGTERM',
  async measure(options) {
    await using stack = new AsyncDisposableStack();
    const cluster = stack.use(await startCluster(options, { isAudited: false }));
    const millrace = stack.use(await startMillrace(cluster, options));
    const limit = pLimit(concurrency);
    // Where one breaks the others end first: none may outlive its etcd.
    const endings = await Promise.allSettled(
      scenarios.map(async (scenario, place) => {
        const { relayUrl } = millrace.children;
        const around = { cluster, relayUrl, options };
        const runs = Array.from({ length: scenario.runs }, (_, run) =>
          limit(() => measureScenario(scenario, `goverse-${place}-${run}`, around)),
        );
        return middleOf(await Promise.all(runs));
      }),
    );
    const figures = endings.map((ending) => {
      if (ending.status === 'rejected') {
        throw ending.reason;
      }
      return ending.value;
    });
    await millrace[Symbol.asyncDispose]();
    return [...figures.flat(), ...(await measureMemory(cluster, options))];
  },
};

/** The same figures of several runs: the middle of each. */
function middleOf(runs: readonly (readonly Figure[])[]): readonly Figure[] {
  const [first = []] = runs;
  return first.map(({ name, unit, goal, peer }, place) =>
    figure(
      runs.length === 1 ? name : `${name} (middle of ${runs.length})`,
      median(runs.map((figures) => figures[place]?.value ?? Infinity)),
      unit,
      { ...(goal === null ? {} : { goal }), ...(peer === undefined ? {} : { peer }) },
    ),
  );
}

interface Around {
  readonly cluster: Cluster;
  readonly relayUrl: string;
  readonly options: PartOptions;
}

async function measureScenario(
  { name, seen, goals, act, ...scenario }: Scenario,
  goverseCluster: string,
  around: Around,
): Promise<Figure[]> {
  const { cluster, options } = around;
  await using running = await openCluster(goverseCluster, scenario, around);
  const { stage, pods } = running;
  await untilKnown(cluster.connection, goverseCluster);
  options.log(`${name}: begins`);
  stage.observer.begin();
  await act({ stage, ...pods });
  await stage.observer.until((shards) => shards.marked().length === 0, timeoutMs);
  const observation = await stage.settled();
  options.log(`${name}: all owned after ${observation.allOwnedMs / 1000} s`);
  return outageFigures(`hand-over: ${name}`, observation, seen, goals);
}

async function openCluster(
  name: string,
  { nodes, rebalance }: Pick<Scenario, 'nodes' | 'rebalance'>,
  { cluster, relayUrl, options }: Around,
) {
  const { endpoint } = cluster.topologyEtcd;
  const shardCount = scaled(defaultShardCount, options);
  const prefix = `/${name}`;
  const stage = await openGoverseStage(endpoint, prefix, { nodes, shardCount });
  const pods = podsOf(stage, name, cluster.connection, relayUrl);
  for (const address of stage.addresses) {
    await pods.add(address);
  }
  await create(cluster.connection, 'GoverseCluster', {
    apiVersion: 'millrace.dev/v1alpha1',
    kind: 'GoverseCluster',
    metadata: { name },
    spec: {
      topology: { endpoints: [endpoint], prefix },
      shards: shardCount,
      shutdown: { mode: 'clean', timeout: '60s' },
      ...(rebalance === undefined ? {} : { rebalance }),
    },
  });
  return { stage, pods, [Symbol.asyncDispose]: () => stage[Symbol.asyncDispose]() };
}

/** Resolves once Millrace has seen for long enough that nothing changes: it looks no more by itself then. */
async function untilKnown(connection: KubeConnection, name: string): Promise<void> {
  const deadlineMs = performance.now() + timeoutMs;
  while (performance.now() < deadlineMs) {
    const { metadata } = await read(connection, 'GoverseCluster', name);
    const record = readReleaseRecord(metadata);
    if (record.kind === 'ours' && record.record.wake === undefined) {
      return;
    }
    await delay(askMs);
  }
  throw new Error(`${name} was not at rest within ${timeoutMs / 1000} s`);
}

function podsOf(
  stage: GoverseStage,
  goverseCluster: string,
  connection: KubeConnection,
  relayUrl: string,
) {
  const nameOf = (address: string) =>
    `${goverseCluster}-${address.replaceAll(/[^0-9]/g, '-')}`.slice(0, 63);
  const annotate = (address: string, annotations: JsonObject) =>
    patch(connection, 'Pod', nameOf(address), { metadata: { annotations } });
  const add = (address: string) =>
    create(connection, 'Pod', {
      metadata: {
        name: nameOf(address),
        labels: { [goverseLabel]: goverseCluster },
        annotations: { [goverseAddress]: address },
      },
      spec: {
        // So that a deleted pod stays until its kubelet, which is this process, has stopped it.
        nodeName: 'somewhere',
        terminationGracePeriodSeconds: 120,
        containers: [{ name: 'goverse', image: 'goverse' }],
      },
    });
  const gone = (address: string) => remove(connection, 'Pod', nameOf(address), { grace: 0 });
  const untilReleased = (address: string) =>
    released(new URL(`/v1/pods/${namespace}/${nameOf(address)}`, relayUrl));
  return {
    add,
    untilReleased,
    async join(): Promise<string> {
      const { address } = await stage.start();
      await add(address);
      return address;
    },
    async shutDown(address: string): Promise<void> {
      await remove(connection, 'Pod', nameOf(address));
      await untilReleased(address);
      await stage.node(address).stop();
      await gone(address);
    },
    ask: (address: string) => annotate(address, { [drainRequest]: 'bench' }),
    takeBack: (address: string) => annotate(address, { [drainRequest]: null }),
    async kill(address: string): Promise<void> {
      stage.observer.killed(address);
      await stage.node(address).kill();
      await gone(address);
    },
  };
}

const mirror = z.object({ state: z.string().nullable() });

/** Asks as a preStop hook does. */
async function released(url: URL): Promise<void> {
  const deadlineMs = performance.now() + timeoutMs;
  while (performance.now() < deadlineMs) {
    const answer = await fetch(url);
    if (answer.ok && mirror.parse(await answer.json()).state === 'released') {
      return;
    }
    await delay(askMs);
  }
  throw new Error(`${url.pathname} was not released within ${timeoutMs / 1000} s`);
}

/**
 * A whole hand-over by the packaged handler alone, in a process of its own as a function has one; nobody else of Millrace
 * runs meanwhile.
 */
async function measureMemory(cluster: Cluster, options: PartOptions): Promise<Figure[]> {
  const name = 'goverse-alone';
  await using running = await openCluster(name, { nodes: 3 }, { cluster, relayUrl: '', options });
  const { stage, pods } = running;
  await pods.ask(firstOf(stage));
  const { metadata } = await read(cluster.connection, 'GoverseCluster', name);
  const hint = makeHint({
    step: 'shard-release',
    cause: 'replay',
    source: clusterId,
    target: {
      kind: 'GoverseCluster',
      plural: 'goverseclusters',
      namespace,
      name,
      uid: metadata.uid,
    },
    token: 'bench',
    at: wallClock(),
  });
  const body = JSON.stringify(hint);
  const attributes = { ApproximateReceiveCount: '1', SentTimestamp: '0' };
  const event = { Records: [{ messageId: '1', receiptHandle: '1', body, attributes }] };
  options.log(`a hand-over by the handler alone`);
  await run(process.execPath, [join(root, 'infra/build.ts')]);
  const credentials = await writeCredentials(
    join(cluster.folder, 'sign-in-alone'),
    cluster.controlPlane.access(millraceUser),
  );
  const { stdout } = await run(
    process.execPath,
    [
      // Of a machine's memory V8 takes what it gets, garbage first: a function is told how much there is.
      `--max-old-space-size=${heapMib}`,
      `--max-semi-space-size=${youngMib}`,
      join(root, 'test/bench/handler-alone.mjs'),
      join(root, 'dist/shard-release/index.mjs'),
      JSON.stringify(event),
      String(looksAlone),
    ],
    { env: { ...credentials, MILLRACE_CLUSTER_ID: clusterId, MILLRACE_LOG_LEVEL: 'error' } },
  );
  const { mostKib } = memorySchema.parse(JSON.parse(stdout.trim().split('\n').at(-1) ?? ''));
  const isMoved = !stage.observer.loads().has(firstOf(stage));
  if (!isMoved) {
    throw new Error(`the handler alone has not handed over: ${stage.observer.describe()}`);
  }
  return [
    figure(
      `hand-over: memory of the handler at most, with a heap of ${heapMib} MiB`,
      mostKib / 1024,
      'MiB',
      { goal: rssGoalMib },
    ),
  ];
}

const memorySchema = z.object({ mostKib: z.number() });

function atMost({ allOwned, unowned, unroutable }: Seen): Seen {
  const goal = (seconds: number) => Number((seconds * tolerated).toFixed(2));
  return {
    allOwned: goal(allOwned),
    unowned: [goal(unowned[0]), goal(unowned[1])],
    unroutable: [goal(unroutable[0]), goal(unroutable[1])],
  };
}

function firstOf({ addresses }: GoverseStage): string {
  return addresses[0] ?? '';
}
