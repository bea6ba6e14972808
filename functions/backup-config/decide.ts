import { confirmRepository } from '#shared/api/annotations.ts';
import { nameOfOwner } from '#shared/api/repository-owner.ts';
import { hashOfPlace, textOfPlace } from '#shared/api/repository.ts';
import { blocked, firstHit, settled } from '#shared/kernel/decision.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import { clearForeign, unreadableText } from '#shared/kernel/own-record.ts';
import {
  accessRefused,
  bucketElsewhere,
  bucketMissing,
  conditionsIgnored,
  credentialsMissing,
  credentialsUnknown,
  encryptionMissing,
  ownerUnreadable,
  repositoryOfOthers,
  repositoryTaken,
  repositoryUnknown,
  writingRefused,
} from './bucket-checks.ts';
import {
  type BackupConfigCheck,
  type BackupConfigDecision,
  block,
  changedStatus,
  isUnclaimable,
  openIntent,
  putOwner,
  rest,
  rewrite,
  slowly,
  wait,
} from './moves.ts';
import type { BackupConfigSnapshot } from './snapshot.ts';
import { bucketOf, isSamePlace, ownerKey, wantedOf } from './wanted.ts';
import { warningsOf } from './warnings.ts';

/**
 * Decides whether the repository that a Database wants may be used, and the next of the two writes that make it so: its
 * owner object, then the data plane's record.
 *
 * What can go wrong and which guard covers it: README.md beside this file. Pure: same snapshot and instant, same decision.
 */
export function decide(snapshot: BackupConfigSnapshot, now: Instant): BackupConfigDecision {
  return firstHit(checks, snapshot, now) ?? inUse(snapshot, now);
}

export const checks: readonly BackupConfigCheck[] = [
  targetBeingDeleted,
  pausedByUser,
  recordUnreadable,
  foreignRecord,
  fenceEarlierWrite,
  noRepository,
  repositoryInvalid,
  credentialsUnknown,
  credentialsMissing,
  bucketMissing,
  bucketElsewhere,
  accessRefused,
  writingRefused,
  repositoryUnknown,
  conditionsIgnored,
  ownerUnreadable,
  repositoryOfOthers,
  repositoryTaken,
  encryptionMissing,
  topologyUnknown,
  databaseNotRegistered,
  backupsWouldBeOrphaned,
  repositoryUnclaimable,
  claimRepository,
  adoptRepository,
  applyRepository,
];

function targetBeingDeleted({ database }: BackupConfigSnapshot): BackupConfigDecision | undefined {
  return database.isBeingDeleted
    ? settled(
        'TargetBeingDeleted',
        'the database is being deleted; its backups and what the data plane was told stay',
      )
    : undefined;
}

/** The record stays too: it may tell of a write that is still under way when the pause ends. */
function pausedByUser(
  snapshot: BackupConfigSnapshot,
  now: Instant,
): BackupConfigDecision | undefined {
  const message = 'the database is paused: its repository is neither looked at nor changed';
  return snapshot.database.isPaused
    ? settled(
        'Paused',
        message,
        changedStatus(snapshot, now, { kind: 'paused', reason: 'Paused', message }),
      )
    : undefined;
}

/** From a newer version, or broken: hands off. `millrace reset` is the way out. */
function recordUnreadable(
  snapshot: BackupConfigSnapshot,
  now: Instant,
): BackupConfigDecision | undefined {
  const { record, database } = snapshot;
  if (record.kind !== 'unreadable') {
    return undefined;
  }
  const { message, needs } = unreadableText('backup-config', 'Database', database, record.why);
  return blocked(
    'RecordUnreadable',
    message,
    needs,
    slowly,
    changedStatus(snapshot, now, { kind: 'unknown', reason: 'RecordUnreadable', message }),
  );
}

function foreignRecord({
  database,
  record,
}: BackupConfigSnapshot): BackupConfigDecision | undefined {
  return clearForeign(database, record);
}

/**
 * A handler that looked at an earlier spec may still be about to write what that one wanted, and its guard holds as long
 * as the revision that it read stands. The record is written as it is, so that the revision moves. Only then is anything
 * else decided: a spec that went back to what is in use would otherwise be overtaken.
 */
function fenceEarlierWrite(
  snapshot: BackupConfigSnapshot,
  now: Instant,
): BackupConfigDecision | undefined {
  const { database, topology } = snapshot;
  const intent = openIntent(snapshot);
  if (intent === null || intent.generation === database.generation) {
    return undefined;
  }
  const message = `a write for generation ${intent.generation} may be under way: the data plane's record gets a new revision first`;
  return topology.kind === 'present'
    ? rewrite(
        snapshot,
        now,
        { reason: 'EarlierWriteFenced', message, intent },
        { place: null, mustEncrypt: null },
      )
    : topologyUnknown(snapshot, now);
}

function noRepository(
  snapshot: BackupConfigSnapshot,
  now: Instant,
): BackupConfigDecision | undefined {
  return snapshot.database.wanted.kind === 'none'
    ? rest(snapshot, now, {
        kind: 'unwanted',
        reason: 'NoRepository',
        message: 'the spec names no backup repository: the data plane keeps the one it has',
      })
    : undefined;
}

function repositoryInvalid(
  snapshot: BackupConfigSnapshot,
  now: Instant,
): BackupConfigDecision | undefined {
  const { wanted } = snapshot.database;
  return wanted.kind === 'invalid'
    ? block(
        snapshot,
        now,
        'RepositoryInvalid',
        `the repository is not used: ${wanted.why}`,
        'correct spec.backup.repository',
      )
    : undefined;
}

function topologyUnknown(
  snapshot: BackupConfigSnapshot,
  now: Instant,
): BackupConfigDecision | undefined {
  const { topology } = snapshot;
  return topology.kind === 'unknown'
    ? wait(snapshot, now, {
        kind: 'unknown',
        reason: 'TopologyUnknown',
        message: `the data plane's record of the database cannot be read: ${topology.why}`,
      })
    : undefined;
}

/** The data plane makes the record itself, with more than Millrace knows. */
function databaseNotRegistered(
  snapshot: BackupConfigSnapshot,
  now: Instant,
): BackupConfigDecision | undefined {
  const { topology, database } = snapshot;
  return topology.kind === 'absent'
    ? wait(snapshot, now, {
        kind: 'moving',
        reason: 'DatabaseNotRegistered',
        message: `waiting until the data plane has registered the database ${database.dataPlaneName}`,
      })
    : undefined;
}

/** Whether there are backups at the former place is not asked: not to find any would be no proof. */
function backupsWouldBeOrphaned(
  snapshot: BackupConfigSnapshot,
  now: Instant,
): BackupConfigDecision | undefined {
  const { topology, database } = snapshot;
  const wanted = wantedOf(snapshot);
  const place = topology.kind === 'present' ? topology.value.place : null;
  if (
    wanted === null ||
    place === null ||
    hashOfPlace(place) === wanted.hash ||
    database.confirmed === wanted.hash
  ) {
    return undefined;
  }
  return block(
    snapshot,
    now,
    'BackupsWouldBeOrphaned',
    `backups are kept in ${textOfPlace(place)} now, and those there would be found no more from ${textOfPlace(wanted.place)}`,
    `if that is meant, run: kubectl annotate -n ${database.namespace} mdb/${database.name} --overwrite ${confirmRepository}=${wanted.hash}`,
  );
}

function repositoryUnclaimable(
  snapshot: BackupConfigSnapshot,
  now: Instant,
): BackupConfigDecision | undefined {
  const bucket = bucketOf(snapshot);
  if (
    bucket === null ||
    bucket.owner?.uid === snapshot.database.uid ||
    !isUnclaimable(snapshot, now)
  ) {
    return undefined;
  }
  return block(
    snapshot,
    now,
    'RepositoryUnclaimable',
    `${ownerKey(bucket)} was sent several times and is not there`,
    'look whether the bucket takes objects, and remove every version of this one, marks of deletions too; it is sent again every ten minutes',
  );
}

function claimRepository(
  snapshot: BackupConfigSnapshot,
  now: Instant,
): BackupConfigDecision | undefined {
  const bucket = bucketOf(snapshot);
  return bucket?.survey.owner.kind === 'absent'
    ? putOwner(
        snapshot,
        now,
        {
          reason: 'RepositoryClaimed',
          message: `making ${ownerKey(bucket)}, so that no other database uses this repository`,
        },
        { ifNoneMatch: '*' },
      )
    : undefined;
}

/** The same name in the same cluster: the Database was deleted and made again, and its backups are still its own. */
function adoptRepository(
  snapshot: BackupConfigSnapshot,
  now: Instant,
): BackupConfigDecision | undefined {
  const bucket = bucketOf(snapshot);
  const owner = bucket?.survey.owner;
  return bucket !== null && owner?.kind === 'present' && bucket.owner?.uid !== snapshot.database.uid
    ? putOwner(
        snapshot,
        now,
        {
          reason: 'RepositoryAdopted',
          message: `taking over ${ownerKey(bucket)} from the earlier Database of this name`,
        },
        { ifMatch: owner.value.etag },
      )
    : undefined;
}

function applyRepository(
  snapshot: BackupConfigSnapshot,
  now: Instant,
): BackupConfigDecision | undefined {
  const { topology, database } = snapshot;
  const wanted = wantedOf(snapshot);
  if (wanted === null || topology.kind !== 'present') {
    return undefined;
  }
  const { place, mustEncrypt } = wanted;
  const isThere =
    isSamePlace(topology.value.place, place) &&
    (mustEncrypt === null || mustEncrypt === topology.value.mustEncrypt);
  const { modRevision } = topology.value;
  const { generation } = database;
  const message = `telling the data plane that backups go to ${textOfPlace(place)} (${wanted.hash})`;
  return isThere
    ? undefined
    : rewrite(
        snapshot,
        now,
        { reason: 'RepositoryApplied', message, intent: { modRevision, generation } },
        { place, mustEncrypt },
      );
}

/** Converged: the data plane keeps backups where the spec says, and the place is this Database's. */
function inUse(snapshot: BackupConfigSnapshot, now: Instant): BackupConfigDecision {
  const { database } = snapshot;
  const wanted = wantedOf(snapshot);
  if (wanted === null) {
    return settled('NoRepository', 'the spec names no backup repository');
  }
  const warnings = warningsOf(snapshot);
  const where = `backups go to ${textOfPlace(wanted.place)} (${wanted.hash})`;
  return rest(snapshot, now, {
    kind: 'configured',
    reason: warnings.length === 0 ? 'RepositoryConfigured' : 'RepositoryWithWarnings',
    message: [where, ...warnings].join('; '),
    repository: {
      hash: wanted.hash,
      ...(wanted.place.type === 's3' ? { owner: nameOfOwner(database) } : {}),
    },
  });
}
