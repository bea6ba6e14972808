import type { KubeResponse } from '#shared/kube/connection.ts';

/** What a bucket is asked for, by the names that S3 has for it. */
export interface BucketRequest {
  readonly operation: 'getObject' | 'putObject' | 'getBucketVersioning' | 'getBucketEncryption';
  readonly endpoint: string;
  readonly region: string;
  readonly bucket: string;
  readonly key: string;
  readonly text: string;
  readonly ifMatch: string | null;
  readonly ifNoneMatch: string | null;
  /** Who signs; `null`: the process as itself. The other half of the keys never leaves it. */
  readonly accessKeyId: string | null;
}

/** An object as it is kept, with the token of a compare-and-swap. */
export interface BucketObject {
  readonly etag: string;
  readonly text: string;
}

export interface Bucket {
  readonly region: string;
  readonly isVersioned: boolean;
  readonly isEncrypted: boolean;
  readonly isReadOnly: boolean;
  /** Nobody has access. */
  readonly isForbidden: boolean;
  /** Whose signature it takes; anybody's where there is none. */
  readonly accessKeyId: string | null;
  readonly objects: { readonly [key: string]: BucketObject };
}

/** The last write that took effect. */
export interface BucketWrite {
  readonly bucket: string;
  readonly key: string;
  readonly before: BucketObject | undefined;
  readonly after: BucketObject;
}

const plain: Bucket = {
  region: 'eu-west-1',
  isVersioned: true,
  isEncrypted: true,
  isReadOnly: false,
  isForbidden: false,
  accessKeyId: null,
  objects: {},
};

/** What Amazon S3 answers where a permission is missing; never a word on what is there. */
const accessDenied = failure(403, 'AccessDenied');

/**
 * Buckets of one server, with the part of S3 that Millrace asks for: objects with ETags, conditional writes, and two
 * settings. Strongly consistent, as S3 is. A value: copies share what never changes.
 */
export class Buckets {
  #buckets: { readonly [name: string]: Bucket };
  #writes: number;
  lastWrite: BucketWrite | undefined;

  constructor(copyOf?: Buckets) {
    this.#buckets = copyOf?.all ?? {};
    this.#writes = copyOf?.writes ?? 0;
    this.lastWrite = copyOf?.lastWrite;
  }

  fork(): Buckets {
    return new Buckets(this);
  }

  /** Everything there is, for telling moments apart. */
  get all(): { readonly [name: string]: Bucket } {
    return this.#buckets;
  }

  /** Writes that took effect so far; each makes another ETag. */
  get writes(): number {
    return this.#writes;
  }

  /** Makes a bucket, or changes what is said. */
  set(name: string, change: Partial<Bucket>): void {
    this.#buckets = { ...this.#buckets, [name]: { ...(this.#buckets[name] ?? plain), ...change } };
  }

  get(name: string): Bucket | undefined {
    return this.#buckets[name];
  }

  remove(name: string): void {
    const { [name]: _removed, ...others } = this.#buckets;
    this.#buckets = others;
  }

  ask(request: BucketRequest): KubeResponse {
    const bucket = this.#buckets[request.bucket];
    if (bucket === undefined) {
      return failure(404, 'NoSuchBucket');
    }
    if (bucket.accessKeyId !== null && bucket.accessKeyId !== request.accessKeyId) {
      return failure(403, 'InvalidAccessKeyId');
    }
    if (bucket.isForbidden) {
      return accessDenied;
    }
    if (bucket.region !== request.region) {
      return failure(301, 'PermanentRedirect');
    }
    switch (request.operation) {
      case 'getObject': {
        const found = bucket.objects[request.key];
        return found === undefined ? failure(404, 'NoSuchKey') : { status: 200, body: found };
      }
      case 'getBucketVersioning':
        return { status: 200, body: bucket.isVersioned ? { status: 'Enabled' } : {} };
      case 'getBucketEncryption':
        return bucket.isEncrypted
          ? { status: 200, body: { rules: 1 } }
          : failure(404, 'ServerSideEncryptionConfigurationNotFoundError');
      case 'putObject':
        return bucket.isReadOnly ? accessDenied : this.#put(bucket, request);
    }
  }

  /** Who asks for a version of what is not there is told so by some servers as a missing key, by Amazon's as well. */
  #put(bucket: Bucket, { bucket: name, key, text, ifMatch, ifNoneMatch }: BucketRequest) {
    const before = bucket.objects[key];
    if (ifMatch !== null && before === undefined) {
      return failure(404, 'NoSuchKey');
    }
    const holds =
      ifMatch === null ? ifNoneMatch !== '*' || before === undefined : before?.etag === ifMatch;
    if (!holds) {
      return failure(412, 'PreconditionFailed');
    }
    this.#writes += 1;
    const after: BucketObject = { etag: `"${this.#writes}"`, text };
    this.set(name, { objects: { ...bucket.objects, [key]: after } });
    this.lastWrite = { bucket: name, key, before, after };
    return { status: 200, body: { etag: after.etag } };
  }
}

function failure(status: number, code: string): KubeResponse {
  return { status, body: { code } };
}
