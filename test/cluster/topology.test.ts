import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { type Server, type Socket, connect as connectSocket, createServer } from 'node:net';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { obtainProgram } from '#infra/local/control-plane/binaries.ts';
import { type Component, startComponent } from '#infra/local/control-plane/component.ts';
import { type Etcd, startEtcd } from '#infra/local/control-plane/etcd.ts';
import { startOnFreePort } from '#infra/local/control-plane/port.ts';
import { RetryableError } from '#shared/kernel/errors.ts';
import { type Instant, parseInstant } from '#shared/kernel/instant.ts';
import type { KubeConnection, KubeRequest } from '#shared/kube/connection.ts';
import { connectKube } from '#shared/kube/http-connection.ts';
import type { TopologyAccess, TopologyCredentials } from '#shared/topology/access.ts';
import { connectTopology } from '#shared/topology/connect.ts';
import {
  CellSchema,
  ComponentType,
  IDSchema,
  LegacyMultipoolerSchema,
  MultipoolerSchema,
  PoolerLifecycleSchema,
  PoolerLifecycleStatus,
  PoolerServingStatus,
  PoolerType,
  RoutingRole,
  RoutingStateSchema,
  ShardKeySchema,
} from '#shared/topology/proto/clustermetadata_pb.ts';
import type { PoolerListing, PoolerRecord, Topology } from '#shared/topology/topology.ts';
import { missingControlPlane, useControlPlane } from './local-control-plane.ts';

const run = promisify(execFile);

const globalRoot = '/multigres/global';
const shard = { database: 'postgres', tableGroup: 'default', shard: '0-inf' };
const transports = ['grpc', 'gateway'] as const;

const now = parseInstant('2026-01-01T00:00:00Z') ?? expect.unreachable();

/** Writes and reads keys as etcd's gateway does it, beside the code under test. */
class Gateway {
  readonly #connection: KubeConnection;
  readonly #headers: Record<string, string> = {};

  constructor(server: string, credentials: TopologyCredentials = {}) {
    const { ca, certificate, key } = credentials;
    this.#connection = connectKube({
      server,
      ...(ca === undefined ? {} : { ca }),
      credentials: async () => ({
        ...(certificate === undefined ? {} : { certificate }),
        ...(key === undefined ? {} : { key }),
      }),
    });
  }

  async call(path: string, body: object): Promise<unknown> {
    const response = await this.#connection.request({
      method: 'POST',
      path: `/v3${path}`,
      headers: this.#headers,
      body,
    });
    expect({ path, status: response.status, body: response.body }).toMatchObject({ status: 200 });
    return response.body;
  }

  async put(key: string, value: Uint8Array): Promise<void> {
    await this.call('/kv/put', { key: encode(key), value: encode(value) });
  }

  async read(key: string): Promise<{ value: Uint8Array; modRevision: string }> {
    const answer = (await this.call('/kv/range', { key: encode(key) })) as {
      kvs: [{ value: string; mod_revision: string }];
    };
    const [{ value, mod_revision }] = answer.kvs;
    return { value: Buffer.from(value, 'base64'), modRevision: mod_revision };
  }

  /** Gives the store a user who may do everything, turns sign-in on, and signs in. */
  async requireUsers(name: string, password: string): Promise<void> {
    await this.call('/auth/user/add', { name, password });
    await this.call('/auth/role/add', { name: 'root' });
    await this.call('/auth/user/grant', { user: name, role: 'root' });
    await this.call('/auth/enable', {});
    const answer = (await this.call('/auth/authenticate', { name, password })) as { token: string };
    this.#headers['grpc-metadata-token'] = answer.token;
  }

  close(): void {
    this.#connection.close();
  }
}

function encode(value: string | Uint8Array): string {
  return Buffer.from(value).toString('base64');
}

function keyOf(root: string, cell: string, name: string): string {
  return `${root}/poolers/multipooler-${cell}-${name}/Pooler`;
}

function id(cell: string, name: string) {
  return create(IDSchema, { component: ComponentType.MULTIPOOLER, cell, name });
}

function poolerBytes(cell: string, name: string, own = shard): Uint8Array {
  const record = create(MultipoolerSchema, {
    hostname: `${name}.pods.db.svc.cluster.local`,
    portMap: { grpc: 15270 },
    type: PoolerType.REPLICA,
  });
  record.id = id(cell, name);
  record.shardKey = create(ShardKeySchema, own);
  record.lifecycleStatus = create(PoolerLifecycleSchema, { status: PoolerLifecycleStatus.ACTIVE });
  record.routingState = create(RoutingStateSchema, { role: RoutingRole.REPLICA });
  return toBinary(MultipoolerSchema, record);
}

function legacyBytes(cell: string, name: string): Uint8Array {
  const record = create(LegacyMultipoolerSchema, { ...shard, type: PoolerType.PRIMARY });
  record.id = id(cell, name);
  return toBinary(LegacyMultipoolerSchema, record);
}

async function putCell(
  gateway: Gateway,
  name: string,
  root: string,
  serverAddresses: string[],
): Promise<void> {
  const record = create(CellSchema, { name, root, serverAddresses });
  await gateway.put(`${globalRoot}/cells/${name}/Cell`, toBinary(CellSchema, record));
}

async function listing(topology: Topology, cells: readonly string[]): Promise<PoolerListing> {
  const read = await topology.poolers(shard, cells);
  return read.kind === 'present' ? read.value : expect.unreachable(JSON.stringify(read));
}

async function recordAt(topology: Topology, cell: string, key: string): Promise<PoolerRecord> {
  const { poolers } = await listing(topology, [cell]);
  return poolers.find((pooler) => pooler.key === key) ?? expect.unreachable(key);
}

function open(endpoint: string, access: Partial<TopologyAccess>): Topology {
  const topology = connectTopology(
    { endpoints: [endpoint], globalRoot },
    { namespace: 'db', clock: () => now, ...access },
  );
  onTestFinished(() => topology.close());
  return topology;
}

async function temporaryFolder(): Promise<string> {
  return mkdtemp(join(tmpdir(), 'millrace-topology-'));
}

describe.skipIf(missingControlPlane !== undefined)('a plain etcd', () => {
  /** More than two pages. */
  const crowd = 2_100;
  let folder: string;
  let etcd: Etcd;
  let gateway: Gateway;

  beforeAll(async () => {
    folder = await temporaryFolder();
    etcd = await startEtcd({ dataDir: folder });
    gateway = new Gateway(etcd.endpoint);
    const address = etcd.endpoint.replace('http://', '');
    await putCell(gateway, 'zone-a', '/multigres/shared', [address]);
    await putCell(gateway, 'zone-b', '/multigres/shared', [address]);
    await putCell(gateway, 'zone-c', '/multigres/zone-c', [address]);
    await putCell(gateway, 'crowded', '/multigres/crowded', [address]);
    await putCell(gateway, 'lost', '/multigres/lost', ['127.0.0.1:1']);
    const shared = '/multigres/shared';
    await gateway.put(keyOf(shared, 'zone-a', 'pod-0'), poolerBytes('zone-a', 'pod-0'));
    await gateway.put(keyOf(shared, 'zone-b', 'pod-1'), legacyBytes('zone-b', 'pod-1'));
    await gateway.put(keyOf(shared, 'zone-x', 'pod-9'), poolerBytes('zone-x', 'pod-9'));
    await gateway.put(
      keyOf(shared, 'zone-a', 'other'),
      poolerBytes('zone-a', 'other', { ...shard, shard: '80-inf' }),
    );
    await gateway.put(keyOf(shared, 'zone-a', 'broken'), Buffer.from('no record'));
    await gateway.put(`${shared}/poolers/multipooler-zone-a-pod-0/locks/1`, Buffer.of(0));
    await gateway.put(`${shared}/poolers2/multipooler-zone-a-pod-0/Pooler`, Buffer.of(0));
    const root = '/multigres/zone-c';
    await gateway.put(keyOf(root, 'zone-c', 'pod-2'), poolerBytes('zone-c', 'pod-2'));
    for (let first = 0; first < crowd; first += 100) {
      await gateway.call('/kv/txn', {
        success: Array.from({ length: 100 }, (_, offset) => {
          const name = `pod-${first + offset}`;
          return {
            request_put: {
              key: encode(keyOf('/multigres/crowded', 'crowded', name)),
              value: encode(poolerBytes('crowded', name)),
            },
          };
        }),
      });
    }
  });

  afterAll(async () => {
    gateway.close();
    await etcd.stop();
    await rm(folder, { recursive: true, force: true });
  });

  test('gives the same answer over both transports', async () => {
    const cells = ['zone-c', 'zone-a', 'zone-b', 'crowded'];

    const overGrpc = await listing(open(etcd.endpoint, { transport: 'grpc' }), cells);
    const overGateway = await listing(open(etcd.endpoint, { transport: 'gateway' }), cells);

    expect(overGateway).toEqual(overGrpc);
    expect(overGrpc.poolers).toHaveLength(crowd + 3);
    expect(overGrpc.undecodable.map(({ key }) => key)).toEqual([
      keyOf('/multigres/shared', 'zone-a', 'broken'),
    ]);
    expect(
      overGrpc.poolers.filter(({ storeCell }) => storeCell !== 'crowded').map(({ key }) => key),
    ).toEqual([
      keyOf('/multigres/shared', 'zone-a', 'pod-0'),
      keyOf('/multigres/shared', 'zone-b', 'pod-1'),
      keyOf('/multigres/zone-c', 'zone-c', 'pod-2'),
    ]);
    expect(overGrpc.poolers.find(({ storeCell }) => storeCell === 'zone-b')).toMatchObject({
      generation: 'legacy',
      role: 'primary',
      id: { cell: 'zone-b', name: 'pod-1' },
    });
  });

  describe.each(transports)('over %s', (transport) => {
    test('a record is retired under its mod revision, and once only', async () => {
      const key = keyOf('/multigres/zone-c', 'zone-c', `retired-${transport}`);
      await gateway.put(key, poolerBytes('zone-c', `retired-${transport}`));
      const topology = open(etcd.endpoint, { transport });
      const { modRevision } = await recordAt(topology, 'zone-c', key);

      const first = await topology.retire({ cell: 'zone-c', key }, modRevision);
      const again = await topology.retire({ cell: 'zone-c', key }, modRevision);

      const stored = await gateway.read(key);
      expect(first).toEqual({ kind: 'written', resourceVersion: stored.modRevision });
      expect(again).toMatchObject({ kind: 'lostRace' });
      expect(await recordAt(topology, 'zone-c', key)).toMatchObject({
        lifecycle: 'shutdown',
        serving: 'disabled',
        role: 'none',
        modRevision: stored.modRevision,
        hostname: `retired-${transport}.pods.db.svc.cluster.local`,
      });
      expect(fromBinary(MultipoolerSchema, stored.value).portMap).toEqual({ grpc: 15270 });
    });

    test('a record is removed under its mod revision, and only once it is retired', async () => {
      const key = keyOf('/multigres/zone-c', 'zone-c', `removed-${transport}`);
      const pooler = { cell: 'zone-c', key };
      await gateway.put(key, poolerBytes('zone-c', `removed-${transport}`));
      const topology = open(etcd.endpoint, { transport });
      const { modRevision: before } = await recordAt(topology, 'zone-c', key);

      await expect(topology.remove(pooler, before)).rejects.toMatchObject({
        reason: 'PoolerRecordLive',
      });
      await topology.retire(pooler, before);
      const { modRevision } = await recordAt(topology, 'zone-c', key);
      const withOldView = await topology.remove(pooler, before);
      const first = await topology.remove(pooler, modRevision);
      const again = await topology.remove(pooler, modRevision);

      expect(withOldView.kind).toBe('lostRace');
      expect(first.kind).toBe('written');
      expect(again).toEqual({ kind: 'written', resourceVersion: '' });
      const { poolers } = await listing(topology, ['zone-c']);
      expect(poolers.map((record) => record.key)).not.toContain(key);
    });

    test('of writers with one mod revision exactly one writes', async () => {
      const key = keyOf('/multigres/zone-c', 'zone-c', `raced-${transport}`);
      await gateway.put(key, poolerBytes('zone-c', `raced-${transport}`));
      const { modRevision } = await gateway.read(key);
      const writers = Array.from({ length: 5 }, (_, writer) =>
        open(etcd.endpoint, { transport, clock: () => (now + writer) as Instant }),
      );

      const results = await Promise.all(
        writers.map((writer) => writer.retire({ cell: 'zone-c', key }, modRevision)),
      );

      const after = await gateway.read(key);
      const written = results.filter(({ kind }) => kind === 'written');
      expect(written).toEqual([{ kind: 'written', resourceVersion: after.modRevision }]);
      expect(results.filter(({ kind }) => kind === 'lostRace')).toHaveLength(4);
    });

    test('a record that is gone is a lost race', async () => {
      const key = keyOf('/multigres/zone-c', 'zone-c', 'never');

      const result = await open(etcd.endpoint, { transport }).retire({ cell: 'zone-c', key }, '7');

      expect(result).toMatchObject({ kind: 'lostRace' });
    });

    test('one cell out of reach makes the whole listing unknown', async () => {
      const topology = open(etcd.endpoint, { transport, requestTimeoutMs: 2_000 });

      const read = await topology.poolers(shard, ['zone-a', 'lost']);

      expect(read).toMatchObject({ kind: 'unknown', why: expect.stringContaining('"lost"') });
    });

    test('a stopped etcd is unknown, and is read again when it is back', async () => {
      const topology = open(etcd.endpoint, { transport, requestTimeoutMs: 2_000 });
      const before = await listing(topology, ['zone-c']);
      await etcd.kill();

      const read = await topology.poolers(shard, ['zone-c']);
      const [pooler] = before.poolers;
      const retiring = topology.retire(
        { cell: 'zone-c', key: pooler?.key ?? '' },
        pooler?.modRevision ?? '',
      );
      await expect(retiring).rejects.toBeInstanceOf(RetryableError);
      await etcd.restart();

      expect(read).toMatchObject({ kind: 'unknown', why: expect.stringContaining('"zone-c"') });
      expect(await listing(topology, ['zone-c'])).toEqual(before);
    });

    test('a store that hangs is unknown within the timeout', async () => {
      const topology = open(await silentEndpoint(), { transport, requestTimeoutMs: 500 });
      const started = performance.now();

      const read = await topology.poolers(shard, ['zone-c']);

      expect(performance.now() - started).toBeLessThan(2_000);
      expect(read).toMatchObject({ kind: 'unknown', why: expect.stringContaining('"zone-c"') });
    });

    test('an aborted read ends before its timeout', async () => {
      const topology = open(await silentEndpoint(), { transport, requestTimeoutMs: 60_000 });
      const controller = new AbortController();
      const reading = topology.poolers(shard, ['zone-c'], controller.signal);

      controller.abort();

      expect((await reading).kind).toBe('unknown');
    });
  });
});

/** Takes connections and never says a word. */
async function silentEndpoint(): Promise<string> {
  const sockets: Socket[] = [];
  const server = createServer((socket) => sockets.push(socket));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.close();
    for (const socket of sockets) {
      socket.destroy();
    }
  });
  const address = server.address();
  return typeof address === 'object' && address !== null
    ? `http://127.0.0.1:${address.port}`
    : expect.unreachable();
}

describe.skipIf(missingControlPlane !== undefined)('an etcd with certificates and users', () => {
  let folder: string;
  let etcd: Component;
  let endpoint: string;
  let gateway: Gateway;
  let credentials: Required<TopologyCredentials>;

  beforeAll(async () => {
    folder = await temporaryFolder();
    const certificates = await makeCertificates(folder);
    credentials = { ...certificates, username: 'root', password: 'correct horse' };
    const command = await obtainProgram('etcd');
    ({ etcd, endpoint } = await startOnFreePort(async (port) => {
      const url = `https://127.0.0.1:${port}`;
      const started = await startComponent({
        name: 'etcd',
        command,
        flags: [
          `--data-dir=${join(folder, 'etcd')}`,
          `--listen-client-urls=${url}`,
          `--advertise-client-urls=${url}`,
          '--listen-peer-urls=http://127.0.0.1:0',
          '--unsafe-no-fsync',
          '--client-cert-auth',
          `--trusted-ca-file=${join(folder, 'ca.crt')}`,
          `--cert-file=${join(folder, 'server.crt')}`,
          `--key-file=${join(folder, 'server.key')}`,
        ],
        logPath: join(folder, 'etcd.log'),
        async isReady() {
          const probe = new Gateway(url, certificates);
          try {
            await probe.call('/kv/range', { key: encode('ready') });
            return true;
          } finally {
            probe.close();
          }
        },
      });
      return { etcd: started, endpoint: url };
    }));
    gateway = new Gateway(endpoint, certificates);
    await putCell(gateway, 'zone-a', '/multigres/zone-a', [endpoint.replace('https://', '')]);
    const key = keyOf('/multigres/zone-a', 'zone-a', 'pod-0');
    await gateway.put(key, poolerBytes('zone-a', 'pod-0'));
    await gateway.requireUsers('root', 'correct horse');
  });

  afterAll(async () => {
    gateway.close();
    await etcd.stop();
    await rm(folder, { recursive: true, force: true });
  });

  describe.each(transports)('over %s', (transport) => {
    test('is read and written with the right ones', async () => {
      const key = keyOf('/multigres/zone-a', 'zone-a', `pod-${transport}`);
      await gateway.put(key, poolerBytes('zone-a', `pod-${transport}`));
      const topology = open(endpoint, { transport, credentials });
      const { modRevision } = await recordAt(topology, 'zone-a', key);

      const result = await topology.retire({ cell: 'zone-a', key }, modRevision);

      expect(result.kind).toBe('written');
      expect(await recordAt(topology, 'zone-a', key)).toMatchObject({ lifecycle: 'shutdown' });
    });

    test('goes on after its users were changed', async () => {
      const topology = open(endpoint, { transport, credentials });
      await listing(topology, ['zone-a']);
      await gateway.call('/auth/user/add', { name: `new-${transport}`, password: 'any' });

      // What was signed in before the change may be refused once; the next look signs in again.
      await topology.poolers(shard, ['zone-a']);
      const read = await topology.poolers(shard, ['zone-a']);

      expect(read.kind).toBe('present');
    });

    test.each<[string, (right: Required<TopologyCredentials>) => TopologyCredentials]>([
      ['a wrong password', (right) => ({ ...right, password: 'wrong' })],
      ['no user', ({ ca, certificate, key }) => ({ ca, certificate, key })],
    ])('with %s reads are unknown and writes come back slowly', async (_, change) => {
      const topology = open(endpoint, {
        transport,
        credentials: change(credentials),
        requestTimeoutMs: 3_000,
      });
      const key = keyOf('/multigres/zone-a', 'zone-a', 'pod-0');

      const read = await topology.poolers(shard, ['zone-a']);
      const retiring = topology.retire({ cell: 'zone-a', key }, '1');

      expect(read.kind).toBe('unknown');
      expect(JSON.stringify(read)).not.toMatch(/correct horse|wrong/);
      await expect(retiring).rejects.toMatchObject({
        reason: 'TopologyForbidden',
        afterSeconds: 300,
      });
    });

    test.each<[string, (right: Required<TopologyCredentials>) => TopologyCredentials]>([
      ['no client certificate', ({ ca, username, password }) => ({ ca, username, password })],
      ['another certificate authority', (right) => ({ ...right, ca: right.certificate })],
      ['no certificate authority', ({ username, password }) => ({ username, password })],
    ])('with %s reads are unknown', async (_, change) => {
      const topology = open(endpoint, {
        transport,
        credentials: change(credentials),
        requestTimeoutMs: 2_000,
      });

      const read = await topology.poolers(shard, ['zone-a']);

      expect(read.kind).toBe('unknown');
    });
  });
});

/** A certificate authority, and one certificate of it for etcd and one for its client. */
async function makeCertificates(
  folder: string,
): Promise<{ ca: string; certificate: string; key: string }> {
  const path = (name: string) => join(folder, name);
  const openssl = (options: string) => run('openssl', options.split(' '), { cwd: folder });
  const newKey = 'req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes';
  await openssl(`${newKey} -x509 -days 2 -subj /CN=authority -keyout ca.key -out ca.crt`);
  // The gateway inside etcd is a client of its own server with the server's certificate. Neither certificate has a
  // common name: etcd would take it for the user.
  await writeFile(
    path('extensions'),
    'subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n',
  );
  for (const name of ['server', 'client']) {
    await openssl(`${newKey} -subj /O=${name} -keyout ${name}.key -out ${name}.csr`);
    await openssl(
      `x509 -req -in ${name}.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile extensions -out ${name}.crt`,
    );
  }
  return {
    ca: await readFile(path('ca.crt'), 'utf8'),
    certificate: await readFile(path('client.crt'), 'utf8'),
    key: await readFile(path('client.key'), 'utf8'),
  };
}

describe.skipIf(missingControlPlane !== undefined)('behind a real API server', () => {
  const controlPlane = useControlPlane({ users: [{ name: 'nobody', groups: [] }] });
  const service = { namespace: 'default', name: 'topo', port: 2379 };
  let folder: string;
  let etcd: Etcd;
  let gateway: Gateway;
  let forwarder: Server;
  let kube: KubeConnection;

  beforeAll(async () => {
    folder = await temporaryFolder();
    etcd = await startEtcd({ dataDir: folder });
    gateway = new Gateway(etcd.endpoint);
    await putCell(gateway, 'zone-a', '/multigres/zone-a', ['topo.default.svc.cluster.local:2379']);
    await putCell(gateway, 'zone-b', '/multigres/zone-b', ['gone.default.svc:2379']);
    const key = keyOf('/multigres/zone-a', 'zone-a', 'pod-0');
    await gateway.put(key, poolerBytes('zone-a', 'pod-0'));
    const host = ownAddress();
    forwarder = await forward(host, Number(new URL(etcd.endpoint).port));
    kube = connectKube(controlPlane().access());
    await publish(kube, host, forwarder);
  });

  afterAll(async () => {
    kube.close();
    gateway.close();
    forwarder.close();
    await etcd.stop();
    await rm(folder, { recursive: true, force: true });
  });

  function openService(connection: KubeConnection, credentials?: TopologyCredentials): Topology {
    const topology = connectTopology(
      { service, globalRoot },
      { namespace: 'db', kube: connection, credentials, clock: () => now },
    );
    onTestFinished(() => topology.close());
    return topology;
  }

  test('the service proxy leads to the same records', async () => {
    const direct = open(etcd.endpoint, { transport: 'gateway' });
    const key = keyOf('/multigres/zone-a', 'zone-a', 'pod-0');
    const { modRevision } = await gateway.read(key);

    const proxied = await listing(openService(kube), ['zone-a']);

    expect(proxied.poolers).toMatchObject([{ key, modRevision, role: 'replica' }]);
    // Its Cell record names an in-cluster address, which means nothing outside of the cluster.
    expect((await direct.poolers(shard, ['zone-a'])).kind).toBe('unknown');
  });

  test('a record is retired through the service proxy', async () => {
    const key = keyOf('/multigres/zone-a', 'zone-a', 'pod-1');
    await gateway.put(key, poolerBytes('zone-a', 'pod-1'));
    const { modRevision } = await gateway.read(key);
    const topology = openService(kube);

    const first = await topology.retire({ cell: 'zone-a', key }, modRevision);
    const again = await topology.retire({ cell: 'zone-a', key }, modRevision);

    const after = await gateway.read(key);
    expect(first).toEqual({ kind: 'written', resourceVersion: after.modRevision });
    expect(again.kind).toBe('lostRace');
    expect(fromBinary(MultipoolerSchema, after.value).servingStatus).toBe(
      PoolerServingStatus.DISABLED,
    );
  });

  test('a cell behind a Service that does not exist is unknown', async () => {
    const read = await openService(kube).poolers(shard, ['zone-a', 'zone-b']);

    expect(read).toMatchObject({
      kind: 'unknown',
      why: expect.stringMatching(/"zone-b".*service proxy answers 404/),
    });
  });

  test('who may not use the service proxy knows nothing and writes nothing', async () => {
    const connection = connectKube(controlPlane().access('nobody'));
    onTestFinished(() => {
      connection.close();
    });
    const topology = openService(connection);
    const key = keyOf('/multigres/zone-a', 'zone-a', 'pod-0');

    const read = await topology.poolers(shard, ['zone-a']);
    const retiring = topology.retire({ cell: 'zone-a', key }, '1');

    expect(read).toMatchObject({ kind: 'unknown', why: expect.stringContaining('403 Forbidden') });
    await expect(retiring).rejects.toMatchObject({ reason: 'TopologyForbidden' });
  });

  test('etcd’s own users sign in through the service proxy', async () => {
    await gateway.requireUsers('root', 'correct horse');

    const signedIn = await openService(kube, {
      username: 'root',
      password: 'correct horse',
    }).poolers(shard, ['zone-a']);
    const anonymous = await openService(kube).poolers(shard, ['zone-a']);

    expect(signedIn.kind).toBe('present');
    expect(anonymous).toMatchObject({
      kind: 'unknown',
      why: expect.stringContaining('user name is empty'),
    });
  });

  test('a stopped etcd is unknown', async () => {
    await etcd.kill();

    const read = await openService(kube).poolers(shard, ['zone-a']);

    expect(read).toMatchObject({ kind: 'unknown', why: expect.stringContaining('"zone-a"') });
  });
});

/** An address of this machine that the API server accepts as an endpoint: loopback is refused there. */
function ownAddress(): string {
  const address = Object.values(networkInterfaces())
    .flat()
    .find((candidate) => candidate?.family === 'IPv4' && !candidate.internal)?.address;
  return address ?? expect.unreachable('this machine has no IPv4 address besides loopback');
}

/** Hands connections to the address on to a port of loopback. */
async function forward(host: string, port: number): Promise<Server> {
  const server = createServer((incoming) => {
    const outgoing = connectSocket(port, '127.0.0.1');
    incoming.on('error', () => outgoing.destroy()).on('close', () => outgoing.destroy());
    outgoing.on('error', () => incoming.destroy()).on('close', () => incoming.destroy());
    incoming.pipe(outgoing).pipe(incoming);
  });
  server.listen(0, host);
  await once(server, 'listening');
  return server;
}

/**
 * A Service whose one endpoint is the forwarder. The service proxy connects to the address of a pod only, as its status
 * says it, and finds pods by Endpoints: what a kubelet and a controller would write is written here.
 */
async function publish(kube: KubeConnection, host: string, forwarder: Server): Promise<void> {
  const address = forwarder.address();
  const port = typeof address === 'object' ? address?.port : undefined;
  const core = '/api/v1/namespaces/default';
  const metadata = { name: 'topo', namespace: 'default' };
  const requests: KubeRequest[] = [
    {
      method: 'POST',
      path: `${core}/pods`,
      body: { metadata, spec: { containers: [{ name: 'etcd', image: 'etcd' }] } },
    },
    {
      method: 'PATCH',
      path: `${core}/pods/topo/status`,
      contentType: 'application/merge-patch+json',
      body: { status: { phase: 'Running', podIP: host, podIPs: [{ ip: host }] } },
    },
    {
      method: 'POST',
      path: `${core}/services`,
      body: { metadata, spec: { ports: [{ name: 'client', port: 2379 }] } },
    },
    {
      method: 'POST',
      path: `${core}/endpoints`,
      body: {
        metadata,
        subsets: [
          {
            addresses: [{ ip: host, targetRef: { kind: 'Pod', ...metadata } }],
            ports: [{ name: 'client', port }],
          },
        ],
      },
    },
  ];
  for (const request of requests) {
    const { status, body } = await kube.request(request);
    expect({ status, body }).toMatchObject({ status: expect.toSatisfy((code) => code < 300) });
  }
}
