import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { BinaryReader, WireType } from '@bufbuild/protobuf/wire';
import { type RepositoryPlace, withoutUser } from '#shared/api/repository.ts';
import {
  type BackupLocation,
  BackupLocationSchema,
  type Database,
  DatabaseSchema,
  FilesystemBackupSchema,
  S3BackupSchema,
} from './proto/clustermetadata_pb.ts';
import type { DatabaseChange, DatabaseRecord } from './topology.ts';

export type DecodedDatabase =
  | { readonly kind: 'decoded'; readonly record: Omit<DatabaseRecord, 'modRevision'> }
  | { readonly kind: 'undecodable'; readonly why: string };

/** A record with another backup location, or the reason why there can be none. */
export type RewrittenDatabase =
  | { readonly kind: 'rewritten'; readonly value: Uint8Array }
  | { readonly kind: 'undecodable'; readonly why: string };

class UndecodableRecord extends Error {}

/** The name, and the message that holds the backup location: each is in a record once. */
const singleFields: ReadonlySet<number> = new Set([1, 2]);

/**
 * Decodes the record of a database. A location of a sort that this version does not know makes it undecodable: whatever
 * is kept there must not pass for nothing. Never throws.
 *
 * @param name the one its key names
 */
export function decodeDatabase(value: Uint8Array, name: string): DecodedDatabase {
  try {
    const { backupLocation } = parse(value, name);
    return {
      kind: 'decoded',
      record: {
        place: placeOf(backupLocation),
        mustEncrypt: backupLocation?.requireInitialRepoEncryption ?? false,
      },
    };
  } catch (error) {
    return { kind: 'undecodable', why: reasonOf(error) };
  }
}

/**
 * Rewrites where backups are kept, and nothing else: all other fields are kept, the authoritative generation and those
 * that this version does not know among them, on every level. Never throws.
 */
export function rewriteDatabase(
  value: Uint8Array,
  name: string,
  { place, mustEncrypt }: DatabaseChange,
): RewrittenDatabase {
  try {
    const database = parse(value, name);
    const location = database.backupLocation ?? create(BackupLocationSchema);
    // A location that cannot be read is never overwritten.
    placeOf(database.backupLocation);
    if (place !== null) {
      setPlace(location, place);
    }
    if (mustEncrypt !== null) {
      location.requireInitialRepoEncryption = mustEncrypt;
    }
    if (place !== null || mustEncrypt !== null) {
      database.backupLocation = location;
    }
    return { kind: 'rewritten', value: toBinary(DatabaseSchema, database) };
  } catch (error) {
    return { kind: 'undecodable', why: reasonOf(error) };
  }
}

/** The message of the same sort is changed in place, so that what it holds besides stays. */
function setPlace(location: BackupLocation, place: RepositoryPlace): void {
  const before = location.location;
  if (place.type === 'filesystem') {
    const filesystem = before.case === 'filesystem' ? before.value : create(FilesystemBackupSchema);
    filesystem.path = place.path;
    location.location = { case: 'filesystem', value: filesystem };
    return;
  }
  const s3 = before.case === 's3' ? before.value : create(S3BackupSchema);
  s3.bucket = place.bucket;
  s3.region = place.region;
  s3.endpoint = place.endpoint;
  s3.keyPrefix = place.keyPrefix;
  s3.useEnvCredentials = place.usesEnvironment;
  location.location = { case: 's3', value: s3 };
}

function placeOf(backupLocation: BackupLocation | undefined): RepositoryPlace | null {
  const location = backupLocation?.location;
  switch (location?.case) {
    case 'filesystem':
      return location.value.path === '' ? null : { type: 'filesystem', path: location.value.path };
    case 's3': {
      const { bucket, region, endpoint, keyPrefix, useEnvCredentials } = location.value;
      const usesEnvironment = useEnvCredentials;
      return bucket === ''
        ? null
        : {
            type: 's3',
            bucket,
            region,
            endpoint: withoutUser(endpoint),
            keyPrefix,
            usesEnvironment,
          };
    }
    case undefined:
    default:
      if ((backupLocation?.$unknown?.length ?? 0) > 0) {
        throw new UndecodableRecord('it may keep backups in a way that this version does not know');
      }
      return null;
  }
}

function parse(value: Uint8Array, name: string): Database {
  refuseDoubled(value);
  const database = fromBinary(DatabaseSchema, value);
  if (database.name !== name) {
    throw new UndecodableRecord('its name is not the one its key names');
  }
  return database;
}

/** A decoder would merge two locations into one that nobody wrote. */
function refuseDoubled(value: Uint8Array): void {
  const seen = new Set<number>();
  const reader = new BinaryReader(value);
  while (reader.pos < reader.len) {
    const [field, wireType] = reader.tag();
    if (singleFields.has(field)) {
      if (wireType !== WireType.LengthDelimited || seen.has(field)) {
        throw new UndecodableRecord(`its field ${field} is not what a data plane writes`);
      }
      seen.add(field);
    }
    reader.skip(wireType, field);
  }
  if (reader.pos !== reader.len) {
    throw new UndecodableRecord('it ends in the middle of a field');
  }
}

/** The codec's own messages may quote the record, so only ours are repeated. */
function reasonOf(error: unknown): string {
  return error instanceof UndecodableRecord ? error.message : 'it is not a valid record';
}
