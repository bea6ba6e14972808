import { create, toBinary } from '@bufbuild/protobuf';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { RetryableError, TerminalError } from '#shared/kernel/errors.ts';
import { parseInstant } from '#shared/kernel/instant.ts';
import { connectKube } from '#shared/kube/http-connection.ts';
import type { TopologyAccess, TopologySpec } from '#shared/topology/access.ts';
import { connectTopology } from '#shared/topology/connect.ts';
import { retirePooler } from '#shared/topology/pooler-record.ts';
import { CellSchema } from '#shared/topology/proto/clustermetadata_pb.ts';
import type { Topology } from '#shared/topology/topology.ts';
import { recordedPoolers } from './recorded-records.ts';
import { type Answer, type ScriptedServer, startScriptedServer } from './scripted-server.ts';

const now = parseInstant('2026-01-01T00:00:00Z') ?? expect.unreachable();
const shard = { database: 'postgres', tableGroup: 'default', shard: '0-inf' };
const globalRoot = '/multigres/global';
const pooler = { cell: 'zone1', key: recordedPoolers.killed.key };
const killed = Buffer.from(recordedPoolers.killed.value, 'base64');

let server: ScriptedServer;
const opened: Topology[] = [];

beforeEach(async () => {
  server = await startScriptedServer();
});

afterEach(async () => {
  await Promise.all(opened.splice(0).map((topology) => topology.close()));
  await server[Symbol.asyncDispose]();
});

function connect(spec: Partial<TopologySpec> = {}, access: Partial<TopologyAccess> = {}): Topology {
  const topology = connectTopology(
    { endpoints: [server.url], globalRoot, ...spec },
    { namespace: 'db', transport: 'gateway', clock: () => now, ...access },
  );
  opened.push(topology);
  return topology;
}

function encode(text: string | Uint8Array): string {
  return Buffer.from(text).toString('base64');
}

interface Entry {
  readonly key: string;
  readonly value: Uint8Array | string;
  readonly modRevision?: string;
}

/** A gateway's answer to a range: int64 as strings, zero fields left out. */
function rangeAnswer(entries: readonly Entry[], more = false): Answer {
  return {
    status: 200,
    body: {
      header: { revision: '90', raft_term: '2' },
      ...(entries.length === 0 ? {} : { count: String(entries.length) }),
      ...(more ? { more } : {}),
      kvs: entries.map(({ key, value, modRevision = '85' }) => ({
        key: encode(key),
        value: typeof value === 'string' ? value : encode(value),
        mod_revision: modRevision,
        create_revision: '12',
        version: '3',
      })),
    },
  };
}

function expectRange(body: object, answer: Answer, prefix = ''): void {
  server.expect({ method: 'POST', path: `${prefix}/v3/kv/range`, body }, answer);
}

function expectKey(key: string, answer: Answer, prefix = ''): void {
  expectRange({ key: encode(key) }, answer, prefix);
}

function expectCell(
  name: string,
  record: { name?: string; root?: string; addresses?: readonly string[] } = {},
  prefix = '',
): void {
  const value = toBinary(
    CellSchema,
    create(CellSchema, {
      name: record.name ?? name,
      root: record.root ?? `/multigres/${name}`,
      serverAddresses: [...(record.addresses ?? [server.url.replace('http://', '')])],
    }),
  );
  const key = `${globalRoot}/cells/${name}/Cell`;
  expectKey(key, rangeAnswer([{ key, value }]), prefix);
}

function listBody(root: string) {
  return { key: encode(`${root}/poolers/`), range_end: encode(`${root}/poolers0`), limit: '1000' };
}

function expectList(root: string, answer: Answer, prefix = ''): void {
  expectRange(listBody(root), answer, prefix);
}

function moved(recorded: { key: string; value: string }, root: string, cell: string): Entry {
  return { key: recorded.key.replace(`/multigres/${cell}`, root), value: recorded.value };
}

function expectSignIn(answer: Answer): void {
  server.expect(
    {
      method: 'POST',
      path: '/v3/auth/authenticate',
      body: { name: 'millrace', password: 'secret' },
    },
    answer,
  );
}

/** The scripted server as an API server. */
function connectService(access: Partial<TopologyAccess> = {}): Topology {
  const kube = connectKube({
    server: server.url,
    credentials: async () => ({ token: 'kube-token' }),
  });
  return connect(
    { endpoints: undefined, service: { name: 'topo', port: 2379 } },
    { kube, ...access },
  );
}

describe('listing the poolers of a shard', () => {
  test('reads each cell from where its record says, in the order of the keys', async () => {
    expectCell('zone2');
    expectCell('zone1');
    expectList('/multigres/zone2', rangeAnswer([recordedPoolers.replica]));
    expectList('/multigres/zone1', rangeAnswer([recordedPoolers.primary]));

    const read = await connect().poolers(shard, ['zone2', 'zone1']);

    server.verify();
    expect(read).toMatchObject({
      kind: 'present',
      value: {
        poolers: [
          {
            key: recordedPoolers.primary.key,
            storeCell: 'zone1',
            modRevision: '85',
            role: 'primary',
          },
          { key: recordedPoolers.replica.key, storeCell: 'zone2', role: 'replica' },
        ],
        undecodable: [],
      },
    });
  });

  test('lists a root that cells share once, and keeps only the cells asked for', async () => {
    expectCell('zone1', { root: '/multigres/all' });
    expectCell('zone2', { root: '/multigres/all' });
    expectList(
      '/multigres/all',
      rangeAnswer([
        moved(recordedPoolers.primary, '/multigres/all', 'zone1'),
        moved(recordedPoolers.replica, '/multigres/all', 'zone2'),
        moved(recordedPoolers.stopped, '/multigres/all', 'zone3'),
      ]),
    );

    const read = await connect().poolers(shard, ['zone1', 'zone2']);

    server.verify();
    expect(read).toMatchObject({
      kind: 'present',
      value: { poolers: [{ storeCell: 'zone1' }, { storeCell: 'zone2' }] },
    });
  });

  test('leaves out records of other shards and keys that are no records', async () => {
    expectCell('zone1');
    expectList(
      '/multigres/zone1',
      rangeAnswer([
        recordedPoolers.primary,
        { key: '/multigres/zone1/poolers/multipooler-zone1-p-00000001/locks/77', value: 'AA==' },
        { key: '/multigres/zone1/poolers-of-before/x/Pooler', value: 'AA==' },
      ]),
    );

    const read = await connect().poolers({ ...shard, shard: '80-inf' }, ['zone1']);

    expect(read).toEqual({ kind: 'present', value: { poolers: [], undecodable: [] } });
  });

  test('reports what cannot be decoded beside the rest', async () => {
    const damaged = '/multigres/zone1/poolers/multipooler-zone1-p-9/Pooler';
    const renamed = '/multigres/zone1/poolers/multipooler-zone1-p-8/Pooler';
    expectCell('zone1');
    expectList(
      '/multigres/zone1',
      rangeAnswer([
        recordedPoolers.primary,
        { key: renamed, value: recordedPoolers.killed.value },
        { key: damaged, value: Buffer.from('no record') },
      ]),
    );

    const read = await connect().poolers(shard, ['zone1']);

    expect(read).toMatchObject({
      kind: 'present',
      value: {
        poolers: [{ id: { name: 'p-00000001' } }],
        undecodable: [
          { key: renamed, why: 'its id is not the one its key names' },
          { key: damaged, why: expect.any(String) },
        ],
      },
    });
  });

  test('reads further pages at the revision of the first', async () => {
    const body = listBody('/multigres/zone1');
    expectCell('zone1');
    expectRange(body, rangeAnswer([recordedPoolers.primary], true));
    expectRange(
      { ...body, key: encode(`${recordedPoolers.primary.key}\0`), revision: '90' },
      rangeAnswer([{ ...recordedPoolers.replica, key: `${recordedPoolers.primary.key}-2/Pooler` }]),
    );

    const read = await connect().poolers(shard, ['zone1']);

    server.verify();
    expect(read).toMatchObject({
      kind: 'present',
      value: { poolers: [{ role: 'primary' }], undecodable: [] },
    });
  });

  test('is unknown when a later page fails', async () => {
    const body = listBody('/multigres/zone1');
    expectCell('zone1');
    expectRange(body, rangeAnswer([recordedPoolers.primary], true));
    expectRange(
      { ...body, key: encode(`${recordedPoolers.primary.key}\0`), revision: '90' },
      {
        status: 400,
        body: { code: 11, message: 'etcdserver: mvcc: required revision has been compacted' },
      },
    );

    const read = await connect().poolers(shard, ['zone1']);

    expect(read).toMatchObject({
      kind: 'unknown',
      why: expect.stringMatching(/"zone1".*required revision has been compacted/),
    });
  });

  test('is unknown when one cell of two cannot be read, and names it', async () => {
    expectCell('zone1');
    expectCell('zone2');
    expectList('/multigres/zone1', rangeAnswer([recordedPoolers.primary]));
    expectList('/multigres/zone2', { status: 503 });

    const read = await connect().poolers(shard, ['zone1', 'zone2']);

    expect(read).toMatchObject({
      kind: 'unknown',
      why: expect.stringMatching(/^the records of cell "zone2" cannot be read: .* answers 503$/),
    });
  });

  test('is unknown when a cell has no record', async () => {
    expectKey(`${globalRoot}/cells/zone9/Cell`, rangeAnswer([]));

    const read = await connect().poolers(shard, ['zone9']);

    expect(read).toMatchObject({ kind: 'unknown', why: expect.stringContaining('"zone9"') });
  });

  test.each([
    ['is another cell’s', { name: 'zone2' }, 'has another name'],
    ['names no root', { root: '' }, 'names no root'],
    ['names no address', { addresses: [] }, 'no address is given'],
    ['names an address that is none', { addresses: ['topo:2379/../x'] }, 'not a host and a port'],
    ['asks for another scheme', { addresses: ['https://topo:2379'] }, 'is not http'],
  ])('is unknown when the record of a cell %s', async (_, record, why) => {
    expectCell('zone1', record);

    const read = await connect().poolers(shard, ['zone1']);

    server.verify();
    expect(read).toMatchObject({ kind: 'unknown', why: expect.stringContaining(why) });
  });

  test.each([
    ['no cell', []],
    ['a cell that is a path', ['../../x']],
    ['a cell without a name', ['']],
  ])('is unknown and asks nobody when it is given %s', async (_, cells) => {
    const read = await connect().poolers(shard, cells);

    server.verify();
    expect(read.kind).toBe('unknown');
  });

  test.each<[string, Answer, RegExp]>([
    ['asks for a sign-in', { status: 401, body: { code: 16 } }, /answers 401$/],
    [
      'refuses the user',
      { status: 403, body: { code: 7, message: 'etcdserver: permission denied' } },
      /answers 403 etcdserver: permission denied \(grant the role/,
    ],
    ['leads elsewhere', { status: 302, headers: { location: 'http://127.0.0.1:1/' } }, /302$/],
    ['says something else', { status: 500, body: { message: 'secret' } }, /answers 500$/],
    ['is no gateway', { status: 200, body: '<html>' }, /not that of etcd's gateway$/],
    ['has no revision', { status: 200, body: {} }, /not that of etcd's gateway$/],
    ['hangs up', 'drop', /etcd at 127\.0\.0\.1:\d+: /],
  ])('is unknown when the store %s', async (_, answer, why) => {
    expectKey(`${globalRoot}/cells/zone1/Cell`, answer);

    const read = await connect().poolers(shard, ['zone1']);

    server.verify();
    expect(read).toMatchObject({ kind: 'unknown', why: expect.stringMatching(why) });
  });

  test('is unknown within the timeout when the store hangs', async () => {
    expectCell('zone1');
    expectList('/multigres/zone1', 'hang');
    const started = performance.now();

    const read = await connect({}, { requestTimeoutMs: 200 }).poolers(shard, ['zone1']);

    expect(read).toMatchObject({ kind: 'unknown', why: expect.stringContaining('no answer') });
    expect(performance.now() - started).toBeLessThan(1_500);
  });

  test('ends at once when it is aborted', async () => {
    expectKey(`${globalRoot}/cells/zone1/Cell`, 'hang');
    const controller = new AbortController();
    const reading = connect().poolers(shard, ['zone1'], controller.signal);

    controller.abort();

    expect((await reading).kind).toBe('unknown');
  });

  test('is unknown once the topology is closed', async () => {
    const topology = connect();
    await topology.close();
    await topology.close();

    const read = await topology.poolers(shard, ['zone1']);

    server.verify();
    expect(read).toMatchObject({ kind: 'unknown', why: expect.stringContaining('closed') });
  });

  test('goes to another member when one is down', async () => {
    const down = await startScriptedServer();
    await down[Symbol.asyncDispose]();
    expectCell('zone1', {
      addresses: [down.url, server.url].map((url) => url.replace('http://', '')),
    });
    expectList('/multigres/zone1', rangeAnswer([recordedPoolers.primary]));

    const read = await connect({ endpoints: [down.url, server.url] }).poolers(shard, ['zone1']);

    server.verify();
    expect(read).toMatchObject({ kind: 'present', value: { poolers: [{ role: 'primary' }] } });
  });

  test('leaves time for the other member when one hangs', async () => {
    await using hanging = await startScriptedServer();
    const key = `${globalRoot}/cells/zone1/Cell`;
    hanging.expect({ method: 'POST', path: '/v3/kv/range', body: { key: encode(key) } }, 'hang');
    expectCell('zone1', { addresses: [server.url.replace('http://', '')] });
    expectList('/multigres/zone1', rangeAnswer([]));

    const read = await connect(
      { endpoints: [hanging.url, server.url] },
      { requestTimeoutMs: 1_000 },
    ).poolers(shard, ['zone1']);

    hanging.verify();
    expect(read.kind).toBe('present');
  });

  test.each([
    ['no endpoint', [], 'no address is given'],
    ['an endpoint without a scheme', ['topo:2379'], 'does not begin with http'],
    ['both schemes', ['http://a:1', 'https://b:1'], 'mix http and https'],
    ['a user in the endpoint', ['http://me:secret@a:1'], 'not a host and a port'],
  ])('is unknown when the configuration has %s', async (_, endpoints, why) => {
    const read = await connect({ endpoints }).poolers(shard, ['zone1']);

    expect(read).toMatchObject({ kind: 'unknown', why: expect.stringContaining(why) });
  });

  test('over gRPC is unknown when nobody listens', async () => {
    const down = await startScriptedServer();
    await down[Symbol.asyncDispose]();

    const read = await connect(
      { endpoints: [down.url] },
      { transport: 'grpc', requestTimeoutMs: 1_000 },
    ).poolers(shard, ['zone1']);

    expect(read).toMatchObject({ kind: 'unknown', why: expect.stringContaining('"zone1"') });
  });
});

describe('a store with users', () => {
  const credentials = { username: 'millrace', password: 'secret' };
  const key = `${globalRoot}/cells/zone1/Cell`;
  const body = { key: encode(key) };

  function expectSignedIn(token: string, answer: Answer): void {
    server.expect(
      {
        method: 'POST',
        path: '/v3/kv/range',
        body,
        headers: { 'grpc-metadata-token': token },
      },
      answer,
    );
  }

  test('is asked with one token until it refuses that, then with a new one', async () => {
    const topology = connect({}, { credentials });
    expectSignIn({ status: 200, body: { header: {}, token: 'first' } });
    expectSignedIn('first', rangeAnswer([]));
    await topology.poolers(shard, ['zone1']);
    expectSignedIn('first', rangeAnswer([]));
    await topology.poolers(shard, ['zone1']);
    expectSignedIn('first', {
      status: 401,
      body: { code: 16, message: 'etcdserver: invalid auth token' },
    });
    expectSignIn({ status: 200, body: { header: {}, token: 'second' } });
    expectSignedIn('second', rangeAnswer([]));

    const read = await topology.poolers(shard, ['zone1']);

    server.verify();
    expect(read).toMatchObject({ why: expect.stringContaining('no Cell record') });
  });

  test('that refuses the password is unknown, and the password stays out of the reason', async () => {
    expectSignIn({
      status: 400,
      body: {
        code: 3,
        message: 'etcdserver: authentication failed, invalid user ID or password',
      },
    });

    const read = await connect({}, { credentials }).poolers(shard, ['zone1']);

    server.verify();
    expect(read).toMatchObject({
      kind: 'unknown',
      why: expect.stringContaining('authentication failed'),
    });
    expect(JSON.stringify(read)).not.toContain('secret');
  });
});

describe('retiring a pooler', () => {
  const next = retirePooler(killed, now);
  const value = next.kind === 'retired' ? next.value : expect.unreachable();

  function expectRecord(entry: Partial<Entry> | undefined): void {
    expectCell('zone1');
    expectKey(
      pooler.key,
      rangeAnswer(entry === undefined ? [] : [{ key: pooler.key, value: killed, ...entry }]),
    );
  }

  function expectSwap(answer: Answer): void {
    server.expect(
      {
        method: 'POST',
        path: '/v3/kv/txn',
        body: {
          compare: [
            { key: encode(pooler.key), target: 'MOD', result: 'EQUAL', mod_revision: '85' },
          ],
          success: [{ request_put: { key: encode(pooler.key), value: encode(value) } }],
        },
      },
      answer,
    );
  }

  /** What the key holds after the answer to the swap was lost, or was a refusal. */
  function expectLook(entry: Partial<Entry> | undefined): void {
    expectKey(
      pooler.key,
      rangeAnswer(entry === undefined ? [] : [{ key: pooler.key, value: killed, ...entry }]),
    );
  }

  const swapped: Answer = {
    status: 200,
    body: { header: { revision: '91' }, succeeded: true, responses: [{ response_put: {} }] },
  };

  test('writes the rewritten record under its mod revision', async () => {
    expectRecord({});
    expectSwap(swapped);

    const result = await connect().retire(pooler, '85');

    server.verify();
    expect(result).toEqual({ kind: 'written', resourceVersion: '91' });
  });

  test.each([
    ['moved on', { modRevision: '86' }],
    ['gone', undefined],
  ])('writes nothing when the record is %s', async (_, entry) => {
    expectRecord(entry);

    const result = await connect().retire(pooler, '85');

    server.verify();
    expect(result.kind).toBe('lostRace');
  });

  test('writes nothing when the record is retired already', async () => {
    expectRecord({ value: recordedPoolers.stopped.value });

    const result = await connect().retire(pooler, '85');

    server.verify();
    expect(result).toEqual({ kind: 'written', resourceVersion: '85' });
  });

  test('is a lost race when the record moves between the read and the write', async () => {
    expectRecord({});
    expectSwap({ status: 200, body: { header: { revision: '91' } } });
    expectLook({ modRevision: '91' });

    const result = await connect().retire(pooler, '85');

    server.verify();
    expect(result.kind).toBe('lostRace');
  });

  test.each<[string, Answer]>([
    ['is lost', 'drop'],
    ['is a server error', { status: 500 }],
    ['is none of etcd', { status: 200, body: 'ok' }],
  ])('is written when its answer %s but the record is ours', async (_, answer) => {
    expectRecord({});
    expectSwap(answer);
    expectLook({ value, modRevision: '91' });

    const result = await connect().retire(pooler, '85');

    server.verify();
    expect(result).toEqual({ kind: 'written', resourceVersion: '91' });
  });

  test('is to be tried again when its answer is lost and the record did not move', async () => {
    expectRecord({});
    expectSwap('drop');
    expectLook({});

    const retiring = connect().retire(pooler, '85');

    await expect(retiring).rejects.toBeInstanceOf(RetryableError);
    server.verify();
  });

  test('is a lost race when its answer is lost and the record is somebody else’s', async () => {
    expectRecord({});
    expectSwap('drop');
    expectLook({ modRevision: '92' });

    const result = await connect().retire(pooler, '85');

    server.verify();
    expect(result.kind).toBe('lostRace');
  });

  test('has an unknown outcome when its answer is lost and nobody can look', async () => {
    expectRecord({});
    expectSwap('drop');
    expectKey(pooler.key, 'drop');

    const retiring = connect().retire(pooler, '85');

    await expect(retiring).rejects.toMatchObject({ reason: 'TopologyOutcomeUnknown' });
    server.verify();
  });

  test('comes back slowly when the store refuses the user', async () => {
    expectRecord({});
    expectSwap({ status: 403, body: { code: 7, message: 'etcdserver: permission denied' } });

    const retiring = connect().retire(pooler, '85');

    await expect(retiring).rejects.toMatchObject({
      reason: 'TopologyForbidden',
      afterSeconds: 300,
    });
    server.verify();
  });

  test('is to be tried again when the store cannot be read', async () => {
    expectKey(`${globalRoot}/cells/zone1/Cell`, { status: 503 });

    const retiring = connect().retire(pooler, '85');

    await expect(retiring).rejects.toMatchObject({ reason: 'TopologyUnreachable' });
  });

  test('refuses a record that it cannot decode', async () => {
    expectRecord({ value: Buffer.from('no record') });

    const retiring = connect().retire(pooler, '85');

    await expect(retiring).rejects.toBeInstanceOf(TerminalError);
    server.verify();
  });

  test.each([
    '/multigres/global/databases/postgres/Database',
    '/multigres/zone1/poolers/a/b/Pooler',
    '/multigres/zone2/poolers/multipooler-zone2-p-00000002/Pooler',
  ])('refuses the key %s', async (key) => {
    expectCell('zone1');

    const retiring = connect().retire({ cell: 'zone1', key }, '85');

    await expect(retiring).rejects.toMatchObject({ reason: 'PoolerKeyInvalid' });
    server.verify();
  });
});

describe('removing a pooler', () => {
  const stopped = recordedPoolers.stopped;
  const dead = { cell: 'zone3', key: stopped.key };

  function expectRecord(entry: Partial<Entry> | undefined): void {
    expectCell('zone3');
    expectLook(entry);
  }

  function expectLook(entry: Partial<Entry> | undefined): void {
    expectKey(dead.key, rangeAnswer(entry === undefined ? [] : [{ ...stopped, ...entry }]));
  }

  function expectDelete(answer: Answer): void {
    const key = encode(dead.key);
    server.expect(
      {
        method: 'POST',
        path: '/v3/kv/txn',
        body: {
          compare: [{ key, target: 'MOD', result: 'EQUAL', mod_revision: '85' }],
          success: [{ request_delete_range: { key } }],
        },
      },
      answer,
    );
  }

  test('deletes the record under its mod revision', async () => {
    expectRecord({});
    expectDelete({ status: 200, body: { header: { revision: '91' }, succeeded: true } });

    const result = await connect().remove(dead, '85');

    server.verify();
    expect(result).toEqual({ kind: 'written', resourceVersion: '91' });
  });

  test('is done when the record is gone already', async () => {
    expectRecord(undefined);

    const result = await connect().remove(dead, '85');

    server.verify();
    expect(result).toEqual({ kind: 'written', resourceVersion: '' });
  });

  test('deletes nothing when the record moved on', async () => {
    expectRecord({ modRevision: '86' });

    const result = await connect().remove(dead, '85');

    server.verify();
    expect(result.kind).toBe('lostRace');
  });

  test.each<[string, string | Uint8Array, string]>([
    ['that does not say that its pooler stopped', killed, 'PoolerRecordLive'],
    ['that it cannot decode', Buffer.from('no record'), 'PoolerRecordUndecodable'],
  ])('refuses a record %s', async (_, value, reason) => {
    expectRecord({ value });

    const removing = connect().remove(dead, '85');

    await expect(removing).rejects.toMatchObject({ reason });
    server.verify();
  });

  test('is a lost race when the record moves between the read and the delete', async () => {
    expectRecord({});
    expectDelete({ status: 200, body: { header: { revision: '91' } } });
    expectLook({ modRevision: '91' });

    const result = await connect().remove(dead, '85');

    server.verify();
    expect(result.kind).toBe('lostRace');
  });

  test.each<[string, Answer]>([
    ['is lost', 'drop'],
    ['says that the record moved', { status: 200, body: { header: { revision: '91' } } }],
  ])('is done when its answer %s and the record is gone', async (_, answer) => {
    expectRecord({});
    expectDelete(answer);
    expectLook(undefined);

    const result = await connect().remove(dead, '85');

    server.verify();
    expect(result).toEqual({ kind: 'written', resourceVersion: '' });
  });

  test('is to be tried again when its answer is lost and the record did not move', async () => {
    expectRecord({});
    expectDelete('drop');
    expectLook({});

    const removing = connect().remove(dead, '85');

    await expect(removing).rejects.toMatchObject({ reason: 'TopologyUnreachable' });
    server.verify();
  });

  test('refuses the key of something else', async () => {
    expectCell('zone3');
    const key = '/multigres/global/databases/postgres/default/0-inf/ShardInitClaim';

    const removing = connect().remove({ cell: 'zone3', key }, '85');

    await expect(removing).rejects.toMatchObject({ reason: 'PoolerKeyInvalid' });
    server.verify();
  });
});

describe('behind the API server’s service proxy', () => {
  const proxy = '/api/v1/namespaces/db/services/topo:2379/proxy';

  test('a cell’s in-cluster address leads to the proxy of its Service', async () => {
    const own = '/api/v1/namespaces/other/services/zone2-topo:2379/proxy';
    expectCell('zone1', { addresses: ['topo:2379'] }, proxy);
    expectCell('zone2', { addresses: ['zone2-topo.other.svc.cluster.local:2379'] }, proxy);
    expectList('/multigres/zone1', rangeAnswer([recordedPoolers.primary]), proxy);
    expectList('/multigres/zone2', rangeAnswer([recordedPoolers.replica]), own);

    const read = await connectService().poolers(shard, ['zone1', 'zone2']);

    server.verify();
    expect(read).toMatchObject({ kind: 'present', value: { poolers: [{}, {}] } });
  });

  test('etcd’s token goes beside the API server’s own', async () => {
    server.expect(
      {
        method: 'POST',
        path: `${proxy}/v3/auth/authenticate`,
        body: { name: 'millrace', password: 'secret' },
        headers: { authorization: 'Bearer kube-token' },
      },
      { status: 200, body: { token: 'etcd-token' } },
    );
    server.expect(
      {
        method: 'POST',
        path: `${proxy}/v3/kv/range`,
        body: { key: encode(`${globalRoot}/cells/zone1/Cell`) },
        headers: { authorization: 'Bearer kube-token', 'grpc-metadata-token': 'etcd-token' },
      },
      rangeAnswer([]),
    );

    await connectService({
      credentials: { username: 'millrace', password: 'secret' },
    }).poolers(shard, ['zone1']);

    server.verify();
  });

  test('a certificate authority makes the API server encrypt towards the Service', async () => {
    expectKey(
      `${globalRoot}/cells/zone1/Cell`,
      rangeAnswer([]),
      '/api/v1/namespaces/db/services/https:topo:2379/proxy',
    );

    await connectService({ credentials: { ca: 'PEM' } }).poolers(shard, ['zone1']);

    server.verify();
  });

  test.each([
    ['an address', '10.0.0.7:2379'],
    ['a name outside the cluster', 'topo.example.com:2379'],
  ])('a cell at %s is unknown', async (_, address) => {
    expectCell('zone1', { addresses: [address] }, proxy);

    const read = await connectService().poolers(shard, ['zone1']);

    server.verify();
    expect(read).toMatchObject({ kind: 'unknown', why: expect.stringContaining(address) });
  });

  test.each([
    [403, 'Forbidden'],
    [404, 'NotFound'],
    [503, 'ServiceUnavailable'],
  ])('a %i of the API server itself is unknown', async (status, reason) => {
    expectKey(
      `${globalRoot}/cells/zone1/Cell`,
      { status, body: { kind: 'Status', status: 'Failure', reason, code: status } },
      proxy,
    );

    const read = await connectService().poolers(shard, ['zone1']);

    expect(read).toMatchObject({
      kind: 'unknown',
      why: expect.stringContaining(`service proxy answers ${status} ${reason}`),
    });
  });

  test('a client certificate is refused, since the proxy would not present it', async () => {
    const topology = connectService({ credentials: { certificate: 'PEM', key: 'PEM' } });

    const read = await topology.poolers(shard, ['zone1']);

    server.verify();
    expect(read).toMatchObject({ kind: 'unknown', why: expect.stringContaining('certificate') });
  });

  test('nothing is asked without an API server, or with a name that is none', async () => {
    const without = connectService({ kube: undefined });
    const invalid = connect({
      endpoints: undefined,
      service: { namespace: 'db/../x', name: 'topo', port: 2379 },
    });

    expect((await without.poolers(shard, ['zone1'])).kind).toBe('unknown');
    expect((await invalid.poolers(shard, ['zone1'])).kind).toBe('unknown');
    server.verify();
  });
});

describe('the lease of the backups', () => {
  const key = '/multigres/global/backups/postgres/default/0-inf/lock';
  const held = (value: string) => rangeAnswer([{ key, value: encode(value) }]);

  test('is absent while its key is, under the root that the database names', async () => {
    expectKey('/own/root/backups/postgres/default/0-inf/lock', rangeAnswer([]));

    const read = await connect({ globalRoot: '/own/root/' }).backupLease(shard);

    server.verify();
    expect(read).toEqual({ kind: 'absent' });
  });

  test.each([
    ['tells what its holder does', '{"Action": "backup by p-00000001"}', 'backup by p-00000001'],
    ['is held whatever it says', 'no JSON', ''],
    ['is held with nothing in it', '', ''],
    ['keeps little of what it says', `{"Action": "${'x'.repeat(100)}"}`, 'x'.repeat(80)],
  ])('%s', async (_, value, holder) => {
    expectKey(key, held(value));

    expect(await connect().backupLease(shard)).toEqual({ kind: 'present', value: { holder } });
  });

  test.each<[string, Answer]>([
    ['etcd fails', { status: 503, body: {} }],
    ['etcd refuses', { status: 403, body: {} }],
    ['the connection ends', 'drop'],
  ])('is unknown, never absent, when %s', async (_, answer) => {
    expectKey(key, answer);

    expect((await connect().backupLease(shard)).kind).toBe('unknown');
  });

  test('of a shard whose name would lead to another key is not asked for', async () => {
    expect((await connect().backupLease({ ...shard, shard: '0/../lock' })).kind).toBe('unknown');
    server.verify();
  });
});
