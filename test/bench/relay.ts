import { execFile } from 'node:child_process';
import { cp, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs, promisify } from 'node:util';
import * as z from 'zod';
import { queueName } from '#events/hint.ts';
import { routing } from '#events/routes.ts';
import { startControlPlane } from '#infra/local/control-plane/control-plane.ts';
import { makeGuardedFolder, startGuarded } from '#infra/local/control-plane/guard.ts';
import { connectKube } from '#shared/kube/http-connection.ts';
import { embeddedQueueUrlPrefix } from '#shared/queue/sqs-sender.ts';
import { awaitedLater } from './awaited-later.ts';
import { bundlePeer } from './bundle-peer.ts';
import { percentile } from './distribution.ts';
import { type Figure, figure } from './figure.ts';
import { HintLedger, type ReadHint } from './hint-ledger.ts';
import { usageOf } from './process-usage.ts';
import { RecordingQueues } from './recording-queues.ts';
import { type Change, RelayWorld } from './relay-world.ts';

export interface RelayBenchOptions {
  readonly pods: number;
  readonly changes: number;
  readonly log: (text: string) => void;
}

export const changesPerSecond = 200;

/** An API server that answers no faster than this is overloaded, and the pace goes down with it. */
const unansweredAtOnce = 100;

/** The outage is in the middle of the changes that are made around it, and takes this part of their time at most. */
const longestOutageMs = 30_000;
const outageShare = 0.6;

/** A relay that has sent its first hints collects its garbage and is then what it is for the rest of its life. */
export const settleMs = 5_000;

/** How long after the last change, or after an outage, its hint may take before it counts as lost. */
export const patienceMs = 20_000;

/** How long a relay may take to hint at everything once. */
const startPatienceMs = 60_000;

const root = new URL('../..', import.meta.url).pathname;
const stage = 'bench';

/** Of the steps that care about the members of their target: the changes here are of pods. */
export const queues = routing.routes
  .filter(({ target, members }) => target === 'Shard' && members)
  .map(({ step }) => queueName(stage, step));

/** A relay and how to read what it sends. */
export interface Competitor {
  readonly name: string;
  readonly entry: string;
  environment(endpoint: string, kubeconfig: string): Record<string, string>;
  read(body: string): ReadHint;
}

/** What one relay did. */
interface Result {
  readonly settledMib: number;
  readonly peakMib: number;
  readonly firstHintSeconds: number;
  readonly lastFirstHintSeconds: number;
  /** For {@link RelayBenchOptions.changes}. */
  readonly cpuSeconds: number;
  readonly delaysMs: readonly number[];
  readonly requests: ReadonlyMap<string, number>;
  readonly unheard: number;
  readonly lostInOutage: number;
}

const sharedEnvironment = {
  AWS_REGION: 'us-east-1',
  AWS_ACCESS_KEY_ID: 'bench',
  AWS_SECRET_ACCESS_KEY: 'bench',
};

const ourHint = z.looseObject({ id: z.string(), data: z.looseObject({ name: z.string() }) });
const naiveHint = z.looseObject({ name: z.string(), resourceVersion: z.string() });

/**
 * Our relay and a naive one, one after the other, on the same API server with the same shards and pods: memory, start,
 * processor time, delay and requests at 200 changes a second, and what an outage of the queue loses. Both are bundled
 * and run by Node without a flag; the queue is a stand-in inside this process that only notes when each message came.
 */
export async function measureRelay(options: RelayBenchOptions): Promise<Figure[]> {
  await using stack = new AsyncDisposableStack();
  const guarded = await makeGuardedFolder(join(tmpdir(), 'millrace-bench-relay-'));
  stack.defer(() => guarded.remove());
  options.log('bundling both relays');
  const competitors = [await bundleOurs(guarded.path), await bundleNaive(guarded.path)];
  options.log('starting a control plane');
  const controlPlane = stack.use(
    await startControlPlane({ dataDir: join(guarded.path, 'control-plane') }),
  );
  const connection = connectKube(controlPlane.access());
  stack.defer(() => connection.close());
  options.log(`creating ${options.pods} pods`);
  const world = await RelayWorld.create(connection, options.pods);
  options.log(`a pod has ${Math.round(await world.podBytes())} bytes on average`);
  const results: Result[] = [];
  for (const competitor of competitors) {
    const place = { folder: guarded.path, kubeconfig: controlPlane.kubeconfigPath };
    results.push(await measure(competitor, world, place, options));
  }
  const [ours, naive] = results;
  if (ours === undefined || naive === undefined) {
    throw new Error('both relays are measured');
  }
  return figuresOf(ours, naive, options);
}

function figuresOf(ours: Result, naive: Result, { changes }: RelayBenchOptions): Figure[] {
  const per10k = (value: number): number => (value * 10_000) / changes;
  const sum = (counts: ReadonlyMap<string, number>) => counts.values().reduce((a, b) => a + b, 0);
  const most = (counts: ReadonlyMap<string, number>) => Math.max(0, ...counts.values());
  const pair = (
    name: string,
    unit: string,
    value: (result: Result) => number,
    goal?: number,
  ): Figure =>
    figure(`relay: ${name}`, value(ours), unit, {
      peer: value(naive),
      ...(goal === undefined ? {} : { goal }),
    });
  return [
    pair('memory, all listed', 'MiB', ({ settledMib }) => settledMib, 100),
    pair('memory, peak', 'MiB', ({ peakMib }) => peakMib, 100),
    pair('first hint after start', 's', ({ firstHintSeconds }) => firstHintSeconds, 2.5),
    pair('every target hinted at after start', 's', (result) => result.lastFirstHintSeconds),
    pair('processor time per 10,000 changes', 's', ({ cpuSeconds }) => per10k(cpuSeconds)),
    figure(
      'relay: processor time, part of the naive relay’s',
      ours.cpuSeconds / naive.cpuSeconds,
      'ratio',
      { goal: 0.5 },
    ),
    pair('hint delay, median', 'ms', ({ delaysMs }) => percentile(delaysMs, 0.5), 50),
    pair('hint delay, p99', 'ms', ({ delaysMs }) => percentile(delaysMs, 0.99), 250),
    pair('requests per 10,000 changes', 'requests', ({ requests }) => per10k(sum(requests))),
    pair(
      'requests per 10,000 changes and queue',
      'requests',
      ({ requests }) => per10k(most(requests)),
      1_100,
    ),
    pair('changes without a hint after them', 'changes', ({ unheard }) => unheard, 0),
    pair('final states lost in an outage', 'shards', ({ lostInOutage }) => lostInOutage, 0),
  ];
}

async function measure(
  competitor: Competitor,
  world: RelayWorld,
  place: { readonly folder: string; readonly kubeconfig: string },
  { changes, log }: RelayBenchOptions,
): Promise<Result> {
  await using stack = new AsyncDisposableStack();
  const ledger = new HintLedger(queues, (body) => competitor.read(body));
  const recorder = stack.use(await RecordingQueues.start((arrival) => ledger.add(arrival)));
  const tell = (text: string): void => log(`${competitor.name}: ${text}`);
  const startedMs = performance.now();
  const logPath = join(place.folder, `${competitor.name}.log`);
  const relay = startGuarded({
    command: process.execPath,
    flags: [competitor.entry],
    logPath,
    environment: competitor.environment(recorder.endpoint, place.kubeconfig),
  });
  stack.defer(() => relay.stop(settleMs));
  const all = world.shards * queues.length;
  if (!(await waitUntil(() => ledger.reached >= all, startPatienceMs))) {
    throw new Error(
      `${competitor.name} hinted at ${ledger.reached} of ${all}:\n${(await readFile(logPath, 'utf8')).slice(-2_000)}`,
    );
  }
  await delay(settleMs);
  const before = await usageOf(relay.pid);
  const requestsBefore = new Map(recorder.requests);
  tell(`has ${before.rssMib.toFixed(0)} MiB; ${changes} changes`);

  const changingMs = performance.now();
  const made = await makeChanges(world, changes);
  const pace = (changes * 1000) / (performance.now() - changingMs);
  tell(`${pace.toFixed(0)} changes a second`);
  await waitUntil(() => ledger.unheard(made) === 0, patienceMs);
  const after = await usageOf(relay.pid);
  const peakMib = await peakOf(relay.pid);
  const requests = new Map(
    recorder.requests
      .entries()
      .map(([queue, count]) => [queue, count - (requestsBefore.get(queue) ?? 0)]),
  );

  const outageMs = Math.min(longestOutageMs, (changes / changesPerSecond) * 1000 * outageShare);
  tell(`the queue is away for ${(outageMs / 1000).toFixed(0)} s`);
  const lostInOutage = await loseInOutage(world, recorder, ledger, outageMs);
  return {
    settledMib: before.rssMib,
    peakMib,
    firstHintSeconds: ((ledger.firstMs ?? Number.NaN) - startedMs) / 1000,
    lastFirstHintSeconds: ((ledger.newestMs ?? Number.NaN) - startedMs) / 1000,
    cpuSeconds: (after.cpuMs - before.cpuMs) / 1000,
    delaysMs: ledger.delaysMs(made),
    requests,
    unheard: ledger.unheard(made),
    lostInOutage,
  };
}

/** Writes to pods at a steady pace, however long the answers take, as long as not too many are missing. */
export async function makeChanges(world: RelayWorld, count: number): Promise<Change[]> {
  const startedMs = performance.now();
  const changes: Promise<Change>[] = [];
  let unanswered = 0;
  while (changes.length < count) {
    const due = Math.min(count, ((performance.now() - startedMs) * changesPerSecond) / 1000);
    while (changes.length < due && unanswered < unansweredAtOnce) {
      unanswered += 1;
      changes.push(awaitedLater(world.change().finally(() => (unanswered -= 1))));
    }
    await delay(1);
  }
  return Promise.all(changes);
}

/** How many shards changed, during an outage or around it, and got no hint after their last change. */
async function loseInOutage(
  world: RelayWorld,
  recorder: RecordingQueues,
  ledger: HintLedger,
  outageMs: number,
): Promise<number> {
  const count = Math.round(((outageMs / outageShare) * changesPerSecond) / 1000);
  const goAway = async () => {
    await delay((outageMs / outageShare - outageMs) / 2);
    await recorder.goAway();
    await delay(outageMs);
    await recorder.comeBack();
  };
  const [made] = await Promise.all([makeChanges(world, count), goAway()]);
  const last = new Map<string, Change>();
  for (const change of made) {
    const known = last.get(change.shard);
    if (known === undefined || known.version < change.version) {
      last.set(change.shard, change);
    }
  }
  const finals = [...last.values()];
  await waitUntil(() => ledger.unheard(finals) === 0, patienceMs);
  return ledger.unheard(finals);
}

/** The most memory that was resident so far, in MiB. */
export async function peakOf(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1]) / 1024;
}

/** Looks a few times a second. Resolves with whether it came true in time. */
export async function waitUntil(
  isTrue: () => boolean | Promise<boolean>,
  timeoutMs: number,
): Promise<boolean> {
  const deadlineMs = performance.now() + timeoutMs;
  while (!(await isTrue())) {
    if (performance.now() > deadlineMs) {
      return false;
    }
    await delay(200);
  }
  return true;
}

/** Ours as it is shipped. */
export async function bundleOurs(folder: string): Promise<Competitor> {
  await promisify(execFile)(process.execPath, [join(root, 'infra/build.ts')]);
  await cp(join(root, 'dist/relay'), join(folder, 'relay'), { recursive: true });
  return {
    name: 'ours',
    entry: join(folder, 'relay', 'index.mjs'),
    environment: (endpoint, kubeconfig) => ({
      ...sharedEnvironment,
      MILLRACE_CLUSTER_ID: 'bench',
      MILLRACE_STAGE: stage,
      MILLRACE_QUEUE_ENDPOINT: endpoint,
      MILLRACE_RELAY_PORT: '0',
      KUBECONFIG: kubeconfig,
    }),
    read(body) {
      const { id, data } = ourHint.parse(JSON.parse(body));
      return { shard: data.name, version: Number(id.split('/')[1]) };
    },
  };
}

/** Bundled as ours is. */
async function bundleNaive(folder: string): Promise<Competitor> {
  const naive = join(folder, 'naive', 'index.mjs');
  await bundlePeer({ entryPoints: [join(root, 'test/bench/naive-relay.ts')] }, naive);
  return {
    name: 'naive',
    entry: naive,
    environment: (endpoint, kubeconfig) => ({
      ...sharedEnvironment,
      KUBECONFIG: kubeconfig,
      QUEUE_ENDPOINT: endpoint,
      QUEUE_URLS: queues.map((queue) => `${embeddedQueueUrlPrefix(endpoint)}${queue}`).join(','),
    }),
    read(body) {
      const { name, resourceVersion } = naiveHint.parse(JSON.parse(body));
      return { shard: name, version: Number(resourceVersion) };
    },
  };
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      pods: { type: 'string', default: '10000' },
      changes: { type: 'string', default: '10000' },
    },
  });
  const figures = await measureRelay({
    pods: Number(values.pods),
    changes: Number(values.changes),
    log: (text) => void process.stderr.write(`${text}\n`),
  });
  for (const { name, value, unit, goal, met, peer } of figures) {
    const mark = { true: '✓', false: '✗', null: ' ' }[String(met)] ?? ' ';
    const limit = goal === null ? '' : `  goal ≤ ${goal}`;
    const other = peer === undefined ? '' : `  naive ${peer}`;
    console.log(`${mark} ${name}: ${value} ${unit}${limit}${other}`);
  }
}
