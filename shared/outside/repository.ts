import type { Database } from '#shared/api/database.ts';
import { wantedRepository } from '#shared/api/repository.ts';
import { RetryableError } from '#shared/kernel/errors.ts';
import { type Read, absent, present, unknown } from '#shared/kernel/read.ts';
import type { KubeReader } from '#shared/kube/kube.ts';
import type { RepositoryReader, RepositoryWriter } from '#shared/repository/repository.ts';
import {
  type S3Credentials,
  type S3Place,
  type S3Repository,
  type S3Transport,
  connectS3,
} from '#shared/repository/s3-repository.ts';

/** The keys of a credentials Secret, as the members' environment has them too. */
const accessKeyId = 'AWS_ACCESS_KEY_ID';
const secretAccessKey = 'AWS_SECRET_ACCESS_KEY';

/** What a header takes. A line break at the end, which `echo` leaves in many a Secret, is found here and not in a refusal. */
const usable = /^[\x21-\x7e]+$/;

/** `ambient`: no Secret is named, so the process signs in as itself. */
type SignIn =
  | { readonly kind: 'ambient' }
  | { readonly kind: 'keys'; readonly credentials: S3Credentials }
  | { readonly kind: 'incomplete'; readonly missing: readonly string[] };

/**
 * The repositories that Databases name, with the credentials of the Secrets that they name. A connection is made for one
 * survey or one write, so that a Secret that was put right is in use at the next look.
 */
export function repositories(kube: KubeReader, transport?: S3Transport) {
  function reader(database: Database): RepositoryReader {
    return {
      async survey(signal) {
        const place = bucketOf(database);
        const signIn = await readSignIn(kube, database, signal);
        if (
          place === undefined ||
          signIn.kind !== 'present' ||
          signIn.value.kind === 'incomplete'
        ) {
          return { ...nothingAsked, credentials: credentialsOf(signIn) };
        }
        const repository = connectS3({ place, credentials: keysOf(signIn.value) }, transport);
        try {
          return { credentials: credentialsOf(signIn), ...(await repository.survey(signal)) };
        } finally {
          repository.close();
        }
      },
    };
  }

  function writer(database: Database): RepositoryWriter {
    return {
      async put(key, text, guard, signal) {
        const repository = await openForWrite({ kube, transport }, database, signal);
        try {
          return await repository.put(key, text, guard, signal);
        } finally {
          repository.close();
        }
      },
    };
  }

  return { reader, writer };
}

const notAsked = unknown('it was not asked');

const nothingAsked = {
  owner: notAsked,
  keepsConditions: notAsked,
  isVersioned: notAsked,
  isEncrypted: notAsked,
} as const;

function bucketOf(database: Database): S3Place | undefined {
  const wanted = wantedRepository(database);
  return wanted.kind === 'wanted' && wanted.place.type === 's3' ? wanted.place : undefined;
}

async function openForWrite(
  { kube, transport }: { readonly kube: KubeReader; readonly transport: S3Transport | undefined },
  database: Database,
  signal: AbortSignal | undefined,
): Promise<S3Repository> {
  const place = bucketOf(database);
  const signIn = await readSignIn(kube, database, signal);
  if (place === undefined || signIn.kind !== 'present' || signIn.value.kind === 'incomplete') {
    throw new RetryableError(
      'CredentialsUnknown',
      'the repository, or what to sign in with, is another than at the look before',
    );
  }
  return connectS3({ place, credentials: keysOf(signIn.value) }, transport);
}

/** The only place that reads the values; they leave it in the SDK's credentials alone. */
async function readSignIn(
  kube: KubeReader,
  { metadata, spec }: Database,
  signal: AbortSignal | undefined,
): Promise<Read<SignIn>> {
  const name = spec.backup?.repository.s3?.credentialsSecret;
  if (name === undefined) {
    return present({ kind: 'ambient' });
  }
  const namespace = metadata.namespace ?? 'default';
  const secret = await kube.get({ kind: 'Secret', namespace, name }, signal);
  if (secret.kind !== 'present') {
    return secret.kind === 'absent' ? absent : secret;
  }
  const data = secret.value.data ?? {};
  const values = {
    accessKeyId: valueOf(data, accessKeyId),
    secretAccessKey: valueOf(data, secretAccessKey),
  };
  const missing = [
    ...(usable.test(values.accessKeyId) ? [] : [accessKeyId]),
    ...(usable.test(values.secretAccessKey) ? [] : [secretAccessKey]),
  ];
  return present(
    missing.length === 0 ? { kind: 'keys', credentials: values } : { kind: 'incomplete', missing },
  );
}

function valueOf(data: { readonly [key: string]: string }, key: string): string {
  return Buffer.from(data[key] ?? '', 'base64').toString('utf8');
}

function keysOf(signIn: SignIn): S3Credentials | undefined {
  return signIn.kind === 'keys' ? signIn.credentials : undefined;
}

function credentialsOf(signIn: Read<SignIn>): Read<{ readonly missing: readonly string[] }> {
  return signIn.kind === 'present'
    ? present({ missing: signIn.value.kind === 'incomplete' ? signIn.value.missing : [] })
    : signIn;
}
