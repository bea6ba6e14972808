import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { GetParametersCommand, SSMClient } from '@aws-sdk/client-ssm';
import * as z from 'zod';
import { relayName } from '#infra/kubernetes/relay.ts';
import { type Child, launch } from '#infra/local/child/launch.ts';
import { type Cloud, startCloud } from '#infra/local/cloud/start.ts';
import { type AuditedRequest, readAuditLog } from '#infra/local/control-plane/audit-log.ts';
import { obtain } from '#infra/local/control-plane/binaries.ts';
import { type ControlPlane, startControlPlane } from '#infra/local/control-plane/control-plane.ts';
import { type Etcd, startEtcd } from '#infra/local/control-plane/etcd.ts';
import { makeGuardedFolder } from '#infra/local/control-plane/guard.ts';
import { writeKubeconfig } from '#infra/local/control-plane/kubeconfig.ts';
import { kubectlProgram } from '#infra/local/control-plane/program.ts';
import { printProgress, reportProgress } from '#infra/local/control-plane/progress.ts';
import { type DataPlane, startDataPlane } from '#infra/local/data-plane/start.ts';
import { type World, followWorld } from '#infra/local/show/world.ts';
import { shardLabel } from '#shared/api/labels.ts';
import { readDrainRecord } from '#shared/api/drain-record.ts';
import { functionNames, tokenParameterName } from '#shared/api/steps.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import { connectKube } from '#shared/kube/http-connection.ts';
import { collectionPath } from '#shared/kube/http-kube.ts';
import type { JsonObject } from '#shared/kube/json.ts';
import { isReady } from '#shared/kube/readiness.ts';
import { pooledShardManifest } from '#test/builders/manifest.ts';
import {
  type DeployedByReadme,
  deployByReadme,
  installedIn,
  namespace,
  stage,
} from './by-readme.ts';
import { clientOf } from './deployment.ts';
import { FunctionLog } from './function-log.ts';
import { Queues } from './queues.ts';
import { endTls } from './tls-ended.ts';

/** The Shard whose members the data plane runs. Pods of others are made, and stay as they were made. */
export const shardName = 'orders';

/** How long an end may take on a machine many times slower than this one. */
export const patienceSeconds = 90;

/** How much faster than measured the data plane runs. Millrace's own waits are not shortened. */
export const speed = 8;

const dataPlaneUser = 'data-plane';

/** What each function is to the API server. */
const functionUsers: ReadonlySet<string> = new Set(
  functionNames.map((name) => `system:serviceaccount:${installedIn}:${name}`),
);

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
  readonly deployment: DeployedByReadme;
  readonly queues: Queues;
  readonly log: FunctionLog;
  readonly relay: RelayProcess;
  /** What the functions sign in to the API server with. */
  functionTokens(): Promise<readonly string[]>;
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
  const users = [{ name: dataPlaneUser, groups: ['system:masters'] }];
  const kubectl = await obtain(kubectlProgram, onProgress);
  const controlPlane = running.use(await startControlPlane({ users, onProgress }));
  const connection = connectKube(controlPlane.access());
  running.defer(() => connection.close());
  const create = createWith(connection);
  const topology = running.use(await startEtcd({ dataDir: join(folder, 'topology') }));
  const dataPlane = await startDataPlane({
    server: controlPlane.server,
    ca: controlPlane.ca,
    token: controlPlane.tokens.get(dataPlaneUser) ?? '',
    etcdEndpoint: topology.endpoint,
    dataDir: join(folder, 'data-plane'),
    speed,
    cells: ['zone-a'],
    selector: `millrace.dev/shard=${shardName}`,
  });
  running.defer(() => dataPlane.stop());

  const cloud = running.use(await startCloud({ dataDir: join(folder, 'cloud'), onProgress }));
  const log = running.use(await FunctionLog.follow(cloud.logPath));
  const topologyUrl = topology.endpoint;
  const { adminUrl } = dataPlane;
  const { url: secureUrl } = running.use(await endTls(cloud.endpoint));
  const deployment = await reportProgress(onProgress, 'following the README', () =>
    deployByReadme({ cloud, controlPlane, kubectl, folder, topologyUrl, adminUrl, secureUrl }),
  );
  const queues = running.use(new Queues(cloud, deployment.queueUrlPrefix));
  const relay = relayProcess(
    await relayAsInstalled({ connection, controlPlane, folder, cloud }),
    deployment.project,
  );
  await relay.start();
  running.defer(() => relay.stop());
  const world = await followWorld(connection, namespace);
  running.defer(() => world.close());

  const createDatabase = (within: string) =>
    create(
      collectionPath('Database', within),
      databaseManifest(topology.endpoint, dataPlane.adminUrl),
    );

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
    functionTokens: () => functionTokens(cloud),
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
  const cleanup = { quietFor: '5s', deleteAfter: '6s' };
  return pooledShardManifest(name, { replicasPerCell, cleanup });
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

const deploymentSchema = z.looseObject({
  spec: z.looseObject({
    template: z.looseObject({
      spec: z.looseObject({
        containers: z.tuple([
          z.looseObject({ env: z.array(z.object({ name: z.string(), value: z.string() })) }),
        ]),
      }),
    }),
  }),
});

const accountSchema = z.looseObject({
  metadata: z.looseObject({
    annotations: z.object({ 'eks.amazonaws.com/role-arn': z.string() }),
  }),
});

const tokenSchema = z.looseObject({ status: z.looseObject({ token: z.string() }) });

/**
 * What the relay's pod would be given: the variables of its Deployment, its service account's token, and the role that the
 * account is annotated with, taken by a token for AWS. Only addresses are others.
 */
async function relayAsInstalled({
  connection,
  controlPlane: { server, ca },
  folder,
  cloud,
}: Pick<Deployed, 'connection' | 'controlPlane' | 'cloud'> & { readonly folder: string }) {
  const account = `/api/v1/namespaces/${installedIn}/serviceaccounts/relay`;
  const tokenFor = async (audiences?: readonly string[]) => {
    const { body } = await connection.request({
      method: 'POST',
      path: `${account}/token`,
      body: {
        apiVersion: 'authentication.k8s.io/v1',
        kind: 'TokenRequest',
        spec: { expirationSeconds: 3600, ...(audiences === undefined ? {} : { audiences }) },
      },
    });
    return tokenSchema.parse(body).status.token;
  };
  const get = async (path: string) => (await connection.request({ method: 'GET', path })).body;
  const path = `/apis/apps/v1/namespaces/${installedIn}/deployments/${relayName}`;
  const [container] = deploymentSchema.parse(await get(path)).spec.template.spec.containers;
  const { annotations } = accountSchema.parse(await get(account)).metadata;
  const kubeconfig = join(folder, 'relay.kubeconfig');
  await writeKubeconfig(kubeconfig, { server, ca, user: 'relay', token: await tokenFor() });
  const webIdentity = join(folder, 'relay.token');
  await writeFile(webIdentity, await tokenFor(['sts.amazonaws.com']));
  return {
    ...Object.fromEntries(container.env.map(({ name, value }) => [name, value])),
    MILLRACE_RELAY_PORT: '0',
    MILLRACE_LOG_LEVEL: 'warn',
    KUBECONFIG: kubeconfig,
    AWS_ROLE_ARN: annotations['eks.amazonaws.com/role-arn'],
    AWS_WEB_IDENTITY_TOKEN_FILE: webIdentity,
    AWS_ENDPOINT_URL: cloud.endpoint,
  };
}

/** @param project where the relay was built */
function relayProcess(environment: Record<string, string>, project: string): RelayProcess {
  let child: Child<{ url: string }> | undefined;
  return {
    async start() {
      child = await launch({
        name: 'the relay',
        entry: pathToFileURL(join(project, 'dist/relay/index.mjs')),
        environment,
        announcement: z.object({ url: z.url() }),
        readyTimeoutMs: 60_000,
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

async function functionTokens(cloud: Cloud): Promise<readonly string[]> {
  const client = new SSMClient(clientOf(cloud));
  const { Parameters: parameters = [] } = await client.send(
    new GetParametersCommand({
      Names: functionNames.map((name) => tokenParameterName(stage, name)),
      WithDecryption: true,
    }),
  );
  client.destroy();
  return parameters.map(({ Value: value = '' }) => value.trim());
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
      return log.filter(({ user }) => functionUsers.has(user));
    }
  }
}
