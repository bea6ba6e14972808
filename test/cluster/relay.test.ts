import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { type AddressInfo, type Server, type Socket, connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type FauxqsServer, startFauxqs } from 'fauxqs';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import * as z from 'zod';
import { type Hint, hintSchema, maxHintBytes, queueName } from '#events/hint.ts';
import { installDefinitions } from '#infra/cli/install.ts';
import { type Child, launch } from '#infra/local/child/launch.ts';
import { writeKubeconfig } from '#infra/local/control-plane/kubeconfig.ts';
import { type StepName, stepNames } from '#shared/api/steps.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import { connectKube } from '#shared/kube/http-connection.ts';
import { attachedShardManifest, databaseManifest } from '#test/builders/manifest.ts';
import { shardSteps } from '#test/builders/two-steps.ts';
import { missingControlPlane, useControlPlane } from './local-control-plane.ts';

const patience = { timeout: 30_000, interval: 20 };
const region = 'us-east-1';

/** What is read of the API server's answers. */
const writtenSchema = z.looseObject({
  metadata: z.looseObject({ name: z.string(), uid: z.string(), resourceVersion: z.string() }),
});
type Written = z.infer<typeof writtenSchema>['metadata'];

describe.skipIf(missingControlPlane !== undefined)('the relay on a real cluster', () => {
  const controlPlane = useControlPlane();
  let api: KubeConnection;
  let queue: FauxqsServer;
  let folder: string;
  let relay: Child<{ url: string }>;
  /** What the relay has logged. */
  const lines: string[] = [];
  const resyncs = () => lines.filter((line) => line.includes('"msg":"resync"')).length;
  /** Between the relay and the API server. */
  let link: Link;

  beforeAll(async () => {
    api = connectKube(controlPlane().access());
    await installDefinitions(api);
    folder = await mkdtemp(join(tmpdir(), 'millrace-relay-'));
    const { server, ca, adminToken } = controlPlane();
    link = await Link.to(server);
    const user = { user: 'relay', token: adminToken };
    await writeKubeconfig(join(folder, 'kubeconfig'), { server: link.url, ca, ...user });
    queue = await startFauxqs({ port: 0, logger: false, dataDir: join(folder, 'queue') });
    for (const step of stepNames) {
      queue.createQueue(queueName('test', step));
    }
    await write('POST', databases, databaseManifest('orders'));
  });

  afterAll(async () => {
    api.close();
    await queue.stop();
    await link.close();
    await rm(folder, { recursive: true });
  });

  beforeEach(async () => {
    relay = await startRelay();
    await expect.poll(metricOf('millrace_relay_dirty'), patience).toBe(0);
    queue.reset();
  });

  afterEach(async () => {
    await relay.stop(20_000);
    await removeAll(shards);
    await removeAll(pods);
  });

  function startRelay(): Promise<Child<{ url: string }>> {
    lines.length = 0;
    return launch({
      name: 'the relay',
      entry: new URL('../../events/relay/main.ts', import.meta.url),
      environment: {
        MILLRACE_CLUSTER_ID: 'test',
        MILLRACE_STAGE: 'test',
        MILLRACE_QUEUE_ENDPOINT: queue.address,
        MILLRACE_RELAY_PORT: '0',
        MILLRACE_LOG_LEVEL: 'info',
        KUBECONFIG: join(folder, 'kubeconfig'),
        AWS_REGION: region,
        AWS_ACCESS_KEY_ID: 'test',
        AWS_SECRET_ACCESS_KEY: 'test',
      },
      announcement: z.object({ url: z.url() }),
      readyTimeoutMs: 30_000,
      onLine: (line) => lines.push(line),
    });
  }

  async function write(method: 'POST' | 'PATCH', path: string, body: object): Promise<Written> {
    const contentType = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json';
    const response = await api.request({ method, path, body, contentType });
    expect(response.status, JSON.stringify(response.body)).toBeLessThan(300);
    return writtenSchema.parse(response.body).metadata;
  }

  async function remove(path: string): Promise<void> {
    const response = await api.request({ method: 'DELETE', path });
    expect(response.status).toBe(200);
  }

  /** Without grace, so that pods that no kubelet runs go at once. */
  async function removeAll(collection: string): Promise<void> {
    const query = { gracePeriodSeconds: '0' };
    await api.request({ method: 'DELETE', path: collection, query });
  }

  /** Every hint in a step's queue, each checked against the schema and the limit. */
  function hintsOf(step: StepName): Hint[] {
    const messages = queue.inspectQueue(queueName('test', step))?.messages.ready ?? [];
    return messages.map(({ body }) => {
      expect(Buffer.byteLength(body)).toBeLessThanOrEqual(maxHintBytes);
      return hintSchema.parse(JSON.parse(body));
    });
  }

  function count(step: StepName, why: string, name: string): number {
    return hintsOf(step).filter(
      ({ type, data }) => type === `dev.millrace.hint.${why}` && data.name === name,
    ).length;
  }

  /** Of each step of a Shard, in the order of their routes. */
  const counts = (why: string, name: string) => () =>
    shardSteps.map((step) => count(step, why, name));

  /** Targets for which a step has no hint that is at least as new as the target's last write. */
  function missing(written: Written[]): string[] {
    return shardSteps.flatMap((step) => {
      const hints = hintsOf(step);
      return written
        .filter(({ uid, resourceVersion }) => {
          return !hints.some(
            ({ data }) =>
              data.uid === uid && BigInt(data.resourceVersion ?? 0) >= BigInt(resourceVersion),
          );
        })
        .map(({ name }) => `${step} ${name}`);
    });
  }

  /** The sum of a metric over its labels, as the relay serves it now. */
  function metricOf(name: string): () => Promise<number> {
    return async () => {
      const text = await (await fetch(`${relay.announced.url}/metrics`)).text();
      return text
        .split('\n')
        .filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `))
        .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
    };
  }

  test('each change yields hints to the steps it concerns, and to no other', async () => {
    const created = await write('POST', shards, attachedShardManifest('a'));
    await expect.poll(counts('changed', 'a'), patience).toEqual([1, 1, 1, 1]);

    await write('PATCH', `${shards}/a`, annotated({ 'millrace.dev/force-drain': 'x' }));
    await expect.poll(counts('changed', 'a'), patience).toEqual([2, 1, 1, 1]);

    const drained = {
      type: 'Drained',
      status: 'False',
      reason: 'R',
      message: 'm',
      observedGeneration: 1,
    };
    const conditions = [{ ...drained, lastTransitionTime: '2026-01-01T00:00:00Z' }];
    await write('PATCH', `${shards}/a/status`, { status: { conditions } });
    await expect.poll(counts('changed', 'a'), patience).toEqual([2, 2, 1, 2]);

    await write('PATCH', `${shards}/a`, annotated({ 'example.com/unrelated': 'x' }));
    await write('PATCH', `${databases}/orders`, annotated({ 'millrace.dev/reconcile': '1' }));
    await expect.poll(counts('changed', 'a'), patience).toEqual([3, 3, 2, 3]);

    await remove(`${shards}/a`);
    await expect.poll(counts('deleted', 'a'), patience).toEqual([1, 1, 1, 1]);
    expect(counts('changed', 'a')()).toEqual([3, 3, 2, 3]);
    expect(hintsOf('drain-step').every(({ data }) => data.uid === created.uid)).toBe(true);
  });

  test('a pod’s writes wake its shard, and its state is served to it', async () => {
    await write('POST', shards, attachedShardManifest('a'));
    await expect.poll(counts('changed', 'a'), patience).toEqual([1, 1, 1, 1]);

    await write('POST', pods, aPod('p-0', 'a'));
    await expect.poll(counts('changed', 'a'), patience).toEqual([2, 2, 1, 1]);
    await write('PATCH', `${pods}/p-0/status`, { status: { message: 'seen' } });
    await expect.poll(counts('changed', 'a'), patience).toEqual([3, 3, 1, 1]);
    await write('PATCH', `${pods}/p-0`, annotated({ 'drain.millrace.dev/state': 'finished' }));
    await expect.poll(counts('changed', 'a'), patience).toEqual([4, 4, 1, 1]);

    const known = await fetch(`${relay.announced.url}/v1/pods/default/p-0`);
    const unknown = await fetch(`${relay.announced.url}/v1/pods/default/p-1`);
    expect(await known.json()).toEqual({ state: 'finished', released: true });
    expect(unknown.status).toBe(404);
  });

  test('L9: records are woken, also by a relay that has just started', async () => {
    const record = JSON.stringify({ v: 1, wake: { every: 1 } });
    const overdue = JSON.stringify({ v: 1, wake: { at: '2020-01-01T00:00:00Z' } });
    await write('POST', shards, {
      ...attachedShardManifest('a'),
      metadata: {
        name: 'a',
        annotations: {
          'step.millrace.dev/drain-step': record,
          'step.millrace.dev/pool-pods': overdue,
        },
      },
    });
    await expect.poll(() => count('drain-step', 'wake', 'a'), patience).toBeGreaterThan(1);
    await relay.stop(20_000);
    queue.reset();

    relay = await startRelay();

    await expect.poll(() => count('drain-step', 'wake', 'a'), patience).toBeGreaterThan(1);
    expect(count('pool-pods', 'wake', 'a') + count('pool-pods', 'resync', 'a')).toBeGreaterThan(0);
  });

  test('F14, L1: no final state is without a hint after a relay was killed in the middle', async () => {
    const names = Array.from({ length: 30 }, (_, index) => `s${index}`);
    for (const name of names) {
      await write('POST', shards, attachedShardManifest(name));
    }
    const written: Written[] = [];
    const killed = Promise.withResolvers<void>();
    const writing = (async () => {
      for (const name of names) {
        written.push(await write('PATCH', `${shards}/${name}`, { spec: { paused: true } }));
        if (written.length === 10) {
          relay.signal('SIGKILL');
          killed.resolve();
        }
      }
    })();
    await killed.promise;
    await relay.exited;

    relay = await startRelay();
    await writing;

    await expect.poll(() => missing(written), patience).toEqual([]);
  });

  test('L7: a queue that was down for seconds has everything afterwards, deletions included', async () => {
    const gone = await write('POST', shards, attachedShardManifest('gone'));
    await expect.poll(counts('changed', 'gone'), patience).toEqual([1, 1, 1, 1]);
    const { port } = queue;
    await queue.stop();
    const written = await Promise.all(
      Array.from({ length: 25 }, (_, index) =>
        write('POST', shards, attachedShardManifest(`s${index}`)),
      ),
    );
    await remove(`${shards}/gone`);
    // The outage lasts until several tries have failed.
    await expect.poll(metricOf('millrace_relay_send_failures_total'), patience).toBeGreaterThan(4);
    const owed = await metricOf('millrace_relay_dirty')();

    queue = await startFauxqs({ port, logger: false, dataDir: join(folder, 'queue') });

    await expect.poll(() => missing(written), patience).toEqual([]);
    await expect.poll(counts('deleted', 'gone'), patience).toEqual([1, 1, 1, 1]);
    const deleted = hintsOf('pool-pods').find(({ type }) => type.endsWith('deleted'));
    expect(deleted?.data.uid).toBe(gone.uid);
    expect(owed).toBe(26 * shardSteps.length);
    await expect.poll(metricOf('millrace_relay_dirty'), patience).toBe(0);
  });

  test('a restart of the API server loses nothing, and the relay lives through it', async () => {
    await write('POST', shards, attachedShardManifest('a'));
    await expect.poll(counts('changed', 'a'), patience).toEqual([1, 1, 1, 1]);

    await controlPlane().restart('apiServer');
    api.close();
    api = connectKube(controlPlane().access());
    const written = [
      await write('PATCH', `${shards}/a`, { spec: { paused: true } }),
      await write('POST', shards, attachedShardManifest('b')),
    ];

    await expect.poll(() => missing(written), patience).toEqual([]);
    expect((await fetch(`${relay.announced.url}/readyz`)).status).toBe(200);
  });

  test('L3, F16: what vanished while the relay heard nothing is hinted at with its last uid', async () => {
    const gone = await write('POST', shards, attachedShardManifest('gone'));
    const replaced = await write('POST', shards, attachedShardManifest('replaced'));
    await expect.poll(counts('changed', 'gone'), patience).toEqual([1, 1, 1, 1]);
    await expect.poll(counts('changed', 'replaced'), patience).toEqual([1, 1, 1, 1]);
    link.cut();
    await remove(`${shards}/gone`);
    await remove(`${shards}/replaced`);
    const successor = await write('POST', shards, attachedShardManifest('replaced'));

    // A new API server does not know the old history, so the relay's place in it is gone.
    await controlPlane().restart('apiServer');
    api.close();
    api = connectKube(controlPlane().access());
    link.mend();

    await expect.poll(counts('deleted', 'gone'), patience).toEqual([1, 1, 1, 1]);
    await expect.poll(counts('deleted', 'replaced'), patience).toEqual([1, 1, 1, 1]);
    await expect.poll(() => missing([successor]), patience).toEqual([]);
    const uids = hintsOf('drain-step')
      .filter(({ type }) => type.endsWith('deleted'))
      .map(({ data }) => data.uid);
    expect(uids.toSorted()).toEqual([gone.uid, replaced.uid].toSorted());
    expect(await metricOf('millrace_relay_gone_total')()).toBeGreaterThan(0);
    expect(await metricOf('millrace_relay_gaps_total')()).toBeGreaterThan(0);
  });

  test('SIGHUP makes it hint at everything, SIGTERM makes it send what it owes and end', async () => {
    await write('POST', shards, attachedShardManifest('a'));
    await write('POST', shards, attachedShardManifest('b'));
    await expect.poll(counts('changed', 'b'), patience).toEqual([1, 1, 1, 1]);

    relay.signal('SIGHUP');
    await expect.poll(counts('resync', 'a'), patience).toEqual([1, 1, 1, 1]);
    await expect.poll(counts('resync', 'b'), patience).toEqual([1, 1, 1, 1]);
    relay.signal('SIGHUP');
    // Two signals at once come in no order.
    await expect.poll(resyncs, patience).toBe(2);
    relay.signal('SIGTERM');

    expect(await relay.exited).toBe('code 0');
    expect(counts('resync', 'a')()).toEqual([2, 2, 2, 2]);
  });
});

/** A connection to a server that can be cut, in both directions and without a word. */
class Link {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #isCut = false;

  private constructor(target: URL) {
    this.#server = createServer((client) => {
      const upstream = connect(Number(target.port), target.hostname);
      for (const [from, to] of [
        [client, upstream],
        [upstream, client],
      ] as const) {
        this.#sockets.add(from);
        // Either end may break at any time; the other one then ends with it.
        from.on('error', () => to.destroy());
        from.on('close', () => {
          this.#sockets.delete(from);
          to.destroy();
        });
        from.pipe(to);
      }
      if (this.#isCut) {
        client.destroy();
      }
    });
  }

  static async to(target: string): Promise<Link> {
    const link = new Link(new URL(target));
    link.#server.listen(0, '127.0.0.1');
    await once(link.#server, 'listening');
    return link;
  }

  get url(): string {
    return `https://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  cut(): void {
    this.#isCut = true;
    for (const socket of this.#sockets) {
      socket.destroy();
    }
  }

  mend(): void {
    this.#isCut = false;
  }

  async close(): Promise<void> {
    this.cut();
    this.#server.close();
    await once(this.#server, 'close');
  }
}

const namespace = '/apis/millrace.dev/v1alpha1/namespaces/default';
const shards = `${namespace}/shards`;
const databases = `${namespace}/databases`;
const pods = '/api/v1/namespaces/default/pods';

function aPod(name: string, shard: string): object {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, labels: { 'millrace.dev/shard': shard } },
    spec: { containers: [{ name: 'main', image: 'main' }] },
  };
}

function annotated(annotations: Record<string, string>): object {
  return { metadata: { annotations } };
}
