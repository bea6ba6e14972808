import { existsSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { join } from 'node:path';
import { DeleteMessageBatchCommand, ReceiveMessageCommand, SQSClient } from '@aws-sdk/client-sqs';
import * as z from 'zod';
import { queueName } from '#events/hint.ts';
import { readEnvironment } from '#infra/cli/settings.ts';
import { type Child, launch } from '#infra/local/child/launch.ts';
import { queueUrl } from '#infra/local/queue/queue.ts';
import { type QueueProcess, startQueue } from '#infra/local/queue/start.ts';
import { recordAnnotation } from '#shared/api/annotations.ts';
import { type StepName, stepNames } from '#shared/api/steps.ts';
import { twoSteps } from '#test/builders/two-steps.ts';
import { toText, wallClock } from '#shared/kernel/instant.ts';
import { recordText } from '#shared/kernel/record.ts';
import { awaitedLater } from './awaited-later.ts';
import { histogram, mean, percentile } from './distribution.ts';
import { type Figure, figure } from './figure.ts';
import { type Cluster, clusterId, startCluster } from './installation.ts';
import { create, forEach, namespace, patch, shardManifest } from './objects.ts';
import { type Part, type PartOptions, scaled } from './part.ts';
import { type ProcessUsage, usageOf } from './process-usage.ts';

const targetCount = 1_000;
const everySeconds = 5;

const usualSeconds = 60;
const longSeconds = 600;

/** A wake that comes later than this is not honoured, in milliseconds. */
const goalMs = 1_000;

/** How much the relay's memory may have grown from the first to the last window that are compared. */
const goalGrowth = 1.1;

/** The windows whose memory is compared are minutes; of a run that is too short for that, quarters. */
const windowLimitSeconds = 60;

const firstHintsPatienceMs = 300_000;

const stage = 'bench';
const region = 'us-east-1';

/** The build's relay, as a cluster runs it. */
const bundledRelay = new URL('../../dist/relay/index.mjs', import.meta.url);
const relaySource = new URL('../../events/relay/main.ts', import.meta.url);

/**
 * Whether wakes come when they are due, and whether the relay's memory stays what it is.
 *
 * A thousand Shards carry a record that asks to be woken every 5 s, half of them drain-step's and half pool-pods'. The
 * embedded queue is emptied by a receiver in this process; no step runs, so nothing but the records wakes anybody. The
 * first wake of a record is due 5 s after the API server answered its write; each further one 5 s after the relay fired
 * the last, which the hint tells. How late it is is seen where the hint is received, so the ways through the queue are
 * in it. All instants are the wall clock's of this machine. A wake that is still missing at the end counts with the
 * time it is overdue.
 */
export const wakes: Part = {
  name: 'wakes',
  title: 'a thousand wakes every 5 s: how late they are, and the relay’s memory',
  async measure(options) {
    await using stack = new AsyncDisposableStack();
    const cluster = stack.use(await startCluster(options, { isAudited: false }));
    const queue = await startQueue({
      dataDir: join(cluster.folder, 'queue'),
      port: 0,
      stage,
      region,
      visibilitySeconds: 60,
    });
    stack.defer(() => queue.stop(5_000));
    const targets = await makeTargets(cluster, options);
    const relay = await startRelay(cluster, queue);
    stack.defer(() => relay.stop(10_000));
    const receiver = new Receiver(queue.announced.url);
    stack.defer(() => receiver.close());
    const seconds = options.isLong ? longSeconds : usualSeconds;
    const memory = sampleMemory(relay.pid);
    stack.defer(() => memory.stop());
    options.log('waiting for the first hint of each shard');
    await firstHints(receiver, targets);
    options.log(`writing ${targets.length} records`);
    const book = new WakeBook();
    receiver.listen((hint, receivedAtMs) => book.take(hint, receivedAtMs));
    await writeRecords(cluster, targets, book);
    const began = await usageOf(relay.pid);
    memory.begin();
    await follow(seconds, options);
    const ended = await usageOf(relay.pid);
    book.close(Date.now());
    options.log(`latest wake of each target: ${book.describe()}`);
    return figuresOf(book, memory.samples(), { began, ended, seconds });
  },
};

interface SleepingTarget {
  readonly name: string;
  readonly uid: string;
  readonly step: StepName;
}

async function makeTargets(
  { connection }: Cluster,
  options: PartOptions,
): Promise<readonly SleepingTarget[]> {
  const count = scaled(targetCount, options);
  options.log(`making ${count} shards`);
  const places = Array.from({ length: count }, (_, place) => place);
  return forEach(places, async (place) => {
    const name = `sleeper-${place}`;
    const { metadata } = await create(connection, 'Shard', shardManifest(name, 'main'));
    return { name, uid: metadata.uid, step: twoSteps[place % twoSteps.length] ?? 'pool-pods' };
  });
}

/** Each step hears of each target when the relay starts: what is measured begins when those hints are out of the queues. */
async function firstHints(receiver: Receiver, targets: readonly SleepingTarget[]): Promise<void> {
  const owed = new Set(twoSteps.flatMap((step) => targets.map(({ uid }) => keyOf(step, uid))));
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const timer = setTimeout(
    () => reject(new Error(`${owed.size} first hints did not come`)),
    firstHintsPatienceMs,
  );
  receiver.listen(({ step, data }) => {
    owed.delete(keyOf(step, data.uid));
    if (owed.size === 0) {
      resolve();
    }
  });
  await promise.finally(() => clearTimeout(timer));
}

/**
 * Evenly over five periods, so that the wakes come evenly as well, and slowly: a write of a custom resource costs the API
 * server some 10 ms of a processor, and a watch that lags behind the writes would show as late wakes.
 */
async function writeRecords(
  { connection }: Cluster,
  targets: readonly SleepingTarget[],
  book: WakeBook,
): Promise<void> {
  const beganMs = performance.now();
  const gapMs = (5 * everySeconds * 1000) / targets.length;
  const writes: Promise<void>[] = [];
  for (const [place, target] of targets.entries()) {
    await delay(Math.max(0, beganMs + place * gapMs - performance.now()));
    const write = patch(connection, 'Shard', target.name, recordPatch(target));
    writes.push(awaitedLater(write.then(() => book.expect(target, Date.now()))));
  }
  await Promise.all(writes);
}

/** A record as the step would leave it while only time can help. */
function recordPatch({ uid, step }: SleepingTarget) {
  const record = recordText({
    v: 1,
    uid,
    key: `${step}/${uid}/1`,
    state: step === 'drain-step' ? 'choosing' : 'waiting',
    generation: 1,
    attempt: 0,
    since: toText(wallClock()),
    reason: 'NobodyCanBeSpared',
    wake: { every: everySeconds },
    data: {},
  });
  return { metadata: { annotations: { [recordAnnotation(step)]: record } } };
}

function startRelay(
  { kubeconfigPath }: Cluster,
  queue: QueueProcess,
): Promise<Child<{ readonly url: string }>> {
  return launch({
    name: 'the relay',
    entry: existsSync(fileURLToPath(bundledRelay)) ? bundledRelay : relaySource,
    environment: {
      ...readEnvironment(),
      MILLRACE_CLUSTER_ID: clusterId,
      MILLRACE_STAGE: stage,
      MILLRACE_NAMESPACES: namespace,
      MILLRACE_QUEUE_ENDPOINT: queue.announced.url,
      MILLRACE_LOG_LEVEL: 'warn',
      MILLRACE_RELAY_PORT: '0',
      KUBECONFIG: kubeconfigPath,
      AWS_REGION: region,
      AWS_ACCESS_KEY_ID: 'local',
      AWS_SECRET_ACCESS_KEY: 'local',
    },
    announcement: z.object({ url: z.url() }),
    readyTimeoutMs: 60_000,
  });
}

/** Lets the time pass and says now and then how much is left. */
async function follow(seconds: number, { log }: PartOptions): Promise<void> {
  for (let left = seconds; left > 0; left -= Math.min(left, 30)) {
    log(`${left} s to go`);
    await delay(Math.min(left, 30) * 1000);
  }
}

const hintSchema = z.looseObject({
  id: z.string(),
  type: z.string(),
  time: z.iso.datetime(),
  data: z.looseObject({ uid: z.string() }),
});

interface ReceivedHint extends z.infer<typeof hintSchema> {
  readonly step: StepName;
}

/** Receives per queue at a time, so that somebody listens while another deletes what it has received. */
const receiversPerQueue = 3;

/** Empties the steps' queues until it is closed. */
class Receiver {
  readonly #client: SQSClient;
  readonly #loops: readonly Promise<void>[];
  #isClosed = false;
  #listener: (hint: ReceivedHint, receivedAtMs: number) => void = () => undefined;

  constructor(endpoint: string) {
    this.#client = new SQSClient({
      endpoint,
      region,
      useQueueUrlAsEndpoint: false,
      credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
    });
    this.#loops = stepNames.flatMap((step) =>
      Array.from({ length: receiversPerQueue }, () => this.#receive(step, endpoint)),
    );
  }

  listen(listener: (hint: ReceivedHint, receivedAtMs: number) => void): void {
    this.#listener = listener;
  }

  /** A receive that waits is waited for, a second at most. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all(this.#loops);
    this.#client.destroy();
  }

  async #receive(step: StepName, endpoint: string): Promise<void> {
    const QueueUrl = queueUrl(endpoint, queueName(stage, step));
    while (!this.#isClosed) {
      const { Messages = [] } = await this.#client.send(
        new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10, WaitTimeSeconds: 1 }),
      );
      const receivedAtMs = Date.now();
      for (const { Body = '' } of Messages) {
        this.#listener({ ...hintSchema.parse(JSON.parse(Body)), step }, receivedAtMs);
      }
      if (Messages.length > 0) {
        const Entries = Messages.map(({ ReceiptHandle }, place) => ({
          Id: String(place),
          ReceiptHandle,
        }));
        await this.#client.send(new DeleteMessageBatchCommand({ QueueUrl, Entries }));
      }
    }
  }
}

/** When each target's next wake is due, and how late those were that came. All in milliseconds. */
class WakeBook {
  readonly #dueMs = new Map<string, number>();
  readonly #latestMs = new Map<string, number>();
  readonly #seen = new Set<string>();
  readonly latenessMs: number[] = [];
  missing = 0;

  expect({ step, uid }: SleepingTarget, writtenAtMs: number): void {
    this.#dueMs.set(keyOf(step, uid), writtenAtMs + everySeconds * 1000);
  }

  take({ id, type, time, step, data }: ReceivedHint, receivedAtMs: number): void {
    const key = keyOf(step, data.uid);
    const dueMs = this.#dueMs.get(key);
    // A queue delivers at least once; the same firing twice is one wake.
    if (type !== 'dev.millrace.hint.wake' || dueMs === undefined || this.#seen.has(id)) {
      return;
    }
    this.#seen.add(id);
    this.#note(key, receivedAtMs - dueMs);
    this.#dueMs.set(key, Date.parse(time) + everySeconds * 1000);
  }

  /** Counts what should have come by now and did not. */
  close(nowMs: number): void {
    for (const [key, dueMs] of this.#dueMs) {
      if (nowMs > dueMs + goalMs) {
        this.missing += 1;
        this.#note(key, nowMs - dueMs);
      }
    }
  }

  /** Each target's latest wake. */
  get worstMs(): readonly number[] {
    return [...this.#latestMs.values()];
  }

  describe(): string {
    return histogram(this.worstMs, [25, 50, 100, 250, 500, goalMs], 'ms');
  }

  /** The relay counts from when it saw the record, which may be before the answer came here. */
  #note(key: string, latenessMs: number): void {
    const lateMs = Math.max(0, latenessMs);
    this.latenessMs.push(lateMs);
    this.#latestMs.set(key, Math.max(lateMs, this.#latestMs.get(key) ?? 0));
  }
}

function keyOf(step: StepName, uid: string): string {
  return `${step}/${uid}`;
}

interface MemorySampler {
  /** From here on the samples count. */
  begin(): void;
  /** MiB, one a second. */
  samples(): readonly number[];
  stop(): void;
}

function sampleMemory(pid: number): MemorySampler {
  let samples: number[] = [];
  const timer = setInterval(() => {
    usageOf(pid).then(
      ({ rssMib }) => samples.push(rssMib),
      // It has ended; whoever waits for its wakes finds out.
      () => clearInterval(timer),
    );
  }, 1_000);
  return {
    begin: () => (samples = []),
    samples: () => samples,
    stop: () => clearInterval(timer),
  };
}

/** The mean of the last window to that of the second: by the second the relay has everything it keeps. */
function growthOf(samples: readonly number[]): {
  readonly firstMib: number;
  readonly lastMib: number;
} {
  const window = Math.min(windowLimitSeconds, Math.floor(samples.length / 4));
  return {
    firstMib: mean(samples.slice(window, 2 * window)),
    lastMib: mean(samples.slice(-window)),
  };
}

function figuresOf(
  book: WakeBook,
  samples: readonly number[],
  run: { readonly began: ProcessUsage; readonly ended: ProcessUsage; readonly seconds: number },
): Figure[] {
  const { firstMib, lastMib } = growthOf(samples);
  const { worstMs, latenessMs } = book;
  const cpuMs = run.ended.cpuMs - run.began.cpuMs;
  return [
    figure('wakes: latest', Math.max(...worstMs), 'ms', { goal: goalMs }),
    figure('wakes: missing at the end', book.missing, 'wakes', { goal: 0 }),
    figure('wakes: how late, p50', percentile(latenessMs, 0.5), 'ms'),
    figure('wakes: how late, p99', percentile(latenessMs, 0.99), 'ms'),
    figure('wakes: latest of each target, p50', percentile(worstMs, 0.5), 'ms'),
    figure('wakes: came', latenessMs.length - book.missing, 'wakes'),
    figure('wakes: relay’s memory, last to second window', lastMib / firstMib, 'ratio', {
      goal: goalGrowth,
    }),
    figure('wakes: relay’s memory, second window', firstMib, 'MiB'),
    figure('wakes: relay’s memory, last window', lastMib, 'MiB'),
    figure('wakes: relay’s share of one processor', cpuMs / run.seconds / 10, '%'),
  ];
}
