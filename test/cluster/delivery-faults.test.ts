import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { SendMessageCommand } from '@aws-sdk/client-sqs';
import { afterAll, describe, expect, test } from 'vitest';
import * as z from 'zod';
import { deadLetterQueueName, queueName } from '#events/hint.ts';
import { type Child, launch } from '#infra/local/child/launch.ts';
import { type AuditedRequest, readAuditLog } from '#infra/local/control-plane/audit-log.ts';
import type { ControlPlane } from '#infra/local/control-plane/control-plane.ts';
import { queueUrl } from '#infra/local/queue/queue.ts';
import { startWorkerProcess } from '#infra/local/worker/start.ts';
import { podBaseName, podName } from '#shared/api/names.ts';
import type { StepName } from '#shared/api/steps.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import { connectKube } from '#shared/kube/http-connection.ts';
import { collectionPath } from '#shared/kube/http-kube.ts';
import { aDatabase, aTemplate } from '#test/builders/shard.ts';
import { missingControlPlane } from './local-control-plane.ts';
import { type JournaledMessage, MessageJournal } from './message-journal.ts';
import {
  type OpenQueue,
  countMessages,
  openQueueClient,
  openQueueProcess,
  takeMessages,
} from './queue-contents.ts';
import { RelayScene, eventually, useCluster } from './relay-scene.ts';

/**
 * What can happen between the queues and the handlers, with the real relay, queue server, worker and functions on a
 * real API server. Bad views of the world that a handler meets are in bad-input.test.ts, faults in the middle of a drain
 * in drain-faults.test.ts, and what the worker does with a function's answers in its unit tests.
 */
interface Poison {
  readonly poison: string;
  /** What the function does about it, each of the five times it is received. */
  readonly reaction: string;
  /** How many messages of it reach the dead-letter queues. */
  readonly dead: number;
  readonly startWorker: (environment: Record<string, string>) => Promise<Child<unknown>>;
  readonly served: readonly StepName[];
  readonly begin: (scene: RelayScene, queue: OpenQueue) => Promise<void>;
}

const garbage = ['not JSON', '{}', '{"specversion":"1.0"}', '[]', 'x'.repeat(100_000)];

const poisons: readonly Poison[] = [
  {
    poison: 'bodies that are no hints',
    reaction: 'refuses them before it looks at anything',
    dead: 2 * garbage.length,
    startWorker: (environment) => startWorkerProcess({ environment }),
    served: ['drain-step', 'pool-pods'],
    begin: (_, queue) => sendGarbage(queue),
  },
  {
    poison: 'a target on which the step throws',
    reaction: 'gives back the messages of that target alone',
    dead: 1,
    startWorker: (environment) =>
      launch({
        name: 'the worker',
        entry: new URL('fixtures/poisoned-worker.ts', import.meta.url),
        environment,
        announcement: z.object({}),
        readyTimeoutMs: 30_000,
      }),
    served: ['pool-pods'],
    begin: createPoisonedShard,
  },
];

/** P3's bound here, in milliseconds: from a queue's having a message to its having deleted it, on a busy small machine. */
const delayBoundMs = 5_000;

/** How long a batch is hidden whose worker was killed, in seconds. */
const visibilitySeconds = 4;

const stage = 'delivery';
const targets = 10;
const replicas = 2;

describe.skipIf(missingControlPlane !== undefined)('between queue and handlers', () => {
  const controlPlane = useCluster();
  const measured: string[] = [];

  afterAll(() => {
    process.stderr.write(`${measured.join('\n')}\n`);
  });

  test.for(poisons)(
    'F30, P3: $poison: the function $reaction; they reach the dead-letter queue, and others are not held up',
    { timeout: 180_000 },
    async (row, { expect }) => {
      await using queue = await openQueueProcess(stage, visibilitySeconds);
      const journal = new MessageJournal();
      await using scene = await open(controlPlane(), queue, journal, `poison-${row.dead}`, targets);
      const worker = await row.startWorker(await workerEnvironment(scene, controlPlane()));
      await using started = new AsyncDisposableStack();
      started.defer(() => worker.stop(0));
      await scene.untilCalm();
      const others = () => messagesOf(journal, row.served);
      await untilDeleted(others);
      const known = new Set(others());

      await row.begin(scene, queue);
      const dead = await changeUntilDead(scene, queue, row);
      const diedAtMs = performance.now();
      await scene.untilCalm();
      const innocent = () =>
        others().filter((message) => !known.has(message) && !dead.has(message.id));
      await untilDeleted(innocent);

      const meanwhile = innocent().filter(({ deletedAtMs = Infinity }) => deletedAtMs < diedAtMs);
      const delaysMs = innocent()
        .map(({ sentAtMs = 0, deletedAtMs = Infinity }) => deletedAtMs - sentAtMs)
        .toSorted((a, b) => a - b);
      measured.push(`${row.poison}: others took ${quantiles(delaysMs)}`);
      expect(dead.size).toBe(row.dead);
      expect(meanwhile.length).toBeGreaterThan(0);
      expect(delaysMs.length).toBeGreaterThanOrEqual(targets);
      expect(delaysMs.at(-1)).toBeLessThan(delayBoundMs);
      expect(scene.ledger.withoutHint().length).toBe(0);
      expect(await leftIn(queue, row.served)).toBe(0);
    },
  );

  test('F1, F2, P1: a worker that is killed in the middle of a batch changes nothing but the time it takes', async () => {
    await using queue = await openQueueProcess(stage, visibilitySeconds);
    const journal = new MessageJournal();
    await using scene = await open(controlPlane(), queue, journal, 'killed', 0);
    const api = connectKube(controlPlane().access());
    await using started = new AsyncDisposableStack();
    started.defer(() => api.close());
    const environment = await workerEnvironment(scene, controlPlane());
    await createManagedShards(api, 'killed');
    const hinted = () => messagesOf(journal, ['pool-pods']);
    await eventually('every shard is hinted at', hinted, ({ length }) => length >= targets);

    // The pods are made, and nobody is told so: their handlers wait for the answers when they are killed.
    let withheld = 0;
    scene.apiServer.treat(({ method, path }) => {
      const isPod = method === 'POST' && path.endsWith('/pods');
      withheld += isPod ? 1 : 0;
      return isPod ? { kind: 'withholdReply' } : undefined;
    });
    const first = await startWorkerProcess({ environment });
    started.defer(() => first.stop(0));
    const made = await eventually(
      'handlers are in the middle of their writes',
      () => podUids(api, 'killed'),
      ({ size }) => size >= 3 && withheld >= size,
    );
    first.signal('SIGKILL');
    await first.exited;
    const batch = journal.batches.findLast(([message]) => message?.queue.endsWith('pool-pods'));
    const receivesBefore = (batch ?? []).map(({ receives }) => receives);
    const deletedBefore = (batch ?? []).filter(({ deletedAtMs }) => deletedAtMs !== undefined);
    await scene.apiServer.heal();
    const second = await startWorkerProcess({ environment });
    started.defer(() => second.stop(0));
    await eventually(
      'every pod is there',
      () => podUids(api, 'killed'),
      ({ size }) => size >= targets * replicas,
    );
    await untilDeleted(hinted);

    const after = await podUids(api, 'killed');
    expect(batch?.length).toBeGreaterThan(1);
    expect(deletedBefore).toEqual([]);
    expect(
      (batch ?? []).map(({ receives }, place) => receives > (receivesBefore[place] ?? 0)),
    ).toEqual((batch ?? []).map(() => true));
    expect([...after.keys()].toSorted()).toEqual(expectedPods());
    // Those of the killed handlers are the ones that are there: none was made twice, none was taken away.
    expect([...made].filter(([name, uid]) => after.get(name) !== uid)).toEqual([]);
    expect(await createdPods(controlPlane(), 'killed')).toBe(targets * replicas);
    expect(await leftIn(queue, ['pool-pods'])).toBe(0);
  });
});

function open(
  controlPlane: ControlPlane,
  queue: OpenQueue,
  journal: MessageJournal,
  namespace: string,
  targets: number,
): Promise<RelayScene> {
  return RelayScene.open({
    controlPlane,
    queueUrl: queue.url,
    stage,
    namespace,
    targets,
    relay: 'asInProduction',
    onQueueAnswer: journal.observe,
  });
}

/** What the worker and its functions are told: everything they reach, they reach through the scene's proxies. */
async function workerEnvironment(
  { folder, apiServer, queue, herd }: RelayScene,
  { ca, adminToken }: ControlPlane,
): Promise<Record<string, string>> {
  const [caPath, tokenPath] = [join(folder, 'ca.crt'), join(folder, 'token')];
  await writeFile(caPath, ca);
  await writeFile(tokenPath, adminToken, { mode: 0o600 });
  return {
    MILLRACE_CLUSTER_ID: 'test',
    MILLRACE_STAGE: stage,
    MILLRACE_NAMESPACES: herd.namespace,
    MILLRACE_QUEUE_ENDPOINT: queue.url,
    MILLRACE_KUBE_SERVER: apiServer.url,
    MILLRACE_KUBE_CA: caPath,
    MILLRACE_KUBE_TOKEN_FILE: tokenPath,
    MILLRACE_FUNCTION_CONCURRENCY: '1',
    AWS_REGION: 'us-east-1',
    AWS_ACCESS_KEY_ID: 'test',
    AWS_SECRET_ACCESS_KEY: 'test',
  };
}

async function sendGarbage({ url }: OpenQueue): Promise<void> {
  const client = openQueueClient(url);
  for (const step of ['drain-step', 'pool-pods'] as const) {
    for (const MessageBody of garbage) {
      const QueueUrl = queueUrl(url, queueName(stage, step));
      await client.send(new SendMessageCommand({ QueueUrl, MessageBody }));
    }
  }
  client.destroy();
}

/** Its own creation is what the relay hints at; the fixture's step cannot look at it. */
async function createPoisonedShard({ controlPlane, herd }: RelayScene): Promise<void> {
  const api = connectKube(controlPlane.access());
  await create(api, collectionPath('Shard', herd.namespace), {
    ...shardHead('poison'),
    spec: { databaseRef: { name: 'main' }, pools: [attachedPool] },
  });
  api.close();
}

/** Goes on changing the others until every message of the poison is in a dead-letter queue; resolves with their ids. */
async function changeUntilDead(
  { herd }: RelayScene,
  { url }: OpenQueue,
  { dead, served }: Poison,
): Promise<ReadonlySet<string>> {
  const client = openQueueClient(url);
  const ids = new Set<string>();
  await eventually(
    `${dead} messages are in the dead-letter queues`,
    async () => {
      await herd.change(targets);
      for (const step of served) {
        const taken = await takeMessages(client, url, deadLetterQueueName(stage, step));
        taken.forEach(({ MessageId = '' }) => ids.add(MessageId));
      }
      return ids.size;
    },
    (size) => size >= dead,
  );
  client.destroy();
  return ids;
}

function messagesOf(
  journal: MessageJournal,
  steps: readonly StepName[],
): readonly JournaledMessage[] {
  const names = new Set(steps.map((step) => queueName(stage, step)));
  return journal.messages.filter(
    ({ queue, sentAtMs }) => names.has(queue) && sentAtMs !== undefined,
  );
}

async function untilDeleted(messages: () => readonly JournaledMessage[]): Promise<void> {
  await eventually(
    'every message is deleted',
    () => messages().filter(({ deletedAtMs }) => deletedAtMs === undefined).length,
    (left) => left === 0,
  );
}

/** How many messages the queues still hold, once that is 0 or does not become so. */
async function leftIn({ url }: OpenQueue, steps: readonly StepName[]): Promise<number> {
  const client = openQueueClient(url);
  const count = async () => {
    const counts = steps.map((step) => countMessages(client, url, queueName(stage, step)));
    return (await Promise.all(counts)).reduce((sum, each) => sum + each, 0);
  };
  try {
    return await eventually('the queues are empty', count, (left) => left === 0);
  } finally {
    client.destroy();
  }
}

function quantiles(sortedMs: readonly number[]): string {
  const at = (share: number) =>
    Math.round(sortedMs[Math.floor(share * (sortedMs.length - 1))] ?? 0);
  return `p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, at most ${at(1)} ms (${sortedMs.length} messages)`;
}

const attachedPool = {
  name: 'main',
  cells: ['zone-a'],
  replicasPerCell: 1,
  storage: { size: '1Gi' },
};

function shardHead(name: string): object {
  return { apiVersion: 'millrace.dev/v1alpha1', kind: 'Shard', metadata: { name } };
}

const shardNames = Array.from({ length: targets }, (_, index) => `orders-${index}`);

/** Shards whose pods pool-pods makes, and the Database they name. */
async function createManagedShards(api: KubeConnection, namespace: string): Promise<void> {
  const { apiVersion, kind, spec } = aDatabase();
  await create(api, collectionPath('Database', namespace), {
    apiVersion,
    kind,
    metadata: { name: 'main' },
    spec,
  });
  const podTemplate = { spec: aTemplate() };
  for (const name of shardNames) {
    await create(api, collectionPath('Shard', namespace), {
      ...shardHead(name),
      spec: {
        databaseRef: { name: 'main' },
        pools: [{ ...attachedPool, replicasPerCell: replicas, podTemplate }],
      },
    });
  }
}

async function create(api: KubeConnection, path: string, body: object): Promise<void> {
  const { status, body: answer } = await api.request({ method: 'POST', path, body });
  expect(status, JSON.stringify(answer)).toBe(201);
}

const podListSchema = z.object({
  items: z.array(z.object({ metadata: z.object({ name: z.string(), uid: z.string() }) })),
});

async function podUids(
  api: KubeConnection,
  namespace: string,
): Promise<ReadonlyMap<string, string>> {
  const { body } = await api.request({ method: 'GET', path: collectionPath('Pod', namespace) });
  return new Map(podListSchema.parse(body).items.map(({ metadata: { name, uid } }) => [name, uid]));
}

function expectedPods(): readonly string[] {
  return shardNames
    .flatMap((shard) =>
      Array.from({ length: replicas }, (_, index) =>
        podName(podBaseName(shard, 'main', 'zone-a'), index),
      ),
    )
    .toSorted();
}

/** How many pods the API server was asked to make, and made. */
async function createdPods({ auditLogPath }: ControlPlane, namespace: string): Promise<number> {
  const isCreation = (request: AuditedRequest): boolean =>
    request.verb === 'create' &&
    request.resource === 'pods' &&
    request.namespace === namespace &&
    request.status === 201;
  return (await readAuditLog(auditLogPath)).filter(isCreation).length;
}
