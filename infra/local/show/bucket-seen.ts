import {
  CreateBucketCommand,
  GetObjectCommand,
  PutBucketVersioningCommand,
  S3Client,
} from '@aws-sdk/client-s3';
import type { BucketServer } from '#infra/local/bucket/start.ts';

/** Where the S3 server says that it is. */
export const region = 'eu-west-1';

/** An S3 server, from the side of somebody who may do everything there. */
export interface BucketSeen {
  /** Makes a bucket that keeps versions. */
  make(bucket: string): Promise<void>;
  /** The text of an object that has to be there. */
  read(bucket: string, key: string): Promise<string>;
  close(): void;
}

export function openBucket({
  endpoint,
  root,
}: Pick<BucketServer, 'endpoint' | 'root'>): BucketSeen {
  const client = new S3Client({ region, endpoint, forcePathStyle: true, credentials: root });
  return {
    async make(bucket) {
      await client.send(new CreateBucketCommand({ Bucket: bucket }));
      await client.send(
        new PutBucketVersioningCommand({
          Bucket: bucket,
          VersioningConfiguration: { Status: 'Enabled' },
        }),
      );
    },
    async read(bucket, key) {
      const { Body } = await client.send(new GetObjectCommand({ Bucket: bucket, Key: key }));
      return (await Body?.transformToString()) ?? '';
    },
    close: () => client.destroy(),
  };
}
