import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { TerminalError } from '#shared/kernel/errors.ts';
import { parseInstant } from '#shared/kernel/instant.ts';
import { connectTopology } from '#shared/topology/connect.ts';
import { rewriteDatabase } from '#shared/topology/database-record.ts';
import type { DatabaseChange, Topology } from '#shared/topology/topology.ts';
import { recordedDatabase } from './recorded-records.ts';
import { type Answer, type ScriptedServer, startScriptedServer } from './scripted-server.ts';

const now = parseInstant('2026-01-01T00:00:00Z') ?? expect.unreachable();
const recorded = Buffer.from(recordedDatabase.value, 'base64');
const place = { type: 'filesystem', path: '/run/mg/run/data/backups' } as const;
const change: DatabaseChange = {
  place: { type: 'filesystem', path: '/elsewhere' },
  mustEncrypt: null,
};
const nothing: DatabaseChange = { place: null, mustEncrypt: null };

let server: ScriptedServer;
let topology: Topology;

beforeEach(async () => {
  server = await startScriptedServer();
  topology = connect('/multigres/global');
});

afterEach(async () => {
  await topology.close();
  await server[Symbol.asyncDispose]();
});

function connect(globalRoot: string): Topology {
  return connectTopology(
    { endpoints: [server.url], globalRoot },
    { namespace: 'db', transport: 'gateway', clock: () => now, requestTimeoutMs: 300 },
  );
}

function encode(value: string | Uint8Array): string {
  return Buffer.from(value).toString('base64');
}

/** The record's key is asked for, and holds this. */
function expectRecord(value: Uint8Array | null, modRevision = '85'): void {
  const key = encode(recordedDatabase.key);
  const kvs = value === null ? [] : [{ key, value: encode(value), mod_revision: modRevision }];
  expectRead({ status: 200, body: { header: { revision: '90' }, kvs } });
}

function expectRead(answer: Answer): void {
  const body = { key: encode(recordedDatabase.key) };
  server.expect({ method: 'POST', path: '/v3/kv/range', body }, answer);
}

function valueAfter(made: DatabaseChange): Uint8Array {
  const result = rewriteDatabase(recorded, 'postgres', made);
  return result.kind === 'rewritten' ? result.value : expect.unreachable();
}

function expectSwap(made: DatabaseChange, answer: Answer): void {
  const key = encode(recordedDatabase.key);
  server.expect(
    {
      method: 'POST',
      path: '/v3/kv/txn',
      body: {
        compare: [{ key, target: 'MOD', result: 'EQUAL', mod_revision: '85' }],
        success: [{ request_put: { key, value: encode(valueAfter(made)) } }],
      },
    },
    answer,
  );
}

const swapped: Answer = { status: 200, body: { header: { revision: '91' }, succeeded: true } };

describe('reading a database', () => {
  test('tells where its backups are, and under which revision', async () => {
    expectRecord(recorded);

    expect(await topology.database('postgres')).toEqual({
      kind: 'present',
      value: { modRevision: '85', place, mustEncrypt: false },
    });
  });

  test('that the data plane has not registered is absent', async () => {
    expectRecord(null);

    expect(await topology.database('postgres')).toEqual({ kind: 'absent' });
  });

  test.each<[string, Answer]>([
    ['refuses', { status: 403, body: { code: 7, message: 'etcdserver: permission denied' } }],
    ['fails', { status: 503 }],
    ['hangs', 'hang'],
    ['breaks off', 'drop'],
  ])('is unknown where the store %s', async (_what, answer) => {
    expectRead(answer);

    expect((await topology.database('postgres')).kind).toBe('unknown');
    server.verify();
  });

  test('whose record cannot be decoded is unknown', async () => {
    expectRecord(Buffer.from('not a record'));

    expect(await topology.database('postgres')).toMatchObject({
      kind: 'unknown',
      why: expect.stringContaining('cannot be decoded'),
    });
  });

  test.each([
    ['a name', '/multigres/global', '../cells/zone1'],
    ['a root', '/multigres//global', 'postgres'],
  ])('by %s that leads elsewhere is unknown, and nothing is asked', async (_what, root, name) => {
    const astray = connect(root);

    expect((await astray.database(name)).kind).toBe('unknown');
    await expect(astray.rewriteDatabase(name, change, '85')).rejects.toMatchObject({
      reason: 'TopologyUnreachable',
    });
    server.verify();
    await astray.close();
  });
});

describe('rewriting a database', () => {
  test('writes under its mod revision', async () => {
    expectRecord(recorded);
    expectSwap(change, swapped);

    const result = await topology.rewriteDatabase('postgres', change, '85');

    server.verify();
    expect(result).toEqual({ kind: 'written', resourceVersion: '91' });
  });

  test('writes also where nothing of it changes, so that the revision moves', async () => {
    expectRecord(recorded);
    expectSwap(nothing, swapped);

    const result = await topology.rewriteDatabase('postgres', nothing, '85');

    server.verify();
    expect(result).toEqual({ kind: 'written', resourceVersion: '91' });
  });

  test.each([
    ['moved on', recorded, '86'],
    ['gone', null, ''],
  ] as const)('writes nothing when the record is %s', async (_what, value, modRevision) => {
    expectRecord(value, modRevision);

    const result = await topology.rewriteDatabase('postgres', change, '85');

    server.verify();
    expect(result.kind).toBe('lostRace');
  });

  test('whose answer is lost was written where the record is ours under another revision', async () => {
    expectRecord(recorded);
    expectSwap(nothing, 'drop');
    expectRecord(valueAfter(nothing), '91');

    const result = await topology.rewriteDatabase('postgres', nothing, '85');

    expect(result).toEqual({ kind: 'written', resourceVersion: '91' });
  });

  test('whose answer is lost was not written where the revision has not moved, whatever it holds', async () => {
    expectRecord(recorded);
    expectSwap(nothing, 'drop');
    expectRecord(valueAfter(nothing), '85');

    const rewriting = topology.rewriteDatabase('postgres', nothing, '85');

    await expect(rewriting).rejects.toMatchObject({ reason: 'TopologyUnreachable' });
  });

  test('refuses a record that it cannot decode', async () => {
    expectRecord(Buffer.from('not a record'));

    const rewriting = topology.rewriteDatabase('postgres', change, '85');

    await expect(rewriting).rejects.toBeInstanceOf(TerminalError);
    server.verify();
  });
});
