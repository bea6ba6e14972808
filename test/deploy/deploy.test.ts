import { readFile, readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ReceiveMessageCommand, SQSClient, SendMessageCommand } from '@aws-sdk/client-sqs';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import * as z from 'zod';
import { deadLetterQueueName, makeHint, queueName } from '#events/hint.ts';
import { installDefinitions } from '#infra/cli/install.ts';
import { type Child, launch } from '#infra/local/child/launch.ts';
import { findMissingPython } from '#infra/local/cloud/install.ts';
import { type Cloud, cloudRegion, startCloud } from '#infra/local/cloud/start.ts';
import { type AuditedRequest, readAuditLog } from '#infra/local/control-plane/audit-log.ts';
import { type ControlPlane, startControlPlane } from '#infra/local/control-plane/control-plane.ts';
import { type Etcd, startEtcd } from '#infra/local/control-plane/etcd.ts';
import { makeGuardedFolder } from '#infra/local/control-plane/guard.ts';
import { writeKubeconfig } from '#infra/local/control-plane/kubeconfig.ts';
import { readLastLines } from '#infra/local/control-plane/log-tail.ts';
import { printProgress } from '#infra/local/control-plane/progress.ts';
import { startDataPlane } from '#infra/local/data-plane/start.ts';
import { GoverseObserver } from '#infra/local/goverse/observer.ts';
import { startGoverseNode } from '#infra/local/goverse/start.ts';
import { type World, followWorld } from '#infra/local/show/world.ts';
import { wallClock } from '#shared/kernel/instant.ts';
import { releaseMirror } from '#shared/api/annotations.ts';
import { goverseLabel, shardLabel } from '#shared/api/labels.ts';
import { readDrainRecord } from '#shared/api/drain-record.ts';
import { stepNames } from '#shared/api/steps.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import { connectKube } from '#shared/kube/http-connection.ts';
import { collectionPath } from '#shared/kube/http-kube.ts';
import type { JsonObject } from '#shared/kube/json.ts';
import { isReady } from '#shared/kube/readiness.ts';
import { connectTopology } from '#shared/topology/connect.ts';
import { isRecordOfPod } from '#shared/topology/identity.ts';
import type { PoolerRecord } from '#shared/topology/topology.ts';
import { missingControlPlane } from '#test/cluster/local-control-plane.ts';
import {
  type AccessKey,
  type Deployment,
  clientOf,
  clusterId,
  deploy,
  stage,
} from './deployment.ts';

const namespace = 'db';
const shardName = 'orders';
const patienceSeconds = 90;

/** How much faster than measured the data plane runs. Millrace's own waits are not shortened. */
const speed = 8;

const shardCount = 256;
/** Three ticks: a leader that had anything left to do would have done it. */
const quietMs = 15_000 / speed;

/** Each signs in to the API server as a user of its own, so that the audit log tells them apart. */
const functionsUser = 'functions';
const relayUser = 'relay';
const dataPlaneUser = 'data-plane';

/** Where every check must run, a missing program is a failure; elsewhere these tests are skipped, and say so. */
const isRequired = (process.env['CI'] ?? '') !== '';
const missing = missingControlPlane ?? (isRequired ? undefined : await findMissingPython());
if (missing !== undefined) {
  process.stderr.write(`deploy tests are skipped: ${missing}\n`);
}

describe.skipIf(missing !== undefined)('Millrace, packaged and deployed', () => {
  const running = new AsyncDisposableStack();
  let controlPlane: ControlPlane;
  let cloud: Cloud;
  let deployment: Deployment;
  let connection: KubeConnection;
  let world: World;
  let relay: Child<{ url: string }>;
  let topology: Etcd;

  beforeAll(async () => {
    const printer = printProgress(process.stderr);
    running.defer(() => printer.close());
    const { onProgress } = printer;
    const guarded = await makeGuardedFolder(join(tmpdir(), 'millrace-deploy-'));
    running.defer(() => guarded.remove());
    const { path: folder } = guarded;
    const names = [functionsUser, relayUser, dataPlaneUser];
    const users = names.map((name) => ({ name, groups: ['system:masters'] }));
    controlPlane = running.use(await startControlPlane({ users, onProgress }));
    connection = connectKube(controlPlane.access());
    running.defer(() => connection.close());
    await installDefinitions(connection);
    await create('/api/v1/namespaces', { metadata: { name: namespace } });
    world = await followWorld(connection, namespace);
    running.defer(() => world.close());

    cloud = running.use(await startCloud({ dataDir: join(folder, 'cloud'), onProgress }));
    deployment = await deploy({
      cloud,
      folder,
      namespaces: [namespace],
      kube: controlPlane.access(),
      kubeToken: tokenOf(functionsUser),
    });
    await startRelay(folder);
    await createDatabase(folder);
  });

  beforeEach(({ onTestFailed }) => {
    onTestFailed(async () => {
      const lines = await readLastLines(cloud.logPath, 40);
      process.stderr.write(`the last lines of the AWS stand-in:\n${lines.join('\n')}\n`);
    });
  });

  afterAll(() => running.disposeAsync());

  function tokenOf(user: string): string {
    return controlPlane.tokens.get(user) ?? '';
  }

  async function startRelay(folder: string): Promise<void> {
    const kubeconfig = join(folder, 'relay.kubeconfig');
    const { server, ca } = controlPlane;
    await writeKubeconfig(kubeconfig, { server, ca, user: relayUser, token: tokenOf(relayUser) });
    relay = await launch({
      name: 'the relay',
      entry: new URL('../../events/relay/main.ts', import.meta.url),
      environment: {
        MILLRACE_CLUSTER_ID: clusterId,
        MILLRACE_STAGE: stage,
        MILLRACE_NAMESPACES: namespace,
        MILLRACE_QUEUE_URL_PREFIX: deployment.queueUrlPrefix,
        MILLRACE_RELAY_PORT: '0',
        MILLRACE_LOG_LEVEL: 'warn',
        KUBECONFIG: kubeconfig,
        AWS_REGION: cloudRegion,
        AWS_ENDPOINT_URL: cloud.endpoint,
        AWS_ACCESS_KEY_ID: deployment.relay.accessKeyId,
        AWS_SECRET_ACCESS_KEY: deployment.relay.secretAccessKey,
      },
      announcement: z.object({ url: z.url() }),
      readyTimeoutMs: 30_000,
      onLine: (line) => process.stderr.write(`${line}\n`),
    });
    running.defer(() => relay.stop(20_000));
  }

  /** A data plane, and the Database that says where it is. */
  async function createDatabase(folder: string): Promise<void> {
    topology = running.use(await startEtcd({ dataDir: join(folder, 'topology') }));
    const dataPlane = await startDataPlane({
      server: controlPlane.server,
      ca: controlPlane.ca,
      token: tokenOf(dataPlaneUser),
      etcdEndpoint: topology.endpoint,
      dataDir: join(folder, 'data-plane'),
      speed,
      cells: ['zone-a'],
    });
    running.defer(() => dataPlane.stop());
    await create(collectionPath('Database', namespace), {
      apiVersion: 'millrace.dev/v1alpha1',
      kind: 'Database',
      metadata: { name: 'main' },
      spec: {
        name: 'postgres',
        dataPlane: {
          kind: 'multigres',
          topology: { endpoints: [topology.endpoint] },
          admin: { url: dataPlane.adminUrl },
        },
      },
    });
  }

  async function create(path: string, object: JsonObject): Promise<void> {
    const { status, body } = await connection.request({ method: 'POST', path, body: object });
    expect(status, JSON.stringify(body)).toBe(201);
  }

  async function poolers(): Promise<readonly PoolerRecord[]> {
    const access = { endpoints: [topology.endpoint], globalRoot: '/multigres/global' };
    const reader = connectTopology(access, { namespace });
    running.defer(() => reader.close());
    const shard = { database: 'postgres', tableGroup: 'default', shard: '0-inf' };
    const read = await reader.poolers(shard, ['zone-a']);
    return read.kind === 'present' ? read.value.poolers : expect.unreachable(JSON.stringify(read));
  }

  async function createShard(name: string, replicasPerCell: number): Promise<void> {
    const containers = [
      {
        name: 'multipooler',
        image: 'multigres/multipooler',
        volumeMounts: [{ name: 'data', mountPath: '/data' }],
      },
    ];
    await create(collectionPath('Shard', namespace), {
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
    });
  }

  async function setReplicas(replicas: number): Promise<void> {
    const { status, body } = await connection.request({
      method: 'PATCH',
      path: `${collectionPath('Shard', namespace)}/${shardName}`,
      contentType: 'application/json-patch+json',
      body: [{ op: 'replace', path: '/spec/pools/0/replicasPerCell', value: replicas }],
    });
    expect(status, JSON.stringify(body)).toBe(200);
  }

  /** So many ready members, nobody leaving, no record open, and both steps have said so of the present spec. */
  async function untilSettled(members: number): Promise<void> {
    await world.until(`${members} members are settled`, patienceSeconds, () => {
      const shard = world.get('Shard', shardName);
      const pods = world.all('Pod');
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

  /** What took effect of one kind on pods, with who did it by its own account: creates or deletes of the functions' user. */
  async function podsWritten(verb: 'create' | 'delete'): Promise<readonly AuditedRequest[]> {
    const log = await readAuditLog(controlPlane.auditLogPath);
    return log.filter(
      (request) =>
        request.user === functionsUser &&
        request.verb === verb &&
        request.resource === 'pods' &&
        (request.status ?? 0) < 300,
    );
  }

  async function send(queue: string, body: string, sender: AccessKey): Promise<void> {
    const client = new SQSClient({ ...clientOf(cloud, sender), useQueueUrlAsEndpoint: false });
    try {
      const QueueUrl = `${deployment.queueUrlPrefix}${queue}`;
      await client.send(
        new SendMessageCommand({ QueueUrl, MessageBody: body, MessageGroupId: 'test' }),
      );
    } finally {
      client.destroy();
    }
  }

  /** Resolves when the queue hands this message to the account's administrator. */
  async function untilReceived(queue: string, body: string): Promise<void> {
    const client = new SQSClient({ ...clientOf(cloud), useQueueUrlAsEndpoint: false });
    sayTls(client);
    const QueueUrl = `${deployment.queueUrlPrefix}${queue}`;
    try {
      for (;;) {
        const receive = new ReceiveMessageCommand({ QueueUrl, WaitTimeSeconds: 20 });
        const { Messages: messages = [] } = await client.send(receive);
        if (messages.some((message) => message.Body === body)) {
          return;
        }
      }
    } finally {
      client.destroy();
    }
  }

  test('pool-pods makes three members of a Shard', async () => {
    await createShard(shardName, 3);
    await untilSettled(3);

    const created = await podsWritten('create');

    expect(created.map(({ userAgent }) => userAgent)).toEqual(
      Array.from({ length: 3 }, () => 'millrace/pool-pods'),
    );
  });

  test('drain-step drains exactly one member, under a finished record of its uid, and clears it (D3)', async () => {
    const before = new Map(world.all('Pod').map(({ metadata }) => [metadata.uid, metadata.name]));
    const drain = followDrain(world);

    await setReplicas(2);
    await untilSettled(2);

    drain.close();
    const deleted = await podsWritten('delete');
    const gone = before
      .keys()
      .filter((uid) => world.all('Pod').every((pod) => pod.metadata.uid !== uid));
    expect(drain.states()).toEqual(['requested', 'draining', 'acknowledged', 'finished', 'none']);
    expect(deleted.map(({ name, userAgent }) => ({ name, userAgent }))).toEqual([
      { name: before.get(drain.podUid()), userAgent: 'millrace/drain-step' },
    ]);
    expect([...gone]).toEqual([drain.podUid()]);
    expect(drain.stateAtDeletion()).toBe('finished');
  });

  test('etcd-cleanup removes the record of the member that left, and no other (G5)', async () => {
    const lastRemoved = () => world.get('Shard', shardName)?.status?.cleanup?.lastRemoved;
    await world.until('a record was deleted', patienceSeconds, () => lastRemoved() !== undefined);

    const left = await poolers();

    const isAMembers = (record: PoolerRecord) =>
      world.all('Pod').some(({ metadata }) => isRecordOfPod(record, metadata.name));
    expect(left).toHaveLength(2);
    expect(left.filter((record) => !isAMembers(record))).toEqual([]);
    expect(left.map(({ id }) => id.name)).not.toContain(lastRemoved()?.pooler);
  });

  test('shard-release hands the shards of a node over before its pod is let go', async () => {
    const prefix = '/goverse';
    const { endpoint } = topology;
    const observer = running.use(await GoverseObserver.open({ endpoint, prefix, shardCount }));
    const nodes = await Promise.all(
      [0, 1, 2].map(async (number) => {
        const address = `node-${number}.nodes.db.svc:48000`;
        const options = { endpoint, prefix, address, shardCount, speed };
        return running.use(await startGoverseNode(options));
      }),
    );
    for (const number of nodes.keys()) {
      await create(collectionPath('Pod', namespace), aGoversePod(`node-${number}`));
    }
    await create(collectionPath('GoverseCluster', namespace), {
      apiVersion: 'millrace.dev/v1alpha1',
      kind: 'GoverseCluster',
      metadata: { name: 'objects' },
      spec: {
        topology: { endpoints: [endpoint], prefix },
        shards: shardCount,
        shutdown: { mode: 'clean', timeout: '60s' },
      },
    });
    await observer.settled(quietMs, patienceSeconds * 1000);

    const path = `${collectionPath('Pod', namespace)}/node-0`;
    await connection.request({ method: 'DELETE', path });
    await world.until('the node may go', patienceSeconds, () =>
      world
        .all('Pod')
        .some(
          ({ metadata }) =>
            metadata.name === 'node-0' && metadata.annotations?.[releaseMirror] === 'released',
        ),
    );
    const left = observer.loads().get('node-0.nodes.db.svc:48000');
    await nodes[0]?.stop();
    await connection.request({ method: 'DELETE', path, body: { gracePeriodSeconds: 0 } });
    await observer.until((seen) => seen.marked().length === 0, patienceSeconds * 1000);

    expect(left).toBeUndefined();
    expect([...observer.loads().keys()].toSorted()).toEqual(observer.nodes);
    expect(observer.nodes).toHaveLength(2);
  });

  test.each(stepNames)('%s leaves what is no hint to its dead-letter queue', async (step) => {
    const body = `no hint for ${step}`;

    await send(queueName(stage, step), body, deployment.relay);

    await untilReceived(deadLetterQueueName(stage, step), body);
  });

  test.each(stepNames)('nobody sends to the queue of %s but who is named', async (step) => {
    const { metadata } = world.get('Shard', shardName) ?? {};
    const hint = makeHint({
      step,
      cause: 'replay',
      source: clusterId,
      target: {
        kind: 'Shard',
        plural: 'shards',
        namespace,
        name: shardName,
        uid: metadata?.uid ?? '',
      },
      token: 'by hand',
      at: wallClock(),
    });

    const sending = send(queueName(stage, step), JSON.stringify(hint), deployment.stranger);

    await expect(sending).rejects.toThrow(/AccessDenied|not authorized|is denied/);
    await send(queueName(stage, step), JSON.stringify(hint), deployment.relay);
  });

  test.each(stepNames)('nobody reads the dead letters of %s without TLS', async (step) => {
    const client = new SQSClient({
      ...clientOf(cloud, deployment.stranger),
      useQueueUrlAsEndpoint: false,
    });
    running.defer(() => client.destroy());
    const QueueUrl = `${deployment.queueUrlPrefix}${deadLetterQueueName(stage, step)}`;

    const reading = client.send(new ReceiveMessageCommand({ QueueUrl }));

    await expect(reading).rejects.toThrow(/AccessDenied|not authorized|is denied/);
  });

  test('without a relay the sweep alone tells of a new Shard, and of the API server it only asks for lists', async () => {
    await relay.stop(20_000);

    await createShard('latecomer', 1);
    await deployment.hastenSweep();
    await world.until('the latecomer has its member', patienceSeconds, () =>
      world.all('Pod').some(({ metadata }) => metadata.labels?.[shardLabel] === 'latecomer'),
    );

    const log = await readAuditLog(controlPlane.auditLogPath);
    const asked = log.filter(({ userAgent }) => userAgent === 'millrace/sweep');
    expect(new Set(asked.map(({ verb, resource }) => `${verb} ${resource}`))).toEqual(
      new Set(['list shards', 'list databases', 'list goverseclusters']),
    );
  });

  test('the token stands in nothing that was packaged and nothing that was logged', async () => {
    const files = await readdir(deployment.packageFolder);
    const texts = [cloud.logPath, ...files.map((file) => join(deployment.packageFolder, file))];

    const contents = await Promise.all(texts.map((path) => readFile(path)));

    const log = contents[0]?.toString() ?? '';
    expect(log).toContain('"msg":"decision"');
    expect(log).toContain('hint refused');
    expect(contents.filter((content) => content.includes(tokenOf(functionsUser)))).toEqual([]);
  });
});

/** The stand-in takes a request with this header for one whose TLS ended before it. */
function sayTls(client: SQSClient): void {
  client.middlewareStack.add(
    (next) => (given) => {
      if (hasHeaders(given.request)) {
        given.request.headers['x-forwarded-proto'] = 'https';
      }
      return next(given);
    },
    { step: 'build', name: 'sayTls' },
  );
}

function hasHeaders(request: unknown): request is { headers: Record<string, string> } {
  return typeof request === 'object' && request !== null && 'headers' in request;
}

/** Nobody but Millrace and this test act on it: its kubelet would be this test. */
function aGoversePod(name: string): JsonObject {
  return {
    metadata: { name, labels: { [goverseLabel]: 'objects' } },
    spec: {
      nodeName: 'somewhere',
      terminationGracePeriodSeconds: 120,
      containers: [{ name: 'goverse', image: 'goverse' }],
    },
  };
}

/** What a drain looks like from outside, change by change. Versions order what two watches tell. */
function followDrain(world: World) {
  const states: { state: string; version: bigint; podUid?: string }[] = [];
  const deletions = new Map<string, bigint>();
  const close = world.onChange(() => {
    const shard = world.get('Shard', shardName);
    const record = shard === undefined ? undefined : readDrainRecord(shard.metadata);
    const state = record?.kind === 'ours' ? record.record.state : (record?.kind ?? 'gone');
    if (shard !== undefined && state !== (states.at(-1)?.state ?? 'none')) {
      const version = BigInt(shard.metadata.resourceVersion);
      const data = record?.kind === 'ours' ? record.record.data : {};
      states.push({ state, version, ...('podUid' in data ? { podUid: data.podUid } : {}) });
    }
    for (const { metadata } of world.all('Pod')) {
      if (metadata.deletionTimestamp !== undefined && !deletions.has(metadata.uid)) {
        deletions.set(metadata.uid, BigInt(metadata.resourceVersion));
      }
    }
  });
  const podUid = () => states.find((each) => each.podUid !== undefined)?.podUid ?? '';
  return {
    close,
    podUid,
    states: () => states.map(({ state }) => state),
    /** The record that was in force when the pod's deletion was written. */
    stateAtDeletion: () =>
      states.findLast(({ version }) => version < (deletions.get(podUid()) ?? 0n))?.state,
  };
}
