import {
  CreateBucketCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  PutBucketPolicyCommand,
  PutBucketVersioningCommand,
  type S3Client,
} from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ownerObjectName, ownerText } from '#shared/api/repository-owner.ts';
import type { BucketAccount } from '#infra/local/bucket/start.ts';
import { type S3Place, type S3Repository, connectS3 } from '#shared/repository/s3-repository.ts';
import { clientOf, missingBucket, region, useBucketServer } from './local-bucket.ts';

const reader: BucketAccount = { accessKeyId: 'reader', secretAccessKey: 'the-secret-of-a-reader' };
const owner = { cluster: 'test', namespace: 'db', name: 'main', uid: 'u1' };

describe.skipIf(missingBucket !== undefined)('a real S3 server', () => {
  const server = useBucketServer();
  const opened: S3Repository[] = [];
  let client: S3Client;

  beforeAll(async () => {
    client = clientOf(server());
    await client.send(new CreateBucketCommand({ Bucket: 'backups' }));
    await client.send(
      new PutBucketVersioningCommand({
        Bucket: 'backups',
        VersioningConfiguration: { Status: 'Enabled' },
      }),
    );
    await client.send(new CreateBucketCommand({ Bucket: 'plain' }));
    await server().addAccount(reader);
    await client.send(
      new PutBucketPolicyCommand({ Bucket: 'backups', Policy: readOnly('backups', reader) }),
    );
  });

  afterAll(() => {
    opened.forEach((repository) => repository.close());
    client.destroy();
  });

  function connect(
    place: Partial<S3Place> = {},
    credentials: BucketAccount = server().root,
  ): S3Repository {
    const repository = connectS3({
      place: {
        type: 's3',
        bucket: 'backups',
        region,
        endpoint: server().endpoint,
        keyPrefix: 'db/main',
        usesEnvironment: true,
        ...place,
      },
      credentials,
    });
    opened.push(repository);
    return repository;
  }

  test('tells a sound bucket, and keeps nothing of having been asked', async () => {
    expect(await connect().survey()).toEqual({
      owner: { kind: 'absent' },
      keepsConditions: { kind: 'present', value: true },
      isVersioned: { kind: 'present', value: true },
      // This server does not encrypt.
      isEncrypted: { kind: 'present', value: false },
    });
    const { KeyCount } = await client.send(new ListObjectsV2Command({ Bucket: 'backups' }));
    expect(KeyCount).toBe(0);
  });

  test('tells one without versions', async () => {
    expect(await connect({ bucket: 'plain' }).survey()).toMatchObject({
      owner: { kind: 'absent' },
      isVersioned: { kind: 'present', value: false },
    });
  });

  test('tells that there is no such bucket', async () => {
    expect((await connect({ bucket: 'nowhere' }).survey()).owner).toEqual({ kind: 'noBucket' });
  });

  test('tells the region that the bucket is in', async () => {
    expect((await connect({ region: 'us-east-1' }).survey()).owner).toEqual({
      kind: 'otherRegion',
      region,
    });
  });

  test.each([
    ['an unknown key', { accessKeyId: 'nobody', secretAccessKey: 'x' }],
    ['a wrong secret', { accessKeyId: 'root', secretAccessKey: 'x' }],
  ])('refuses %s', async (_what, account) => {
    expect((await connect({}, account).survey()).owner.kind).toBe('refused');
  });

  test('refuses whom no policy permits, which says nothing of what is there', async () => {
    expect((await connect({ bucket: 'plain' }, reader).survey()).owner.kind).toBe('refused');
  });

  test('tells one that may read from one that may write', async () => {
    expect(await connect({}, reader).survey()).toMatchObject({
      owner: { kind: 'absent' },
      keepsConditions: { kind: 'refused' },
    });
  });

  test('lets one of many make the owner object, and one of many replace it (C4)', async () => {
    const repository = connect({ keyPrefix: 'contested' });
    const put = (round: string, guard: { ifNoneMatch: '*' } | { ifMatch: string }) =>
      Promise.all(
        Array.from({ length: 8 }, (_, index) => ({ ...owner, uid: `${round}-${index}` })).map(
          (each) => repository.put(ownerObjectName, ownerText(each), guard),
        ),
      );

    const made = await put('first', { ifNoneMatch: '*' });
    const { owner: first } = await repository.survey();
    const etag = first.kind === 'present' ? first.value.etag : expect.unreachable();
    // A version is a hash of the content: whoever wrote the same again would not be told from the first.
    const replaced = await put('second', { ifMatch: etag });
    const { owner: second } = await repository.survey();

    expect(made.filter(({ kind }) => kind === 'written')).toHaveLength(1);
    expect(replaced.filter(({ kind }) => kind === 'written')).toHaveLength(1);
    expect(second).toMatchObject({ kind: 'present', value: { owner: { cluster: 'test' } } });
    expect(second).not.toMatchObject({ value: { etag } });
  });

  test('keeps the owner object as it was written, for whoever looks', async () => {
    await connect({ keyPrefix: 'seen' }).put(ownerObjectName, ownerText(owner), {
      ifNoneMatch: '*',
    });

    const { Body, ContentType } = await client.send(
      new GetObjectCommand({ Bucket: 'backups', Key: `seen/${ownerObjectName}` }),
    );

    expect(await Body?.transformToString()).toBe(ownerText(owner));
    expect(ContentType).toBe('application/json');
  });

  test('that is down is unknown, and known again once it is back', async () => {
    const repository = connect({ keyPrefix: 'seen' });

    await server().kill();
    const down = await repository.survey();
    await server().restart();

    expect(down.owner.kind).toBe('unknown');
    expect((await repository.survey()).owner.kind).toBe('present');
  });
});

function readOnly(bucket: string, account: BucketAccount): string {
  return JSON.stringify({
    Version: '2012-10-17',
    Statement: [
      {
        Effect: 'Allow',
        Principal: { AWS: [account.accessKeyId] },
        Action: ['s3:GetObject', 's3:ListBucket', 's3:GetBucketVersioning'],
        Resource: [`arn:aws:s3:::${bucket}`, `arn:aws:s3:::${bucket}/*`],
      },
    ],
  });
}
