import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import * as z from 'zod';
import { stepNames } from '#shared/api/steps.ts';
import { Packaged } from './cold-start/contenders.ts';
import { FunctionProcess } from './cold-start/function-process.ts';
import { obtainRuntimeClient } from './cold-start/runtime-client.ts';
import {
  type Counts,
  type Fleet,
  type Measured,
  alwaysOn,
  monthlyApiRequests,
  monthlyBill,
} from './cost-model.ts';
import {
  type Phase,
  type Requests,
  type Stage,
  drain,
  makeShards,
  measurePhase,
  requestsOf,
  startStandIn,
} from './drains.ts';
import { type Figure, figure } from './figure.ts';
import { type Cluster, endControllers, startCluster, startMillrace } from './installation.ts';
import { type Part, type PartOptions, scaled } from './part.ts';
import { usageOf } from './process-usage.ts';
import { ShardBoard } from './shard-board.ts';

const shardCount = 20;
const drainCount = 3;
const resyncCount = 3;
const looksBeforeCounting = 100;
const looksCounted = 300;
const quietMs = 5_000;
const patienceMs = 120_000;

const fleets: readonly Fleet[] = [10, 100, 1_000].map((shards) => ({ shards, drainsPerShard: 3 }));

/**
 * What a month in AWS costs: counted on a real API server, multiplied by published prices.
 *
 * Counted are the hints, looks and requests of a resync of shards with nothing to do, and of a drain; measured are
 * processor time and log of a look by the packaged function. The month, the prices and everything that is taken for
 * granted instead stand in cost-model.ts.
 */
export const cost: Part = {
  name: 'cost',
  title: 'a month of 10, 100 and 1,000 shards in AWS, from counted requests',
  async measure(options) {
    const client = await obtainRuntimeClient(options.log);
    await using stack = new AsyncDisposableStack();
    const cluster = stack.use(await startCluster(options, { isAudited: true }));
    const board = new ShardBoard(cluster.connection);
    stack.defer(() => board.close());
    const count = scaled(shardCount, options);
    const names = Array.from({ length: count }, (_, place) => `shard-${place}`);
    const dataPlanes = await startStandIn(cluster, names);
    stack.defer(() => dataPlanes.stop());
    const stage = { cluster, board, dataPlanes };
    const phases = await countPhases(stage, names, options);
    const look = await measureLook(cluster, board, names[0] ?? '', client, options);
    const [resyncs, drains] = phases;
    const measured: Measured = {
      resync: perOne(resyncs, count * resyncCount),
      drain: perOne(drains, Math.min(drainCount, count)),
      look,
    };
    return figuresOf(measured, await alarmsOfStack());
  },
};

interface Counted {
  readonly phase: Phase;
  readonly requests: Requests;
}

/** Resyncs first, then drains. */
async function countPhases(
  parts: Omit<Stage, 'millrace'>,
  names: readonly string[],
  options: PartOptions,
): Promise<readonly [Counted, Counted]> {
  await using millrace = await startMillrace(parts.cluster, options);
  const stage: Stage = { ...parts, millrace };
  await makeShards(stage, names, options);
  await endControllers(parts.cluster);
  await untilQuiet(stage);
  options.log(`${resyncCount} resyncs`);
  const resyncs = await measurePhase(stage, async () => {
    for (let time = 0; time < resyncCount; time += 1) {
      process.kill(millrace.children.pids().relay, 'SIGHUP');
      await untilQuiet(stage);
    }
    return [];
  });
  options.log('drains, one after the other');
  const drains = await measurePhase(stage, async () => {
    const times: number[] = [];
    for (const name of names.slice(0, drainCount)) {
      times.push(await drain(stage, name));
    }
    await untilQuiet(stage);
    return times;
  });
  const [ofResyncs, ofDrains] = await requestsOf(stage, [resyncs, drains]);
  const none = { reads: 0, writes: 0 };
  return [
    { phase: resyncs, requests: ofResyncs ?? none },
    { phase: drains, requests: ofDrains ?? none },
  ];
}

/** Until nobody has looked at anything for a while. */
async function untilQuiet({ millrace }: Stage): Promise<void> {
  const deadlineMs = performance.now() + patienceMs;
  let seen = -1;
  for (let now = await looksOf(millrace); now !== seen; now = await looksOf(millrace)) {
    if (performance.now() > deadlineMs) {
      throw new Error(`it was not quiet within ${patienceMs / 1000} s`);
    }
    seen = now;
    await delay(quietMs);
  }
}

async function looksOf(millrace: Stage['millrace']): Promise<number> {
  const { looks } = await millrace.work();
  return sum(looks);
}

function sum(looks: ReadonlyMap<string, number>): number {
  return looks.values().reduce((total, count) => total + count, 0);
}

function perOne({ phase, requests }: Counted, count: number): Counts {
  return {
    looks: sum(phase.work.looks) / count,
    requests: (requests.reads + requests.writes) / count,
  };
}

/** Of drain-step, packaged and warm, at a shard from which nobody leaves: it asks the API server and the topology. */
async function measureLook(
  cluster: Cluster,
  board: ShardBoard,
  name: string,
  client: string,
  options: PartOptions,
): Promise<Measured['look']> {
  options.log('building the functions');
  const packaged = await Packaged.build(cluster);
  const contender = packaged.step('drain-step', { name, uid: board.get(name).metadata.uid });
  const logPath = join(cluster.folder, 'look.log');
  await using running = await FunctionProcess.start(contender, client, logPath);
  const invoke = async (times: number): Promise<void> => {
    for (let time = 0; time < times; time += 1) {
      await running.invoke();
    }
  };
  await invoke(looksBeforeCounting);
  const before = { cpu: await usageOf(running.pid), log: await stat(logPath) };
  await invoke(looksCounted);
  const after = { cpu: await usageOf(running.pid), log: await stat(logPath) };
  return {
    cpuMs: (after.cpu.cpuMs - before.cpu.cpuMs) / looksCounted,
    logBytes: (after.log.size - before.log.size) / looksCounted,
    metrics: metricsIn(await readFile(logPath, 'utf8')),
  };
}

const metricsLine = z.looseObject({
  ['_aws']: z.object({
    CloudWatchMetrics: z.array(
      z.object({
        Dimensions: z.tuple([z.array(z.string())]),
        Metrics: z.array(z.looseObject({ Name: z.string() })),
      }),
    ),
  }),
});

/** How many metrics CloudWatch makes of a log: one for each name and set of dimensions with their values. */
function metricsIn(log: string): number {
  const lines = log.split('\n').filter((line) => line.startsWith('{') && line.includes('"_aws"'));
  const series = lines.flatMap((line) => {
    const parsed = metricsLine.parse(JSON.parse(line));
    return parsed['_aws'].CloudWatchMetrics.flatMap(({ Dimensions: [dimensions], Metrics }) =>
      Metrics.map(({ Name }) =>
        [Name, ...dimensions.map((name) => String(parsed[name]))].join('/'),
      ),
    );
  });
  return new Set(series).size;
}

async function alarmsOfStack(): Promise<number> {
  const path = new URL('../../infra/aws/resources.yml', import.meta.url);
  return (await readFile(path, 'utf8')).match(/^ +Type: AWS::CloudWatch::Alarm$/gm)?.length ?? 0;
}

function figuresOf(measured: Measured, alarms: number): Figure[] {
  const { resync, drain: ofDrain, look } = measured;
  return [
    figure('cost: looks of a resync, per shard', resync.looks, 'looks'),
    figure('cost: requests of a resync, per shard', resync.requests, 'requests'),
    figure('cost: looks of a drain', ofDrain.looks, 'looks'),
    figure('cost: requests of a drain', ofDrain.requests, 'requests'),
    figure('cost: processor time of a look', look.cpuMs, 'ms'),
    figure('cost: log of a look', look.logBytes, 'bytes'),
    figure('cost: metrics of a step', look.metrics, 'metrics'),
    ...fleets.flatMap((fleet) => billFigures(measured, fleet, alarms)),
    figure('cost: two tasks that always run', alwaysOn(), '$ a month'),
  ];
}

function billFigures(measured: Measured, fleet: Fleet, alarms: number): Figure[] {
  const bill = monthlyBill(measured, fleet, { queues: stepNames.length, alarms });
  const of = `cost: ${fleet.shards} shards`;
  return [
    ...bill.flatMap(({ name, count, unit, dollars }) => [
      figure(`${of}, ${name}`, count, unit),
      figure(`${of}, ${name}`, dollars, '$ a month'),
    ]),
    figure(
      `${of}, all`,
      bill.reduce((total, { dollars }) => total + dollars, 0),
      '$ a month',
      { peer: alwaysOn() },
    ),
    figure(`${of}, requests to the API server`, monthlyApiRequests(measured, fleet), 'requests'),
  ];
}
