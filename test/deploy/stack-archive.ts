import { ListBucketsCommand, S3Client } from '@aws-sdk/client-s3';
import { type Cloud, cloudAdministrator, cloudRegion } from '#infra/local/cloud/start.ts';
import { openSegmentReader } from '#shared/archive/open.ts';
import { readLines } from '#shared/archive/lines.ts';
import { clientOf } from './deployment.ts';

/** Every line of the archive in the stack's bucket, as its reader finds them by the account's administrator. */
export async function archivedLines(cloud: Cloud): Promise<readonly string[]> {
  // The SDK takes credentials from the process's own environment.
  process.env['AWS_ACCESS_KEY_ID'] = cloudAdministrator.accessKeyId;
  process.env['AWS_SECRET_ACCESS_KEY'] = cloudAdministrator.secretAccessKey;
  const archive = await openSegmentReader(
    { kind: 's3', bucket: await bucketOf(cloud), prefix: '' },
    { AWS_REGION: cloudRegion, AWS_ENDPOINT_URL_S3: cloud.endpoint },
  );
  const lines: string[] = [];
  for await (const key of archive.list('decisions/')) {
    for await (const line of readLines(archive.get(key))) {
      lines.push(line.kind === 'line' ? line.text : '');
    }
  }
  archive.close();
  return lines;
}

/** CloudFormation names it. */
async function bucketOf(cloud: Cloud): Promise<string> {
  const client = new S3Client({ ...clientOf(cloud), forcePathStyle: true });
  const { Buckets: buckets = [] } = await client.send(new ListBucketsCommand({}));
  client.destroy();
  const [name, ...others] = buckets.flatMap(({ Name: bucket = '' }) =>
    /archive/i.test(bucket) ? [bucket] : [],
  );
  if (name === undefined || others.length > 0) {
    throw new Error(`not one archive: ${buckets.map(({ Name: bucket }) => bucket).join(', ')}`);
  }
  return name;
}
