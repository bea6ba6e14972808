import { routing } from '#events/routes.ts';
import {
  isInQueuesRegion,
  knowsQueues,
  openQueues,
  queuesMissing,
  regionsDiffer,
  sendingSchema,
} from '#events/sending.ts';
import { sweepName } from '#shared/api/steps.ts';
import { logLevel, readConfig } from '#shared/kernel/config.ts';
import { wallClock } from '#shared/kernel/instant.ts';
import { createLogger } from '#shared/kernel/logger.ts';
import { telemetryFrom, telemetryVariables } from '#shared/kernel/telemetry.ts';
import { kubePages } from '#shared/kube/http-kube.ts';
import { apiServerSchema, connectApiServer } from '#shared/outside/api-server.ts';
import type { SweepParts } from './sweep.ts';

/** How the sweep's environment must look. What each variable means: README.md beside this file. */
export const sweepConfigSchema = sendingSchema
  .extend({ MILLRACE_LOG_LEVEL: logLevel, ...telemetryVariables })
  .refine(knowsQueues, queuesMissing)
  .refine(isInQueuesRegion, regionsDiffer)
  .and(apiServerSchema);

/** A queue takes some ten milliseconds. One that hangs must leave time for the others. */
const queueTimeoutMs = 5_000;

/** Makes a sandbox's clients. Throws a ConfigurationError that names every problem; nothing is connected before a sweep. */
export async function assemble(): Promise<SweepParts> {
  const config = readConfig(sweepConfigSchema);
  const connection = await connectApiServer(config, sweepName);
  return {
    clock: wallClock,
    deadlineIn: (delayMs) => AbortSignal.timeout(delayMs),
    logger: createLogger(config.MILLRACE_LOG_LEVEL, {
      function: sweepName,
      cluster: config.MILLRACE_CLUSTER_ID,
    }),
    telemetry: telemetryFrom(config),
    config,
    pages: kubePages(connection),
    queues: openQueues(config, queueTimeoutMs),
    routing,
  };
}
