import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import * as z from 'zod';
import { installDefinitions } from '#infra/cli/install.ts';
import { type Child, launch } from '#infra/local/child/launch.ts';
import type { ControlPlane } from '#infra/local/control-plane/control-plane.ts';
import { writeKubeconfig } from '#infra/local/control-plane/kubeconfig.ts';
import { startWorkerProcess } from '#infra/local/worker/start.ts';
import { problemOf } from '#infra/observability/log-lines.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import { connectKube } from '#shared/kube/http-connection.ts';
import { collectionPath } from '#shared/kube/http-kube.ts';
import type { ResourceKind } from '#shared/kube/resources.ts';
import { aDatabase, aTemplate } from '#test/builders/shard.ts';
import { LineLog } from '#test/unit/infra/local/worker/line-log.ts';
import { type CollectedSpan, Collector, treeOf } from './collector.ts';
import { missingControlPlane, useControlPlane } from './local-control-plane.ts';
import { type OpenQueue, openQueueProcess } from './queue-contents.ts';

/**
 * The real relay, queue, worker and functions on a real API server, with a collector that takes what they export. Nothing of
 * the data plane is there: looks that ask it say that it is unknown, which their spans must say too.
 */
const stage = 'traces';
const namespace = 'db';

/** The span of the pipeline that changes a Shard, as it leaves it on the Shard. */
const change = { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331' };
const traceparent = `00-${change.traceId}-${change.spanId}-01`;

describe.skipIf(missingControlPlane !== undefined)('traces', () => {
  const controlPlane = useControlPlane();
  let folder = '';
  let api: KubeConnection;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'millrace-traces-'));
    api = connectKube(controlPlane().access());
    await installDefinitions(api);
    await post('Namespace', { metadata: { name: namespace } });
    await post('Database', { ...aDatabase(), metadata: { name: 'main', namespace } });
  });

  afterAll(async () => {
    api.close();
    await rm(folder, { recursive: true, force: true });
  });

  async function post(kind: ResourceKind, body: object): Promise<void> {
    const path = collectionPath(kind, kind === 'Namespace' ? undefined : namespace);
    const answer = await api.request({ method: 'POST', path, body });
    expect(answer.status, JSON.stringify(answer.body)).toBe(201);
  }

  const createShard = (name: string, annotations: Record<string, string>) =>
    post('Shard', {
      apiVersion: 'millrace.dev/v1alpha1',
      kind: 'Shard',
      metadata: { name, namespace, annotations },
      spec: {
        databaseRef: { name: 'main' },
        pools: [
          {
            name: 'main',
            cells: ['zone-a'],
            replicasPerCell: 1,
            storage: { size: '1Gi' },
            podTemplate: { spec: aTemplate() },
          },
        ],
      },
    });

  test('lead from a change through the relay and the queue to a look and its effects', async () => {
    await using collector = await Collector.start();
    await using millrace = await startMillrace(controlPlane(), folder, collector.url);

    await createShard('young', {
      'millrace.dev/traceparent': traceparent,
      'millrace.dev/traceparent-ts': String(Math.floor(Date.now() / 1000)),
      'example.com/note': 'the value of an annotation',
    });
    const isDone = (all: readonly CollectedSpan[]): boolean =>
      all.some(({ name }) => name === 'createObject') &&
      all.some(({ name }) => name === 'send millrace-traces-pool-pods') &&
      all.some(({ name }) => name === 'etcd poolers');
    const spans = await collector.until(isDone);

    const tree = treeOf(spans, change.traceId);
    expect(tree).toMatch(/^send millrace-traces-pool-pods .*\n {2}pool-pods look /m);
    const effect = required(spans.find(({ name }) => name === 'createObject'));
    const look = parentOf(spans, effect);
    const send = parentOf(spans, look);
    const request = required(spans.find((span) => span.parentSpanId === effect.spanId));
    expect(send.parentSpanId).toBe(change.spanId);
    expect([send, look, effect, request].map(({ name, service }) => [name, service])).toEqual([
      ['send millrace-traces-pool-pods', 'millrace-relay'],
      ['pool-pods look', 'millrace-pool-pods'],
      ['createObject', 'millrace-pool-pods'],
      [expect.stringMatching(/^POST \/api\/v1\/namespaces\/\{namespace\}\/[a-z]+$/), look.service],
    ]);
    expect([send, look, effect, request].map(({ traceId }) => traceId)).toEqual(
      Array.from({ length: 4 }, () => change.traceId),
    );
    expect(look.attributes).toMatchObject({
      'messaging.system': 'aws_sqs',
      'millrace.step': 'pool-pods',
      'millrace.outcome': 'acting',
      'k8s.namespace.name': namespace,
    });
    const observed = spans.filter(({ name }) => name === 'observe');
    expect(observed.length).toBeGreaterThan(0);
    const asked = required(spans.find(({ name }) => name === 'etcd poolers'));
    expect(asked.attributes).toMatchObject({
      'millrace.answer': 'unknown',
      'error.type': 'unknown',
    });
    expect(spans.some(({ name }) => name.includes('watch'))).toBe(false);
    expect(collector.text).not.toContain('the value of an annotation');
    expect(collector.text).not.toContain(controlPlane().adminToken);
    expect(collector.text).not.toContain(traceparent);

    const [decision] = await millrace.log.until({ msg: 'decision', span_id: look.spanId });
    expect(decision).toMatchObject({ target: `shd/${namespace}/young`, trace_id: change.traceId });
    const [sent] = await millrace.log.until({ msg: 'hint sent', span_id: send.spanId });
    expect(sent).toMatchObject({ name: 'young', trace_id: change.traceId });
    expect(millrace.problems()).toEqual([]);
  });

  test('of a change that is older than ten minutes are only linked', async () => {
    await using collector = await Collector.start();
    await using millrace = await startMillrace(controlPlane(), folder, collector.url);

    await createShard('old', {
      'millrace.dev/traceparent': traceparent,
      'millrace.dev/traceparent-ts': new Date(Date.now() - 11 * 60_000).toISOString(),
    });
    const isLook = (span: CollectedSpan) =>
      span.name === 'pool-pods look' && span.attributes['millrace.target.name'] === 'old';
    const spans = await collector.until((all) => all.some(isLook));
    const look = required(spans.find(isLook));
    await collector.until((all) => all.some(({ spanId }) => spanId === look.parentSpanId));

    const send = parentOf(spans, look);
    expect(look.traceId).not.toBe(change.traceId);
    expect(send.parentSpanId ?? '').toBe('');
    expect(send.links).toMatchObject([change]);
    expect(millrace.problems()).toEqual([]);
  });

  test('cost nothing but a warning where the collector is dead', async () => {
    const dead = await Collector.start();
    await dead[Symbol.asyncDispose]();
    await using millrace = await startMillrace(controlPlane(), folder, dead.url);

    await createShard('untraced', {
      'millrace.dev/traceparent': traceparent,
      'millrace.dev/traceparent-ts': String(Math.floor(Date.now() / 1000)),
    });
    const target = `shd/${namespace}/untraced`;
    const [decision] = await millrace.log.until({ msg: 'decision', step: 'pool-pods', target });
    const [warning] = await millrace.log.until({ msg: 'traces not exported', step: 'pool-pods' });

    expect(decision).toMatchObject({ outcome: 'acting', trace_id: change.traceId });
    expect(warning?.['why']).toMatch(/^the collector cannot be reached: ECONNREFUSED$/);
    expect(millrace.problems()).toEqual([]);
  });

  test('pass by where nobody exports: the lines of the look name the trace of the change', async () => {
    await using millrace = await startMillrace(controlPlane(), folder, undefined);

    await createShard('unexported', {
      'millrace.dev/traceparent': traceparent,
      'millrace.dev/traceparent-ts': String(Math.floor(Date.now() / 1000)),
    });
    const target = `shd/${namespace}/unexported`;
    const [decision] = await millrace.log.until({ msg: 'decision', step: 'pool-pods', target });

    expect(decision).toMatchObject({ trace_id: change.traceId });
    expect(decision).not.toHaveProperty('span_id');
    expect(millrace.problems()).toEqual([]);
  });
});

/** Relay, queue and worker, with all of their log lines. */
interface Millrace extends AsyncDisposable {
  readonly log: LineLog;
  /** What is wrong with lines that relay and functions wrote. */
  problems(): readonly string[];
}

async function startMillrace(
  controlPlane: ControlPlane,
  folder: string,
  endpoint: string | undefined,
): Promise<Millrace> {
  const { ca, adminToken } = controlPlane;
  const { server } = controlPlane.access();
  await using stack = new AsyncDisposableStack();
  const queue: OpenQueue = stack.use(await openQueueProcess(stage, 30));
  const [caPath, tokenPath] = [join(folder, 'ca.crt'), join(folder, 'token')];
  const kubeconfig = join(folder, 'kubeconfig');
  await writeFile(caPath, ca);
  await writeFile(tokenPath, adminToken, { mode: 0o600 });
  await writeKubeconfig(kubeconfig, { server, ca, user: 'relay', token: adminToken });
  const log = new LineLog();
  const environment = {
    MILLRACE_CLUSTER_ID: 'test',
    MILLRACE_STAGE: stage,
    MILLRACE_NAMESPACES: namespace,
    MILLRACE_QUEUE_ENDPOINT: queue.url,
    MILLRACE_LOG_LEVEL: 'debug',
    AWS_REGION: 'us-east-1',
    AWS_ACCESS_KEY_ID: 'test',
    AWS_SECRET_ACCESS_KEY: 'test',
    ...(endpoint === undefined ? {} : { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint }),
  };
  const worker = await startWorkerProcess({
    environment: {
      ...environment,
      MILLRACE_KUBE_SERVER: server,
      MILLRACE_KUBE_CA: caPath,
      MILLRACE_KUBE_TOKEN_FILE: tokenPath,
      MILLRACE_FUNCTION_CONCURRENCY: '1',
    },
    onLine: log.add,
    onErrorLine: log.add,
  });
  stack.defer(() => worker.stop(10_000));
  const relay: Child<unknown> = await launch({
    name: 'the relay',
    entry: new URL('../../events/relay/main.ts', import.meta.url),
    environment: { ...environment, KUBECONFIG: kubeconfig, MILLRACE_RELAY_PORT: '0' },
    announcement: z.object({ url: z.url() }),
    readyTimeoutMs: 60_000,
    onLine: log.add,
    onErrorLine: log.add,
  });
  stack.defer(() => relay.stop(10_000));
  const owned = stack.move();
  return {
    log,
    problems: () => log.lines.map(problemOf).filter((problem) => problem !== undefined),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

function required<T>(value: T | undefined): T {
  if (value === undefined) {
    throw new Error('a span is missing');
  }
  return value;
}

function parentOf(spans: readonly CollectedSpan[], span: CollectedSpan): CollectedSpan {
  return required(spans.find(({ spanId }) => spanId === span.parentSpanId));
}
