import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { S3Client } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, beforeEach } from 'vitest';
import { bucketProgram } from '#infra/local/bucket/program.ts';
import {
  type BucketAccount,
  type BucketServer,
  startBucketServer,
} from '#infra/local/bucket/start.ts';
import { findMissingProgram } from '#infra/local/control-plane/binaries.ts';
import { printProgress } from '#infra/local/control-plane/progress.ts';

export const region = 'eu-west-1';

/** Where every check must run, a missing program is a failure; elsewhere the suites that need it are skipped. */
const isRequired = (process.env['CI'] ?? '') !== '';

/** Why no S3 server can run on this machine. Always `undefined` in CI: there the start fails, and says why. */
export const missingBucket: string | undefined = isRequired
  ? undefined
  : (await findMissingProgram(undefined, [bucketProgram]))?.message.replaceAll(/\s+/g, ' ');

/** Gives the file an S3 server of its own, from before its first to after its last test. */
export function useBucketServer(): () => BucketServer {
  let server: BucketServer | undefined;
  let dataDir = '';

  beforeAll(async () => {
    if (missingBucket !== undefined) {
      process.stderr.write(`skipped, since ${missingBucket}\n`);
      return;
    }
    const printer = printProgress(process.stderr);
    try {
      dataDir = await mkdtemp(join(tmpdir(), 'millrace-bucket-'));
      server = await startBucketServer({ dataDir, region, onProgress: printer.onProgress });
    } finally {
      printer.close();
    }
  });

  beforeEach((context) => {
    context.skip(missingBucket !== undefined, missingBucket);
  });

  afterAll(async () => {
    await server?.stop();
    await (dataDir === '' ? undefined : rm(dataDir, { recursive: true, force: true }));
  });

  return () => {
    if (server === undefined) {
      throw new Error(missingBucket ?? 'the bucket runs only during tests');
    }
    return server;
  };
}

/** A client beside the code under test. */
export function clientOf(
  { endpoint, root }: BucketServer,
  account: BucketAccount = root,
): S3Client {
  return new S3Client({ region, endpoint, forcePathStyle: true, credentials: account });
}
