import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { connectAdmin } from '#shared/admin/connect.ts';
import { connectKube } from '#shared/kube/http-connection.ts';
import {
  type Answer,
  type ScriptedServer,
  startScriptedServer,
} from '#test/unit/shared/topology/scripted-server.ts';
import recordedPrimary from './recorded-primary.json' with { type: 'json' };
import recordedReplica from './recorded-replica.json' with { type: 'json' };
import recordedSwitch from './recorded-switch-primary.json' with { type: 'json' };

const primary = { cell: 'zone1', name: 'p-00000001' };
const replica = { cell: 'zone2', name: 'p-00000002' };
const shard = { database: 'postgres', tableGroup: 'default', shard: '0-inf' };
const statusPath = '/api/v1/poolers/zone1/p-00000001/status';
const switchPath = '/api/v1/shards/postgres/default/0-inf/switch-primary';

/** The rule that both recorded poolers know. */
const recordedRule = {
  rule: { term: '1', subterm: '0' },
  leader: primary,
  cohort: [replica, primary, { cell: 'zone3', name: 'p-00000003' }],
  policy: { kind: 'at-least-n', requiredCount: 2 },
};

let server: ScriptedServer;

beforeEach(async () => {
  server = await startScriptedServer();
});

afterEach(async () => {
  await server[Symbol.asyncDispose]();
});

function connect(options: { requestTimeoutMs?: number; switchTimeoutMs?: number } = {}) {
  return connectAdmin({ url: server.url }, { namespace: 'db', ...options });
}

function expectStatus(answer: Answer): void {
  server.expect({ method: 'GET', path: statusPath }, answer);
}

function expectSwitch(answer: Answer): void {
  server.expect(
    { method: 'POST', path: switchPath, body: { reason: 'the leader has to leave' } },
    answer,
  );
}

function switchPrimary(options: { switchTimeoutMs?: number } = {}, signal?: AbortSignal) {
  return connect(options).switchPrimary(shard, 'the leader has to leave', signal);
}

/** The scripted server as an API server. */
function connectService() {
  const kube = connectKube({ server: server.url, credentials: async () => ({ token: 'token' }) });
  return connectAdmin(
    { service: { namespace: 'data', name: 'multiadmin', port: 18_000 } },
    { namespace: 'db', kube },
  );
}

describe('the status of a pooler', () => {
  test('of the recorded primary has its decided rule', async () => {
    expectStatus({ status: 200, body: recordedPrimary });

    const read = await connect().poolerStatus(primary);

    server.verify();
    expect(read).toEqual({
      kind: 'present',
      value: {
        id: primary,
        role: 'primary',
        isReady: true,
        isStreaming: false,
        decision: recordedRule,
        proposal: null,
      },
    });
  });

  test('of the recorded replica says that it streams', async () => {
    server.expect(
      { method: 'GET', path: '/api/v1/poolers/zone2/p-00000002/status' },
      { status: 200, body: recordedReplica },
    );

    const read = await connect().poolerStatus(replica);

    server.verify();
    expect(read).toEqual({
      kind: 'present',
      value: {
        id: replica,
        role: 'replica',
        isReady: true,
        isStreaming: true,
        decision: recordedRule,
        proposal: null,
      },
    });
  });

  test('takes what is left out as zero, and an undecided proposal as one', async () => {
    expectStatus({
      status: 200,
      body: {
        status: { poolerType: 'REPLICA', replicationStatus: { walReceiverStatus: 'stopping' } },
        consensusStatus: {
          currentPosition: {
            position: {
              decision: {},
              proposal: {
                ruleNumber: { coordinatorTerm: '9007199254740993', leaderSubterm: '2' },
                leaderId: { component: 'MULTIPOOLER', cell: 'zone2', name: 'p-00000002' },
                durabilityPolicy: { quorumType: 'QUORUM_TYPE_MULTI_CELL_AT_LEAST_N' },
              },
            },
          },
        },
      },
    });

    const read = await connect().poolerStatus(primary);

    expect(read).toEqual({
      kind: 'present',
      value: {
        id: primary,
        role: 'replica',
        isReady: false,
        isStreaming: false,
        decision: {
          rule: { term: '0', subterm: '0' },
          leader: null,
          cohort: [],
          policy: { kind: 'unknown', requiredCount: 0 },
        },
        proposal: {
          rule: { term: '9007199254740993', subterm: '2' },
          leader: replica,
          cohort: [],
          policy: { kind: 'multi-cell-at-least-n', requiredCount: 0 },
        },
      },
    });
  });

  test('before the first rule has neither decision nor proposal', async () => {
    expectStatus({ status: 200, body: { status: { poolerType: 'UNKNOWN' } } });

    const read = await connect().poolerStatus(primary);

    expect(read).toMatchObject({ value: { role: 'unknown', decision: null, proposal: null } });
  });

  test('of a role or a policy that is not known is unknown in that place', async () => {
    expectStatus({
      status: 200,
      body: {
        status: {
          poolerType: 'WITNESS',
          replicationStatus: { walReceiverStatus: 'streaming' },
          aFieldOfTomorrow: 1,
        },
        consensusStatus: {
          currentPosition: {
            position: { decision: { durabilityPolicy: { quorumType: 'QUORUM_TYPE_OF_TOMORROW' } } },
          },
        },
      },
    });

    const read = await connect().poolerStatus(primary);

    expect(read).toMatchObject({
      kind: 'present',
      value: { role: 'unknown', isStreaming: false, decision: { policy: { kind: 'unknown' } } },
    });
  });

  test('is absent when the service says that it knows no such pooler', async () => {
    expectStatus({
      status: 404,
      body: { code: 5, message: "pooler 'zone1/p-00000001' not found", details: [] },
    });

    const read = await connect().poolerStatus(primary);

    server.verify();
    expect(read).toEqual({ kind: 'absent' });
  });

  test.each<[string, Answer]>([
    ['has no such route', { status: 404, body: '404 page not found' }],
    ['is hidden by somebody else', { status: 404, body: { kind: 'Status', code: 404 } }],
    ['asks for a sign-in', { status: 401 }],
    ['refuses', { status: 403 }],
    ['cannot reach the pooler', { status: 503, body: { code: 14, message: 'unavailable' } }],
    ['fails', { status: 500 }],
    ['leads elsewhere', { status: 307, headers: { location: 'http://127.0.0.1:1/' } }],
    ['answers nothing', { status: 204 }],
    ['answers no JSON', { status: 200, body: '<html>' }],
    ['answers without a status', { status: 200, body: {} }],
    ['answers with a list', { status: 200, body: [] }],
    [
      'answers with a readiness that is text',
      {
        status: 200,
        body: { status: { postgresReady: 'yes' } },
      },
    ],
    [
      'answers with half an id in the cohort',
      {
        status: 200,
        body: {
          status: { poolerType: 'PRIMARY' },
          consensusStatus: {
            currentPosition: { position: { decision: { cohortMembers: [{ cell: 'zone1' }] } } },
          },
        },
      },
    ],
    [
      'answers with a rule that is no number',
      {
        status: 200,
        body: {
          status: { poolerType: 'PRIMARY' },
          consensusStatus: {
            currentPosition: {
              position: { decision: { ruleNumber: { coordinatorTerm: '1e3' } } },
            },
          },
        },
      },
    ],
    ['answers about a pooler of another cell', { status: 200, body: recordedReplica }],
    [
      'answers about another pooler of the cell',
      {
        status: 200,
        body: {
          status: { poolerType: 'REPLICA' },
          consensusStatus: { id: { cell: 'zone1', name: 'p-00000002' } },
        },
      },
    ],
    ['answers without end', { status: 200, body: ' '.repeat(1024 * 1024 + 1) }],
    ['hangs up', 'drop'],
  ])('is unknown when the service %s', async (_, answer) => {
    expectStatus(answer);

    const read = await connect().poolerStatus(primary);

    server.verify();
    expect(read).toMatchObject({
      kind: 'unknown',
      why: expect.stringMatching(/^the status of pooler zone1\/p-00000001: \S/),
    });
  });

  test('is unknown within the timeout when the service hangs', async () => {
    expectStatus('hang');
    const started = performance.now();

    const read = await connect({ requestTimeoutMs: 200 }).poolerStatus(primary);

    expect(read).toMatchObject({
      kind: 'unknown',
      why: expect.stringContaining('within 0.2 s'),
    });
    expect(performance.now() - started).toBeLessThan(1_500);
  });

  test('is unknown at once when it is aborted', async () => {
    expectStatus('hang');
    const controller = new AbortController();
    const reading = connect().poolerStatus(primary, controller.signal);

    controller.abort();

    expect((await reading).kind).toBe('unknown');
  });

  test('says which address is down', async () => {
    const down = await startScriptedServer();
    await down[Symbol.asyncDispose]();

    const read = await connectAdmin({ url: down.url }, { namespace: 'db' }).poolerStatus(primary);

    expect(read).toMatchObject({ kind: 'unknown', why: expect.stringContaining('ECONNREFUSED') });
  });

  test.each([
    { cell: '..', name: 'status' },
    { cell: 'zone1', name: 'a/b' },
    { cell: 'zone1', name: '' },
    { cell: 'zone 1', name: 'p?x=1' },
  ])('is unknown and asked of nobody for the id %o', async (id) => {
    const read = await connect().poolerStatus(id);

    server.verify();
    expect(read.kind).toBe('unknown');
  });

  test.each(['', 'multiadmin:18000', 'ftp://a/', 'http://me:secret@a/', 'http://a/?b'])(
    'is unknown and asked of nobody at the address %j',
    async (url) => {
      const read = await connectAdmin({ url }, { namespace: 'db' }).poolerStatus(primary);

      expect(read).toMatchObject({ kind: 'unknown', why: expect.stringContaining('address') });
      expect(JSON.stringify(read)).not.toContain('secret');
    },
  );

  test('keeps a path that the address has', async () => {
    server.expect(
      { method: 'GET', path: `/behind/a/gateway${statusPath}` },
      { status: 200, body: recordedPrimary },
    );

    const read = await connectAdmin(
      { url: `${server.url}/behind/a/gateway/` },
      { namespace: 'db' },
    ).poolerStatus(primary);

    server.verify();
    expect(read.kind).toBe('present');
  });
});

describe('a switchover', () => {
  test('is asked for once, as it was recorded', async () => {
    expectSwitch({ status: 200, body: recordedSwitch.response });

    const result = await switchPrimary();

    server.verify();
    expect(recordedSwitch).toMatchObject({ path: switchPath });
    expect(Object.keys(recordedSwitch.request)).toEqual(['reason']);
    expect(result).toEqual({ kind: 'sent', detail: 'zone1/p-00000001 was asked to resign' });
  });

  test.each<[string, Answer]>([
    ['no primary is found', { status: 404, body: { code: 5, message: 'no PRIMARY found' } }],
    ['there is no standby', { status: 400, body: { code: 9, message: 'no standby' } }],
    ['a precondition fails', { status: 412 }],
    ['a sign-in is asked for', { status: 401 }],
    ['it leads elsewhere', { status: 307, headers: { location: 'http://127.0.0.1:1/' } }],
  ])('is refused when %s', async (_, answer) => {
    expectSwitch(answer);

    const result = await switchPrimary();

    server.verify();
    expect(result).toMatchObject({ kind: 'refused', why: expect.stringMatching(/answers \d{3}$/) });
  });

  test.each<[string, Answer]>([
    ['the connection ends', 'drop'],
    ['the leader did not answer', { status: 500, body: { code: 13, message: 'Resign failed' } }],
    ['a proxy gave up', { status: 504 }],
    ['the service gave up', { status: 408 }],
    ['the answer is none of the service', { status: 200, body: '<html>' }],
  ])('has an unknown outcome, and is not repeated, when %s', async (_, answer) => {
    expectSwitch(answer);

    const result = await switchPrimary();

    server.verify();
    expect(result.kind).toBe('unknown');
  });

  test('has an unknown outcome after the timeout', async () => {
    expectSwitch('hang');

    const result = await switchPrimary({ switchTimeoutMs: 200 });

    server.verify();
    expect(result).toMatchObject({
      kind: 'unknown',
      why: expect.stringContaining('within 0.2 s'),
    });
  });

  test('is not sent for a shard whose name would lead to another path', async () => {
    const result = await connect().switchPrimary({ ...shard, shard: '../x' }, 'because');

    server.verify();
    expect(result.kind).toBe('refused');
  });
});

describe('behind the API server’s service proxy', () => {
  const proxy = '/api/v1/namespaces/data/services/multiadmin:18000/proxy';

  test('the same requests go through the proxy', async () => {
    const headers = { authorization: 'Bearer token' };
    server.expect(
      { method: 'GET', path: `${proxy}${statusPath}`, headers },
      { status: 200, body: recordedPrimary },
    );
    server.expect(
      { method: 'POST', path: `${proxy}${switchPath}`, body: { reason: 'because' }, headers },
      { status: 200, body: recordedSwitch.response },
    );
    const admin = connectService();

    const read = await admin.poolerStatus(primary);
    const result = await admin.switchPrimary(shard, 'because');

    server.verify();
    expect(read).toMatchObject({ kind: 'present', value: { role: 'primary' } });
    expect(result.kind).toBe('sent');
  });

  test('a Service that does not exist is unknown, not an absent pooler', async () => {
    server.expect(
      { method: 'GET', path: `${proxy}${statusPath}` },
      { status: 404, body: { kind: 'Status', reason: 'NotFound', code: 404 } },
    );

    const read = await connectService().poolerStatus(primary);

    server.verify();
    expect(read).toMatchObject({ kind: 'unknown', why: expect.stringContaining('answers 404') });
  });

  test('the proxy’s own failure leaves the outcome of a switchover unknown', async () => {
    server.expect(
      { method: 'POST', path: `${proxy}${switchPath}`, body: { reason: 'because' } },
      { status: 503, body: { kind: 'Status', reason: 'ServiceUnavailable', code: 503 } },
    );

    const result = await connectService().switchPrimary(shard, 'because');

    expect(result.kind).toBe('unknown');
  });

  test('without an API server nothing can be asked', async () => {
    const admin = connectAdmin(
      { service: { name: 'multiadmin', port: 18_000 } },
      { namespace: 'db' },
    );

    expect((await admin.poolerStatus(primary)).kind).toBe('unknown');
  });
});
