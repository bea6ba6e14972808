import { type RepositoryPlace, problemOf } from '#shared/api/repository.ts';
import { maxOwnerBytes, ownerObjectName, parseOwner } from '#shared/api/repository-owner.ts';
import { readText } from '#shared/http/connection.ts';
import type { ObjectGuard } from '#shared/kernel/effect.ts';
import { RetryableError, describeError } from '#shared/kernel/errors.ts';
import { absent, present, unknown } from '#shared/kernel/read.ts';
import type { WriteResult } from '#shared/kube/kube.ts';
import type {
  OwnerObject,
  RepositoryRead,
  RepositorySurvey,
  RepositoryWriter,
} from './repository.ts';
import { type Failure, failureOf } from '#shared/http/s3-failure.ts';

export type S3Place = Extract<RepositoryPlace, { readonly type: 's3' }>;

/** Plain values from the Secret that a Database names. They go to the SDK, and nowhere else. */
export interface S3Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
}

export interface S3Access {
  readonly place: S3Place;
  /** Where there are none, those that the process has by itself: its role, its environment. */
  readonly credentials?: S3Credentials | undefined;
  /** How long one request may take, in milliseconds, to the last byte of its answer; 4,000 when absent. */
  readonly requestTimeoutMs?: number | undefined;
}

export interface S3Repository extends RepositoryWriter {
  survey(signal?: AbortSignal): Promise<Omit<RepositorySurvey, 'credentials'>>;
  /** Closes the connections. */
  close(): void;
}

/** A healthy bucket answers within a tenth of this. Two in a row, which a survey is, stay far below a look's time. */
const defaultTimeoutMs = 4_000;

/** The object that is never there: a write of it that asks for a version must be refused. */
const probeName = 'millrace-probe';
const noVersion = '"00000000000000000000000000000000"';
const probeText = 'Millrace asks by this whether it could write here.\n';

/** What may become part of a key besides the prefix. */
const objectName = /^[a-z0-9][a-z0-9.-]{0,63}$/;

const notAsked = unknown('it was not asked');

interface ObjectKey {
  readonly Bucket: string;
  readonly Key: string;
}

interface ObjectToPut extends ObjectKey {
  readonly Body: string;
  readonly ContentType?: string;
  readonly IfMatch?: string;
  readonly IfNoneMatch?: string;
}

/** The four requests that a bucket is sent, by the names that S3 has for them. What fails throws what the SDK throws. */
export interface S3Requests {
  getObject(key: ObjectKey, signal: AbortSignal): Promise<{ ETag?: string; Body?: unknown }>;
  putObject(object: ObjectToPut, signal: AbortSignal): Promise<{ ETag?: string }>;
  getBucketVersioning(bucket: string, signal: AbortSignal): Promise<{ Status?: string }>;
  /** How many rules of default encryption there are. */
  countEncryptionRules(bucket: string, signal: AbortSignal): Promise<number>;
  destroy(): void;
}

/** How requests leave the process, and how long they may take: one's own in a world whose time is not the process's. */
export interface S3Transport {
  open(access: S3Access): Promise<S3Requests>;
  /** Aborts when so many milliseconds have passed. */
  deadlineIn(delayMs: number): AbortSignal;
}

/**
 * Connects to a bucket of Amazon S3, or of a server that speaks its protocol. The SDK is loaded at the first request; a
 * place that must not become part of a URL is an unknown answer, and a refused write.
 *
 * Nothing is retried and no redirect is followed: whoever asks knows how much time is left, and where requests may go.
 */
export function connectS3(access: S3Access, transport = sdkTransport): S3Repository {
  const { place } = access;
  let connecting: Promise<S3Requests> | undefined;
  const request: Request = async (run, signal) => {
    const problem = problemOf(place);
    if (problem !== undefined) {
      return { kind: 'unknown', why: problem };
    }
    connecting ??= transport.open(access);
    const timeoutMs = access.requestTimeoutMs ?? defaultTimeoutMs;
    return bounded(
      connecting,
      run,
      { timeoutMs, timeout: transport.deadlineIn(timeoutMs) },
      signal,
    );
  };
  return {
    survey: (signal) => survey(place, request, signal),
    put: (key, text, guard, signal) => put(place, request, { key, text, guard }, signal),
    close() {
      void connecting?.then(
        (requests) => requests.destroy(),
        () => undefined,
      );
    },
  };
}

type Answer<T> = { readonly kind: 'answered'; readonly value: T } | Failure;

type Request = <T>(
  run: (requests: S3Requests, signal: AbortSignal) => Promise<T>,
  signal: AbortSignal | undefined,
) => Promise<Answer<T>>;

const sdkTransport: S3Transport = {
  open: openClient,
  deadlineIn: (delayMs) => AbortSignal.timeout(delayMs),
};

async function openClient({ place, credentials }: S3Access): Promise<S3Requests> {
  const sdk = await import('@aws-sdk/client-s3');
  const client = new sdk.S3Client({
    region: place.region,
    // Other servers have one name, and no certificate for names below it.
    ...(place.endpoint === '' ? {} : { endpoint: place.endpoint, forcePathStyle: true }),
    ...(credentials === undefined ? {} : { credentials }),
    maxAttempts: 1,
    followRegionRedirects: false,
    // Many servers refuse the checksums that the SDK would add of its own accord.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
  });
  return {
    async getObject(key, abortSignal) {
      const { ETag, Body } = await client.send(new sdk.GetObjectCommand(key), { abortSignal });
      return { ...(ETag === undefined ? {} : { ETag }), Body };
    },
    async putObject(object, abortSignal) {
      const { ETag } = await client.send(new sdk.PutObjectCommand(object), { abortSignal });
      return ETag === undefined ? {} : { ETag };
    },
    async getBucketVersioning(bucket, abortSignal) {
      const command = new sdk.GetBucketVersioningCommand({ Bucket: bucket });
      const { Status } = await client.send(command, { abortSignal });
      return Status === undefined ? {} : { Status };
    },
    async countEncryptionRules(bucket, abortSignal) {
      const command = new sdk.GetBucketEncryptionCommand({ Bucket: bucket });
      const { ServerSideEncryptionConfiguration: found } = await client.send(command, {
        abortSignal,
      });
      return (found?.Rules ?? []).length;
    },
    destroy: () => client.destroy(),
  };
}

/**
 * The SDK's own limits end with the head of an answer, and begin only when credentials were found: this one is for all of
 * it. What goes on unheard fails by the same signal.
 */
async function bounded<T>(
  connecting: Promise<S3Requests>,
  run: (requests: S3Requests, signal: AbortSignal) => Promise<T>,
  { timeoutMs, timeout }: { readonly timeoutMs: number; readonly timeout: AbortSignal },
  outer: AbortSignal | undefined,
): Promise<Answer<T>> {
  const signal = outer === undefined ? timeout : AbortSignal.any([outer, timeout]);
  const { promise: ended, reject } = Promise.withResolvers<never>();
  const stop = () => {
    reject(new Error('stopped'));
  };
  signal.addEventListener('abort', stop, { once: true });
  try {
    signal.throwIfAborted();
    const running = connecting.then((requests) => run(requests, signal));
    running.catch(() => undefined);
    return { kind: 'answered', value: await Promise.race([running, ended]) };
  } catch (error) {
    if (signal.aborted) {
      const why = timeout.aborted ? `no answer within ${timeoutMs / 1000} s` : 'aborted';
      return { kind: 'unknown', why };
    }
    return failureOf(error);
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

/** The owner comes first: its version may be compared by a write, and all else is evidence for that. */
async function survey(
  place: S3Place,
  request: Request,
  signal: AbortSignal | undefined,
): Promise<Omit<RepositorySurvey, 'credentials'>> {
  const owner = await readOwner(place, request, signal);
  if (owner.kind !== 'present' && owner.kind !== 'absent') {
    return { owner, keepsConditions: notAsked, isVersioned: notAsked, isEncrypted: notAsked };
  }
  const [keepsConditions, isVersioned, isEncrypted] = await Promise.all([
    probe(place, request, signal),
    readVersioning(place, request, signal),
    readEncryption(place, request, signal),
  ]);
  return { owner, keepsConditions, isVersioned, isEncrypted };
}

async function readOwner(
  { bucket, keyPrefix, region }: S3Place,
  request: Request,
  signal: AbortSignal | undefined,
): Promise<RepositoryRead<OwnerObject>> {
  const key = `${keyPrefix}/${ownerObjectName}`;
  const answer = await request(async (requests, ended) => {
    const { Body, ETag } = await requests.getObject({ Bucket: bucket, Key: key }, ended);
    return { etag: ETag ?? '', text: await readBody(Body) };
  }, signal);
  if (answer.kind === 'answered') {
    const { etag, text } = answer.value;
    return etag === ''
      ? unknown(`reading ${key}: the answer names no version`)
      : present({ etag, owner: text === null ? null : (parseOwner(text) ?? null) });
  }
  return answer.kind === 'answer' && answer.code === 'NoSuchKey'
    ? absent
    : asRead(answer, region, `reading ${key}`);
}

/** `null` where it is longer than any owner object. */
async function readBody(body: unknown): Promise<string | null> {
  try {
    return await readText(body as AsyncIterable<Uint8Array>, maxOwnerBytes);
  } catch (error) {
    if (describeError(error).startsWith('the answer is longer')) {
      return null;
    }
    throw error;
  }
}

/**
 * Asks for a write that no server may do: of an object that is not there, under the condition that it is a version that
 * cannot be. Who may not write is refused before the condition is looked at. A server that ignores conditions writes the
 * object; it cannot keep two owners apart, and is found out by it.
 */
async function probe(
  { bucket, keyPrefix, region }: S3Place,
  request: Request,
  signal: AbortSignal | undefined,
): Promise<RepositoryRead<boolean>> {
  const key = `${keyPrefix}/${probeName}`;
  const answer = await request(
    (requests, ended) =>
      requests.putObject({ Bucket: bucket, Key: key, Body: probeText, IfMatch: noVersion }, ended),
    signal,
  );
  if (answer.kind === 'answered') {
    return present(false);
  }
  return answer.kind === 'answer' && (answer.status === 412 || answer.code === 'NoSuchKey')
    ? present(true)
    : asRead(answer, region, `asking whether ${key} could be written`);
}

async function readVersioning(
  { bucket, region }: S3Place,
  request: Request,
  signal: AbortSignal | undefined,
): Promise<RepositoryRead<boolean>> {
  const answer = await request(
    (requests, ended) => requests.getBucketVersioning(bucket, ended),
    signal,
  );
  if (answer.kind === 'answered') {
    return present(answer.value.Status === 'Enabled');
  }
  return isWithout(answer) ? present(false) : asRead(answer, region, 'asking for its versioning');
}

async function readEncryption(
  { bucket, region }: S3Place,
  request: Request,
  signal: AbortSignal | undefined,
): Promise<RepositoryRead<boolean>> {
  const answer = await request(
    (requests, ended) => requests.countEncryptionRules(bucket, ended),
    signal,
  );
  if (answer.kind === 'answered') {
    return present(answer.value > 0);
  }
  return isWithout(answer) ? present(false) : asRead(answer, region, 'asking for its encryption');
}

/** A server that has no such thing, or whose bucket has no such configuration. */
function isWithout(failure: Failure): boolean {
  return (
    failure.kind === 'answer' &&
    (failure.code === 'NotImplemented' ||
      failure.code === 'VersioningNotConfigured' ||
      failure.code === 'ServerSideEncryptionConfigurationNotFoundError')
  );
}

async function put(
  { bucket, keyPrefix, region }: S3Place,
  request: Request,
  object: { readonly key: string; readonly text: string; readonly guard: ObjectGuard },
  signal: AbortSignal | undefined,
): Promise<WriteResult> {
  if (!objectName.test(object.key)) {
    throw new RetryableError('RepositoryKeyInvalid', 'the object has no valid name');
  }
  const key = `${keyPrefix}/${object.key}`;
  const condition =
    'ifMatch' in object.guard ? { IfMatch: object.guard.ifMatch } : { IfNoneMatch: '*' };
  const answer = await request(
    (requests, ended) =>
      requests.putObject(
        {
          Bucket: bucket,
          Key: key,
          Body: object.text,
          ContentType: 'application/json',
          ...condition,
        },
        ended,
      ),
    signal,
  );
  if (answer.kind === 'answered') {
    return { kind: 'written', resourceVersion: answer.value.ETag ?? '' };
  }
  return endingOf(answer, region, `writing ${key}`);
}

/** A guard that no longer holds (a conflict is two writers at the same moment) or a bucket that is another by now. */
function endingOf(failure: Failure, region: string, what: string): WriteResult {
  const read = asRead(failure, region, what);
  if (failure.kind === 'answer' && [404, 409, 412].includes(failure.status)) {
    return { kind: 'lostRace', why: `${what}: the guard no longer holds (${failure.code})` };
  }
  if (read.kind === 'refused') {
    throw new RetryableError('RepositoryForbidden', read.why, { afterSeconds: 300 });
  }
  throw new RetryableError(
    'RepositoryOutcomeUnknown',
    read.kind === 'unknown' ? read.why : `${what}: the bucket is another by now`,
  );
}

/** What a failure says of the bucket. Nothing that a server wrote is repeated but its code. */
function asRead(
  failure: Failure,
  region: string,
  what: string,
): Exclude<RepositoryRead<never>, { readonly kind: 'present' | 'absent' }> {
  if (failure.kind !== 'answer') {
    return { kind: failure.kind, why: `${what}: ${failure.why}` };
  }
  const { status, code } = failure;
  const said = `${what}: the server answers ${status} ${code}`.trimEnd();
  if (code === 'NoSuchBucket') {
    return { kind: 'noBucket' };
  }
  if (code === 'PermanentRedirect' || (failure.region !== null && failure.region !== region)) {
    return { kind: 'otherRegion', region: failure.region };
  }
  // A clock that is wrong is repaired elsewhere, and is no word on permissions.
  const isRefusal =
    status === 401 ||
    (status === 403 && code !== 'RequestTimeTooSkewed') ||
    refusingCodes.has(code);
  return isRefusal ? { kind: 'refused', why: said } : unknown(said);
}

/** Refusals of who asks that come as a plain "bad request". */
const refusingCodes: ReadonlySet<string> = new Set([
  'AuthorizationHeaderMalformed',
  'ExpiredToken',
  'InvalidToken',
]);
