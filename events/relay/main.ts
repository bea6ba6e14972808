import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { setFlagsFromString } from 'node:v8';
import * as z from 'zod';
import { type ArchivedQueues, archivedQueues } from '#events/archive/archived-queues.ts';
import { openQueues } from '#events/sending.ts';
import { stepNames } from '#shared/api/steps.ts';
import { version } from '#shared/api/version.ts';
import { ConfigurationError, readConfig } from '#shared/kernel/config.ts';
import { describeError } from '#shared/kernel/errors.ts';
import { openSegmentWriter } from '#shared/archive/open.ts';
import { type Logger, createLogger } from '#shared/kernel/logger.ts';
import { connectKube } from '#shared/kube/http-connection.ts';
import { accessFromKubeconfig, accessInCluster } from '#shared/kube/kubeconfig.ts';
import type { QueueSender } from '#shared/queue/queue.ts';
import { openTracer } from '#shared/tracing/open-tracer.ts';
import { type RelayConfig, relayConfigSchema } from './config.ts';
import { identityOf } from './identity.ts';
import { type RelayOptions, startRelay } from './start.ts';
import { systemTimers } from './timers.ts';

// What the relay reads is garbage a moment later. Left alone V8 gives it more memory than it has use for: 140 MB instead
// of 110 with 10,000 pods, as measured; the price is a sixth more of little processor time. On the command line the same
// flag saves less, because Node then compiles its own modules anew.
setFlagsFromString('--optimize-for-size');

/** How long a stop may go on sending, in milliseconds: well within a pod's usual 30 s of grace. */
const stopGraceMs = 10_000;

/** And then on sending spans, and writing down the last hints. */
const flushMs = 2_000;

/** OpenTelemetry's variables are its own, and none of them is refused. */
const wholeEnvironment = z.record(z.string(), z.string());

/** A Ctrl-C may come twice: from the terminal, and passed on by whatever started this process. */
const samePressMs = 500;

/**
 * Runs the relay until SIGTERM or SIGINT; SIGHUP makes every target dirty once. A second signal does not wait for what is
 * owed, nor gives the lease back: it exits with 1.
 */
async function main(): Promise<void> {
  const config = readConfig(relayConfigSchema);
  const logger = createLogger(config.MILLRACE_LOG_LEVEL, {
    process: 'relay',
    cluster: config.MILLRACE_CLUSTER_ID,
  });
  const access =
    config.KUBECONFIG === undefined
      ? await accessInCluster()
      : await accessFromKubeconfig(config.KUBECONFIG, config.MILLRACE_KUBE_CONTEXT);
  const environment = readConfig(wholeEnvironment);
  const connected = openQueues(config);
  const archived = archivedAsTold(config, connected, environment, logger);
  const tracer = await openTracer(environment, {
    serviceName: 'millrace-relay',
    resource: { 'k8s.cluster.name': config.MILLRACE_CLUSTER_ID },
    onFailure(why) {
      logger.warn({ why }, 'traces not exported');
    },
  });
  const relay = await startRelay({
    clusterId: config.MILLRACE_CLUSTER_ID,
    stage: config.MILLRACE_STAGE,
    namespaces: config.MILLRACE_NAMESPACES,
    connect: () => connectKube({ ...access, userAgent: 'millrace/relay' }),
    queues: archived ?? connected,
    // In a pod the kubelet and the pods that leave ask; on a workstation nobody from outside should.
    host: config.MILLRACE_RELAY_HOST ?? (config.KUBECONFIG === undefined ? '0.0.0.0' : '127.0.0.1'),
    port: config.MILLRACE_RELAY_PORT,
    logger,
    ...(tracer === undefined ? {} : { tracer }),
    ...leaseOf(config),
  });

  const stop = async (): Promise<void> => {
    const isAllSent = await relay.stop(stopGraceMs);
    await Promise.all([tracer?.flush(flushMs), archived?.flush(flushMs)]);
    logger.info({ isAllSent }, 'stopped');
    connected.close();
    process.exit(0);
  };
  let stoppedMs: number | undefined;
  const onStopSignal = (): void => {
    if (stoppedMs === undefined) {
      stoppedMs = performance.now();
      void stop().catch(fail);
    } else if (performance.now() - stoppedMs > samePressMs) {
      logger.warn('stopped at once, what was owed is not sent');
      process.exit(1);
    }
  };
  process.on('SIGTERM', onStopSignal);
  process.on('SIGINT', onStopSignal);
  process.on('SIGHUP', () => relay.resync());
  relay.broken.catch(fail);

  await relay.ready;
  const announcement = { ready: true, url: relay.url };
  process.stdout.write(`${JSON.stringify(announcement)}\n`);
  process.send?.(announcement);
}

/** The same queues, with what they take recorded; nothing where no archive is named. */
function archivedAsTold(
  config: RelayConfig,
  queues: QueueSender,
  environment: Readonly<Record<string, string>>,
  logger: Logger,
): ArchivedQueues | undefined {
  const { MILLRACE_ARCHIVE: place, MILLRACE_CLUSTER_ID: clusterId, MILLRACE_STAGE: stage } = config;
  return place === undefined
    ? undefined
    : archivedQueues({
        queues,
        writer: openSegmentWriter(place, environment),
        clusterId,
        stage,
        steps: stepNames,
        timers: systemTimers,
        onLost(why, hints) {
          logger.warn({ why, hints }, 'hints not recorded');
        },
      });
}

function leaseOf(config: RelayConfig): Pick<RelayOptions, 'lease'> {
  const { MILLRACE_LEASE, MILLRACE_LEASE_SECONDS: durationSeconds } = config;
  const identity = identityOf(hostname(), version, randomUUID());
  return MILLRACE_LEASE === undefined
    ? {}
    : { lease: { ...MILLRACE_LEASE, durationSeconds, identity } };
}

function fail(error: unknown): never {
  process.stderr.write(`${describeError(error)}\n`);
  process.exit(error instanceof ConfigurationError ? 2 : 1);
}

main().catch(fail);
