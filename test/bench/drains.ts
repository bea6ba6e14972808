import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { readDrainRecord } from '#shared/api/drain-record.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import { type DataPlanes, startDataPlanes } from '#infra/local/data-plane/start.ts';
import { databaseManifest } from '#test/builders/manifest.ts';
import { median } from './distribution.ts';
import { type Figure, figure } from './figure.ts';
import {
  type Cluster,
  type Millrace,
  type WorkDone,
  auditedRequests,
  endControllers,
  startCluster,
  startMillrace,
} from './installation.ts';
import { cell, create, forEach, membersOfShard, patch, shardManifest } from './objects.ts';
import { type Part, type PartOptions, scaled } from './part.ts';
import { CpuMeter } from './process-usage.ts';
import { ShardBoard } from './shard-board.ts';

const togetherCount = 100;

/** Drains one after the other, for the median of one alone. */
const aloneCount = 3;

/** The slowest of all at once may take so many times what one alone takes. */
const goalRatio = 2;

/** A fresh shard takes 40 s by the data plane's own times; a hundred of them wait for one machine. */
const patienceSeconds = 600;

/** At its real speed: settling and stopping take as long as measured, and Millrace's own waits are never shortened. */
const speed = 1;

/**
 * How long a drain takes when a hundred shards drain at the same moment, beside one that drains alone, through relay,
 * embedded queue and worker, on real API server and etcd.
 *
 * A drain begins when the API server's answer to the new count, three to two members, has come to this process, and
 * ends when this process's watch shows the Shard without a record and `Drained` for that generation: the member has
 * left, its pooler is out of the cohort, its claim is dealt with. Both are read from this process's monotonic clock.
 * Each shard has its own Database, etcd prefix and admin service; one process stands in for all of them, at real speed.
 */
export const drains: Part = {
  name: 'drains',
  title: 'a hundred shards that drain at once, beside one that drains alone',
  async measure(options) {
    await using stack = new AsyncDisposableStack();
    const cluster = stack.use(await startCluster(options, { isAudited: true }));
    const board = new ShardBoard(cluster.connection);
    stack.defer(() => board.close());
    const names = shardNames(options);
    const dataPlanes = await startStandIn(cluster, [...names.alone, ...names.together]);
    stack.defer(() => dataPlanes.stop());
    const millrace = stack.use(await startMillrace(cluster, options));
    const stage: Stage = { cluster, board, dataPlanes, millrace };
    await makeShards(stage, [...names.alone, ...names.together], options);
    await endControllers(cluster);
    const alone = await measurePhase(stage, async () => {
      const times: number[] = [];
      for (const [place, name] of names.alone.entries()) {
        times.push(await drain(stage, name));
        options.log(`alone, ${place + 1} of ${aloneCount}: ${inSeconds(times.at(-1) ?? 0)} s`);
      }
      return times;
    });
    options.log(`${names.together.length} at once`);
    const together = await measurePhase(stage, () =>
      Promise.all(names.together.map((name) => drain(stage, name))),
    );
    return figuresOf(alone, together, await requestsOf(stage, [alone, together]));
  },
};

export interface Stage {
  readonly cluster: Cluster;
  readonly board: ShardBoard;
  readonly dataPlanes: DataPlanes;
  readonly millrace: Millrace;
}

function shardNames(options: PartOptions) {
  const named = (prefix: string, count: number) =>
    Array.from({ length: count }, (_, place) => `${prefix}-${place}`);
  return {
    alone: named('alone', aloneCount),
    together: named('together', scaled(togetherCount, options)),
  };
}

export function startStandIn(
  { controlPlane, topologyEtcd, folder }: Cluster,
  names: readonly string[],
): Promise<DataPlanes> {
  return startDataPlanes({
    server: controlPlane.server,
    ca: controlPlane.ca,
    token: controlPlane.adminToken,
    etcdEndpoint: topologyEtcd.endpoint,
    dataDir: join(folder, 'data-plane'),
    speed,
    dataPlanes: names.map((name, place) => ({
      shardName: name,
      seed: place + 1,
      cells: [cell],
      globalRoot: globalRootOf(name),
      // One root for all, so that one read of etcd tells the data plane everything.
      cellRoot: globalRootOf(name),
    })),
  });
}

function globalRootOf(name: string): string {
  return `/${name}/global`;
}

export async function makeShards(
  { cluster, board, dataPlanes }: Stage,
  names: readonly string[],
  { log }: PartOptions,
): Promise<void> {
  log(`making ${names.length} shards of ${membersOfShard} members`);
  const endpoint = cluster.topologyEtcd.endpoint;
  const places = names.map((name, place) => ({ name, plane: dataPlanes.each[place] }));
  await forEach(places, async ({ name, plane }) => {
    const access = { endpoint, globalRoot: globalRootOf(name), adminUrl: plane?.adminUrl ?? '' };
    await create(cluster.connection, 'Database', databaseManifest(name, access));
    await create(cluster.connection, 'Shard', shardManifest(name, name));
  });
  let steady = 0;
  await Promise.all(
    names.map(async (name) => {
      await board.until(name, 'all members are ready', patienceSeconds, (shard) =>
        isSteady(shard, membersOfShard),
      );
      steady += 1;
      if (steady % 10 === 0) {
        log(`${steady} of ${names.length} are ready`);
      }
    }),
  );
}

/** Milliseconds from the answer to the new count until the shard has one member less and no record. */
export async function drain({ cluster, board }: Stage, name: string): Promise<number> {
  const { metadata, spec } = board.get(name);
  const generation = (metadata.generation ?? 0) + 1;
  const pools = spec.pools.map((pool) => ({ ...pool, replicasPerCell: membersOfShard - 1 }));
  await patch(cluster.connection, 'Shard', name, { spec: { pools } });
  const beganMs = performance.now();
  const endedMs = await board.until(
    name,
    'the drain is over',
    patienceSeconds,
    (shard) =>
      (shard.metadata.generation ?? 0) >= generation &&
      readDrainRecord(shard.metadata).kind === 'none' &&
      holds(shard, 'Drained', generation),
  );
  return endedMs - beganMs;
}

function isSteady(shard: KubeObject<'Shard'>, members: number): boolean {
  const { generation = 0 } = shard.metadata;
  return (
    readDrainRecord(shard.metadata).kind === 'none' &&
    shard.status?.pools?.[0]?.ready === members &&
    ['Ready', 'Drained', 'PodsUpToDate'].every((type) => holds(shard, type, generation))
  );
}

function holds({ status }: KubeObject<'Shard'>, type: string, generation: number): boolean {
  return (
    status?.conditions?.some(
      (condition) =>
        condition.type === type &&
        condition.status === 'True' &&
        condition.observedGeneration >= generation,
    ) ?? false
  );
}

/** What happened while some shards drained. */
export interface Phase {
  /** Of each drain, in milliseconds. */
  readonly drainsMs: readonly number[];
  readonly lengthMs: number;
  /** Milliseconds since the epoch, for the audit log. */
  readonly fromMs: number;
  readonly toMs: number;
  readonly work: WorkDone;
  /** Processor time in milliseconds, by process. */
  readonly cpu: ReadonlyMap<string, number>;
}

export async function measurePhase(
  { cluster, millrace, dataPlanes }: Stage,
  run: () => Promise<readonly number[]>,
): Promise<Phase> {
  const cpu = new CpuMeter(() => ({
    ...millrace.children.pids(),
    'API server': cluster.controlPlane.pids.apiServer,
    etcd: cluster.controlPlane.pids.etcd,
    'topology etcd': cluster.topologyEtcd.pid,
    'stand-in data planes': dataPlanes.pid,
    benchmark: process.pid,
  }));
  const before = await millrace.work();
  await cpu.start();
  const [fromMs, began] = [Date.now(), performance.now()];
  const drainsMs = await run();
  const lengthMs = performance.now() - began;
  const after = await millrace.work();
  return {
    drainsMs,
    lengthMs,
    fromMs,
    toMs: Date.now(),
    work: {
      hints: after.hints - before.hints,
      looks: new Map(
        [...after.looks].map(([step, count]) => [step, count - (before.looks.get(step) ?? 0)]),
      ),
    },
    cpu: await cpu.read(),
  };
}

export interface Requests {
  readonly reads: number;
  readonly writes: number;
}

const readingVerbs: ReadonlySet<string> = new Set(['get', 'list']);

/** What Millrace asked of the API server in each phase; its watches are no requests of a drain. */
export async function requestsOf(
  { cluster }: Stage,
  phases: readonly Phase[],
): Promise<readonly Requests[]> {
  const requests = (await auditedRequests(cluster)).filter(({ verb }) => verb !== 'watch');
  return phases.map(({ fromMs, toMs }) => {
    const within = requests.filter(({ receivedAt }) => {
      const atMs = Date.parse(receivedAt);
      return atMs >= fromMs && atMs <= toMs;
    });
    const reads = within.filter(({ verb }) => readingVerbs.has(verb)).length;
    return { reads, writes: within.length - reads };
  });
}

function figuresOf(
  alone: Phase,
  together: Phase,
  [aloneRequests, togetherRequests]: readonly Requests[],
): Figure[] {
  const aloneMs = median(alone.drainsMs);
  const many = `${together.drainsMs.length} at once`;
  const slowestMs = Math.max(...together.drainsMs);
  return [
    figure('drains: one alone, median', aloneMs / 1000, 's'),
    figure(`drains: ${many}, median`, median(together.drainsMs) / 1000, 's'),
    figure(`drains: ${many}, slowest`, slowestMs / 1000, 's'),
    figure(`drains: ${many}, slowest to one alone`, slowestMs / aloneMs, 'ratio', {
      goal: goalRatio,
    }),
    figure(`drains: ${many}, median to one alone`, median(together.drainsMs) / aloneMs, 'ratio'),
    ...costFigures('alone', alone, aloneRequests),
    ...costFigures(many, together, togetherRequests),
    ...usageFigures(many, together),
  ];
}

/** Per drain: what it cost. */
function costFigures(which: string, phase: Phase, requests: Requests | undefined): Figure[] {
  const count = phase.drainsMs.length;
  const told = (what: string, total: number, unit: string) =>
    figure(`drains: ${which}, ${what} per drain`, total / count, unit);
  return [
    told('hints', phase.work.hints, 'hints'),
    ...[...phase.work.looks].map(([step, looks]) => told(`looks of ${step}`, looks, 'looks')),
    told('API reads', requests?.reads ?? Number.NaN, 'requests'),
    told('API writes', requests?.writes ?? Number.NaN, 'requests'),
  ];
}

/** Who was busy while they drained, as a share of all processors: what holds the drains up, where something does. */
function usageFigures(which: string, { cpu, lengthMs }: Phase): Figure[] {
  const wholeMs = lengthMs * availableParallelism();
  return [...cpu].map(([name, ms]) =>
    figure(`drains: ${which}, ${name}’s share of the machine`, (100 * ms) / wholeMs, '%'),
  );
}

function inSeconds(milliseconds: number): string {
  return (milliseconds / 1000).toFixed(1);
}
