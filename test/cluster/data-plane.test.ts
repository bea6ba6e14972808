import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Etcd, startEtcd } from '#infra/local/control-plane/etcd.ts';
import { type DataPlane, startDataPlane, startDataPlanes } from '#infra/local/data-plane/start.ts';
import type { Admin } from '#shared/admin/admin.ts';
import { connectAdmin } from '#shared/admin/connect.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import { connectKube } from '#shared/kube/http-connection.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import { connectTopology } from '#shared/topology/connect.ts';
import type { PoolerRecord, Topology } from '#shared/topology/topology.ts';
import { missingControlPlane, useControlPlane } from './local-control-plane.ts';

const shard = { database: 'postgres', tableGroup: 'default', shard: '0-inf' };
const cell = 'zone-a';
const patience = { timeout: 30_000, interval: 25 };
const pods = '/api/v1/namespaces/default/pods';
const claims = '/api/v1/namespaces/default/persistentvolumeclaims';

describe.skipIf(missingControlPlane !== undefined)('the data plane on a real cluster', () => {
  const controlPlane = useControlPlane();
  const started = new AsyncDisposableStack();
  let api: KubeConnection;
  let etcd: Etcd;
  let dataPlane: DataPlane;
  let topology: Topology;
  let admin: Admin;

  beforeAll(async () => {
    api = connectKube(controlPlane().access());
    started.defer(() => api.close());
    const folder = await mkdtemp(join(tmpdir(), 'millrace-data-plane-'));
    started.defer(() => rm(folder, { recursive: true }));
    etcd = started.use(await startEtcd({ dataDir: join(folder, 'topology') }));
    const { server, ca, adminToken } = controlPlane();
    dataPlane = await startDataPlane({
      server,
      ca,
      token: adminToken,
      etcdEndpoint: etcd.endpoint,
      dataDir: join(folder, 'data-plane'),
      speed: 20,
    });
    started.defer(() => dataPlane.stop());
    const access = { namespace: 'default' };
    const spec = { endpoints: [etcd.endpoint], globalRoot: '/multigres/global' };
    topology = connectTopology(spec, access);
    started.defer(() => topology.close());
    admin = connectAdmin({ url: dataPlane.adminUrl }, access);
  });

  afterAll(() => started.disposeAsync());

  async function writeClaim(pod: string): Promise<void> {
    const { status } = await api.request({
      method: 'POST',
      path: claims,
      body: {
        metadata: { name: `data-${pod}` },
        spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
      },
    });
    expect([201, 409]).toContain(status);
  }

  async function writePod(name: string): Promise<void> {
    const { status } = await api.request({
      method: 'POST',
      path: pods,
      body: {
        metadata: {
          name,
          labels: { 'millrace.dev/shard': name.split('-')[0], 'millrace.dev/cell': cell },
        },
        spec: {
          subdomain: 'orders',
          containers: [{ name: 'pooler', image: 'pooler' }],
          volumes: [{ name: 'data', persistentVolumeClaim: { claimName: `data-${name}` } }],
        },
      },
    });
    expect(status).toBe(201);
  }

  async function createPod(name: string): Promise<void> {
    await writeClaim(name);
    await writePod(name);
  }

  async function podNamed(name: string): Promise<KubeObject<'Pod'> | undefined> {
    const { status, body } = await api.request({ method: 'GET', path: `${pods}/${name}` });
    return status === 404 ? undefined : (body as KubeObject<'Pod'>);
  }

  async function isReady(name: string): Promise<boolean> {
    const pod = await podNamed(name);
    return (
      pod?.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') ??
      false
    );
  }

  async function records(): Promise<readonly PoolerRecord[]> {
    const read = await topology.poolers(shard, [cell]);
    if (read.kind !== 'present') {
      throw new Error(read.kind === 'unknown' ? read.why : 'absent');
    }
    return read.value.poolers;
  }

  async function recordOf(name: string): Promise<PoolerRecord | undefined> {
    return (await records()).find(({ id }) => id.name === name);
  }

  async function primary(): Promise<string> {
    const [name, ...others] = (await records())
      .filter(({ role }) => role === 'primary')
      .map(({ id }) => id.name);
    expect(others).toEqual([]);
    return name ?? '';
  }

  async function cohort(): Promise<string[]> {
    const read = await admin.poolerStatus({ cell, name: await primary() });
    return read.kind === 'present'
      ? (read.value.decision?.cohort ?? []).map(({ name }) => name).toSorted()
      : [];
  }

  async function aReplica(): Promise<string> {
    const leader = await primary();
    return members.find((name) => name !== leader) ?? '';
  }

  const members = ['orders-0', 'orders-1', 'orders-2'];

  async function allAreBack(): Promise<void> {
    for (const name of members) {
      if ((await podNamed(name)) === undefined) {
        await createPod(name);
      }
    }
    for (const name of members) {
      await expect.poll(() => isReady(name), patience).toBe(true);
    }
    await expect.poll(cohort, patience).toEqual(members);
  }

  test('pods with claims become ready, and one of them leads', async () => {
    await allAreBack();

    const { body: claim } = await api.request({ method: 'GET', path: `${claims}/data-orders-0` });
    const { body: node } = await api.request({
      method: 'GET',
      path: '/api/v1/nodes/millrace-node',
    });
    const [record] = await records();
    const pod = await podNamed('orders-0');
    expect(claim).toMatchObject({ status: { phase: 'Bound' } });
    expect(node).toMatchObject({ status: { conditions: [{ type: 'Ready', status: 'True' }] } });
    expect(pod).toMatchObject({
      spec: { nodeName: 'millrace-node' },
      status: { phase: 'Running', containerStatuses: [{ name: 'pooler', ready: true }] },
    });
    expect(record).toMatchObject({
      id: { cell, name: 'orders-0' },
      hostname: 'orders-0.orders.default.svc.cluster.local',
      lifecycle: 'active',
      serving: 'serving',
    });
    expect(members).toContain(await primary());
  });

  test('a backup holds its lease in etcd as long as it runs', async () => {
    await allAreBack();
    const query = new URLSearchParams(shard).toString();
    const ask = async (path: string, init: RequestInit = {}) => {
      const response = await fetch(`${dataPlane.adminUrl}/api/v1${path}`, init);
      return (await response.json()) as { jobId: string; status?: string };
    };
    const lease = async () => {
      const key = Buffer.from('/multigres/global/backups/postgres/default/0-inf/lock');
      const response = await fetch(`${etcd.endpoint}/v3/kv/range`, {
        method: 'POST',
        body: JSON.stringify({ key: key.toString('base64') }),
      });
      const { kvs = [] } = (await response.json()) as { kvs?: { value: string }[] };
      return kvs.map(({ value }) => Buffer.from(value, 'base64').toString());
    };

    await dataPlane.faults.inject({ kind: 'backupHangs' });
    const { jobId } = await ask('/backups', {
      method: 'POST',
      body: JSON.stringify({ ...shard, type: 'full' }),
    });
    await expect.poll(lease, patience).toEqual([expect.stringMatching(/"Action": "backup by /)]);
    await dataPlane.faults.lift({ kind: 'backupHangs' });

    const status = async () => (await ask(`/jobs/${jobId}?${query}`)).status;
    await expect.poll(status, patience).toBe('JOB_STATUS_COMPLETED');
    await expect.poll(lease, patience).toEqual([]);
    expect(await ask(`/backups?${query}`)).toMatchObject({
      backups: [{ type: 'full' }, { type: 'full', jobId }],
    });
  });

  test('a pod whose claim is missing waits for it', async () => {
    const name = 'orders-9';
    await writePod(name);
    const nodeOf = async () => (await podNamed(name))?.spec?.nodeName;
    await expect.poll(nodeOf, patience).toBe('millrace-node');

    const waiting = await podNamed(name);
    const known = (await dataPlane.faults.state()).members.map(({ pod }) => pod);
    await writeClaim(name);
    const phaseOf = async () => (await podNamed(name))?.status?.phase;
    await expect.poll(phaseOf, patience).toBe('Running');

    expect(waiting?.status?.phase).toBe('Pending');
    expect(known).toEqual(members);
    await api.request({ method: 'DELETE', path: `${pods}/${name}` });
    await expect.poll(() => podNamed(name), patience).toBeUndefined();
  });

  test('a pod deleted gracefully writes SHUTDOWN and leaves the cohort', async () => {
    await allAreBack();
    const leaving = await aReplica();

    await api.request({ method: 'DELETE', path: `${pods}/${leaving}` });
    await expect.poll(() => podNamed(leaving), patience).toBeUndefined();

    expect(await recordOf(leaving)).toMatchObject({
      lifecycle: 'shutdown',
      serving: 'disabled',
      role: 'none',
    });
    await expect.poll(cohort, patience).toEqual(members.filter((name) => name !== leaving));
  });

  test('a pod made again on its claim comes back with its data', async () => {
    await allAreBack();
    const leaving = await aReplica();
    await api.request({ method: 'DELETE', path: `${pods}/${leaving}` });
    await expect.poll(() => podNamed(leaving), patience).toBeUndefined();

    await createPod(leaving);
    await allAreBack();

    expect(await recordOf(leaving)).toMatchObject({ lifecycle: 'active', role: 'replica' });
  });

  test('a pod that is force-deleted leaves its record and its place in the cohort', async () => {
    await allAreBack();
    const dying = await aReplica();
    const before = await recordOf(dying);

    await api.request({
      method: 'DELETE',
      path: `${pods}/${dying}`,
      body: { gracePeriodSeconds: 0 },
    });
    const isForgotten = async () =>
      (await dataPlane.faults.state()).members.every(({ pod }) => pod !== dying);
    await expect.poll(isForgotten, patience).toBe(true);

    expect(await recordOf(dying)).toEqual(before);
    expect(await cohort()).toEqual(members);
    expect(await admin.poolerStatus({ cell, name: dying })).toMatchObject({ kind: 'unknown' });
  });

  test('a killed process goes on where it ended, also with what happened meanwhile', async () => {
    await allAreBack();
    const leader = await primary();
    const leaving = await aReplica();
    const { rule } = await dataPlane.faults.state();

    await dataPlane.kill();
    await api.request({ method: 'DELETE', path: `${pods}/${leaving}` });
    expect((await podNamed(leaving))?.metadata.deletionTimestamp).toBeDefined();
    await dataPlane.restart();
    await expect.poll(() => podNamed(leaving), patience).toBeUndefined();

    expect(await primary()).toBe(leader);
    expect((await dataPlane.faults.state()).rule?.term).toBe(rule?.term);
    expect(await recordOf(leaving)).toMatchObject({ lifecycle: 'shutdown' });
    await expect.poll(cohort, patience).toEqual(members.filter((name) => name !== leaving));
  });

  test('a pod that dies without a word is Failed or gone, and its record says nothing', async () => {
    await allAreBack();
    const dying = await aReplica();
    const before = await recordOf(dying);

    await dataPlane.faults.inject({ kind: 'podDeath', pod: dying, leaves: 'failed' });
    await expect.poll(async () => (await podNamed(dying))?.status?.phase, patience).toBe('Failed');
    const afterFailure = await recordOf(dying);
    await api.request({ method: 'DELETE', path: `${pods}/${dying}` });
    await allAreBack();
    await dataPlane.faults.inject({ kind: 'podDeath', pod: dying, leaves: 'nothing' });
    await expect.poll(() => podNamed(dying), patience).toBeUndefined();

    expect(afterFailure).toEqual(before);
    expect(await recordOf(dying)).toMatchObject({ lifecycle: 'active', role: 'replica' });
  });

  test('on a lost node a deleted pod stays Terminating until the node is back', async () => {
    await allAreBack();
    const leaving = await aReplica();
    const nodeStatus = async () => {
      const { body } = await api.request({ method: 'GET', path: '/api/v1/nodes/millrace-node' });
      return (body as KubeObject<'Node'>).status?.conditions?.[0]?.status;
    };

    await dataPlane.faults.inject({ kind: 'nodeNotReady' });
    await expect.poll(nodeStatus, patience).toBe('Unknown');
    await api.request({ method: 'DELETE', path: `${pods}/${leaving}` });
    await expect.poll(() => isReady(leaving), patience).toBe(false);
    const meanwhile = await podNamed(leaving);
    await dataPlane.faults.lift({ kind: 'nodeNotReady' });
    await expect.poll(() => podNamed(leaving), patience).toBeUndefined();

    expect(meanwhile?.metadata.deletionTimestamp).toBeDefined();
    expect(await nodeStatus()).toBe('True');
    expect(await recordOf(leaving)).toMatchObject({ lifecycle: 'shutdown' });
  });

  test('a switchover moves the leader to another member under a higher rule', async () => {
    await allAreBack();
    const decidedLeader = async () => (await dataPlane.faults.state()).leader?.name;
    // A record may still be on its way to etcd: what was decided and what is recorded have to agree first.
    await expect
      .poll(async () => (await primary()) === (await decidedLeader()), patience)
      .toBe(true);
    const leader = await primary();
    const { rule } = await dataPlane.faults.state();

    const sent = await admin.switchPrimary(shard, 'a test');
    await expect.poll(primary, patience).not.toBe('');

    expect(sent).toMatchObject({ kind: 'sent' });
    await expect.poll(primary, patience).not.toBe(leader);
    const term = async () => Number((await dataPlane.faults.state()).rule?.term);
    await expect.poll(term, patience).toBe(Number(rule?.term) + 1);
  });

  test('while etcd is away nobody learns that a pooler is gone; afterwards all goes on', async () => {
    await allAreBack();
    const leaving = await aReplica();

    await etcd.kill();
    const answer = await admin.poolerStatus({ cell, name: leaving });
    await etcd.restart();
    await api.request({ method: 'DELETE', path: `${pods}/${leaving}` });
    await expect.poll(() => podNamed(leaving), patience).toBeUndefined();

    expect(answer).toMatchObject({ kind: 'unknown' });
    expect(await recordOf(leaving)).toMatchObject({ lifecycle: 'shutdown' });
    await expect.poll(cohort, patience).toEqual(members.filter((name) => name !== leaving));
  });

  test('the process ends when it is asked to, and leaves the pods as they are', async () => {
    await allAreBack();

    await dataPlane.stop();

    const isAlive = () => {
      try {
        return process.kill(dataPlane.pid, 0);
      } catch {
        return false;
      }
    };
    expect(isAlive()).toBe(false);
    expect(await isReady('orders-0')).toBe(true);
  });

  test('one process stands in for several shards, and each has members and records of its own', async () => {
    const { server, ca, adminToken } = controlPlane();
    const folder = await mkdtemp(join(tmpdir(), 'millrace-data-planes-'));
    started.defer(() => rm(folder, { recursive: true }));
    const planes = await startDataPlanes({
      server,
      ca,
      token: adminToken,
      etcdEndpoint: etcd.endpoint,
      dataDir: folder,
      speed: 20,
      nodeName: 'second-node',
      dataPlanes: ['users', 'events'].map((shardName) => ({
        shardName,
        globalRoot: `/${shardName}/global`,
        cellRoot: `/${shardName}/{cell}`,
      })),
    });
    started.defer(() => planes.stop());
    const poolersOf = async (place: number) => {
      const answer = await fetch(`${planes.each[place]?.adminUrl}/api/v1/poolers`);
      const { poolers = [] } = (await answer.json()) as { poolers?: { id: { name: string } }[] };
      return poolers.map(({ id }) => id.name).toSorted();
    };

    await Promise.all(['users-0', 'users-1', 'events-0', 'events-1'].map(createPod));
    for (const name of ['users-0', 'users-1', 'events-0', 'events-1']) {
      await expect.poll(() => isReady(name), patience).toBe(true);
    }
    await planes.each[0]?.faults.inject({ kind: 'podDeath', pod: 'users-1', leaves: 'nothing' });
    const membersOf = async (place: number) =>
      (await planes.each[place]?.faults.state())?.members.map(({ pod }) => pod);
    await expect.poll(() => podNamed('users-1'), patience).toBeUndefined();
    await expect.poll(() => membersOf(0), patience).toEqual(['users-0']);
    const [users, events] = await Promise.all(planes.each.map(({ faults }) => faults.state()));

    expect(await poolersOf(0)).toEqual(['users-0', 'users-1']);
    expect(await poolersOf(1)).toEqual(['events-0', 'events-1']);
    expect(events?.members.map(({ pod }) => pod)).toEqual(['events-0', 'events-1']);
    expect((await podNamed('events-0'))?.spec?.nodeName).toBe('second-node');

    await planes.restart();
    await expect.poll(() => membersOf(0), patience).toEqual(['users-0']);
    const [again] = await Promise.all(planes.each.map(({ faults }) => faults.state()));

    expect(again?.rule).toEqual(users?.rule);
  });
});
