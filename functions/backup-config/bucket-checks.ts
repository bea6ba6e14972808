import { nameOfOwner } from '#shared/api/repository-owner.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import type { RepositoryRead } from '#shared/repository/repository.ts';
import { type BackupConfigDecision, block, wait } from './moves.ts';
import type { BackupConfigSnapshot } from './snapshot.ts';
import { type Bucket, bucketOf, ownerKey } from './wanted.ts';

export function credentialsUnknown(
  snapshot: BackupConfigSnapshot,
  now: Instant,
): BackupConfigDecision | undefined {
  const bucket = bucketOf(snapshot);
  return bucket?.survey.credentials.kind === 'unknown'
    ? wait(snapshot, now, {
        kind: 'unknown',
        reason: 'CredentialsUnknown',
        message: `${bucket.secret} cannot be read: ${bucket.survey.credentials.why}`,
      })
    : undefined;
}

export function credentialsMissing(
  snapshot: BackupConfigSnapshot,
  now: Instant,
): BackupConfigDecision | undefined {
  const bucket = bucketOf(snapshot);
  if (bucket === null) {
    return undefined;
  }
  const { secret, survey } = bucket;
  if (survey.credentials.kind === 'absent') {
    return block(
      snapshot,
      now,
      'CredentialsMissing',
      `${secret} does not exist`,
      `create it in namespace ${snapshot.database.namespace}, with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY`,
    );
  }
  return survey.credentials.kind === 'present' && survey.credentials.value.missing.length > 0
    ? block(
        snapshot,
        now,
        'CredentialsMissing',
        `${secret} has no usable ${survey.credentials.value.missing.join(' and ')}`,
        'put each there as it is, without a line break at its end',
      )
    : undefined;
}

export function bucketMissing(
  snapshot: BackupConfigSnapshot,
  now: Instant,
): BackupConfigDecision | undefined {
  const bucket = bucketOf(snapshot);
  return bucket !== null && answersOf(bucket).some(({ kind }) => kind === 'noBucket')
    ? block(
        snapshot,
        now,
        'BucketMissing',
        `there is no bucket ${bucket.place.bucket}${serverOf(bucket)}`,
        'create the bucket, or correct spec.backup.repository.s3.bucket',
      )
    : undefined;
}

export function bucketElsewhere(
  snapshot: BackupConfigSnapshot,
  now: Instant,
): BackupConfigDecision | undefined {
  const bucket = bucketOf(snapshot);
  const answer =
    bucket === null ? undefined : answersOf(bucket).find((read) => read.kind === 'otherRegion');
  if (bucket === null || answer === undefined) {
    return undefined;
  }
  const region = answer.region ?? 'the one that the bucket is in';
  return block(
    snapshot,
    now,
    'BucketInOtherRegion',
    `the bucket ${bucket.place.bucket} is not in ${bucket.place.region}`,
    `set spec.backup.repository.s3.region to ${region}`,
  );
}

/** Reading must be possible, and where encryption is required also seeing it. */
export function accessRefused(
  snapshot: BackupConfigSnapshot,
  now: Instant,
): BackupConfigDecision | undefined {
  const bucket = bucketOf(snapshot);
  const refusal = bucket?.needed.find((read) => read.kind === 'refused');
  return bucket === null || refusal === undefined
    ? undefined
    : block(
        snapshot,
        now,
        'RepositoryForbidden',
        `Millrace is refused access: ${refusal.why}`,
        accessAdvice(bucket),
      );
}

export function writingRefused(
  snapshot: BackupConfigSnapshot,
  now: Instant,
): BackupConfigDecision | undefined {
  const bucket = bucketOf(snapshot);
  const probe = bucket?.survey.keepsConditions;
  return bucket !== null && probe?.kind === 'refused'
    ? block(
        snapshot,
        now,
        'RepositoryReadOnly',
        `the repository can be read but not written: ${probe.why}`,
        accessAdvice(bucket),
      )
    : undefined;
}

export function repositoryUnknown(
  snapshot: BackupConfigSnapshot,
  now: Instant,
): BackupConfigDecision | undefined {
  const bucket = bucketOf(snapshot);
  const answer =
    bucket === null ? undefined : answersOf(bucket).find((read) => read.kind === 'unknown');
  return answer === undefined
    ? undefined
    : wait(snapshot, now, {
        kind: 'unknown',
        reason: 'RepositoryUnknown',
        message: `the repository cannot be looked at: ${answer.why}`,
      });
}

/** Two Databases could both become owners of one prefix there. */
export function conditionsIgnored(
  snapshot: BackupConfigSnapshot,
  now: Instant,
): BackupConfigDecision | undefined {
  const bucket = bucketOf(snapshot);
  const probe = bucket?.survey.keepsConditions;
  return bucket !== null && isNo(probe)
    ? block(
        snapshot,
        now,
        'ConditionalWritesIgnored',
        `the server${serverOf(bucket)} ignores If-Match, so two databases could not be kept apart`,
        'use a server with conditional writes, or a newer version of this one',
      )
    : undefined;
}

export function ownerUnreadable(
  snapshot: BackupConfigSnapshot,
  now: Instant,
): BackupConfigDecision | undefined {
  const bucket = bucketOf(snapshot);
  const owner = bucket?.survey.owner;
  return bucket !== null && owner?.kind === 'present' && owner.value.owner === null
    ? block(
        snapshot,
        now,
        'RepositoryOwnerUnreadable',
        `${ownerKey(bucket)} is not what this version of Millrace writes`,
        'upgrade Millrace if a newer one wrote it, or find out who did; then choose another keyPrefix or remove it',
      )
    : undefined;
}

export function repositoryOfOthers(
  snapshot: BackupConfigSnapshot,
  now: Instant,
): BackupConfigDecision | undefined {
  const bucket = bucketOf(snapshot);
  const owner = bucket?.owner ?? null;
  if (bucket === null || owner === null || nameOfOwner(owner) === nameOfOwner(snapshot.database)) {
    return undefined;
  }
  return block(
    snapshot,
    now,
    'RepositoryOfOthers',
    `the repository belongs to the Database ${nameOfOwner(owner)}, says ${ownerKey(bucket)}`,
    `choose another keyPrefix; or, if that Database is gone for good and its backups are to be this one's, remove ${ownerKey(bucket)}`,
  );
}

/** It was this Database's, and another of the same identity has adopted it since: two clusters run under one id. */
export function repositoryTaken(
  snapshot: BackupConfigSnapshot,
  now: Instant,
): BackupConfigDecision | undefined {
  const bucket = bucketOf(snapshot);
  const { database } = snapshot;
  const owner = bucket?.owner ?? null;
  if (
    bucket === null ||
    owner === null ||
    owner.uid === database.uid ||
    database.repository?.hash !== bucket.hash
  ) {
    return undefined;
  }
  return block(
    snapshot,
    now,
    'RepositoryTaken',
    `another Database of the same name (uid ${owner.uid}) has taken the repository over`,
    `make sure that no other cluster works under the id ${database.cluster}, then remove ${ownerKey(bucket)}`,
  );
}

export function encryptionMissing(
  snapshot: BackupConfigSnapshot,
  now: Instant,
): BackupConfigDecision | undefined {
  const bucket = bucketOf(snapshot);
  const encrypted = bucket?.survey.isEncrypted;
  return bucket?.mustEncrypt === true && isNo(encrypted)
    ? block(
        snapshot,
        now,
        'BucketUnencrypted',
        `the bucket ${bucket.place.bucket} does not encrypt by default, and encryption is required`,
        'turn default encryption of the bucket on, or set spec.backup.repository.encryption.required to false',
      )
    : undefined;
}

/** No by the answer itself, or because what was asked for is not there. */
function isNo(answer: RepositoryRead<boolean> | undefined): boolean {
  return answer?.kind === 'absent' || (answer?.kind === 'present' && !answer.value);
}

/** What must be known of a bucket before it is used. */
function answersOf({ needed, survey }: Bucket): readonly RepositoryRead<unknown>[] {
  return [...needed, survey.keepsConditions];
}

function serverOf({ place }: Bucket): string {
  return place.endpoint === '' ? '' : ` at ${place.endpoint}`;
}

/** What whoever signs in needs; without a Secret that is Millrace itself. */
function accessAdvice({ place, secret }: Bucket): string {
  const who = place.usesEnvironment
    ? `check the keys in ${secret}, and permit them`
    : 'permit what Millrace itself signs in as';
  return `${who} s3:GetObject and s3:PutObject on ${place.bucket}/${place.keyPrefix}/*, and s3:ListBucket, s3:GetBucketVersioning and s3:GetEncryptionConfiguration on ${place.bucket}`;
}
