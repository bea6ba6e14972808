import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as z from 'zod';
import { installDefinitions } from '#infra/cli/install.ts';
import { type Child, launch } from '#infra/local/child/launch.ts';
import { type Cloud, cloudRegion, startCloud } from '#infra/local/cloud/start.ts';
import { type AuditedRequest, readAuditLog } from '#infra/local/control-plane/audit-log.ts';
import { type ControlPlane, startControlPlane } from '#infra/local/control-plane/control-plane.ts';
import { type Etcd, startEtcd } from '#infra/local/control-plane/etcd.ts';
import { makeGuardedFolder } from '#infra/local/control-plane/guard.ts';
import { writeKubeconfig } from '#infra/local/control-plane/kubeconfig.ts';
import { printProgress } from '#infra/local/control-plane/progress.ts';
import { type DataPlane, startDataPlane } from '#infra/local/data-plane/start.ts';
import { type World, followWorld } from '#infra/local/show/world.ts';
import { shardLabel } from '#shared/api/labels.ts';
import { readDrainRecord } from '#shared/api/drain-record.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import { connectKube } from '#shared/kube/http-connection.ts';
import { collectionPath } from '#shared/kube/http-kube.ts';
import type { JsonObject } from '#shared/kube/json.ts';
import { isReady } from '#shared/kube/readiness.ts';
import { type Deployment, clusterId, deploy, stage } from './deployment.ts';
import { FunctionLog } from './function-log.ts';
import { Queues } from './queues.ts';

/** Where the functions may act from the beginning. */
export const namespace = 'db';
/** Where the relay looks too, though the functions were not told of it. */
export const forgottenNamespace = 'web';

/** The Shard whose members the data plane runs. Pods of others are made, and stay as they were made. */
export const shardName = 'orders';

/** How long an end may take on a machine many times slower than this one. */
export const patienceSeconds = 90;

/** How much faster than measured the data plane runs. Millrace's own waits are not shortened. */
export const speed = 8;

/** Each signs in to the API server as a user of its own, so that the audit log tells them apart. */
const functionsUser = 'functions';
const relayUser = 'relay';
const dataPlaneUser = 'data-plane';

const relayGraceMs = 20_000;

/** The relay as a process, which can be lost and come back. */
export interface RelayProcess {
  start(): Promise<void>;
  /** SIGKILL; resolves when the process is gone. */
  kill(): Promise<void>;
  /** SIGTERM; resolves when the process is gone. */
  stop(): Promise<void>;
}

/** Millrace as it is packaged, deployed to the stand-in for AWS, beside a real API server and the stand-in data plane. */
export interface Deployed {
  readonly controlPlane: ControlPlane;
  /** As the cluster's administrator. */
  readonly connection: KubeConnection;
  /** What is in {@link namespace}. */
  readonly world: World;
  readonly topology: Etcd;
  readonly dataPlane: DataPlane;
  readonly cloud: Cloud;
  readonly deployment: Deployment;
  readonly queues: Queues;
  readonly log: FunctionLog;
  readonly relay: RelayProcess;
  /** What the functions sign in to the API server with. */
  readonly functionsToken: string;
  create(path: string, object: JsonObject): Promise<void>;
  /** Makes the Database `main`, which says where the data plane is. */
  createDatabase(within: string): Promise<void>;
  /** Changes the stage's Shard as a person would. */
  patchShard(body: unknown, contentType?: string): Promise<void>;
  setReplicas(replicas: number): Promise<void>;
  /** So many ready members, nobody leaving, no record open, and both steps have said so of the present spec. */
  untilSettled(members: number): Promise<void>;
  /** Every request that the functions made of the API server so far, none missing. */
  requests(): Promise<readonly AuditedRequest[]>;
  /** The functions' creates or deletes of pods that took effect, in their order. */
  podsWritten(verb: 'create' | 'delete'): Promise<readonly AuditedRequest[]>;
}

/** Starts and deploys everything; what was started goes with the stack. */
export async function startDeployed(running: AsyncDisposableStack): Promise<Deployed> {
  const printer = printProgress(process.stderr);
  running.defer(() => printer.close());
  const { onProgress } = printer;
  const guarded = await makeGuardedFolder(join(tmpdir(), 'millrace-deploy-'));
  running.defer(() => guarded.remove());
  const { path: folder } = guarded;
  const names = [functionsUser, relayUser, dataPlaneUser];
  const users = names.map((name) => ({ name, groups: ['system:masters'] }));
  const controlPlane = running.use(await startControlPlane({ users, onProgress }));
  const tokenOf = (user: string) => controlPlane.tokens.get(user) ?? '';
  const connection = connectKube(controlPlane.access());
  running.defer(() => connection.close());
  const create = createWith(connection);
  await installDefinitions(connection);
  for (const name of [namespace, forgottenNamespace]) {
    await create('/api/v1/namespaces', { metadata: { name } });
  }
  const world = await followWorld(connection, namespace);
  running.defer(() => world.close());

  const cloud = running.use(await startCloud({ dataDir: join(folder, 'cloud'), onProgress }));
  const log = running.use(await FunctionLog.follow(cloud.logPath));
  const deployment = await deploy({
    cloud,
    folder,
    namespaces: [namespace],
    kube: controlPlane.access(),
    kubeToken: tokenOf(functionsUser),
  });
  const queues = running.use(new Queues(cloud, deployment.queueUrlPrefix));
  const relay = relayProcess(async () => {
    const kubeconfig = join(folder, 'relay.kubeconfig');
    const { server, ca } = controlPlane;
    await writeKubeconfig(kubeconfig, { server, ca, user: relayUser, token: tokenOf(relayUser) });
    return {
      MILLRACE_CLUSTER_ID: clusterId,
      MILLRACE_STAGE: stage,
      MILLRACE_NAMESPACES: [namespace, forgottenNamespace].join(','),
      MILLRACE_QUEUE_URL_PREFIX: deployment.queueUrlPrefix,
      MILLRACE_RELAY_PORT: '0',
      MILLRACE_LOG_LEVEL: 'warn',
      KUBECONFIG: kubeconfig,
      AWS_REGION: cloudRegion,
      AWS_ENDPOINT_URL: cloud.endpoint,
      AWS_ACCESS_KEY_ID: deployment.relay.accessKeyId,
      AWS_SECRET_ACCESS_KEY: deployment.relay.secretAccessKey,
    };
  });
  await relay.start();
  running.defer(() => relay.stop());

  const topology = running.use(await startEtcd({ dataDir: join(folder, 'topology') }));
  const dataPlane = await startDataPlane({
    server: controlPlane.server,
    ca: controlPlane.ca,
    token: tokenOf(dataPlaneUser),
    etcdEndpoint: topology.endpoint,
    dataDir: join(folder, 'data-plane'),
    speed,
    cells: ['zone-a'],
    selector: `millrace.dev/shard=${shardName}`,
  });
  running.defer(() => dataPlane.stop());
  const createDatabase = (within: string) =>
    create(
      collectionPath('Database', within),
      databaseManifest(topology.endpoint, dataPlane.adminUrl),
    );
  await createDatabase(namespace);

  const patchShard = async (body: unknown, contentType = 'application/merge-patch+json') => {
    const path = `${collectionPath('Shard', namespace)}/${shardName}`;
    const answer = await connection.request({ method: 'PATCH', path, contentType, body });
    if (answer.status !== 200) {
      throw new Error(`the Shard was not changed: ${JSON.stringify(answer.body)}`);
    }
  };
  const requests = () => auditedRequests(connection, controlPlane.auditLogPath);
  return {
    controlPlane,
    connection,
    world,
    topology,
    dataPlane,
    cloud,
    deployment,
    queues,
    log,
    relay,
    functionsToken: tokenOf(functionsUser),
    create,
    createDatabase,
    patchShard,
    setReplicas: (value) =>
      patchShard(
        [{ op: 'replace', path: '/spec/pools/0/replicasPerCell', value }],
        'application/json-patch+json',
      ),
    untilSettled: (members) => untilSettled(world, members),
    requests,
    podsWritten: async (verb) =>
      (await requests()).filter(
        (request) =>
          request.verb === verb && request.resource === 'pods' && (request.status ?? 0) < 300,
      ),
  };
}

/** A Shard with one pool, whose cleanup does not wait for a day. */
export function shardManifest(name: string, replicasPerCell: number): JsonObject {
  const containers = [
    {
      name: 'multipooler',
      image: 'multigres/multipooler',
      volumeMounts: [{ name: 'data', mountPath: '/data' }],
    },
  ];
  return {
    apiVersion: 'millrace.dev/v1alpha1',
    kind: 'Shard',
    metadata: { name },
    spec: {
      databaseRef: { name: 'main' },
      cleanup: { quietFor: '5s', deleteAfter: '6s' },
      pools: [
        {
          name: 'main',
          cells: ['zone-a'],
          replicasPerCell,
          storage: { size: '1Gi' },
          podTemplate: { spec: { containers } },
        },
      ],
    },
  };
}

function databaseManifest(topologyEndpoint: string, adminUrl: string): JsonObject {
  return {
    apiVersion: 'millrace.dev/v1alpha1',
    kind: 'Database',
    metadata: { name: 'main' },
    spec: {
      name: 'postgres',
      dataPlane: {
        kind: 'multigres',
        topology: { endpoints: [topologyEndpoint] },
        admin: { url: adminUrl },
      },
    },
  };
}

function createWith(connection: KubeConnection) {
  return async (path: string, object: JsonObject): Promise<void> => {
    const { status, body } = await connection.request({ method: 'POST', path, body: object });
    if (status !== 201) {
      throw new Error(`nothing was made at ${path}: ${JSON.stringify(body)}`);
    }
  };
}

function relayProcess(environment: () => Promise<Record<string, string>>): RelayProcess {
  let child: Child<{ url: string }> | undefined;
  return {
    async start() {
      child = await launch({
        name: 'the relay',
        entry: new URL('../../events/relay/main.ts', import.meta.url),
        environment: await environment(),
        announcement: z.object({ url: z.url() }),
        readyTimeoutMs: 30_000,
        onLine: (line) => process.stderr.write(`${line}\n`),
      });
    },
    async kill() {
      child?.signal('SIGKILL');
      await child?.exited;
    },
    async stop() {
      await child?.stop(relayGraceMs);
    },
  };
}

async function untilSettled(world: World, members: number): Promise<void> {
  await world.until(`${members} members are settled`, patienceSeconds, () => {
    const shard = world.get('Shard', shardName);
    const pods = world.all('Pod').filter(({ metadata }) => isMember(metadata.labels));
    const { generation = 0 } = shard?.metadata ?? {};
    const isTrue = (type: string) =>
      shard?.status?.conditions?.some(
        (condition) =>
          condition.type === type &&
          condition.status === 'True' &&
          condition.observedGeneration >= generation,
      );
    return (
      shard?.spec.pools[0]?.replicasPerCell === members &&
      ['Ready', 'Drained'].every(isTrue) &&
      readDrainRecord(shard.metadata).kind === 'none' &&
      pods.length === members &&
      pods.every((pod) => isReady(pod) && pod.metadata.deletionTimestamp === undefined)
    );
  });
}

function isMember(labels: Readonly<Record<string, string>> | undefined): boolean {
  return labels?.[shardLabel] === shardName;
}

let marks = 0;

/** The audit log may lag its requests: it is read until a request of ours, sent last, shows in it. */
async function auditedRequests(
  connection: KubeConnection,
  path: string,
): Promise<readonly AuditedRequest[]> {
  marks += 1;
  const marker = `${process.pid}-${marks}`;
  await connection.request({ method: 'GET', path: '/version', query: { marker } });
  for (;;) {
    const log = await readAuditLog(path);
    if (log.some((request) => request.path === `/version?marker=${marker}`)) {
      return log.filter(({ user }) => user === functionsUser);
    }
  }
}
