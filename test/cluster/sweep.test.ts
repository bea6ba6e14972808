import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type FauxqsServer, startFauxqs } from 'fauxqs';
import pLimit from 'p-limit';
import {
  afterAll,
  beforeAll,
  beforeEach,
  describe,
  expect,
  onTestFinished,
  test,
  vi,
} from 'vitest';
import * as z from 'zod';
import { type Hint, hintSchema, queueName } from '#events/hint.ts';
import { routing, targetKinds } from '#events/routes.ts';
import { openQueues } from '#events/sending.ts';
import { runSweep } from '#functions/sweep/sweep.ts';
import { installDefinitions } from '#infra/cli/install.ts';
import { makeScheduledEvent } from '#infra/local/worker/event.ts';
import { type InvocationResult, createSandbox } from '#infra/local/worker/sandbox.ts';
import { recordAnnotation } from '#shared/api/annotations.ts';
import { type StepName, functionName, stepNames, sweepName } from '#shared/api/steps.ts';
import { wallClock } from '#shared/kernel/instant.ts';
import { createLogger } from '#shared/kernel/logger.ts';
import type { Wake } from '#shared/kernel/record.ts';
import type { KubeConnection, KubeRequest } from '#shared/kube/connection.ts';
import { connectKube } from '#shared/kube/http-connection.ts';
import { collectionPath, kubePages } from '#shared/kube/http-kube.ts';
import type { JsonObject } from '#shared/kube/json.ts';
import { resourceTypes } from '#shared/kube/resources.ts';
import { attachedShardManifest } from '#test/builders/manifest.ts';
import { missingControlPlane, useControlPlane } from './local-control-plane.ts';

const stage = 'test';
const region = 'us-east-1';

const shardRoutes = routing.routes.filter(({ target }) => target === 'Shard');

/** Writes on their way to the API server at a time. */
const writesAtOnce = 16;

/** May list what steps reconcile, and nothing else. */
const sweeper = 'sweeper';
/** May do nothing. */
const nobody = 'nobody';

const metadataSchema = z.looseObject({
  metadata: z.looseObject({ uid: z.string(), generation: z.number() }),
});

describe.skipIf(missingControlPlane !== undefined)('the sweep, while no relay runs', () => {
  const controlPlane = useControlPlane({
    users: [sweeper, nobody].map((name) => ({ name, groups: [] })),
  });
  let api: KubeConnection;
  let queue: FauxqsServer;
  let folder: string;

  beforeAll(async () => {
    api = connectKube(controlPlane().access());
    await installDefinitions(api);
    folder = await mkdtemp(join(tmpdir(), 'millrace-sweep-'));
    await writeFile(join(folder, 'ca'), controlPlane().ca);
    queue = await startFauxqs({ port: 0, logger: false, dataDir: join(folder, 'queue') });
    for (const step of stepNames) {
      queue.createQueue(queueName(stage, step));
    }
    await allowListing(sweeper);
  });

  beforeEach(() => queue.reset());

  afterAll(async () => {
    api.close();
    await queue.stop();
    await rm(folder, { recursive: true });
  });

  async function write(request: Pick<KubeRequest, 'method' | 'path' | 'body'>) {
    const contentType =
      request.method === 'PATCH' ? 'application/merge-patch+json' : 'application/json';
    const response = await api.request({ ...request, contentType });
    expect(response.status, JSON.stringify(response.body)).toBeLessThan(300);
    return response.body;
  }

  async function allowListing(user: string): Promise<void> {
    const path = '/apis/rbac.authorization.k8s.io/v1';
    const resources = targetKinds(routing).map((kind) => resourceTypes[kind].plural);
    const rules = [{ apiGroups: ['millrace.dev'], resources, verbs: ['list'] }];
    await write({
      method: 'POST',
      path: `${path}/clusterroles`,
      body: { metadata: { name: user }, rules },
    });
    await write({
      method: 'POST',
      path: `${path}/clusterrolebindings`,
      body: {
        metadata: { name: user },
        roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: user },
        subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: user }],
      },
    });
  }

  async function createNamespace(name: string): Promise<void> {
    await write({ method: 'POST', path: '/api/v1/namespaces', body: { metadata: { name } } });
  }

  /** A Shard of which nothing was ever said. */
  async function createShard(namespace: string, name: string): Promise<{ uid: string }> {
    const path = collectionPath('Shard', namespace);
    const body = await write({ method: 'POST', path, body: attachedShardManifest(name) });
    return metadataSchema.parse(body).metadata;
  }

  async function patchShard(namespace: string, name: string, body: JsonObject, part = '') {
    const path = `${collectionPath('Shard', namespace)}/${name}${part}`;
    return write({ method: 'PATCH', path, body });
  }

  /** A Shard that every step has looked at. */
  async function createSettled(namespace: string, name: string): Promise<void> {
    await createShard(namespace, name);
    const types = shardRoutes.flatMap(({ ownConditions }) => ownConditions);
    const conditions = types.map((type) => ({
      type,
      status: 'True',
      observedGeneration: 1,
      lastTransitionTime: '2026-01-01T00:00:00Z',
      reason: 'NothingToDo',
      message: 'nothing',
    }));
    await patchShard(namespace, name, { status: { conditions } }, '/status');
  }

  /** A Shard whose steps have looked at it, one of which asks to be woken. */
  async function createSleeper(namespace: string, name: string, step: StepName, wake: Wake) {
    await createSettled(namespace, name);
    const annotations = { [recordAnnotation(step)]: JSON.stringify({ v: 1, wake }) };
    await patchShard(namespace, name, { metadata: { annotations } });
  }

  /** The function as it ships, invoked once by its schedule in a sandbox of its own. */
  async function invoke(
    user: string,
    namespace: string,
    changes: Readonly<Record<string, string>> = {},
  ): Promise<InvocationResult> {
    const { server, tokens } = controlPlane();
    const tokenFile = join(folder, `${user}.token`);
    await writeFile(tokenFile, tokens.get(user) ?? '');
    const name = functionName(stage, sweepName);
    const sandbox = createSandbox({
      functionName: name,
      functionArn: `arn:aws:lambda:${region}:000000000000:function:${name}`,
      handler: new URL('../../functions/sweep/handler.ts', import.meta.url),
      environment: {
        MILLRACE_CLUSTER_ID: 'prod-eu',
        MILLRACE_STAGE: stage,
        MILLRACE_NAMESPACES: namespace,
        MILLRACE_QUEUE_ENDPOINT: queue.address,
        MILLRACE_KUBE_SERVER: server,
        MILLRACE_KUBE_CA: join(folder, 'ca'),
        MILLRACE_KUBE_TOKEN_FILE: tokenFile,
        AWS_REGION: region,
        AWS_ACCESS_KEY_ID: 'test',
        AWS_SECRET_ACCESS_KEY: 'test',
        MILLRACE_LOG_LEVEL: 'silent',
        ...changes,
      },
      timeoutMs: 30_000,
      initTimeoutMs: 60_000,
      onLine: (line) => process.stderr.write(`${line}\n`),
    });
    onTestFinished(() => sandbox.close());
    const tick = new Date('2026-01-01T00:05:00Z');
    return sandbox.invoke(makeScheduledEvent(tick, { functionName: name, region }));
  }

  function hintsOf(step: StepName): readonly Hint[] {
    const messages = queue.inspectQueue(queueName(stage, step))?.messages.ready ?? [];
    return messages.map(({ body }) => hintSchema.parse(JSON.parse(body)));
  }

  /** `drain-step polls`, for every hint in the queues. */
  function words(): readonly string[] {
    return stepNames.flatMap((step) => hintsOf(step).map(({ data }) => `${step} ${data.name}`));
  }

  test('L9: what is due or unobserved gets its hint, what has converged or sleeps gets none', async () => {
    const namespace = 'mixed';
    await createNamespace(namespace);
    await createSettled(namespace, 'converged');
    await createSleeper(namespace, 'due', 'drain-step', { at: '2026-01-01T00:00:00Z' });
    await createSleeper(namespace, 'polls', 'pool-pods', { every: 60 });
    await createSleeper(namespace, 'sleeps', 'drain-step', { at: '2999-01-01T00:00:00Z' });
    await createSettled(namespace, 'changed');
    await patchShard(namespace, 'changed', { spec: { paused: true } });
    const { uid } = await createShard(namespace, 'fresh');
    await createNamespace('elsewhere');
    await createShard('elsewhere', 'not-allowed');

    const result = await invoke(sweeper, namespace);

    expect(result).toMatchObject({
      kind: 'returned',
      value: {
        targets: 6,
        overdue: { 'drain-step': 3, 'pool-pods': 3, 'backup-trigger': 2, 'etcd-cleanup': 2 },
        sent: 10,
        failed: 0,
      },
    });
    expect(words().toSorted()).toEqual([
      'backup-trigger changed',
      'backup-trigger fresh',
      'drain-step changed',
      'drain-step due',
      'drain-step fresh',
      'etcd-cleanup changed',
      'etcd-cleanup fresh',
      'pool-pods changed',
      'pool-pods fresh',
      'pool-pods polls',
    ]);
    expect(hintsOf('drain-step').find(({ data }) => data.name === 'fresh')).toMatchObject({
      id: `${uid}/1767225900000/drain-step`,
      source: 'prod-eu',
      type: 'dev.millrace.hint.wake',
      subject: 'shards/mixed/fresh',
    });
  });

  test('F8: a list that is refused fails the function, by name', async () => {
    const result = await invoke(nobody, 'mixed');

    expect(result).toMatchObject({
      kind: 'failed',
      why: expect.stringContaining('mixed: listing shards: 403 Forbidden'),
    });
    expect(words()).toEqual([]);
  });

  test('a queue that nobody answers for fails the function', async () => {
    const result = await invoke(sweeper, 'mixed', {
      MILLRACE_QUEUE_ENDPOINT: 'http://127.0.0.1:1',
    });

    expect(result).toMatchObject({
      kind: 'failed',
      why: expect.stringMatching(/3 hints of drain-step.*3 hints of pool-pods/),
    });
  });

  test('a function that is told wrongly refuses to run and names everything', async () => {
    const wrong = { MILLRACE_CLUSTER_ID: '', MILLRACE_STAGE: '', MILLRACE_KUBE_SERVER: 'here' };

    const result = await invoke(sweeper, 'mixed', wrong);

    expect(result).toMatchObject({
      kind: 'failed',
      why: expect.stringMatching(/CLUSTER_ID[\s\S]*STAGE[\s\S]*KUBE_SERVER/),
    });
  });

  test('L8: a thousand Shards, each overdue for every step, take at most 60 requests', async () => {
    const namespace = 'many';
    const count = 1000;
    await createNamespace(namespace);
    await pLimit(writesAtOnce).map(
      Array.from({ length: count }, (_, index) => `shard-${index}`),
      (name) => createShard(namespace, name),
    );
    const requests: KubeRequest[] = [];
    const config = {
      MILLRACE_CLUSTER_ID: 'prod-eu',
      MILLRACE_STAGE: stage,
      MILLRACE_NAMESPACES: [namespace],
      MILLRACE_QUEUE_ENDPOINT: queue.address,
      AWS_REGION: region,
    };
    vi.stubEnv('AWS_ACCESS_KEY_ID', 'test');
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'test');
    onTestFinished(() => void vi.unstubAllEnvs());
    const queues = openQueues(config);
    onTestFinished(() => queues.close());

    const swept = await runSweep({}, () => 30_000, {
      clock: wallClock,
      deadlineIn: (delayMs) => AbortSignal.timeout(delayMs),
      logger: createLogger('silent', {}),
      config,
      pages: kubePages({
        ...api,
        request(request) {
          requests.push(request);
          return api.request(request);
        },
      }),
      queues,
      routing,
    });

    expect(requests.length).toBeLessThanOrEqual(60);
    expect(requests.every(({ method }) => method === 'GET')).toBe(true);
    expect(swept).toMatchObject({ targets: count, sent: count * shardRoutes.length, failed: 0 });
    expect(new Set(words()).size).toBe(count * shardRoutes.length);
  });
});
