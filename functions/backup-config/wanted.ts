import type { RepositoryPlace, WantedRepository } from '#shared/api/repository.ts';
import { type RepositoryOwner, ownerObjectName } from '#shared/api/repository-owner.ts';
import type { RepositoryRead, RepositorySurvey } from '#shared/repository/repository.ts';
import type { BackupConfigSnapshot } from './snapshot.ts';

type Wanted = Extract<WantedRepository, { readonly kind: 'wanted' }>;

/** The repository that the spec names, `null` where it names none that could be used. */
export function wantedOf({ database }: BackupConfigSnapshot): Wanted | null {
  return database.wanted.kind === 'wanted' ? database.wanted : null;
}

/** A wanted bucket, and what it answered. */
export interface Bucket {
  readonly place: Extract<RepositoryPlace, { readonly type: 's3' }>;
  readonly hash: string;
  readonly mustEncrypt: boolean | null;
  /** The Secret with its keys, in words. */
  readonly secret: string;
  readonly survey: RepositorySurvey;
  /** Answers without which it is not used. Writing is apart from them: who may read learns more of what is wrong. */
  readonly needed: readonly RepositoryRead<unknown>[];
  /** Whose it is by its owner object; `null` where there is none, or none that can be read. */
  readonly owner: RepositoryOwner | null;
}

/** `null` where a file system is wanted, or nothing. */
export function bucketOf(snapshot: BackupConfigSnapshot): Bucket | null {
  const { survey } = snapshot;
  const wanted = wantedOf(snapshot);
  if (wanted?.place.type !== 's3') {
    return null;
  }
  const { place, hash, mustEncrypt, credentialsSecret } = wanted;
  return {
    place,
    hash,
    mustEncrypt,
    secret: `the Secret ${credentialsSecret ?? ''} with its credentials`,
    survey,
    needed: [survey.owner, ...(mustEncrypt === true ? [survey.isEncrypted] : [])],
    owner: survey.owner.kind === 'present' ? survey.owner.value.owner : null,
  };
}

/** For messages: `s3://backups/db/main/millrace-owner.json`. */
export function ownerKey({ place }: Bucket): string {
  return `s3://${place.bucket}/${place.keyPrefix}/${ownerObjectName}`;
}

/** Part by part, since a different spelling of the same place is to be written as well. */
export function isSamePlace(found: RepositoryPlace | null, wanted: RepositoryPlace): boolean {
  if (found?.type === 's3' && wanted.type === 's3') {
    return (
      found.bucket === wanted.bucket &&
      found.region === wanted.region &&
      found.endpoint === wanted.endpoint &&
      found.keyPrefix === wanted.keyPrefix &&
      found.usesEnvironment === wanted.usesEnvironment
    );
  }
  return found?.type === 'filesystem' && wanted.type === 'filesystem' && found.path === wanted.path;
}
