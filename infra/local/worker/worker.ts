import { setTimeout as pause } from 'node:timers/promises';
import { SQSClient } from '@aws-sdk/client-sqs';
import { queueName } from '#events/hint.ts';
import { queueArn, queueUrl } from '#infra/local/queue/queue.ts';
import { type StepName, functionName, sweepName } from '#shared/api/steps.ts';
import type { Logger } from '#shared/kernel/logger.ts';
import { makeScheduledEvent } from './event.ts';
import type { WorkerMetrics } from './metrics.ts';
import { poll } from './poll.ts';
import { type Sandbox, createSandbox } from './sandbox.ts';

export interface WorkerOptions {
  /** The queue's endpoint, `http://127.0.0.1:<port>`. */
  readonly endpoint: string;
  readonly region: string;
  readonly stage: string;
  /** The functions to run: each step with the module that exports its `handler`. */
  readonly functions: readonly { readonly step: StepName; readonly handler: URL }[];
  /** The function that a timer invokes, as a schedule of EventBridge would; none when absent. */
  readonly sweep?: { readonly handler: URL; readonly everyMs: number };
  /** Sandboxes per step, which is how many batches of one queue are in work at once. */
  readonly concurrency: number;
  readonly timeoutMs: number;
  readonly initTimeoutMs: number;
  /** How long one request to the queue may take, in milliseconds; then it counts as not answered. Default 10 000. */
  readonly requestTimeoutMs?: number;
  /** The functions' environment. */
  readonly environment: Readonly<Record<string, string>>;
  readonly log: Logger;
  /** What invocations and functions tell in numbers; nobody is told when absent. */
  readonly metrics?: WorkerMetrics;
  /** Every line a function writes. */
  readonly onLine: (line: string) => void;
}

export interface LocalWorker {
  /** Takes no more messages, and resolves when what runs has ended. */
  stop(): Promise<void>;
}

/** How long connecting may take, in milliseconds. The queue is on this machine. */
const connectionTimeoutMs = 3_000;

/** A receive waits for a second, so that a queue which takes ten times as long does not answer. */
const defaultRequestTimeoutMs = 10_000;

/**
 * Runs the steps' Lambda handlers against the embedded queue, with the semantics of Lambda's SQS event source, and the
 * sweep's by a timer.
 */
export function startWorker(options: WorkerOptions): LocalWorker {
  const stopping = new AbortController();
  const client = new SQSClient({
    endpoint: options.endpoint,
    region: options.region,
    requestHandler: {
      connectionTimeout: connectionTimeoutMs,
      requestTimeout: options.requestTimeoutMs ?? defaultRequestTimeoutMs,
      // Without it a receive that takes longer is only warned of, and one that hangs would hold up a stop for ever.
      throwOnRequestTimeout: true,
    },
    useQueueUrlAsEndpoint: false,
    // The emulator checks none, and without them the SDK would look for real ones on this machine.
    credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
    // The loop has a backoff of its own.
    maxAttempts: 1,
  });
  const loops = options.functions.flatMap((definition) =>
    Array.from({ length: options.concurrency }, () =>
      runSandbox(definition, client, options, stopping.signal),
    ),
  );
  const { sweep } = options;
  const sweeping = sweep === undefined ? undefined : runSweeps(sweep, options, stopping.signal);
  return {
    async stop() {
      stopping.abort();
      await Promise.all([...loops, sweeping]);
      client.destroy();
    },
  };
}

async function runSandbox(
  { step, handler }: WorkerOptions['functions'][number],
  client: SQSClient,
  options: WorkerOptions,
  signal: AbortSignal,
): Promise<void> {
  const name = queueName(options.stage, step);
  const sandbox = openSandbox(name, handler, options, {
    // Where a function gives its failed messages back.
    MILLRACE_QUEUE_URL: queueUrl(options.endpoint, name),
  });
  await poll(
    {
      client,
      queueUrl: queueUrl(options.endpoint, name),
      queueArn: queueArn(options.region, name),
      region: options.region,
      sandbox,
      log: options.log.child({ step }),
      onEnd: (end) => options.metrics?.invoked(step, end),
    },
    signal,
  );
  await sandbox.close();
}

/** Invokes the sweep until the signal aborts, first after one interval: by then the relay has told of everything itself. */
async function runSweeps(
  { handler, everyMs }: NonNullable<WorkerOptions['sweep']>,
  options: WorkerOptions,
  signal: AbortSignal,
): Promise<void> {
  const name = functionName(options.stage, sweepName);
  const sandbox = openSandbox(name, handler, options, {});
  const log = options.log.child({ function: sweepName });
  while (await hasPassed(everyMs, signal)) {
    const event = makeScheduledEvent(new Date(), { functionName: name, region: options.region });
    const result = await sandbox.invoke(event);
    const { requestId } = result;
    options.metrics?.invoked(sweepName, result.kind);
    if (result.kind === 'failed') {
      log.error({ requestId, why: result.why }, 'invocation failed');
    } else {
      log.debug({ requestId }, 'schedule processed');
    }
  }
  await sandbox.close();
}

/** False where the signal came first. */
function hasPassed(delayMs: number, signal: AbortSignal): Promise<boolean> {
  return pause(delayMs, true, { signal }).catch(() => false);
}

function openSandbox(
  name: string,
  handler: URL,
  options: WorkerOptions,
  environment: Readonly<Record<string, string>>,
): Sandbox {
  const { metrics } = options;
  return createSandbox({
    functionName: name,
    functionArn: `arn:aws:lambda:${options.region}:000000000000:function:${name}`,
    handler,
    environment: {
      ...options.environment,
      ...environment,
      ...(metrics === undefined ? {} : { MILLRACE_METRICS: 'lines' }),
    },
    timeoutMs: options.timeoutMs,
    initTimeoutMs: options.initTimeoutMs,
    onLine(line) {
      if (metrics?.take(line) !== true) {
        options.onLine(line);
      }
    },
  });
}
