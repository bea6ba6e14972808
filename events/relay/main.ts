import { ConfigurationError, readConfig } from '#shared/kernel/config.ts';
import { describeError } from '#shared/kernel/errors.ts';
import { createLogger } from '#shared/kernel/logger.ts';
import { connectKube } from '#shared/kube/http-connection.ts';
import { accessFromKubeconfig, accessInCluster } from '#shared/kube/kubeconfig.ts';
import { connectSqs, embeddedQueueUrlPrefix } from '#shared/queue/sqs.ts';
import { type RelayConfig, relayConfigSchema } from './config.ts';
import { startRelay } from './start.ts';

/** How long a stop may go on sending, in milliseconds: well within a pod's usual 30 s of grace. */
const stopGraceMs = 10_000;

/** Runs the relay until SIGTERM or SIGINT; SIGHUP makes every target dirty once. */
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
  const queues = openQueues(config);
  const relay = await startRelay({
    clusterId: config.MILLRACE_CLUSTER_ID,
    stage: config.MILLRACE_STAGE,
    namespaces: config.MILLRACE_NAMESPACES,
    connect: () => connectKube(access),
    queues,
    // In a pod the kubelet and the pods that leave ask; on a workstation nobody from outside should.
    host: config.MILLRACE_RELAY_HOST ?? (config.KUBECONFIG === undefined ? '0.0.0.0' : '127.0.0.1'),
    port: config.MILLRACE_RELAY_PORT,
    logger,
  });

  const stop = async (): Promise<void> => {
    const isAllSent = await relay.stop(stopGraceMs);
    logger.info({ isAllSent }, 'stopped');
    queues.close();
    process.exit(0);
  };
  process.once('SIGTERM', () => void stop().catch(fail));
  process.once('SIGINT', () => void stop().catch(fail));
  process.on('SIGHUP', () => relay.resync());
  relay.broken.catch(fail);

  await relay.ready;
  const announcement = { ready: true, url: relay.url };
  process.stdout.write(`${JSON.stringify(announcement)}\n`);
  process.send?.(announcement);
}

function openQueues(config: RelayConfig) {
  const { AWS_REGION, MILLRACE_QUEUE_ENDPOINT, MILLRACE_QUEUE_URL_PREFIX } = config;
  return connectSqs(
    {
      region: AWS_REGION,
      // The sender tries again by itself, for as long as it takes.
      tries: 1,
      ...(MILLRACE_QUEUE_ENDPOINT === undefined ? {} : { endpoint: MILLRACE_QUEUE_ENDPOINT }),
    },
    MILLRACE_QUEUE_URL_PREFIX ?? embeddedQueueUrlPrefix(MILLRACE_QUEUE_ENDPOINT ?? ''),
  );
}

function fail(error: unknown): never {
  process.stderr.write(`${describeError(error)}\n`);
  process.exit(error instanceof ConfigurationError ? 2 : 1);
}

main().catch(fail);
