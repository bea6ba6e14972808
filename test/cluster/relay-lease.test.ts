import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type FauxqsServer, startFauxqs } from 'fauxqs';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import * as z from 'zod';
import { type Hint, hintSchema, queueName } from '#events/hint.ts';
import { installDefinitions } from '#infra/cli/install.ts';
import { type Child, launch } from '#infra/local/child/launch.ts';
import { writeKubeconfig } from '#infra/local/control-plane/kubeconfig.ts';
import { type StepName, stepNames } from '#shared/api/steps.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import { connectKube } from '#shared/kube/http-connection.ts';
import { shardSteps } from '#test/builders/two-steps.ts';
import { attachedShardManifest } from '#test/builders/manifest.ts';
import { missingControlPlane, useControlPlane } from './local-control-plane.ts';

const patience = { timeout: 60_000, interval: 20 };

/** Short, so that a holder that is gone is replaced soon; long enough for a busy machine to renew it. */
const leaseSeconds = 6;

const leasePath = '/apis/coordination.k8s.io/v1/namespaces/default/leases/relay';

/** What is read of the API server's answers. */
const writtenSchema = z.looseObject({
  metadata: z.looseObject({ name: z.string(), uid: z.string(), resourceVersion: z.string() }),
});
type Written = z.infer<typeof writtenSchema>['metadata'];

/** A relay's process, with what it logs and what it shows. */
interface Relay extends Child<{ url: string }> {
  /** Every log line so far. */
  readonly lines: readonly string[];
  /** The sum of a metric over those of its labels that are not named. */
  metric(name: string, labels?: string): Promise<number>;
}

describe.skipIf(missingControlPlane !== undefined)('relays that share a Lease', () => {
  const controlPlane = useControlPlane({
    users: [
      { name: 'relay', groups: [] },
      { name: 'watcher', groups: [] },
    ],
  });
  let api: KubeConnection;
  let queue: FauxqsServer;
  let folder: string;
  let relays: Relay[];

  beforeAll(async () => {
    api = connectKube(controlPlane().access());
    await installDefinitions(api);
    await grant('ClusterRole', 'watcher', ['relay', 'watcher'], watching);
    await grant('Role', 'leaser', ['relay'], leasing);
    folder = await mkdtemp(join(tmpdir(), 'millrace-lease-'));
    queue = await startFauxqs({ port: 0, logger: false, dataDir: join(folder, 'queue') });
    for (const step of stepNames) {
      queue.createQueue(queueName('test', step));
    }
  });

  afterAll(async () => {
    api.close();
    await queue.stop();
    await rm(folder, { recursive: true });
  });

  beforeEach(() => {
    relays = [];
    queue.reset();
  });

  afterEach(async () => {
    for (const relay of relays) {
      relay.signal('SIGKILL');
      await relay.exited;
    }
    await api.request({ method: 'DELETE', path: shards });
    await api.request({ method: 'DELETE', path: leasePath });
  });

  async function startRelay(options: { user?: string; lease?: string; seconds?: number } = {}) {
    const { user = 'relay', lease = 'default/relay', seconds = leaseSeconds } = options;
    const { server, ca, tokens } = controlPlane();
    const kubeconfig = join(folder, `${user}.kubeconfig`);
    await writeKubeconfig(kubeconfig, { server, ca, user, token: tokens.get(user) ?? '' });
    const lines: string[] = [];
    const child = await launch({
      name: 'the relay',
      entry: new URL('../../events/relay/main.ts', import.meta.url),
      environment: {
        MILLRACE_CLUSTER_ID: 'test',
        MILLRACE_STAGE: 'test',
        MILLRACE_NAMESPACES: 'default',
        MILLRACE_QUEUE_ENDPOINT: queue.address,
        MILLRACE_RELAY_PORT: '0',
        MILLRACE_LEASE: lease,
        MILLRACE_LEASE_SECONDS: String(seconds),
        KUBECONFIG: kubeconfig,
        AWS_REGION: 'us-east-1',
        AWS_ACCESS_KEY_ID: 'test',
        AWS_SECRET_ACCESS_KEY: 'test',
      },
      announcement: z.object({ url: z.url() }),
      readyTimeoutMs: 30_000,
      onLine: (line) => lines.push(line),
    });
    const metric = async (name: string, labels = ''): Promise<number> => {
      const text = await (await fetch(`${child.announced.url}/metrics`)).text();
      return text
        .split('\n')
        .filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `))
        .filter((line) => line.includes(labels))
        .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
    };
    const relay: Relay = { ...child, lines, metric };
    relays.push(relay);
    return relay;
  }

  /** A relay that leads and one that stands by, and nothing left to send. */
  async function startPair(seconds = leaseSeconds): Promise<{ first: Relay; second: Relay }> {
    const first = await startRelay({ seconds });
    await isLeading(first);
    const second = await startRelay({ seconds });
    await expect.poll(() => second.lines.join('\n'), patience).toContain('"standing by"');
    await expect.poll(() => first.metric('millrace_relay_dirty'), patience).toBe(0);
    return { first, second };
  }

  async function isLeading(relay: Relay): Promise<void> {
    await expect.poll(() => relay.metric('millrace_relay_leading'), patience).toBe(1);
  }

  /** Lets those users do what the rules say: in the whole cluster, or in the namespace `default`. */
  async function grant(
    kind: 'ClusterRole' | 'Role',
    name: string,
    users: string[],
    rules: object[],
  ): Promise<void> {
    const scope = kind === 'Role' ? 'namespaces/default/' : '';
    const path = `/apis/rbac.authorization.k8s.io/v1/${scope}`;
    const apiVersion = 'rbac.authorization.k8s.io/v1';
    const group = 'rbac.authorization.k8s.io';
    await write('POST', `${path}${kind.toLowerCase()}s`, {
      apiVersion,
      kind,
      metadata: { name },
      rules,
    });
    await write('POST', `${path}${kind.toLowerCase()}bindings`, {
      apiVersion,
      kind: `${kind}Binding`,
      metadata: { name },
      roleRef: { apiGroup: group, kind, name },
      subjects: users.map((user) => ({ apiGroup: group, kind: 'User', name: user })),
    });
  }

  async function write(method: 'POST' | 'PATCH', path: string, body: object): Promise<Written> {
    const contentType = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json';
    const response = await api.request({ method, path, body, contentType });
    expect(response.status, JSON.stringify(response.body)).toBeLessThan(300);
    return writtenSchema.parse(response.body).metadata;
  }

  /** Creates shards, and waits until each step has its hint about each. */
  async function createShards(count: number): Promise<Written[]> {
    const created: Written[] = [];
    for (let index = 0; index < count; index += 1) {
      created.push(await write('POST', shards, attachedShardManifest(`s${index}`)));
    }
    await expect.poll(() => finalStatesWithoutHint(created), patience).toEqual([]);
    return created;
  }

  /** Writes to shards in turn, for at least so many writes and until told to stop; the last write to each, by name. */
  async function change(
    names: string[],
    atLeast: number,
    isOver: () => boolean,
  ): Promise<Map<string, Written>> {
    const written = new Map<string, Written>();
    for (let count = 0; count < atLeast || !isOver(); count += 1) {
      const name = names[count % names.length] ?? '';
      written.set(name, await write('PATCH', `${shards}/${name}`, asked(`${name} ${count}`)));
    }
    return written;
  }

  function hintsOf(step: StepName): Hint[] {
    const messages = queue.inspectQueue(queueName('test', step))?.messages.ready ?? [];
    return messages.map(({ body }) => hintSchema.parse(JSON.parse(body)));
  }

  /** Per step and target: no hint in its queue is as new as the last write to it. */
  function finalStatesWithoutHint(written: readonly Written[]): string[] {
    return shardSteps.flatMap((step) => {
      const newest = new Map<string, bigint>();
      for (const { data } of hintsOf(step)) {
        const version = BigInt(data.resourceVersion ?? 0);
        const before = newest.get(data.uid) ?? 0n;
        newest.set(data.uid, version > before ? version : before);
      }
      return written
        .filter(({ uid, resourceVersion }) => (newest.get(uid) ?? 0n) < BigInt(resourceVersion))
        .map(({ name }) => `${step} ${name}`);
    });
  }

  test('L5: one sends each change once, the other stands by and knows as much', async () => {
    const { first, second } = await startPair();

    await createShards(20);

    for (const step of shardSteps) {
      const ids = hintsOf(step).map(({ id }) => id);
      expect(ids).toHaveLength(20);
      expect(new Set(ids).size).toBe(20);
    }
    await expect.poll(() => second.metric('millrace_relay_objects'), patience).toBe(20);
    expect(await first.metric('millrace_relay_hints_total')).toBe(20 * shardSteps.length);
    expect(await second.metric('millrace_relay_hints_total')).toBe(0);
    expect(await first.metric('millrace_relay_dirty')).toBe(0);
    expect(await second.metric('millrace_relay_dirty')).toBe(20 * shardSteps.length);
    expect(await second.metric('millrace_relay_oldest_unsent_seconds')).toBe(0);
    expect(await second.metric('millrace_relay_leading')).toBe(0);
    expect((await fetch(`${second.announced.url}/readyz`)).status).toBe(200);
  });

  test('F14, L1: when the holder is killed in the middle, the other takes over and no final state is without a hint', async () => {
    const { first, second } = await startPair();
    const created = await createShards(30);
    const names = created.map(({ name }) => name);
    let isReplaced = false;
    const replace = async () => {
      await expect
        .poll(() => first.metric('millrace_relay_hints_total'), patience)
        .toBeGreaterThan(35 * shardSteps.length);
      first.signal('SIGKILL');
      await first.exited;
      await write('POST', shards, attachedShardManifest('brief'));
      const changed = await write('PATCH', `${shards}/brief`, asked('x'));
      await api.request({ method: 'DELETE', path: `${shards}/brief` });
      await isLeading(second);
      isReplaced = true;
      return changed;
    };

    const [written, brief] = await Promise.all([change(names, 60, () => isReplaced), replace()]);

    expect(written.size).toBe(30);

    await expect.poll(() => second.metric('millrace_relay_dirty'), patience).toBe(0);
    expect(finalStatesWithoutHint([...written.values()])).toHaveLength(0);
    const isGoneTold = shardSteps.map((step) =>
      hintsOf(step).some(({ type, data }) => type.endsWith('deleted') && data.uid === brief.uid),
    );
    expect(isGoneTold).toEqual(shardSteps.map(() => true));
    expect(await second.metric('millrace_relay_lease_transitions_total', 'to="leading"')).toBe(1);
  });

  test('F11, L1: a holder that was stopped for longer than its lease sends nothing when it goes on', async () => {
    const { first, second } = await startPair();
    const created = await createShards(30);
    const names = created.map(({ name }) => name);
    const sentBefore = await first.metric('millrace_relay_hints_total');
    let isOver = false;

    const loseTheLead = async () => {
      await isLeading(second);
      first.signal('SIGCONT');
      await expect
        .poll(
          () => first.metric('millrace_relay_lease_transitions_total', 'to="standby"'),
          patience,
        )
        .toBe(1);
      // It catches up with what it missed while it was stopped, and keeps it.
      await expect
        .poll(() => first.metric('millrace_relay_dirty'), patience)
        .toBe(30 * shardSteps.length);
      isOver = true;
    };

    first.signal('SIGSTOP');
    const [written] = await Promise.all([change(names, 60, () => isOver), loseTheLead()]);

    expect(written.size).toBe(30);

    await expect.poll(() => second.metric('millrace_relay_dirty'), patience).toBe(0);
    expect(finalStatesWithoutHint([...written.values()])).toHaveLength(0);
    expect(await first.metric('millrace_relay_hints_total')).toBe(sentBefore);
    expect(await first.metric('millrace_relay_leading')).toBe(0);
    expect(await second.metric('millrace_relay_leading')).toBe(1);
  });

  test('a holder that ends sends what it owes and hands over within two seconds', async () => {
    const { first, second } = await startPair(10);
    const created = await createShards(10);
    const names = created.map(({ name }) => name);
    const written = await change(names, 10, () => true);

    first.signal('SIGTERM');
    const end = await first.exited;
    const endedMs = performance.now();
    await isLeading(second);
    const idleMs = performance.now() - endedMs;

    expect(end).toBe('code 0');
    expect(idleMs).toBeLessThan(2_000);
    // What the first had not heard of when it was asked to end is the second's to send.
    await expect.poll(() => second.metric('millrace_relay_dirty'), patience).toBe(0);
    expect(finalStatesWithoutHint([...written.values()])).toHaveLength(0);
    const lease = await api.request({ method: 'GET', path: leasePath });
    expect(lease.body).toMatchObject({
      spec: { holderIdentity: expect.any(String), leaseDurationSeconds: 10, leaseTransitions: 1 },
    });
  });

  test('a lease that nobody else waits for is free when its holder has ended', async () => {
    const only = await startRelay();
    await isLeading(only);

    only.signal('SIGTERM');
    await only.exited;

    const { body } = await api.request({ method: 'GET', path: leasePath });
    expect(body).toMatchObject({ spec: { holderIdentity: '', leaseDurationSeconds: 1 } });
  });

  test.each([
    { what: 'without the permission', user: 'watcher', lease: 'default/relay', why: 'forbidden' },
    { what: 'in no such namespace', user: 'admin', lease: 'nowhere/relay', why: 'not found' },
  ])('a relay $what says so, sends nothing and lives on', async ({ user, lease, why }) => {
    const relay = await startRelay(user === 'admin' ? { lease, user: adminUser } : { lease, user });
    await write('POST', shards, attachedShardManifest('s0'));

    await expect
      .poll(() => relay.metric('millrace_relay_lease_failures_total'), patience)
      .toBeGreaterThan(2);

    const warnings = relay.lines.filter((line) => line.includes('lease cannot be had'));
    expect(warnings[0]).toContain(why);
    expect(await relay.metric('millrace_relay_leading')).toBe(0);
    expect(await relay.metric('millrace_relay_dirty')).toBe(shardSteps.length);
    expect(stepNames.flatMap(hintsOf)).toEqual([]);
    expect((await fetch(`${relay.announced.url}/healthz`)).status).toBe(200);
  });

  test('a second signal ends a relay that is still sending, at once and with 1', async () => {
    const only = await startRelay();
    await isLeading(only);
    const { port } = queue;
    await queue.stop();
    await write('POST', shards, attachedShardManifest('s0'));
    await expect
      .poll(() => only.metric('millrace_relay_send_failures_total'), patience)
      .toBeGreaterThan(0);

    let end = '';
    void only.exited.then((how) => (end = how));
    await expect
      .poll(() => {
        only.signal('SIGTERM');
        return end;
      }, patience)
      .toBe('code 1');

    queue = await startFauxqs({ port, logger: false, dataDir: join(folder, 'queue') });
    const { body } = await api.request({ method: 'GET', path: leasePath });
    expect(body).not.toMatchObject({ spec: { holderIdentity: '' } });
  });
});

const adminUser = 'millrace-admin';
const shards = '/apis/millrace.dev/v1alpha1/namespaces/default/shards';

/** What the relay's README says it needs. */
const watching = [
  {
    apiGroups: ['millrace.dev'],
    resources: ['shards', 'databases', 'goverseclusters'],
    verbs: ['list', 'watch'],
  },
  { apiGroups: [''], resources: ['pods'], verbs: ['list', 'watch'] },
];
const leasing = [
  {
    apiGroups: ['coordination.k8s.io'],
    resources: ['leases'],
    verbs: ['get', 'create', 'update'],
  },
];

/** A person's wish that concerns every step. */
function asked(token: string): object {
  return { metadata: { annotations: { 'millrace.dev/reconcile': token } } };
}
