import type { Database } from '#shared/api/database.ts';
import type { GoverseCluster } from '#shared/api/goverse-cluster.ts';
import type { DatabaseRef, GoverseClusterRef } from '#shared/kernel/effect.ts';
import { openRecorder } from '#shared/archive/recorder.ts';
import { readConfig } from '#shared/kernel/config.ts';
import { RetryableError } from '#shared/kernel/errors.ts';
import { type Clock, wallClock } from '#shared/kernel/instant.ts';
import { type Connect, type Outside, handlerConfigSchema } from '#shared/kernel/pipeline.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import { kubeClient } from '#shared/kube/http-kube.ts';
import type { KubeReader } from '#shared/kube/kube.ts';
import type { S3Transport } from '#shared/repository/s3-repository.ts';
import { connectSqsReceiver } from '#shared/queue/sqs-receiver.ts';
import { openTracer } from '#shared/tracing/open-tracer.ts';
import { apiServerSchema, connectApiServer } from './api-server.ts';
import { dataPlanes } from './data-plane.ts';
import { goverseClusters } from './goverse.ts';
import { repositories } from './repository.ts';

/** Less than the second that an invocation waits for, and less than the SDK's pause before it tries again. */
const exportTimeoutMs = 750;

/** Connects everything a handler talks to. Nothing is sent before the first read. */
export const connectOutside: Connect = async (environment, stepName) => {
  const config = readConfig(handlerConfigSchema, environment);
  const access = readConfig(apiServerSchema, environment);
  const tracer = await openTracer(environment, {
    serviceName: `millrace-${stepName}`,
    resource: { 'k8s.cluster.name': config.MILLRACE_CLUSTER_ID },
    exportTimeoutMs,
  });
  const connected = await connectApiServer(access, stepName);
  const queues = connectSqsReceiver({
    region: access.AWS_REGION,
    ...(config.MILLRACE_QUEUE_ENDPOINT === undefined
      ? {}
      : { endpoint: config.MILLRACE_QUEUE_ENDPOINT }),
  });
  const recorder = openRecorder(environment, config.MILLRACE_CLUSTER_ID);
  const over = (connection: KubeConnection): Outside => ({
    ...outsideOver(connection, config.MILLRACE_CLUSTER_ID, async (receiptHandle, seconds) => {
      if (config.MILLRACE_QUEUE_URL === undefined) {
        throw new Error('MILLRACE_QUEUE_URL is not set, so the queue’s own visibility applies');
      }
      await queues.changeVisibility(config.MILLRACE_QUEUE_URL, receiptHandle, seconds);
    }),
    ...(recorder === undefined ? {} : { recorder }),
  });
  if (tracer === undefined) {
    return over(connected);
  }
  const { tracedConnection, tracedOutside } = await import('./traced.ts');
  const traced = tracedConnection(connected, tracer, access.MILLRACE_KUBE_SERVER);
  return tracedOutside(over(traced), tracer);
};

/** Everything a handler talks to, by one connection to the API server; data planes are reached as their Database says. */
export function outsideOver(
  connection: KubeConnection,
  clusterId: string,
  changeVisibility: Outside['changeVisibility'],
  clock: Clock = wallClock,
  transport?: S3Transport,
): Outside {
  const kube = kubeClient(connection);
  const planes = dataPlanes(kube, connection, clock);
  const clusters = goverseClusters(kube, connection, clock);
  const buckets = repositories(kube, transport);
  return {
    kube,
    ports: {
      clusterId,
      kube,
      topology: planes.topologyReader,
      goverse: clusters.reader,
      admin: planes.adminReader,
      repository: buckets.reader,
    },
    writers: {
      kube,
      topology: async (ref, signal) =>
        planes.topology(await sameDatabase(kube, ref, signal), signal),
      goverse: async (ref, signal) => clusters.store(await sameCluster(kube, ref, signal), signal),
      admin: async (ref, signal) => planes.admin(await sameDatabase(kube, ref, signal)),
      repository: async (ref, signal) => buckets.writer(await sameDatabase(kube, ref, signal)),
    },
    changeVisibility,
  };
}

/**
 * A write goes to the data plane of the very Database object that the decision read; where the decision follows from its
 * spec, while that spec is still the same.
 */
async function sameDatabase(
  kube: KubeReader,
  ref: DatabaseRef,
  signal: AbortSignal,
): Promise<Database> {
  const read = await kube.get(
    { kind: 'Database', namespace: ref.namespace, name: ref.name },
    signal,
  );
  const isSame =
    read.kind === 'present' &&
    read.value.metadata.uid === ref.uid &&
    (ref.generation === undefined || read.value.metadata.generation === ref.generation);
  if (!isSame) {
    throw new RetryableError(
      'DatabaseMoved',
      `the Database ${ref.name} is not the one the decision was made for`,
    );
  }
  return read.value;
}

/** A write goes to the etcd that the decision read from: the same object, in the same generation. */
async function sameCluster(
  kube: KubeReader,
  { namespace, name, uid, generation }: GoverseClusterRef,
  signal: AbortSignal,
): Promise<GoverseCluster> {
  const read = await kube.get({ kind: 'GoverseCluster', namespace, name }, signal);
  const isSame =
    read.kind === 'present' &&
    read.value.metadata.uid === uid &&
    read.value.metadata.generation === generation;
  if (!isSame) {
    throw new RetryableError(
      'ClusterMoved',
      `the GoverseCluster ${name} is not the one the decision was made for`,
    );
  }
  return read.value;
}
