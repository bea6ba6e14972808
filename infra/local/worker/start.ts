import * as z from 'zod';
import { type Child, type LaunchOptions, launch } from '#infra/local/child/launch.ts';

/** Where its numbers are served, for Prometheus. */
const announcement = z.object({ url: z.url() });

export type WorkerProcess = Child<z.infer<typeof announcement>>;

/**
 * Starts the worker as a process of its own, which dies with this one.
 *
 * @param options.environment the worker's whole environment, which its functions get too; README.md lists the variables
 */
export function startWorkerProcess(
  options: { readonly environment: Readonly<Record<string, string>> } & Pick<
    LaunchOptions<unknown>,
    'onLine' | 'onErrorLine'
  >,
): Promise<WorkerProcess> {
  return launch({
    name: 'the worker',
    entry: new URL('main.ts', import.meta.url),
    announcement,
    readyTimeoutMs: 30_000,
    ...options,
  });
}
