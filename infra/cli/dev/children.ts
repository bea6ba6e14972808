import * as z from 'zod';
import { type Child, launch } from '#infra/local/child/launch.ts';
import { startQueue } from '#infra/local/queue/start.ts';
import { startWorkerProcess } from '#infra/local/worker/start.ts';
import { type ArchivePlace, textOfPlace } from '#shared/archive/place.ts';
import type { Settings } from '../settings.ts';
import { type Supervised, supervise } from './supervise.ts';

export type ChildName = 'relay' | 'worker' | 'queue';

export interface ChildrenOptions {
  readonly settings: Settings;
  readonly clusterId: string;
  readonly queueFolder: string;
  /** Where decisions are recorded; with every one of them the relay's hints are as well. */
  readonly archive: ArchivePlace;
  /** `MILLRACE_KUBE_…`: how the handlers sign in. */
  readonly credentials: Readonly<Record<string, string>>;
  /** The caller's environment: the relay loads a kubeconfig, which may run a program that needs it. */
  readonly environment: Readonly<Record<string, string>>;
  /** One line a child wrote to stdout. */
  readonly onLine: (child: ChildName, line: string) => void;
  /** One line a child wrote to stderr. */
  readonly onErrorLine: (child: ChildName, line: string) => void;
  readonly onDeath: (child: ChildName, why: string, pauseMs: number) => void;
  readonly onRestart: (child: ChildName, pid: number) => void;
}

export interface Children {
  readonly relayUrl: string;
  readonly queueUrl: string;
  readonly workerUrl: string;
  pids(): Record<ChildName, number>;
  /** Lets what runs end, then stops everything; resolves when all are gone. */
  stop(): Promise<void>;
}

type Relay = Child<{ url: string }>;

/** The relay sends what is dirty before it ends, the queue closes its store. */
const relayGraceMs = 10_000;
const queueGraceMs = 5_000;

const relayReadyMs = 60_000;

/**
 * Starts queue, relay and worker, and keeps each alive. Each comes back on its port.
 *
 * After a restart of the queue or the worker the relay sends every hint again: messages in work are hidden for minutes,
 * and a fresh look costs nothing.
 */
export async function startChildren(options: ChildrenOptions): Promise<Children> {
  const queue = await startQueueOf(options, 0);
  const queueUrl = queue.announced.url;
  const queuePort = Number(new URL(queueUrl).port);
  const started = await Promise.allSettled([
    startRelay(options, queueUrl, 0),
    startWorkerOf(options, queueUrl, 0),
  ]);
  const [relay, worker] = started;
  if (relay.status === 'rejected' || worker.status === 'rejected') {
    await Promise.all([
      queue.stop(queueGraceMs),
      ...started.flatMap((start) =>
        start.status === 'fulfilled' ? [start.value.stop(queueGraceMs)] : [],
      ),
    ]);
    throw relay.status === 'rejected' ? relay.reason : (worker as PromiseRejectedResult).reason;
  }
  const relayUrl = relay.value.announced.url;
  const workerUrl = worker.value.announced.url;
  const relays: Supervised<{ url: string }> = supervise({
    first: relay.value,
    start: () => startRelay(options, queueUrl, Number(new URL(relayUrl).port)),
    ...hooks(options, 'relay', () => undefined),
  });
  const resync = (): void => relays.current().signal('SIGHUP');
  const workers = supervise({
    first: worker.value,
    start: () => startWorkerOf(options, queueUrl, Number(new URL(workerUrl).port)),
    ...hooks(options, 'worker', resync),
  });
  const queues = supervise({
    first: queue,
    start: () => startQueueOf(options, queuePort),
    ...hooks(options, 'queue', resync),
  });
  return {
    relayUrl,
    queueUrl,
    workerUrl,
    pids: () => ({
      relay: relays.current().pid,
      worker: workers.current().pid,
      queue: queues.current().pid,
    }),
    async stop() {
      const invocationMs = options.settings.functionTimeoutSeconds.value * 1000;
      await Promise.all([relays.stop(relayGraceMs), workers.stop(invocationMs + relayGraceMs)]);
      await queues.stop(queueGraceMs);
    },
  };
}

function hooks(options: ChildrenOptions, name: ChildName, afterwards: () => void) {
  return {
    onDeath: (why: string, pauseMs: number) => options.onDeath(name, why, pauseMs),
    onRestart: (child: { readonly pid: number }) => {
      options.onRestart(name, child.pid);
      afterwards();
    },
  };
}

function linesOf(options: ChildrenOptions, name: ChildName) {
  return {
    onLine: (line: string) => options.onLine(name, line),
    onErrorLine: (line: string) => options.onErrorLine(name, line),
  };
}

function startQueueOf(options: ChildrenOptions, port: number) {
  const { stage, region, visibilitySeconds } = options.settings;
  return startQueue({
    dataDir: options.queueFolder,
    port,
    stage: stage.value,
    region: region.value,
    visibilitySeconds: visibilitySeconds.value,
    ...linesOf(options, 'queue'),
  });
}

function startRelay(options: ChildrenOptions, queueUrl: string, port: number): Promise<Relay> {
  const { recorded } = options.settings;
  return launch({
    name: 'the relay',
    entry: new URL('../../../events/relay/main.ts', import.meta.url),
    environment: {
      ...options.environment,
      ...sharedEnvironment(options, queueUrl),
      // A variable that is empty is none: the caller's names an archive of a deployment, which this is not.
      MILLRACE_ARCHIVE: recorded.value === 'all' ? textOfPlace(options.archive) : '',
      KUBECONFIG: options.settings.kubeconfig.value,
      MILLRACE_KUBE_CONTEXT: options.settings.cluster.context,
      MILLRACE_RELAY_PORT: String(port),
    },
    announcement: z.object({ url: z.url() }),
    readyTimeoutMs: relayReadyMs,
    ...linesOf(options, 'relay'),
  });
}

function startWorkerOf(options: ChildrenOptions, queueUrl: string, port: number) {
  const { functionTimeoutSeconds, functionConcurrency, sweepSeconds, recorded } = options.settings;
  return startWorkerProcess({
    environment: {
      ...tracingOf(options.environment),
      ...sharedEnvironment(options, queueUrl),
      ...options.credentials,
      MILLRACE_WORKER_PORT: String(port),
      MILLRACE_ARCHIVE: textOfPlace(options.archive),
      MILLRACE_ARCHIVE_DECISIONS: recorded.value,
      MILLRACE_FUNCTION_TIMEOUT_SECONDS: String(functionTimeoutSeconds.value),
      MILLRACE_FUNCTION_CONCURRENCY: String(functionConcurrency.value),
      MILLRACE_SWEEP_SECONDS: String(sweepSeconds.value),
    },
    ...linesOf(options, 'worker'),
  });
}

/** The functions trace where the caller's environment says so, as the relay does that gets all of it. */
function tracingOf(environment: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(environment).filter(([name]) => name.startsWith('OTEL_')),
  );
}

function sharedEnvironment(options: ChildrenOptions, queueUrl: string): Record<string, string> {
  const { settings, clusterId } = options;
  return {
    MILLRACE_CLUSTER_ID: clusterId,
    MILLRACE_STAGE: settings.stage.value,
    MILLRACE_NAMESPACES: settings.namespaces.value.join(','),
    MILLRACE_LOG_LEVEL: settings.logLevel.value,
    MILLRACE_QUEUE_ENDPOINT: queueUrl,
    AWS_REGION: settings.region.value,
    // The embedded queue checks none, and none of the user's may be taken by accident.
    AWS_ACCESS_KEY_ID: 'local',
    AWS_SECRET_ACCESS_KEY: 'local',
  };
}
