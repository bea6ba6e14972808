import { createHash } from 'node:crypto';
import * as z from 'zod';
import { type ApiRule, isSecretName, text, withRules } from './fields.ts';
import type { ObjectMetadata } from './metadata.ts';
import { storageOf } from './storage.ts';

/**
 * Bucket names as Amazon S3 admits them (User Guide, "General purpose bucket naming rules"), but for the reserved
 * prefixes and suffixes: those are names of other things, and no bucket has one.
 */
const bucketPattern = '^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$';
const addressPattern = '^[0-9]+([.][0-9]+){3}$';
const regionPattern = '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$';
const endpointPattern = '^https?://([-A-Za-z0-9.]+|[[][0-9A-Fa-f:]+])(:[0-9]{1,5})?$';
/** Characters that S3 calls safe in keys, so that a prefix is the same in a URL, a signature and a listing. */
const prefixPattern = '^[A-Za-z0-9!_.*()-]+(/[A-Za-z0-9!_.*()-]+)*$';
const pathPattern = '^(/[A-Za-z0-9._-]+)+$';
/** A part that a URL or a file system would take for "here" or "one up". */
const dotsOnlyPattern = '(^|/)[.]{1,2}(/|$)';

const maxPrefixLength = 200;

const isBucket: ApiRule = {
  rule: `self.matches('${bucketPattern}') && !self.contains('..') && !self.matches('${addressPattern}')`,
  message:
    'give the name of a bucket: 3 to 63 lower-case letters, digits, hyphens and single dots, and no IP address',
};
const isRegion: ApiRule = {
  rule: `self.matches('${regionPattern}')`,
  message: 'give the region as its name, for example eu-west-1',
};
const isEndpoint: ApiRule = {
  rule: `isURL(self) && self.matches('${endpointPattern}')`,
  message:
    'write the endpoint as https://host or https://host:port, without user, path, query and fragment, and leave it out for Amazon S3',
};
const isPrefix: ApiRule = {
  rule: `self.matches('${prefixPattern}') && !self.matches('${dotsOnlyPattern}')`,
  message:
    'write keyPrefix as a path such as backups/orders: letters, digits and !_.*()- between single slashes, none at its begin and end, and no part . or ..',
};
const isPath: ApiRule = {
  rule: `self.matches('${pathPattern}') && !self.matches('${dotsOnlyPattern}')`,
  message:
    'write path as an absolute path such as /backups, without a slash at its end and without . and ..',
};
const isServiceAccountName: ApiRule = {
  rule: isSecretName.rule,
  message: 'give the name of a ServiceAccount in this namespace',
};
const oneIdentity: ApiRule = {
  rule: '!(has(self.credentialsSecret) && has(self.serviceAccountName))',
  message:
    'give credentialsSecret or serviceAccountName, not both: take one of them out, since nobody could tell which of the two is used',
};
const s3WithItsType: ApiRule = {
  rule: "has(self.s3) == (self.type == 's3')",
  message: 'give s3, at least its bucket and region, where type is s3, and only there',
};
const filesystemWithItsType: ApiRule = {
  rule: "has(self.filesystem) == (self.type == 'filesystem')",
  message:
    'give filesystem, at least its path and storage, where type is filesystem, and only there',
};

const s3Schema = z
  .object({
    bucket: text(63, 'Its name.', isBucket),
    region: text(40, 'The region it is in.', isRegion),
    endpoint: text(
      253,
      'Where another server than Amazon S3 is: `https://host:port`.',
      isEndpoint,
    ).optional(),
    keyPrefix: text(
      maxPrefixLength,
      'What the keys of all its objects begin with. `<namespace>/<name of the Database>` when not given, so that no two Databases of a cluster share one.',
      isPrefix,
    ).optional(),
    credentialsSecret: text(
      253,
      'Name of a Secret in this namespace with `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, which members get as well.',
      isSecretName,
    ).optional(),
    serviceAccountName: text(
      253,
      'Name of a ServiceAccount in this namespace whose identity has access. Members run as it. Millrace looks at the bucket as itself then.',
      isServiceAccountName,
    ).optional(),
  })
  .meta({ description: 'A bucket, or a part of one.', ...withRules(oneIdentity) });

const filesystemSchema = z
  .object({
    path: text(200, 'Where the members have it mounted.', isPath),
    storage: storageOf(
      'The claim that all members of a shard share, in all cells. It is made once: later changes do not reach it.',
    ),
  })
  .meta({ description: 'A file system that the members share.' });

/** Where the backups of a database go. */
export const repositorySchema = z
  .object({
    type: z.enum(['s3', 'filesystem']).meta({ description: 'What it is.' }),
    s3: s3Schema.optional(),
    filesystem: filesystemSchema.optional(),
    encryption: z
      .object({
        required: z.boolean().meta({
          description:
            'A bucket that does not encrypt by default is refused, and the data plane starts no repository that is not encrypted.',
        }),
      })
      .optional()
      .meta({ description: 'What the data plane was told before stays when not given.' }),
  })
  .meta({
    description: 'Where the backups are kept.',
    ...withRules(s3WithItsType, filesystemWithItsType),
  });

/** As the spec of a Database says it. */
export type Repository = z.output<typeof repositorySchema>;

/** Where backups are, as the spec has it or the topology. Plain JSON; what is not given is empty. */
export type RepositoryPlace =
  | {
      readonly type: 's3';
      readonly bucket: string;
      readonly region: string;
      /** Empty: Amazon S3's own. */
      readonly endpoint: string;
      /** Without a slash at either end. */
      readonly keyPrefix: string;
      /** Whether the members sign in with keys from their environment; otherwise as their service account or machine. */
      readonly usesEnvironment: boolean;
    }
  | { readonly type: 'filesystem'; readonly path: string };

/** What the spec of a Database wants. `invalid`: the API server would refuse it today. */
export type WantedRepository =
  | { readonly kind: 'none' }
  | { readonly kind: 'invalid'; readonly why: string }
  | {
      readonly kind: 'wanted';
      readonly place: RepositoryPlace;
      /** Of {@link hashOfPlace}. */
      readonly hash: string;
      /** `null`: not said. */
      readonly mustEncrypt: boolean | null;
      /** Whether no more than one node at a time can mount the file system. Never of a bucket. */
      readonly isOneNodeOnly: boolean;
      /** The Secret with the keys of a bucket; `null` where there is none. */
      readonly credentialsSecret: string | null;
    };

interface WithRepository {
  readonly metadata: Pick<ObjectMetadata, 'namespace' | 'name'>;
  readonly spec: {
    readonly backup?: { readonly repository: Repository } | undefined;
  };
}

/**
 * The repository that a Database wants. What the definition's rules admit is checked once more, because its names become
 * parts of URLs and an object may be older than a rule.
 */
export function wantedRepository({ metadata, spec }: WithRepository): WantedRepository {
  const repository = spec.backup?.repository;
  if (repository === undefined) {
    return { kind: 'none' };
  }
  const place = placeOf(repository, `${metadata.namespace ?? 'default'}/${metadata.name}`);
  const why = place === undefined ? `there is no ${repository.type} block` : problemOf(place);
  if (place === undefined || why !== undefined) {
    return { kind: 'invalid', why: why ?? '' };
  }
  return {
    kind: 'wanted',
    place,
    hash: hashOfPlace(place),
    mustEncrypt: repository.encryption?.required ?? null,
    isOneNodeOnly:
      repository.type === 'filesystem' &&
      repository.filesystem?.storage.accessModes.includes('ReadWriteMany') === false,
    credentialsSecret: repository.s3?.credentialsSecret ?? null,
  };
}

function placeOf(
  { type, s3, filesystem }: Repository,
  defaultPrefix: string,
): RepositoryPlace | undefined {
  if (type === 'filesystem') {
    return filesystem && { type, path: filesystem.path };
  }
  return (
    s3 && {
      type,
      bucket: s3.bucket,
      region: s3.region,
      endpoint: s3.endpoint ?? '',
      keyPrefix: s3.keyPrefix ?? defaultPrefix,
      usesEnvironment: s3.credentialsSecret !== undefined,
    }
  );
}

/** Why a place must not become part of a URL or a path, `undefined` where it may. */
export function problemOf(place: RepositoryPlace): string | undefined {
  if (place.type === 'filesystem') {
    return isMatch(place.path, pathPattern) && !isMatch(place.path, dotsOnlyPattern)
      ? undefined
      : `the path ${shown(place.path)} is not absolute, or has parts that lead elsewhere`;
  }
  const { bucket, region, endpoint, keyPrefix } = place;
  if (!isMatch(bucket, bucketPattern) || bucket.includes('..') || isMatch(bucket, addressPattern)) {
    return `${shown(bucket)} is no name of a bucket`;
  }
  if (!isMatch(region, regionPattern)) {
    return `${shown(region)} is no name of a region`;
  }
  if (endpoint !== '' && !(isMatch(endpoint, endpointPattern) && URL.canParse(endpoint))) {
    return `the endpoint ${shown(withoutUser(endpoint))} is not http(s)://host or http(s)://host:port`;
  }
  return keyPrefix.length <= maxPrefixLength &&
    isMatch(keyPrefix, prefixPattern) &&
    !isMatch(keyPrefix, dotsOnlyPattern)
    ? undefined
    : `${shown(keyPrefix)} is no prefix of keys`;
}

/** An endpoint without the name and the password that somebody wrote into it: no place that is used has any. */
export function withoutUser(endpoint: string): string {
  return endpoint.replace(/^([a-z]*:?\/\/)?.*@/is, '$1…@');
}

function isMatch(value: string, pattern: string): boolean {
  return new RegExp(pattern).test(value);
}

function shown(value: string): string {
  return JSON.stringify(value.length > 100 ? `${value.slice(0, 100)}…` : value);
}

/**
 * Names a place: 12 hex digits of the SHA-256 of its canonical text, which is `s3`, endpoint, bucket and prefix, or
 * `filesystem` and path, a line each. The same place has the same hash however its parts are spelled. Region, encryption
 * and the way of signing in are no part of it: with another one the same backups are there.
 */
export function hashOfPlace(place: RepositoryPlace): string {
  const lines =
    place.type === 's3'
      ? ['s3', canonicalEndpoint(place.endpoint), place.bucket, withoutSlashes(place.keyPrefix)]
      : ['filesystem', place.path.replace(/(?<=.)\/+$/, '')];
  return createHash('sha256').update(lines.join('\n')).digest('hex').slice(0, 12);
}

/** Lower case, without the port that its scheme has anyway. What is no URL stays as it is. */
function canonicalEndpoint(endpoint: string): string {
  return URL.canParse(endpoint)
    ? new URL(endpoint).href.replace(/\/+$/, '')
    : endpoint.replace(/\/+$/, '');
}

function withoutSlashes(prefix: string): string {
  return prefix.replaceAll(/^\/+|\/+$/g, '');
}

/** For people: `s3://backups/db/main`, with the server where it is not Amazon's, or `/backups`. */
export function textOfPlace(place: RepositoryPlace): string {
  if (place.type === 'filesystem') {
    return `the file system at ${place.path}`;
  }
  const at = place.endpoint === '' ? '' : ` at ${place.endpoint}`;
  return `s3://${place.bucket}/${place.keyPrefix}${at}`;
}
