import * as z from 'zod';
import type { KubeResponse } from '#shared/kube/connection.ts';
import type { S3Requests, S3Transport } from '#shared/repository/s3-repository.ts';
import type { BucketRequest } from '#test/world/model/buckets.ts';

const objectSchema = z.object({ etag: z.string(), text: z.string() });
const writtenSchema = z.object({ etag: z.string() });
const versioningSchema = z.object({ status: z.string().optional() });
const encryptionSchema = z.object({ rules: z.int() });
const codeSchema = z.object({ code: z.string() }).catch({ code: '' });

/** An answer that is no success, as the SDK throws it. */
class AnsweredError extends Error {
  readonly $metadata: { readonly httpStatusCode: number };

  constructor({ status, body }: KubeResponse) {
    const { code } = codeSchema.parse(body);
    super(code);
    this.name = code;
    this.$metadata = { httpStatusCode: status };
  }
}

/** Buckets as handlers of the world reach them: every request is a question, and no time of the process passes. */
export function bucketTransport(
  ask: (request: BucketRequest) => Promise<KubeResponse>,
  deadline: AbortSignal,
): S3Transport {
  return {
    deadlineIn: () => deadline,
    async open({ place, credentials }): Promise<S3Requests> {
      const send = async (request: Partial<BucketRequest> & Pick<BucketRequest, 'operation'>) => {
        const response = await ask({
          endpoint: place.endpoint,
          region: place.region,
          bucket: place.bucket,
          key: '',
          text: '',
          ifMatch: null,
          ifNoneMatch: null,
          accessKeyId: credentials?.accessKeyId ?? null,
          ...request,
        });
        if (response.status >= 300) {
          throw new AnsweredError(response);
        }
        return response.body;
      };
      return {
        async getObject({ Bucket: bucket, Key: key }) {
          const body = await send({ operation: 'getObject', bucket, key });
          const { etag, text } = objectSchema.parse(body);
          return { ETag: etag, Body: chunksOf(text) };
        },
        async putObject({ Bucket: bucket, Key: key, Body: text, IfMatch, IfNoneMatch }) {
          const conditions = { ifMatch: IfMatch ?? null, ifNoneMatch: IfNoneMatch ?? null };
          const body = await send({ operation: 'putObject', bucket, key, text, ...conditions });
          return { ETag: writtenSchema.parse(body).etag };
        },
        async getBucketVersioning(bucket) {
          const body = await send({ operation: 'getBucketVersioning', bucket });
          const { status } = versioningSchema.parse(body);
          return status === undefined ? {} : { Status: status };
        },
        async countEncryptionRules(bucket) {
          const body = await send({ operation: 'getBucketEncryption', bucket });
          return encryptionSchema.parse(body).rules;
        },
        destroy: () => undefined,
      };
    },
  };
}

async function* chunksOf(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}
