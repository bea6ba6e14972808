import { describe, expect, test } from 'vitest';
import { parseInstant, plusSeconds } from '#shared/kernel/instant.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import { connectTopology } from '#shared/topology/connect.ts';
import type { PoolerListing, Topology } from '#shared/topology/topology.ts';
import { aSettledCluster } from '#test/unit/infra/local/data-plane/simulated-cluster.ts';
import { askGateway } from '#test/world/model/etcd-gateway.ts';
import { Etcd } from '#test/world/model/etcd.ts';

const now = parseInstant('2026-01-01T00:00:00Z') ?? expect.unreachable();
const shard = { database: 'postgres', tableGroup: 'default', shard: '0-inf' };
const cells = ['zone-a'];
const proxyPath = '/api/v1/namespaces/db/services/topology:2379/proxy';

/** An API server whose service proxy leads to the store, and nothing else. */
function proxyTo(etcd: Etcd): KubeConnection {
  return {
    async request({ path, body }) {
      expect(path.startsWith(proxyPath)).toBe(true);
      return askGateway(etcd, path.slice(proxyPath.length), body, now);
    },
    stream: () => expect.unreachable('the topology is not watched'),
    close: () => undefined,
  };
}

/** The records of a shard that has come up, in a store of their own. */
function aStore(): Etcd {
  const etcd = new Etcd();
  const cluster = aSettledCluster({ config: { serverAddress: 'topology:2379' } });
  for (const [key, { value }] of cluster.stored) {
    etcd.put(key, Buffer.from(value, 'base64'));
  }
  return etcd;
}

function open(etcd: Etcd): Topology {
  return connectTopology(
    { service: { name: 'topology', port: 2379 }, globalRoot: '/multigres/global' },
    { namespace: 'db', kube: proxyTo(etcd), clock: () => now },
  );
}

async function listing(topology: Topology): Promise<PoolerListing> {
  const read = await topology.poolers(shard, cells);
  return read.kind === 'present' ? read.value : expect.unreachable(JSON.stringify(read));
}

describe('the topology that ships, over the model of etcd', () => {
  test('lists the poolers of a shard', async () => {
    const etcd = aStore();

    const { poolers, undecodable } = await listing(open(etcd));

    expect(undecodable).toEqual([]);
    expect(poolers.map(({ id }) => id.name)).toEqual(['orders-0', 'orders-1', 'orders-2']);
    expect(poolers.map(({ lifecycle }) => lifecycle)).toEqual(['active', 'active', 'active']);
    expect(poolers.map(({ role }) => role).toSorted()).toEqual(['primary', 'replica', 'replica']);
    expect(poolers.map(({ key, modRevision }) => [key, modRevision])).toEqual(
      poolers.map(({ key }) => [key, String(etcd.read(key)?.modRevision)]),
    );
  });

  test('retires a record under its mod revision, and once only', async () => {
    const etcd = aStore();
    const topology = open(etcd);
    const { poolers } = await listing(topology);
    const { key, modRevision } = poolers[0] ?? expect.unreachable();

    const first = await topology.retire({ cell: 'zone-a', key }, modRevision);
    const again = await topology.retire({ cell: 'zone-a', key }, modRevision);

    const written = etcd.read(key);
    expect(first).toEqual({ kind: 'written', resourceVersion: String(written?.modRevision) });
    expect(again).toMatchObject({ kind: 'lostRace' });
    expect(written?.modRevision).toBe(etcd.revision);
    expect((await listing(topology)).poolers[0]).toMatchObject({ key, lifecycle: 'shutdown' });
  });

  test('counts the time that a read and the parts of a write may take by the clock it is given', async () => {
    const etcd = aStore();
    const proxy = proxyTo(etcd);
    let time = now;
    const allowedMs: (number | undefined)[] = [];
    const topology = connectTopology(
      { service: { name: 'topology', port: 2379 }, globalRoot: '/multigres/global' },
      {
        namespace: 'db',
        requestTimeoutMs: 5_000,
        clock: () => time,
        kube: {
          ...proxy,
          async request(request) {
            allowedMs.push(request.timeoutMs);
            time = plusSeconds(time, 1.5);
            return proxy.request(request);
          },
        },
      },
    );

    const { poolers } = await listing(topology);
    const forReading = allowedMs.splice(0);
    const { key, modRevision } = poolers[0] ?? expect.unreachable();
    await topology.retire({ cell: 'zone-a', key }, modRevision);

    expect(forReading).toEqual([5_000, 3_500]);
    expect(allowedMs).toEqual([3_000, 1_500, 3_000]);
  });

  test('reads more than one page, all at one revision', async () => {
    const etcd = aStore();
    const value = etcd.list('/multigres/zone-a/poolers/')[0]?.value ?? expect.unreachable();
    for (let index = 0; index < 1_100; index += 1) {
      etcd.put(`/multigres/zone-a/poolers/multipooler-zone-a-${index}/Pooler`, value);
    }

    const { poolers, undecodable } = await listing(open(etcd));

    expect(poolers).toHaveLength(3);
    expect(undecodable).toHaveLength(1_100);
  });

  test('knows nothing where the list was compacted away between two pages', async () => {
    const etcd = aStore();
    for (let index = 0; index < 1_200; index += 1) {
      etcd.put(`/multigres/zone-a/poolers/multipooler-zone-a-${index}/Pooler`, Buffer.of(0));
    }
    const proxy = proxyTo(etcd);
    const topology = connectTopology(
      { service: { name: 'topology', port: 2379 }, globalRoot: '/multigres/global' },
      {
        namespace: 'db',
        kube: {
          ...proxy,
          async request(request) {
            const response = await proxy.request(request);
            etcd.put('/elsewhere', Buffer.of(0));
            etcd.compact(etcd.revision);
            return response;
          },
        },
      },
    );

    const read = await topology.poolers(shard, cells);

    expect(read).toMatchObject({ kind: 'unknown', why: expect.stringContaining('compacted') });
  });
});

describe('the gateway', () => {
  test('ends leases whose time is over before it answers', () => {
    const etcd = new Etcd();
    const lease = etcd.grantLease(5, now);
    etcd.put('a', Buffer.of(1), lease.kind === 'lease' ? lease.id : expect.unreachable());

    const before = askGateway(etcd, '/v3/kv/range', { key: 'YQ==' }, (now + 4_999) as typeof now);
    const after = askGateway(etcd, '/v3/kv/range', { key: 'YQ==' }, (now + 5_000) as typeof now);

    expect(before.body).toMatchObject({ count: '1' });
    expect(after.body).not.toHaveProperty('count');
  });

  test('takes a request without a body for an empty one', () => {
    const answer = askGateway(new Etcd(), '/v3/kv/txn', undefined, now);

    expect(answer).toMatchObject({ status: 200, body: { succeeded: true } });
  });

  test.each([
    ['/v3/watch', {}],
    ['/v3/kv/range', { key: 'YQ==', sort_order: 'DESCEND' }],
    ['/v3/kv/range', { key: 'YQ==', rangeEnd: 'Yg==' }],
    ['/v3/kv/txn', { success: [{ request_txn: {} }] }],
    ['/v3/kv/txn', { compare: [{ key: 'YQ==', target: 'LEASE' }] }],
  ])('refuses loudly what the model does not have: %s %j', (path, body) => {
    expect(() => askGateway(new Etcd(), path, body, now)).toThrow(/model of etcd/);
  });
});
