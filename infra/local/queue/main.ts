import * as z from 'zod';
import { readConfig } from '#shared/kernel/config.ts';
import { describeError } from '#shared/kernel/errors.ts';
import { openQueue } from './queue.ts';

const configuration = z.object({
  MILLRACE_STAGE: z.string().min(1),
  MILLRACE_QUEUE_DATA_DIR: z.string().min(1),
  MILLRACE_QUEUE_PORT: z.coerce.number().int().min(0).max(65_535),
  MILLRACE_VISIBILITY_SECONDS: z.coerce.number().int().min(1).max(43_200),
  AWS_REGION: z.string().min(1),
});

/** Runs the embedded queue until SIGTERM or SIGINT. */
async function main(): Promise<void> {
  const config = readConfig(configuration);
  const queue = await openQueue({
    stage: config.MILLRACE_STAGE,
    dataDir: config.MILLRACE_QUEUE_DATA_DIR,
    port: config.MILLRACE_QUEUE_PORT,
    visibilitySeconds: config.MILLRACE_VISIBILITY_SECONDS,
    region: config.AWS_REGION,
  });
  const stop = (): void => {
    queue.close().then(() => process.exit(0), fail);
  };
  process.once('SIGTERM', stop);
  process.once('SIGINT', stop);
  process.stdout.write(`${JSON.stringify({ ready: true, url: queue.url })}\n`);
}

function fail(error: unknown): never {
  process.stderr.write(`${describeError(error)}\n`);
  process.exit(1);
}

main().catch(fail);
