import * as z from 'zod';
import { type Child, type LaunchOptions, launch } from '#infra/local/child/launch.ts';
import type { QueueOptions } from './queue.ts';

const announcement = z.object({ url: z.url() });

export type QueueProcess = Child<z.infer<typeof announcement>>;

/**
 * Starts the embedded queue as a process of its own, which dies with this one.
 *
 * `announced.url` is the endpoint. Restarted on the same data folder and port, it serves the same messages again.
 */
export function startQueue(
  options: QueueOptions & Pick<LaunchOptions<unknown>, 'onLine' | 'onErrorLine'>,
): Promise<QueueProcess> {
  const { dataDir, port, stage, region, visibilitySeconds, ...lines } = options;
  return launch({
    name: 'the queue',
    entry: new URL('main.ts', import.meta.url),
    environment: {
      MILLRACE_STAGE: stage,
      MILLRACE_QUEUE_DATA_DIR: dataDir,
      MILLRACE_QUEUE_PORT: String(port),
      MILLRACE_VISIBILITY_SECONDS: String(visibilitySeconds),
      AWS_REGION: region,
    },
    announcement,
    readyTimeoutMs: 30_000,
    ...lines,
  });
}
