import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Database } from '#shared/api/database.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import { outsideOver } from '#shared/outside/connect.ts';
import { repositories } from '#shared/outside/repository.ts';
import { KubeModel } from '#test/builders/kube-model.ts';
import { aDatabase } from '#test/builders/shard.ts';
import { type FakeBucket, startFakeBucket } from '../repository/a-bucket.ts';

const signal = new AbortController().signal;
const secret = 'canary-of-a-secret';

let bucket: FakeBucket;
let kube: KubeModel;

beforeEach(async () => {
  bucket = await startFakeBucket();
  kube = new KubeModel();
});

afterEach(async () => {
  vi.unstubAllEnvs();
  await bucket[Symbol.asyncDispose]();
});

function aDatabaseOf(signIn: { credentialsSecret?: string; serviceAccountName?: string }) {
  const s3 = { bucket: 'backups', region: 'eu-west-1', endpoint: bucket.url, ...signIn };
  return aDatabase({ backup: { repository: { type: 's3', s3 } } });
}

function withSecret(values: { readonly [key: string]: string }): void {
  const data = Object.fromEntries(
    Object.entries(values).map(([key, value]) => [key, Buffer.from(value).toString('base64')]),
  );
  kube.put('Secret', { metadata: { name: 'keys', uid: 's', resourceVersion: '1' }, data });
}

function survey(database: Database) {
  return repositories(kube).reader(database).survey(signal);
}

describe('a repository with a Secret', () => {
  test('is asked with the keys that it holds, and neither of them is told (C3)', async () => {
    withSecret({ AWS_ACCESS_KEY_ID: 'AKIAOFTHESECRET', AWS_SECRET_ACCESS_KEY: secret });

    const found = await survey(aDatabaseOf({ credentialsSecret: 'keys' }));

    expect(found).toMatchObject({
      credentials: { kind: 'present', value: { missing: [] } },
      owner: { kind: 'absent' },
    });
    expect(bucket.received[0]).toContain('Credential=AKIAOFTHESECRET/');
    expect(bucket.received.join()).not.toContain(secret);
    expect(JSON.stringify(found)).not.toMatch(/AKIA|canary/);
  });

  test.each([
    ['no keys', {}, ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY']],
    ['one key', { AWS_ACCESS_KEY_ID: 'a' }, ['AWS_SECRET_ACCESS_KEY']],
    [
      'a line break behind a key',
      { AWS_ACCESS_KEY_ID: 'a\n', AWS_SECRET_ACCESS_KEY: secret },
      ['AWS_ACCESS_KEY_ID'],
    ],
    [
      'an empty key',
      { AWS_ACCESS_KEY_ID: '', AWS_SECRET_ACCESS_KEY: secret },
      ['AWS_ACCESS_KEY_ID'],
    ],
  ])('that has %s is not asked at all', async (_what, values, missing) => {
    withSecret(values);

    expect(await survey(aDatabaseOf({ credentialsSecret: 'keys' }))).toMatchObject({
      credentials: { kind: 'present', value: { missing } },
      owner: { kind: 'unknown', why: 'it was not asked' },
    });
    expect(bucket.requests).toEqual([]);
  });

  test('that does not exist, or cannot be read, is not asked and not taken for another', async () => {
    vi.stubEnv('AWS_ACCESS_KEY_ID', 'ambient');
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'ambient');
    const database = aDatabaseOf({ credentialsSecret: 'keys' });

    const absent = await survey(database);
    kube.makeUnknown('get Secret');
    const unknown = await survey(database);

    expect([absent.credentials.kind, unknown.credentials.kind]).toEqual(['absent', 'unknown']);
    expect(bucket.requests).toEqual([]);
  });
});

test('a repository without a Secret is asked as the process itself', async () => {
  vi.stubEnv('AWS_ACCESS_KEY_ID', 'AKIAAMBIENT');
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', secret);

  const found = await survey(aDatabaseOf({ serviceAccountName: 'pooler' }));

  expect(found).toMatchObject({
    credentials: { value: { missing: [] } },
    owner: { kind: 'absent' },
  });
  expect(bucket.received[0]).toContain('Credential=AKIAAMBIENT/');
  expect(kube.calls).toEqual([]);
});

describe('a write', () => {
  const neverAsked: KubeConnection = {
    request: ({ path }) =>
      path.includes('/databases/main')
        ? Promise.resolve({ status: 200, body: database })
        : Promise.resolve({ status: 404, body: {} }),
    stream: () => expect.unreachable('nothing is watched'),
    close: () => undefined,
  };
  let database: Database;

  const write = (ref: { readonly uid: string; readonly generation?: number }) =>
    outsideOver(neverAsked, 'test', () => Promise.resolve())
      .writers.repository({ namespace: 'db', name: 'main', ...ref }, signal)
      .then((repository) => repository.put('millrace-owner.json', '{}', { ifNoneMatch: '*' }));

  beforeEach(() => {
    vi.stubEnv('AWS_ACCESS_KEY_ID', 'ambient');
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'ambient');
    database = aDatabaseOf({});
  });

  test('goes to the repository of the very Database and spec that the decision read', async () => {
    expect(await write({ uid: 'database-uid', generation: 1 })).toMatchObject({ kind: 'written' });
    expect(bucket.owner?.text).toBe('{}');
  });

  test.each([
    ['made again', { uid: 'another', generation: 1 }],
    ['changed', { uid: 'database-uid', generation: 2 }],
  ])('goes nowhere once the Database was %s', async (_what, ref) => {
    await expect(write(ref)).rejects.toMatchObject({ reason: 'DatabaseMoved' });
    expect(bucket.requests).toEqual([]);
  });

  test('goes nowhere once its Secret is gone', async () => {
    database = aDatabaseOf({ credentialsSecret: 'keys' });

    await expect(write({ uid: 'database-uid' })).rejects.toMatchObject({
      reason: 'CredentialsUnknown',
    });
    expect(bucket.requests).toEqual([]);
  });
});
