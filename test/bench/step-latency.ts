import { setTimeout as delay } from 'node:timers/promises';
import { shardLabel } from '#shared/api/labels.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import { collectionPath } from '#shared/kube/http-kube.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import { databaseManifest } from '#test/builders/manifest.ts';
import { awaitedLater } from './awaited-later.ts';
import { mean, percentile } from './distribution.ts';
import { type Figure, figure } from './figure.ts';
import { type Cluster, endControllers, startCluster, startMillrace } from './installation.ts';
import {
  create,
  forEach,
  membersOfShard,
  namespace,
  patchPodStatus,
  shardManifest,
} from './objects.ts';
import { type Part, type PartOptions, scaled } from './part.ts';
import { CpuMeter } from './process-usage.ts';
import { ShardBoard } from './shard-board.ts';

const shardCount = 100;
const usualChangesPerSecond = 50;
const seconds = 30;

/** Changes before those that count: sandboxes are loaded, connections are open. */
const warmUpSeconds = 5;

/** A write that has not come by then does not come. */
const patienceSeconds = 15;

const medianGoalMs = 60;
const slowestGoalMs = 250;

/**
 * From a change to the write of the step that it concerns, through relay, embedded queue and worker.
 *
 * The change is a pod's readiness, written as a kubelet writes it; the step is pool-pods, which counts the ready members
 * in the Shard's status. The time begins when the API server's answer to the change has come to this process, and ends
 * when this process's own watch shows the Shard with the new count; both are read from this process's monotonic clock.
 * So the way of the watch event back to this process is in it, and nothing is subtracted.
 *
 * Changes come at random, 50 a second on average and independent of each other, like those of many nodes; each is of a
 * shard whose last change was answered. There is no data plane, and the topology is empty: nobody leaves. API server and
 * etcd share the processors with everything else; the audit log and the controller manager, which belong to neither
 * Millrace nor its path, do not run meanwhile.
 */
export const stepLatency: Part = {
  name: 'step',
  title: 'from a pod’s change to the write of the step, at 50 changes a second over 100 shards',
  async measure(options) {
    await using stack = new AsyncDisposableStack();
    const cluster = stack.use(await startCluster(options, { isAudited: false }));
    const board = new ShardBoard(cluster.connection);
    stack.defer(() => board.close());
    const millrace = stack.use(await startMillrace(cluster, options));
    const shards = await settledShards(cluster, board, options);
    await endControllers(cluster);
    const changesPerSecond = usualChangesPerSecond * options.scale;
    const load: Load = { connection: cluster.connection, board, shards, changesPerSecond };
    options.log(`warming up for ${warmUpSeconds} s`);
    await changeFor(load, warmUpSeconds);
    const { apiServer, etcd } = cluster.controlPlane.pids;
    const cpu = new CpuMeter(() => ({
      ...millrace.children.pids(),
      'API server': apiServer,
      etcd,
    }));
    await cpu.start();
    options.log(`${changesPerSecond} changes a second for ${seconds} s`);
    const outcome = await changeFor(load, seconds);
    return figuresOf(outcome, await cpu.read());
  },
};

/** A shard whose pods nobody but this process makes ready. */
interface ChangingShard {
  readonly name: string;
  readonly pods: readonly string[];
  /** Those that are ready now, or will be when the change under way is answered. */
  readonly ready: Set<string>;
  isChanging: boolean;
}

async function settledShards(
  { connection, topologyEtcd }: Cluster,
  board: ShardBoard,
  options: PartOptions,
): Promise<readonly ChangingShard[]> {
  const names = Array.from({ length: scaled(shardCount, options) }, (_, place) => `step-${place}`);
  options.log(`making ${names.length} shards`);
  await create(
    connection,
    'Database',
    databaseManifest('main', {
      endpoint: topologyEtcd.endpoint,
      globalRoot: '/multigres/global',
      // Asked only about members that leave.
      adminUrl: topologyEtcd.endpoint,
    }),
  );
  await forEach(names, (name) => create(connection, 'Shard', shardManifest(name, 'main')));
  const untilEach = (what: string, isSo: (shard: KubeObject<'Shard'>) => boolean) =>
    Promise.all(names.map((name) => board.until(name, what, 300, isSo)));
  await untilEach(
    'its pods are made',
    ({ status }) =>
      status?.conditions?.some(
        ({ type, reason }) => type === 'Reconciling' && reason === 'MembersStarting',
      ) === true,
  );
  const podsByShard = await podNames(connection);
  const shards = names.map((name) => ({
    name,
    pods: podsByShard.get(name) ?? [],
    ready: new Set<string>(),
    isChanging: false,
  }));
  await forEach(
    shards.flatMap((shard) => shard.pods.map((pod) => ({ shard, pod }))),
    async ({ shard, pod }) => {
      shard.ready.add(pod);
      await patchPodStatus(connection, pod, readiness(true));
    },
  );
  await untilEach('its members are counted', (shard) => readyOf(shard) === membersOfShard);
  return shards;
}

async function podNames(connection: KubeConnection): Promise<ReadonlyMap<string, string[]>> {
  const path = collectionPath('Pod', namespace);
  const { body } = await connection.request({ method: 'GET', path });
  const { items } = body as { readonly items: readonly KubeObject<'Pod'>[] };
  const names = new Map<string, string[]>();
  for (const { metadata } of items) {
    const shard = metadata.labels?.[shardLabel] ?? '';
    names.set(shard, [...(names.get(shard) ?? []), metadata.name]);
  }
  return names;
}

interface Load {
  readonly connection: KubeConnection;
  readonly board: ShardBoard;
  readonly shards: readonly ChangingShard[];
  readonly changesPerSecond: number;
}

interface Outcome {
  /** Of each change that a write answered, in milliseconds. */
  readonly latenciesMs: readonly number[];
  readonly unanswered: number;
  /** Changes per second that were really made. */
  readonly rate: number;
}

/** The next change is due whatever became of the last one: a slow system is not asked less. */
async function changeFor(load: Load, lengthSeconds: number): Promise<Outcome> {
  const beganMs = performance.now();
  const endMs = beganMs + lengthSeconds * 1000;
  const changes: Promise<number | undefined>[] = [];
  for (let dueMs = beganMs; dueMs < endMs; dueMs += gapMs(load.changesPerSecond)) {
    await delay(Math.max(0, dueMs - performance.now()));
    const idle = load.shards.filter(({ isChanging }) => !isChanging);
    const shard = idle[Math.floor(Math.random() * idle.length)];
    if (shard !== undefined) {
      changes.push(awaitedLater(change(load, shard)));
    }
  }
  const rate = changes.length / ((performance.now() - beganMs) / 1000);
  const latencies = await Promise.all(changes);
  const latenciesMs = latencies.filter((latency) => latency !== undefined);
  return { latenciesMs, unanswered: changes.length - latenciesMs.length, rate };
}

/** Between two changes that know nothing of each other: exponentially distributed. */
function gapMs(changesPerSecond: number): number {
  return (-Math.log(1 - Math.random()) * 1000) / changesPerSecond;
}

/** Turns the readiness of one member over. Resolves with the time until it is counted, `undefined` when it never is. */
async function change(
  { connection, board }: Load,
  shard: ChangingShard,
): Promise<number | undefined> {
  const pod = shard.pods[Math.floor(Math.random() * shard.pods.length)] ?? '';
  shard.isChanging = true;
  const isReady = !shard.ready.delete(pod);
  if (isReady) {
    shard.ready.add(pod);
  }
  const counted = board
    .until(
      shard.name,
      'the change is counted',
      patienceSeconds,
      (seen) => readyOf(seen) === shard.ready.size,
    )
    .catch(() => undefined);
  await patchPodStatus(connection, pod, readiness(isReady));
  const answeredMs = performance.now();
  const countedMs = await counted;
  shard.isChanging = false;
  // The watch may be quicker than the answer to the change.
  return countedMs === undefined ? undefined : Math.max(0, countedMs - answeredMs);
}

function readiness(isReady: boolean) {
  const status = isReady ? 'True' : 'False';
  const lastTransitionTime = new Date().toISOString();
  return { conditions: [{ type: 'Ready', status, lastTransitionTime }] };
}

function readyOf({ status }: KubeObject<'Shard'>): number | undefined {
  return status?.pools?.[0]?.ready;
}

function figuresOf(
  { latenciesMs, unanswered, rate }: Outcome,
  cpu: ReadonlyMap<string, number>,
): Figure[] {
  const changes = latenciesMs.length + unanswered;
  const usage = [...cpu].map(([name, ms]) =>
    figure(`step: CPU of ${name} per change`, ms / changes, 'ms'),
  );
  return [
    figure('step: change to write, p50', percentile(latenciesMs, 0.5), 'ms', {
      goal: medianGoalMs,
    }),
    figure('step: change to write, p99', percentile(latenciesMs, 0.99), 'ms', {
      goal: slowestGoalMs,
    }),
    figure('step: change to write, mean', mean(latenciesMs), 'ms'),
    figure('step: change to write, slowest', Math.max(...latenciesMs), 'ms'),
    figure('step: changes without a write', unanswered, 'changes', { goal: 0 }),
    figure('step: changes made', rate, 'changes/s'),
    ...usage,
  ];
}
