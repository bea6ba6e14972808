import { describe, expect, test } from 'vitest';
import {
  type RepositoryPlace,
  hashOfPlace,
  problemOf,
  textOfPlace,
  wantedRepository,
} from '#shared/api/repository.ts';
import { ownerText, parseOwner } from '#shared/api/repository-owner.ts';

type S3 = Extract<RepositoryPlace, { readonly type: 's3' }>;

const bucket: S3 = {
  type: 's3',
  bucket: 'backups',
  region: 'eu-west-1',
  endpoint: '',
  keyPrefix: 'db/main',
  usesEnvironment: false,
};
const metadata = { namespace: 'db', name: 'main' };

describe('what a Database wants', () => {
  test('is nothing where it says nothing', () => {
    expect(wantedRepository({ metadata, spec: {} })).toEqual({ kind: 'none' });
  });

  test('is below its own name where it names no prefix', () => {
    const repository = { type: 's3' as const, s3: { bucket: 'backups', region: 'eu-west-1' } };

    expect(wantedRepository({ metadata, spec: { backup: { repository } } })).toMatchObject({
      kind: 'wanted',
      place: bucket,
      hash: hashOfPlace(bucket),
      mustEncrypt: null,
      isOneNodeOnly: false,
    });
  });

  test('is invalid where a name could lead elsewhere, although the API server let it pass', () => {
    const s3 = { bucket: 'backups', region: 'eu-west-1', keyPrefix: '../other' };

    const wanted = wantedRepository({
      metadata,
      spec: { backup: { repository: { type: 's3', s3 } } },
    });

    expect(wanted).toEqual({ kind: 'invalid', why: '"../other" is no prefix of keys' });
  });
});

describe('the hash of a place', () => {
  test('is public: it is made like this', () => {
    expect(hashOfPlace(bucket)).toBe('e1ae924786b2');
    expect(hashOfPlace({ type: 'filesystem', path: '/backups' })).toBe('d3665c3b14d7');
  });

  test.each([
    ['another region', { region: 'us-east-1' }],
    ['another way of signing in', { usesEnvironment: true }],
    ['slashes around the prefix', { keyPrefix: '/db/main/' }],
  ])('is the same with %s: the backups are', (_what, change) => {
    expect(hashOfPlace({ ...bucket, ...change })).toBe(hashOfPlace(bucket));
  });

  test.each([
    ['bucket', { bucket: 'others' }],
    ['prefix', { keyPrefix: 'db/other' }],
    ['server', { endpoint: 'https://minio:9000' }],
  ])('is another with another %s', (_what, change) => {
    expect(hashOfPlace({ ...bucket, ...change })).not.toBe(hashOfPlace(bucket));
  });

  test('does not depend on how a server is spelled', () => {
    const [one, ...others] = [
      'https://Minio',
      'https://minio/',
      'https://minio:443',
      'https://minio',
    ].map((endpoint) => hashOfPlace({ ...bucket, endpoint }));

    expect(others).toEqual([one, one, one]);
  });
});

describe('a place that must not become part of a URL', () => {
  test.each([
    [{ bucket: '' }, 'is no name of a bucket'],
    [{ bucket: 'a..b' }, 'is no name of a bucket'],
    [{ bucket: '127.0.0.1' }, 'is no name of a bucket'],
    [{ bucket: 'backups\n' }, 'is no name of a bucket'],
    [{ bucket: 'backups?x=1' }, 'is no name of a bucket'],
    [{ region: 'eu.evil' }, 'is no name of a region'],
    [{ endpoint: 'file:///etc/passwd' }, 'is not http(s)://host'],
    [{ endpoint: 'https://a@b' }, 'is not http(s)://host'],
    [{ endpoint: 'https://host:99999' }, 'is not http(s)://host'],
    [{ keyPrefix: '' }, 'is no prefix'],
    [{ keyPrefix: 'a/./b' }, 'is no prefix'],
    [{ keyPrefix: 'a'.repeat(201) }, 'is no prefix'],
  ])('%j', (change, says) => {
    expect(problemOf({ ...bucket, ...change })).toContain(says);
  });

  test.each(['backups', '/', '/a/../b', '/a//b', '/a b', `/${'.'.repeat(2)}`])(
    'the path %j',
    (path) => {
      expect(problemOf({ type: 'filesystem', path })).toContain('is not absolute');
    },
  );

  test('others may', () => {
    expect(problemOf(bucket)).toBeUndefined();
    expect(problemOf({ ...bucket, endpoint: 'http://[fd00::1]:9000' })).toBeUndefined();
    expect(problemOf({ type: 'filesystem', path: '/srv/backups.1' })).toBeUndefined();
  });
});

test('a place is shown as people know it', () => {
  expect(textOfPlace(bucket)).toBe('s3://backups/db/main');
  expect(textOfPlace({ ...bucket, endpoint: 'https://minio:9000' })).toBe(
    's3://backups/db/main at https://minio:9000',
  );
  expect(textOfPlace({ type: 'filesystem', path: '/backups' })).toBe('the file system at /backups');
});

describe('an owner object', () => {
  const owner = { cluster: 'prod', namespace: 'db', name: 'main', uid: 'u1' };

  test('is read as it was written', () => {
    expect(ownerText(owner)).toBe(
      '{"v":1,"cluster":"prod","namespace":"db","name":"main","uid":"u1"}\n',
    );
    expect(parseOwner(ownerText(owner))).toEqual(owner);
  });

  test('may say more than this version reads', () => {
    expect(parseOwner(JSON.stringify({ v: 1, ...owner, since: '2027' }))).toEqual(owner);
  });

  test.each(['', '{', '[]', '{"v":2}', '{"v":1,"cluster":"prod"}', 'null'])(
    'of another form is none: %j',
    (text) => {
      expect(parseOwner(text)).toBeUndefined();
    },
  );
});
