import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { ownerText } from '#shared/api/repository-owner.ts';
import { RetryableError } from '#shared/kernel/errors.ts';
import { type S3Access, type S3Repository, connectS3 } from '#shared/repository/s3-repository.ts';
import { type FakeBucket, type Fault, type Question, startFakeBucket } from './a-bucket.ts';

const owner = { cluster: 'test', namespace: 'db', name: 'main', uid: 'u1' };
const credentials = { accessKeyId: 'AKIAKEYOFOURS', secretAccessKey: 'canary-of-a-secret' };

let bucket: FakeBucket;
let repository: S3Repository;

beforeEach(async () => {
  bucket = await startFakeBucket();
  repository = connect();
});

afterEach(async () => {
  repository.close();
  await bucket[Symbol.asyncDispose]();
});

function connect(access: Partial<S3Access> = {}): S3Repository {
  return connectS3({
    place: {
      type: 's3',
      bucket: 'backups',
      region: 'eu-west-1',
      endpoint: bucket.url,
      keyPrefix: 'db/main',
      usesEnvironment: true,
    },
    credentials,
    ...access,
  });
}

const soundBucket = {
  owner: { kind: 'absent' },
  keepsConditions: { kind: 'present', value: true },
  isVersioned: { kind: 'present', value: true },
  isEncrypted: { kind: 'present', value: true },
};

describe('a survey', () => {
  test('of a free and sound bucket asks four questions and writes nothing', async () => {
    expect(await repository.survey()).toEqual(soundBucket);
    expect(bucket.requests[0]).toBe('GET /backups/db/main/millrace-owner.json?x-id=GetObject');
    expect(bucket.requests.slice(1).toSorted()).toEqual([
      'GET /backups/?encryption=',
      'GET /backups/?versioning=',
      'PUT /backups/db/main/millrace-probe?x-id=PutObject if-match "00000000000000000000000000000000"',
    ]);
    expect(bucket.owner).toBeNull();
  });

  test('reads whose the repository is, with the version that a write may compare', async () => {
    bucket.owner = { text: ownerText(owner), etag: '"7"' };

    expect((await repository.survey()).owner).toEqual({
      kind: 'present',
      value: { etag: '"7"', owner },
    });
  });

  test.each([
    ['somebody else’s', 'keep out'],
    ['empty', ''],
    ['longer than any of ours', 'x'.repeat(5_000)],
  ])('finds an owner object that is %s, and no owner in it', async (_what, text) => {
    bucket.owner = { text, etag: '"7"' };

    expect((await repository.survey()).owner).toEqual({
      kind: 'present',
      value: { etag: '"7"', owner: null },
    });
  });

  const noRegion = { kind: 'otherRegion', region: null };
  const answers: readonly (readonly [string, Fault, object])[] = [
    ['no bucket', { status: 404, code: 'NoSuchBucket' }, { kind: 'noBucket' }],
    [
      'a region in a head',
      { status: 301, code: 'PermanentRedirect', headers: { 'x-amz-bucket-region': 'us-west-2' } },
      { kind: 'otherRegion', region: 'us-west-2' },
    ],
    [
      'a region in a body',
      {
        status: 400,
        body: '<Error><Code>AuthorizationHeaderMalformed</Code><Message>m</Message><Region>us-west-2</Region></Error>',
      },
      { kind: 'otherRegion', region: 'us-west-2' },
    ],
    ['another place', { status: 301, code: 'PermanentRedirect' }, noRegion],
    ['403', { status: 403, code: 'AccessDenied' }, { kind: 'refused' }],
    ['403 and nothing else', { status: 403 }, { kind: 'refused' }],
    ['wrong keys', { status: 403, code: 'SignatureDoesNotMatch' }, { kind: 'refused' }],
    ['an old token', { status: 400, code: 'ExpiredToken' }, { kind: 'refused' }],
    ['a clock that is off', { status: 403, code: 'RequestTimeTooSkewed' }, { kind: 'unknown' }],
    ['too many requests', { status: 503, code: 'SlowDown' }, { kind: 'unknown' }],
    ['500', { status: 500, code: 'InternalError' }, { kind: 'unknown' }],
    ['404 of another server', { status: 404, body: '<html>' }, { kind: 'unknown' }],
    ['no XML', { status: 500, body: '{"a":1}' }, { kind: 'unknown' }],
    ['a broken connection', 'drop', { kind: 'unknown' }],
  ];

  test.each(answers)('whose owner object is answered by %s says so', async (_what, fault, kind) => {
    bucket.answer('owner', fault);

    const survey = await repository.survey();

    expect(survey).toMatchObject({
      owner: kind,
      keepsConditions: { kind: 'unknown', why: 'it was not asked' },
      isVersioned: { kind: 'unknown' },
      isEncrypted: { kind: 'unknown' },
    });
    expect(bucket.requests).toHaveLength(1);
  });

  test.each(answers)('whose probe is answered by %s says so', async (_what, fault, kind) => {
    bucket.answer('probe', fault);

    expect(await repository.survey()).toMatchObject({ ...soundBucket, keepsConditions: kind });
  });

  const single: readonly (readonly [string, Question, Fault, object])[] = [
    ['is written', 'probe', { status: 200 }, { keepsConditions: { value: false } }],
    [
      'names no key',
      'probe',
      { status: 404, code: 'NoSuchKey' },
      { keepsConditions: { value: true } },
    ],
    [
      'is off',
      'versioning',
      { status: 200, body: '<VersioningConfiguration/>' },
      { isVersioned: { value: false } },
    ],
    [
      'is not there',
      'versioning',
      { status: 501, code: 'NotImplemented' },
      { isVersioned: { value: false } },
    ],
    [
      'may not be asked for',
      'versioning',
      { status: 403, code: 'AccessDenied' },
      { isVersioned: { kind: 'refused' } },
    ],
    [
      'is off',
      'encryption',
      { status: 404, code: 'ServerSideEncryptionConfigurationNotFoundError' },
      { isEncrypted: { value: false } },
    ],
    [
      'is not there',
      'encryption',
      { status: 501, code: 'NotImplemented' },
      { isEncrypted: { value: false } },
    ],
    ['fails', 'encryption', { status: 500 }, { isEncrypted: { kind: 'unknown' } }],
  ];

  test.each(single)('finds that what %s: the %s', async (_what, question, fault, found) => {
    bucket.answer(question, fault);

    expect(await repository.survey()).toMatchObject({ ...soundBucket, ...found });
  });
});

describe('whatever a server does', () => {
  test.each(['hang', 'half', 'endless'] as const)(
    'a question that it lets %s ends by itself',
    async (fault) => {
      bucket.answer('owner', fault);

      const survey = await connect({ requestTimeoutMs: 200 }).survey();

      expect(survey.owner).toMatchObject(
        fault === 'endless'
          ? { kind: 'present', value: { owner: null } }
          : { kind: 'unknown', why: expect.stringContaining('no answer within 0.2 s') },
      );
    },
  );

  test('whoever asks can end it sooner', async () => {
    bucket.answer('owner', 'hang');
    const ending = new AbortController();

    const survey = repository.survey(ending.signal);
    await expect.poll(() => bucket.requests).toHaveLength(1);
    ending.abort();

    expect((await survey).owner).toEqual({
      kind: 'unknown',
      why: 'reading db/main/millrace-owner.json: aborted',
    });
  });

  test('nothing is asked for an ended look', async () => {
    expect((await repository.survey(AbortSignal.abort())).owner.kind).toBe('unknown');
    expect(bucket.requests).toEqual([]);
  });

  test('a redirect is not followed', async () => {
    await using elsewhere = await startFakeBucket();
    bucket.answer('owner', {
      status: 307,
      code: 'TemporaryRedirect',
      headers: { location: `${elsewhere.url}/backups/db/main/millrace-owner.json` },
    });

    expect((await repository.survey()).owner.kind).toBe('unknown');
    expect(elsewhere.requests).toEqual([]);
  });

  test('no request is made twice', async () => {
    bucket.answer('probe', { status: 503, code: 'SlowDown' });

    await repository.survey();

    expect(bucket.requests.filter((request) => request.includes('millrace-probe'))).toHaveLength(1);
  });

  test('none of its words are repeated, and no secret is (C3)', async () => {
    for (const status of [400, 403, 404, 500]) {
      bucket.answer('owner', { status, body: errorWith(credentials.secretAccessKey) });

      const said = JSON.stringify(await repository.survey());

      expect(said).not.toContain('canary');
      expect(said).not.toContain('AKIA');
      expect(said).not.toContain('words');
    }
    expect(bucket.received.join()).not.toContain('canary');
  });
});

function errorWith(words: string): string {
  return `<Error><Code>Denied ${words}</Code><Message>words ${words} AKIAKEYOFOURS</Message></Error>`;
}

describe('a place that could lead elsewhere', () => {
  test('is not asked, and nothing is written to it (Z3)', async () => {
    const astray = connect({
      place: {
        type: 's3',
        bucket: 'backups',
        region: 'eu-west-1',
        endpoint: bucket.url,
        keyPrefix: '../other',
        usesEnvironment: true,
      },
    });

    expect((await astray.survey()).owner).toMatchObject({
      kind: 'unknown',
      why: expect.stringContaining('"../other" is no prefix of keys'),
    });
    await expect(
      astray.put('millrace-owner.json', '{}', { ifNoneMatch: '*' }),
    ).rejects.toBeInstanceOf(RetryableError);
    await expect(repository.put('../a', '{}', { ifNoneMatch: '*' })).rejects.toMatchObject({
      reason: 'RepositoryKeyInvalid',
    });
    expect(bucket.requests).toEqual([]);
  });
});

describe('a write', () => {
  const put = (guard: Parameters<S3Repository['put']>[2]) =>
    repository.put('millrace-owner.json', ownerText(owner), guard);

  test('of an object that is not there is made once', async () => {
    const first = await put({ ifNoneMatch: '*' });
    const second = await put({ ifNoneMatch: '*' });

    expect(first).toEqual({ kind: 'written', resourceVersion: '"1"' });
    expect(second).toMatchObject({ kind: 'lostRace' });
    expect(bucket.owner?.text).toBe(ownerText(owner));
  });

  test('over the version that was read is made, over another is not', async () => {
    bucket.owner = { text: 'x', etag: '"7"' };

    expect(await put({ ifMatch: '"6"' })).toMatchObject({ kind: 'lostRace' });
    expect(bucket.owner?.text).toBe('x');
    expect(await put({ ifMatch: '"7"' })).toMatchObject({ kind: 'written' });
    expect(bucket.owner?.text).toBe(ownerText(owner));
  });

  test.each([
    ['a conflict', { status: 409, code: 'ConditionalRequestConflict' }],
    ['a bucket that is gone', { status: 404, code: 'NoSuchBucket' }],
  ] satisfies [string, Fault][])('that meets %s is a race lost', async (_what, fault) => {
    bucket.answer('put', fault);

    expect(await put({ ifNoneMatch: '*' })).toMatchObject({ kind: 'lostRace' });
  });

  test.each([
    ['refused', { status: 403, code: 'AccessDenied' }, 'RepositoryForbidden', 300],
    ['answered 500', { status: 500 }, 'RepositoryOutcomeUnknown', undefined],
    ['not answered', 'drop', 'RepositoryOutcomeUnknown', undefined],
    [
      'sent to another region',
      { status: 301, code: 'PermanentRedirect' },
      'RepositoryOutcomeUnknown',
      undefined,
    ],
  ] satisfies [string, Fault, string, number | undefined][])(
    'that is %s is looked after later',
    async (_what, fault, reason, afterSeconds) => {
      bucket.answer('put', fault);

      await expect(put({ ifNoneMatch: '*' })).rejects.toMatchObject({
        name: 'RetryableError',
        reason,
        afterSeconds,
      });
    },
  );
});
