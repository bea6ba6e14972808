import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { connectAdmin } from '#shared/admin/connect.ts';
import {
  type Answer,
  type ScriptedServer,
  startScriptedServer,
} from '#test/unit/shared/topology/scripted-server.ts';
import recordedBackups from './recorded-backups.json' with { type: 'json' };

const shard = { database: 'postgres', tableGroup: 'default', shard: '0-inf' };
const query = 'database=postgres&tableGroup=default&shard=0-inf';
const job = '20261121-105654.409539_multipooler-zone2-p-00000002';
const jobPath = `/api/v1/jobs/${job}?${query}`;
const listPath = `/api/v1/backups?${query}`;

let server: ScriptedServer;

beforeEach(async () => {
  server = await startScriptedServer();
});

afterEach(async () => {
  await server[Symbol.asyncDispose]();
});

function connect(requestTimeoutMs?: number) {
  return connectAdmin(
    { url: server.url },
    { namespace: 'db', ...(requestTimeoutMs === undefined ? {} : { requestTimeoutMs }) },
  );
}

function jobBody(change: object) {
  return {
    status: 200,
    body: {
      jobId: job,
      jobType: 'JOB_TYPE_BACKUP',
      status: 'JOB_STATUS_RUNNING',
      ...shard,
      ...change,
    },
  };
}

describe('the job of a backup', () => {
  test.each([
    ['JOB_STATUS_PENDING', 'pending'],
    ['JOB_STATUS_RUNNING', 'running'],
    ['JOB_STATUS_COMPLETED', 'completed'],
    ['JOB_STATUS_FAILED', 'failed'],
    ['JOB_STATUS_PAUSED', 'unknown'],
  ])('is told: %s', async (status, meaning) => {
    server.expect({ method: 'GET', path: jobPath }, jobBody({ status }));

    expect(await connect().backupJob(shard, job)).toEqual({
      kind: 'present',
      value: { status: meaning, backup: null, why: null },
    });
    server.verify();
  });

  test('names its backup, or why it failed, cut short', async () => {
    server.expect({ method: 'GET', path: jobPath }, jobBody({ backupId: '20261121-105654F' }));
    server.expect({ method: 'GET', path: jobPath }, jobBody({ errorMessage: 'x'.repeat(300) }));

    expect(await connect().backupJob(shard, job)).toMatchObject({
      value: { backup: '20261121-105654F' },
    });
    expect(await connect().backupJob(shard, job)).toMatchObject({
      value: { why: 'x'.repeat(200) },
    });
  });

  test('is absent only where the service itself says so', async () => {
    server.expect({ method: 'GET', path: jobPath }, { status: 404, body: { code: 5 } });
    server.expect({ method: 'GET', path: jobPath }, { status: 404, body: 'no such Service' });

    expect((await connect().backupJob(shard, job)).kind).toBe('absent');
    expect((await connect().backupJob(shard, job)).kind).toBe('unknown');
  });

  test.each<[string, Answer]>([
    ['it is about another job', jobBody({ jobId: 'other' })],
    ['it fails', { status: 500 }],
    ['it is none of the service', { status: 200, body: '<html>' }],
    ['it does not come', 'hang'],
    ['the connection ends', 'drop'],
  ])('is unknown where the answer is no answer: %s', async (_, answer) => {
    server.expect({ method: 'GET', path: jobPath }, answer);

    expect((await connect(200).backupJob(shard, job)).kind).toBe('unknown');
  });

  test('whose id would lead to another path is not asked for', async () => {
    expect((await connect().backupJob(shard, '../x')).kind).toBe('unknown');
    server.verify();
  });
});

describe('the list of backups', () => {
  test('of the recorded repository is read as it is, without a limit', async () => {
    server.expect({ method: 'GET', path: listPath }, { status: 200, body: recordedBackups });

    const read = await connect().backups(shard);

    server.verify();
    expect(read).toMatchObject({
      kind: 'present',
      value: [
        { id: '20261121-105547F' },
        {
          id: '20261121-105654F',
          type: 'full',
          status: 'complete',
          job,
          startedAt: '2026-11-21T10:56:54Z',
          stoppedAt: '2026-11-21T10:56:56Z',
          sizeBytes: '39626082',
        },
      ],
    });
  });

  test('knows both words for a type, and what it does not know is unknown', async () => {
    const types = ['diff', 'differential', 'incr', 'incremental', 'other'];
    const body = {
      backups: types.map((type, place) => ({
        ...shard,
        backupId: `${place}`,
        type,
        status: 'NEW',
      })),
    };
    server.expect({ method: 'GET', path: listPath }, { status: 200, body });

    expect(await connect().backups(shard)).toMatchObject({
      value: [
        { type: 'differential', status: 'unknown' },
        { type: 'differential' },
        { type: 'incremental' },
        { type: 'incremental' },
        { type: 'unknown', job: null, startedAt: null, stoppedAt: null, sizeBytes: null },
      ],
    });
  });

  test('has none of another shard, and may be empty', async () => {
    const other = { ...shard, shard: '0-8', backupId: 'a' };
    server.expect({ method: 'GET', path: listPath }, { status: 200, body: { backups: [other] } });
    server.expect({ method: 'GET', path: listPath }, { status: 200, body: {} });

    expect(await connect().backups(shard)).toEqual({ kind: 'present', value: [] });
    expect(await connect().backups(shard)).toEqual({ kind: 'present', value: [] });
  });

  test.each<[string, Answer]>([
    ['no pooler can be asked', { status: 404, body: { code: 5 } }],
    ['the pooler that is asked is dead', { status: 500, body: { code: 13 } }],
    ['a pooler backs up', 'hang'],
    ['one entry has another form', { status: 200, body: { backups: [{ backupId: 7 }] } }],
  ])('is unknown, never empty, where %s', async (_, answer) => {
    server.expect({ method: 'GET', path: listPath }, answer);

    expect((await connect(200).backups(shard)).kind).toBe('unknown');
  });
});

describe('a backup that is asked for', () => {
  function expectStart(answer: Answer): void {
    server.expect(
      { method: 'POST', path: '/api/v1/backups', body: { ...shard, type: 'differential' } },
      answer,
    );
  }

  test('is promised with its job', async () => {
    expectStart({ status: 200, body: { jobId: job } });

    expect(await connect().startBackup(shard, 'differential')).toEqual({ kind: 'started', job });
    server.verify();
  });

  test.each<[string, Answer]>([
    ['there is no replica', { status: 400, body: { code: 9 } }],
    ['a sign-in is asked for', { status: 401 }],
    ['it leads elsewhere', { status: 307, headers: { location: 'http://127.0.0.1:1/' } }],
  ])('is refused when %s', async (_, answer) => {
    expectStart(answer);

    expect((await connect().startBackup(shard, 'differential')).kind).toBe('refused');
    server.verify();
  });

  test.each<[string, Answer]>([
    ['the connection ends', 'drop'],
    ['the service fails', { status: 500, body: { code: 13 } }],
    ['no job is named', { status: 200, body: {} }],
    ['the job has no id that could be kept', { status: 200, body: { jobId: 'x'.repeat(129) } }],
  ])('has an unknown outcome, and is not repeated, when %s', async (_, answer) => {
    expectStart(answer);

    expect((await connect().startBackup(shard, 'differential')).kind).toBe('unknown');
    server.verify();
  });
});
