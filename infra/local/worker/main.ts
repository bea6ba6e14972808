import * as z from 'zod';
import { stepNames, sweepName } from '#shared/api/steps.ts';
import { logLevel, readConfig } from '#shared/kernel/config.ts';
import { describeError } from '#shared/kernel/errors.ts';
import { createLogger } from '#shared/kernel/logger.ts';
import { createWorkerMetrics } from './metrics.ts';
import { serveMetrics } from './server.ts';
import { startWorker } from './worker.ts';

const configuration = z.object({
  MILLRACE_QUEUE_ENDPOINT: z.url(),
  MILLRACE_STAGE: z.string().min(1),
  MILLRACE_LOG_LEVEL: logLevel,
  MILLRACE_FUNCTION_TIMEOUT_SECONDS: z.coerce.number().min(1).max(900).default(30),
  MILLRACE_FUNCTION_CONCURRENCY: z.coerce.number().int().min(1).max(50).default(2),
  MILLRACE_SWEEP_SECONDS: z.coerce.number().int().min(1).max(86_400).default(300),
  MILLRACE_WORKER_PORT: z.coerce.number().int().min(0).max(65_535).default(0),
  AWS_REGION: z.string().min(1),
});

/** The functions get all of it, as a Lambda function gets all of its own. */
const wholeEnvironment = z.record(z.string(), z.string());

/** How long a function's module may take to load on a busy machine. */
const initTimeoutMs = 30_000;

/** Runs the steps' functions and the sweep until SIGTERM or SIGINT, then finishes what runs. */
async function main(): Promise<void> {
  const config = readConfig(configuration);
  const metrics = createWorkerMetrics(() => performance.now());
  const log = createLogger(config.MILLRACE_LOG_LEVEL, { component: 'worker' });
  const server = await serveMetrics(metrics.registry, config.MILLRACE_WORKER_PORT).catch(
    (error: unknown) => {
      // Whoever took the port must not keep the functions from running.
      log.warn({ why: describeError(error) }, 'port of the metrics taken, another one is used');
      return serveMetrics(metrics.registry, 0);
    },
  );
  const worker = startWorker({
    endpoint: config.MILLRACE_QUEUE_ENDPOINT,
    region: config.AWS_REGION,
    stage: config.MILLRACE_STAGE,
    functions: stepNames.map((step) => ({
      step,
      handler: handlerOf(step),
    })),
    sweep: { handler: handlerOf(sweepName), everyMs: config.MILLRACE_SWEEP_SECONDS * 1000 },
    concurrency: config.MILLRACE_FUNCTION_CONCURRENCY,
    timeoutMs: config.MILLRACE_FUNCTION_TIMEOUT_SECONDS * 1000,
    initTimeoutMs,
    environment: readConfig(wholeEnvironment),
    log,
    metrics,
    onLine: (line) => void process.stdout.write(`${line}\n`),
  });
  const stop = (): void => {
    worker
      .stop()
      .then(() => server.close())
      .then(() => process.exit(0), fail);
  };
  process.once('SIGTERM', stop);
  process.once('SIGINT', stop);
  process.stdout.write(`${JSON.stringify({ ready: true, url: server.url })}\n`);
}

function handlerOf(name: string): URL {
  return new URL(`../../../functions/${name}/handler.ts`, import.meta.url);
}

function fail(error: unknown): never {
  process.stderr.write(`${describeError(error)}\n`);
  process.exit(1);
}

main().catch(fail);
