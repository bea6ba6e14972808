import { isReady } from '#shared/kube/readiness.ts';
import { join } from 'node:path';
import type { DecisionLine } from '#infra/cli/dev/decision-line.ts';
import { connectAdmin } from '#shared/admin/connect.ts';
import type { Read } from '#shared/kernel/read.ts';
import { shardLabel } from '#shared/api/labels.ts';
import { readDrainRecord } from '#shared/api/drain-record.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import { connectKube } from '#shared/kube/http-connection.ts';
import { kubeClient } from '#shared/kube/http-kube.ts';
import { connectTopology } from '#shared/topology/connect.ts';
import { startBucketServer } from '#infra/local/bucket/start.ts';
import { type ControlPlane, startControlPlane } from '#infra/local/control-plane/control-plane.ts';
import { type Etcd, startEtcd } from '#infra/local/control-plane/etcd.ts';
import type { EtcdAccess } from '#infra/local/control-plane/etcd-access.ts';
import { writeKubeconfig } from '#infra/local/control-plane/kubeconfig.ts';
import type { ProgressUpdate } from '#infra/local/control-plane/progress.ts';
import { type DataPlane, startDataPlane } from '#infra/local/data-plane/start.ts';
import { Changes } from './changes.ts';
import { region } from './bucket-seen.ts';
import { Meter } from './meter.ts';
import { type Part, queueStage, startMillrace } from './millrace-process.ts';
import { firstOfEachRefusal } from './refusals.ts';
import { readRelay } from './relay-metrics.ts';
import type { MemberLine, Screen } from './screen.ts';
import type { Stage } from './stage.ts';
import { openStepQueues } from './step-queues.ts';
import { type World, followWorld } from './world.ts';

const namespace = 'demo';
const shardName = 'orders';

/** The Shard every scene is about, as decisions name it. */
export const shownTarget = `shd/${namespace}/${shardName}`;

const shardKey = { database: 'postgres', tableGroup: 'default', shard: '0-inf' };
const cells = ['zone-a'];

/** Millrace and the data plane sign in as users of their own, so that the audit log tells them apart. */
const millraceUser = 'millrace';
const dataPlaneUser = 'data-plane';

/** The sweep would wake what a scene leaves without a relay on purpose, so it is put off for longer than any show lasts. */
const neverSeconds = 86_400;

/** What `millrace dev` keeps, below the stage's folder. */
const dataFolder = 'millrace';

/** Where the decisions of a stage in this folder are recorded. */
export function archiveFolder(folder: string): string {
  return join(folder, dataFolder, 'archive');
}

export interface BuiltStage extends AsyncDisposable {
  readonly stage: Stage;
  readonly meter: Meter;
  readonly controlPlane: ControlPlane;
  readonly topologyEtcd: Etcd;
  readonly dataPlane: DataPlane;
  /** Who Millrace signs in as, for the audit log. */
  readonly millraceUser: string;
}

export interface StageOptions {
  readonly folder: string;
  readonly speed: number;
  readonly screen: Screen;
  readonly signal: AbortSignal;
  /** The path of another installation's `millrace.mjs`; of this one when not given. */
  readonly command?: string;
  /** Starts an S3 server too. */
  readonly hasBucket?: boolean;
  /** Has `millrace dev` record every decision and hint, in {@link archiveFolder}. */
  readonly isRecorded?: boolean;
  /** What the topology is kept in, started and ended by the caller; a plain etcd of the stage when absent. */
  readonly topology?: StageTopology;
}

/** An etcd that wants certificates or users, or has several members. */
export interface StageTopology {
  readonly etcd: Etcd;
  /** For the data plane, and for whoever watches over the stage. */
  readonly access: EtcdAccess;
}

/** Brings up control plane, data plane and `millrace dev`, in this order; takes them down in the opposite one. */
export async function buildStage(options: StageOptions): Promise<BuiltStage> {
  const { screen, signal } = options;
  await using stack = new AsyncDisposableStack();
  const planes = await startPlanes(options, stack);
  const { controlPlane, topologyEtcd, dataPlane, bucket } = planes;
  const connection = connectKube(controlPlane.access());
  stack.defer(() => connection.close());
  await connection.request({
    method: 'POST',
    path: '/api/v1/namespaces',
    body: { metadata: { name: namespace } },
  });
  signal.throwIfAborted();
  const { millrace, meter, decisions, queues } = await startMillraceOn(
    controlPlane,
    connection,
    options,
    stack,
  );
  const world = await followWorld(connection, namespace);
  stack.defer(() => world.close());
  const stage: Stage = {
    namespace,
    shard: shardName,
    database: 'main',
    connection,
    world,
    millrace,
    clusterId: await clusterIdOf(connection),
    queues,
    decisions,
    topologyEndpoint: topologyEtcd.endpoint,
    adminUrl: dataPlane.adminUrl,
    ...eyesOn(topologyEtcd.endpoint, planes.access, dataPlane, stack),
    bucket,
    loseMember: (pod) => dataPlane.faults.inject({ kind: 'podDeath', pod, leaves: 'nothing' }),
    relay: () => readRelay(millrace.relayUrl),
    requests: () => meter.requests(),
    say: (text) => screen.say(text),
    table: (rows) => screen.table(rows),
  };
  stack.defer(world.onChange(() => screen.members(memberLines(world, stage.shard))));
  const owned = stack.move();
  return {
    stage,
    meter,
    controlPlane,
    topologyEtcd,
    dataPlane,
    millraceUser,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function startMillraceOn(
  controlPlane: ControlPlane,
  connection: KubeConnection,
  { folder, screen, command, isRecorded = false }: StageOptions,
  stack: AsyncDisposableStack,
) {
  screen.progress('starting millrace dev', 0);
  const decisions = { all: new Array<DecisionLine>(), changes: new Changes() };
  const millrace = await startMillrace({
    ...(command === undefined ? {} : { command }),
    kubeconfig: await kubeconfigFor(controlPlane, folder),
    namespace,
    isRecorded,
    dataDir: join(folder, dataFolder),
    onDecision(decision) {
      screen.decision(decision);
      decisions.all.push(decision);
      decisions.changes.touch();
    },
    onRemark: firstOfEachRefusal((line) => screen.say(line)),
    sweepSeconds: neverSeconds,
  });
  stack.defer(() => millrace.stop());
  const { auditLogPath } = controlPlane;
  const { relayUrl } = millrace;
  const meter = new Meter({ connection, auditLogPath, user: millraceUser, relayUrl });
  const queues = openStepQueues(millrace.queueUrl, queueStage);
  stack.defer(() => queues.close());
  return {
    millrace: {
      ...millrace,
      async killAndAwaitRestart(part: Part) {
        await (part === 'relay' ? meter.beforeKill() : undefined);
        await millrace.killAndAwaitRestart(part);
      },
      async killAndKeepDown(part: Part) {
        await (part === 'relay' ? meter.beforeKill() : undefined);
        return millrace.killAndKeepDown(part);
      },
    },
    meter,
    decisions,
    queues,
  };
}

async function startPlanes(
  { folder, speed, screen, signal, hasBucket = false, topology }: StageOptions,
  stack: AsyncDisposableStack,
) {
  const onProgress = ({ activity, elapsedMs }: ProgressUpdate) =>
    screen.progress(activity, elapsedMs / 1000);
  const controlPlane = stack.use(
    await startControlPlane({
      dataDir: join(folder, 'control-plane'),
      users: [millraceUser, dataPlaneUser].map((name) => ({ name, groups: ['system:masters'] })),
      onProgress,
    }),
  );
  signal.throwIfAborted();
  const { etcd: topologyEtcd, access } = topology ?? {
    etcd: stack.use(await startEtcd({ dataDir: join(folder, 'topology'), onProgress })),
    access: { otherEndpoints: [] },
  };
  const bucket = hasBucket
    ? stack.use(await startBucketServer({ dataDir: join(folder, 'bucket'), region, onProgress }))
    : undefined;
  screen.progress('starting the stand-in data plane', 0);
  const dataPlane = await startDataPlane({
    server: controlPlane.server,
    ca: controlPlane.ca,
    token: controlPlane.tokens.get(dataPlaneUser) ?? '',
    etcdEndpoint: topologyEtcd.endpoint,
    etcdAccess: access,
    dataDir: join(folder, 'data-plane'),
    speed,
    cells,
  });
  stack.defer(() => dataPlane.stop());
  return { controlPlane, topologyEtcd, access, dataPlane, bucket };
}

/** The show looks at etcd and the admin service itself: it checks Millrace, so it does not ask Millrace. */
function eyesOn(
  etcdEndpoint: string,
  { otherEndpoints, ...credentials }: EtcdAccess,
  dataPlane: DataPlane,
  stack: AsyncDisposableStack,
): Pick<Stage, 'poolers' | 'databaseRecord' | 'poolerStatus' | 'backupJobs' | 'backups'> {
  const topology = connectTopology(
    { endpoints: [etcdEndpoint, ...otherEndpoints], globalRoot: '/multigres/global' },
    { namespace, credentials },
  );
  stack.defer(() => topology.close());
  const admin = connectAdmin({ url: dataPlane.adminUrl }, { namespace });
  return {
    poolers: async () => valueOf('the topology', await topology.poolers(shardKey, cells)).poolers,
    databaseRecord: async () =>
      valueOf('the record of the database', await topology.database(shardKey.database)),
    poolerStatus: async ({ id }) => valueOf(`pooler ${id.name}`, await admin.poolerStatus(id)),
    backupJobs: async () => (await dataPlane.faults.state()).backupJobs,
    backups: async () => valueOf('the list of backups', await admin.backups(shardKey)),
  };
}

function valueOf<T>(what: string, read: Read<T>): T {
  if (read.kind !== 'present') {
    throw new Error(
      `${what} cannot be read: ${read.kind === 'unknown' ? read.why : 'it is not there'}`,
    );
  }
  return read.value;
}

async function clusterIdOf(connection: KubeConnection): Promise<string> {
  const read = await kubeClient(connection).get({ kind: 'Namespace', name: 'kube-system' });
  if (read.kind !== 'present') {
    throw new Error(`the namespace kube-system is ${read.kind}`);
  }
  return read.value.metadata.uid;
}

async function kubeconfigFor(controlPlane: ControlPlane, folder: string): Promise<string> {
  const path = join(folder, 'kubeconfig');
  await writeKubeconfig(path, {
    server: controlPlane.server,
    ca: controlPlane.ca,
    user: millraceUser,
    token: controlPlane.tokens.get(millraceUser) ?? '',
  });
  return path;
}

/** The members as the API server has them: pods, their phase, who leads by the Shard's status, who is leaving. */
function memberLines(world: World, shardName: string): readonly MemberLine[] {
  const shard = world.get('Shard', shardName);
  const record = shard === undefined ? undefined : readDrainRecord(shard.metadata);
  const leaving =
    record?.kind === 'ours' && record.record.state !== 'choosing' ? record.record : undefined;
  return world
    .all('Pod')
    .filter(({ metadata }) => metadata.labels?.[shardLabel] === shardName)
    .toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1))
    .map((pod): MemberLine => {
      const { name, uid, deletionTimestamp } = pod.metadata;
      return {
        pod: name,
        role: shard?.status?.primary?.pod === name ? 'primary' : 'replica',
        phase: deletionTimestamp === undefined ? (pod.status?.phase ?? 'Pending') : 'Terminating',
        isReady: isReady(pod),
        drain: leaving?.data.podUid === uid ? `leaving: ${leaving.state}` : '',
      };
    });
}
