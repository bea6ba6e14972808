import {
  GetObjectCommand,
  type ListObjectsV2CommandInput,
  type ListObjectsV2CommandOutput,
  PutObjectCommand,
  S3Client,
  paginateListObjectsV2,
} from '@aws-sdk/client-s3';
import { type Failure, failureOf } from '#shared/http/s3-failure.ts';
import type { SegmentReader, SegmentWriter } from './archive.ts';
import { type ArchivePlace, textOfPlace } from './place.ts';

type Bucket = Extract<ArchivePlace, { readonly kind: 's3' }>;

export interface BucketAccess {
  readonly region: string;
  /** Another server than Amazon S3. */
  readonly endpoint?: string;
}

/** How long connecting and one request may take, in milliseconds. */
const connectionTimeoutMs = 3_000;
const requestTimeoutMs = 10_000;

/** Segments as objects of a bucket. Credentials are those that the process has by itself. */
export function bucketSegments(
  place: Bucket,
  { region, endpoint }: BucketAccess,
): SegmentReader & SegmentWriter {
  const { bucket: Bucket, prefix } = place;
  const client = new S3Client({
    region,
    // Other servers have one name, and no certificate for names below it.
    ...(endpoint === undefined ? {} : { endpoint, forcePathStyle: true }),
    requestHandler: { connectionTimeout: connectionTimeoutMs, requestTimeout: requestTimeoutMs },
    followRegionRedirects: false,
    // Many servers refuse the checksums that the SDK would add of its own accord.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
  });
  const explained = (error: unknown, doing: string) =>
    new Error(`${doing} ${textOfPlace(place)}: ${explain(failureOf(error), place, region)}`, {
      cause: error,
    });
  async function* pagesOf(
    below: string,
    options: Pick<ListObjectsV2CommandInput, 'Delimiter' | 'StartAfter'>,
  ): AsyncGenerator<ListObjectsV2CommandOutput> {
    const request = { Bucket, Prefix: `${prefix}${below}`, ...options };
    try {
      yield* paginateListObjectsV2({ client }, request);
    } catch (error) {
      throw explained(error, 'listing');
    }
  }
  return {
    async put(key, bytes, abortSignal) {
      const object = {
        Bucket,
        Key: `${prefix}${key}`,
        Body: bytes,
        ContentType: 'application/gzip',
      };
      await client.send(new PutObjectCommand(object), { abortSignal }).catch((error: unknown) => {
        throw explained(error, 'writing to');
      });
    },
    async *list(below, after) {
      const start = after === undefined ? {} : { StartAfter: `${prefix}${after}` };
      for await (const { Contents = [] } of pagesOf(below, start)) {
        yield* Contents.map(({ Key = '' }) => Key.slice(prefix.length));
      }
    },
    async *folders(below) {
      for await (const { CommonPrefixes = [] } of pagesOf(below, { Delimiter: '/' })) {
        yield* CommonPrefixes.map(({ Prefix = '' }) => Prefix.slice(prefix.length));
      }
    },
    async *get(key) {
      const { Body } = await client
        .send(new GetObjectCommand({ Bucket, Key: `${prefix}${key}` }))
        .catch((error: unknown) => {
          const failure = failureOf(error);
          if (failure.kind === 'answer' && failure.code === 'NoSuchKey') {
            return { Body: undefined };
          }
          throw explained(error, 'reading from');
        });
      if (Body !== undefined) {
        yield* Body as AsyncIterable<Uint8Array>;
      }
    },
    close: () => client.destroy(),
  };
}

/** What is wrong and which setting to look at. Nothing that a server says is repeated but its code. */
function explain(failure: Failure, { bucket }: Bucket, region: string): string {
  if (failure.kind !== 'answer') {
    return failure.why;
  }
  const { status, code } = failure;
  const told = `${status}${code === '' ? '' : ` ${code}`}`;
  if (failure.region !== null && failure.region !== region) {
    return `the bucket is in ${failure.region}, and AWS_REGION is ${region} (${told})`;
  }
  switch (code) {
    case 'NoSuchBucket':
      return `there is no bucket ${bucket}: look at the name, and at the account of these credentials (${told})`;
    case 'AccessDenied':
      return `these credentials may not do that: they need s3:PutObject to record, s3:ListBucket and s3:GetObject to read (${told})`;
    case 'InvalidAccessKeyId':
    case 'SignatureDoesNotMatch':
      return `the credentials are not taken: look at the access key, and whether it is of this partition (${told})`;
    case 'ExpiredToken':
      return `the credentials have ended: see why what renews them does not (${told})`;
    case 'PermanentRedirect':
    case 'AuthorizationHeaderMalformed':
      return `the bucket is in another region than AWS_REGION, which is ${region} (${told})`;
    default:
      return `the bucket answered ${told}`;
  }
}
