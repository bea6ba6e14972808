import {
  CreateBucketCommand,
  PutBucketPolicyCommand,
  PutObjectCommand,
  type S3Client,
} from '@aws-sdk/client-s3';
import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { SegmentReader, SegmentWriter } from '#shared/archive/archive.ts';
import type { HintEntry } from '#shared/archive/entry.ts';
import { openSegmentReader, openSegmentWriter } from '#shared/archive/open.ts';
import { encodeSegment, readSegment } from '#shared/archive/segment.ts';
import type { BucketAccount, BucketServer } from '#infra/local/bucket/start.ts';
import { clientOf, missingBucket, region, useBucketServer } from './local-bucket.ts';

/** An archive in a real S3 server's bucket, as functions write it and people read it. */
const server = useBucketServer();
const writer: BucketAccount = { accessKeyId: 'writer', secretAccessKey: 'writes-and-nothing-else' };
const place = { kind: 's3', bucket: 'archive', prefix: 'one/' } as const;
const opened: (SegmentReader | SegmentWriter)[] = [];
const signal = () => AbortSignal.timeout(10_000);

beforeAll(async () => {
  if (missingBucket !== undefined) {
    return;
  }
  const root = clientOf(server());
  await root.send(new CreateBucketCommand({ Bucket: place.bucket }));
  await server().addAccount(writer);
  await permitWriting(root);
});

afterEach(() => {
  for (const archive of opened.splice(0)) {
    archive.close();
  }
});

/** The permissions of a function's role, for one step. */
async function permitWriting(root: S3Client): Promise<void> {
  const policy = {
    Version: '2012-10-17',
    Statement: [
      {
        Effect: 'Allow',
        Principal: { AWS: [writer.accessKeyId] },
        Action: ['s3:PutObject'],
        Resource: [`arn:aws:s3:::${place.bucket}/one/decisions/*`],
      },
    ],
  };
  await root.send(
    new PutBucketPolicyCommand({ Bucket: place.bucket, Policy: JSON.stringify(policy) }),
  );
}

function environmentOf({ endpoint }: BucketServer, account: BucketAccount) {
  // The SDK takes credentials from the process's own environment.
  process.env['AWS_ACCESS_KEY_ID'] = account.accessKeyId;
  process.env['AWS_SECRET_ACCESS_KEY'] = account.secretAccessKey;
  return { AWS_REGION: region, AWS_ENDPOINT_URL_S3: endpoint };
}

function writing(account: BucketAccount, bucket: string = place.bucket): SegmentWriter {
  const archive = openSegmentWriter({ ...place, bucket }, environmentOf(server(), account));
  opened.push(archive);
  return archive;
}

async function reading(
  account: BucketAccount,
  bucket: string = place.bucket,
): Promise<SegmentReader> {
  const archive = await openSegmentReader({ ...place, bucket }, environmentOf(server(), account));
  opened.push(archive);
  return archive;
}

const entry: HintEntry = {
  v: 1,
  kind: 'hint',
  at: '2026-01-01T00:00:00.000Z',
  cluster: 'prod',
  step: 'drain-step',
  hint: {},
};

describe('an archive in a bucket', () => {
  test('gives back what was put, in order, page by page, behind a key', async () => {
    const archive = writing(server().root);
    const bytes = await encodeSegment([entry]);
    await archive.put('decisions/b/1:00.jsonl.gz', bytes, signal());
    await archive.put('decisions/a/2:00.jsonl.gz', bytes, signal());
    await archive.put('decisions/a/1:00.jsonl.gz', bytes, signal());
    const archived = await reading(server().root);

    expect(await Array.fromAsync(archived.list('decisions/a/'))).toEqual([
      'decisions/a/1:00.jsonl.gz',
      'decisions/a/2:00.jsonl.gz',
    ]);
    expect(
      await Array.fromAsync(archived.list('decisions/a/', 'decisions/a/1:00.jsonl.gz')),
    ).toEqual(['decisions/a/2:00.jsonl.gz']);
    expect(await Array.fromAsync(archived.folders('decisions/'))).toEqual([
      'decisions/a/',
      'decisions/b/',
    ]);
    expect(await Array.fromAsync(readSegment(archived.get('decisions/a/1:00.jsonl.gz')))).toEqual([
      { kind: 'entry', entry },
    ]);
    expect(await Array.fromAsync(archived.get('decisions/a/never.jsonl.gz'))).toEqual([]);
  });

  test('is listed to its end where it has more segments than fit into one answer', async () => {
    const root = clientOf(server());
    const keys = Array.from(
      { length: 1_005 },
      (_, place) => `many/${String(place).padStart(4, '0')}`,
    );
    for (let start = 0; start < keys.length; start += 50) {
      await Promise.all(
        keys
          .slice(start, start + 50)
          .map((key) =>
            root.send(new PutObjectCommand({ Bucket: place.bucket, Key: `one/${key}`, Body: 'x' })),
          ),
      );
    }

    expect(await Array.fromAsync((await reading(server().root)).list('many/'))).toEqual(keys);
  });

  test('is written with the permissions of a function, which reads nothing by them', async () => {
    await writing(writer).put('decisions/c/1.jsonl.gz', await encodeSegment([entry]), signal());
    const archived = await reading(writer);

    await expect(
      writing(writer).put('hints/c/1.jsonl.gz', Buffer.from('x'), signal()),
    ).rejects.toThrow(/^writing to s3:\/\/archive\/one: these credentials may not do that/);
    await expect(Array.fromAsync(archived.list('decisions/'))).rejects.toThrow(
      /^listing s3:\/\/archive\/one: these credentials may not do that: .* \(403 AccessDenied\)$/,
    );
    await expect(Array.fromAsync(archived.get('decisions/c/1.jsonl.gz'))).rejects.toThrow(
      /^reading from s3:\/\/archive\/one: these credentials/,
    );
  });

  test('says what is wrong where there is no such bucket, no such key, and nobody at all', async () => {
    const nobody = { accessKeyId: 'nobody', secretAccessKey: 'nothing' };

    await expect(
      Array.fromAsync((await reading(server().root, 'elsewhere')).list('a/')),
    ).rejects.toThrow('there is no bucket elsewhere: look at the name');
    await expect(Array.fromAsync((await reading(nobody)).list('a/'))).rejects.toThrow(
      'the credentials are not taken: look at the access key',
    );
    const archive = openSegmentWriter(place, {
      AWS_REGION: region,
      AWS_ENDPOINT_URL_S3: 'http://127.0.0.1:9',
    });
    opened.push(archive);
    await expect(archive.put('a', Buffer.from('x'), signal())).rejects.toThrow('ECONNREFUSED');
  });
});
