import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import { describe, expect, test } from 'vitest';
import type { RepositoryPlace } from '#shared/api/repository.ts';
import { decodeDatabase, rewriteDatabase } from '#shared/topology/database-record.ts';
import { type Database, DatabaseSchema } from '#shared/topology/proto/clustermetadata_pb.ts';
import { recordedDatabase } from './recorded-records.ts';

const recorded = Buffer.from(recordedDatabase.value, 'base64');

const bucket: RepositoryPlace = {
  type: 's3',
  bucket: 'backups',
  region: 'eu-west-1',
  endpoint: 'https://minio:9000',
  keyPrefix: 'db/main',
  usesEnvironment: true,
};

/** A field that no version we know has, as it stands on the wire. */
const unknownField = new BinaryWriter().tag(777, WireType.LengthDelimited).string('kept').finish();

function join(...parts: readonly Uint8Array[]): Uint8Array {
  return Buffer.concat(parts);
}

/** A message in a field of its own. */
function field(number: number, content: Uint8Array): Uint8Array {
  return new BinaryWriter().tag(number, WireType.LengthDelimited).bytes(content).finish();
}

const named = new BinaryWriter().tag(1, WireType.LengthDelimited).string('postgres').finish();

/** Unknown fields on every level, and the authoritative generation, around an S3 location. */
const rich = join(
  named,
  field(
    2,
    join(
      field(
        2,
        join(
          new BinaryWriter().tag(1, WireType.LengthDelimited).string('old').finish(),
          unknownField,
        ),
      ),
      new BinaryWriter().tag(4, WireType.Varint).int64(7n).finish(),
      unknownField,
    ),
  ),
  unknownField,
);

function rewritten(value: Uint8Array, place: RepositoryPlace | null, mustEncrypt: boolean | null) {
  const result = rewriteDatabase(value, 'postgres', { place, mustEncrypt });
  return result.kind === 'rewritten' ? result.value : expect.unreachable(result.why);
}

function placeIn(value: Uint8Array): unknown {
  const decoded = decodeDatabase(value, 'postgres');
  return decoded.kind === 'decoded' ? decoded.record.place : decoded.why;
}

describe('a record of a database', () => {
  test('does not repeat a password that somebody wrote into its endpoint', () => {
    const place = { ...bucket, endpoint: 'https://me:secret@minio:9000' };

    expect(placeIn(rewritten(named, place, null))).toEqual({
      ...bucket,
      endpoint: 'https://…@minio:9000',
    });
  });

  test('as a real one was written says where its backups are', () => {
    expect(decodeDatabase(recorded, 'postgres')).toEqual({
      kind: 'decoded',
      record: {
        place: { type: 'filesystem', path: '/run/mg/run/data/backups' },
        mustEncrypt: false,
      },
    });
  });

  test.each([
    ['no location', join(named)],
    ['an empty location', join(named, field(2, new Uint8Array()))],
    ['a bucket without a name', join(named, field(2, field(2, new Uint8Array())))],
    ['a path without characters', join(named, field(2, field(1, new Uint8Array())))],
  ])('with %s names no place', (_what, value) => {
    expect(placeIn(value)).toBeNull();
  });

  test.each([
    ['bytes that are none', Buffer.from('not a record'), 'it is not a valid record'],
    ['nothing', new Uint8Array(), 'its name is not the one its key names'],
    [
      'another name',
      toBinary(DatabaseSchema, create(DatabaseSchema, { name: 'orders' })),
      'its name is not the one its key names',
    ],
    [
      'two locations',
      join(rich, field(2, field(1, new Uint8Array()))),
      'its field 2 is not what a data plane writes',
    ],
    [
      'a location that is a number',
      join(named, new BinaryWriter().tag(2, WireType.Varint).int32(1).finish()),
      'its field 2 is not what a data plane writes',
    ],
    [
      'a location of an unknown sort',
      join(named, field(2, unknownField)),
      'it may keep backups in a way that this version does not know',
    ],
    ['an end in the middle', recorded.subarray(0, recorded.length - 3), 'it '],
  ])('with %s is neither read nor written', (_what, value, why) => {
    const undecodable = { kind: 'undecodable', why: expect.stringContaining(why) };

    expect(decodeDatabase(value, 'postgres')).toEqual(undecodable);
    expect(rewriteDatabase(value, 'postgres', { place: bucket, mustEncrypt: true })).toEqual(
      undecodable,
    );
  });
});

describe('a rewrite', () => {
  test('of a real record changes the location and nothing else (C6)', () => {
    const { backupLocation: _before, ...rest } = fromBinary(DatabaseSchema, recorded);

    const { backupLocation, ...kept } = fromBinary(
      DatabaseSchema,
      rewritten(recorded, bucket, null),
    );

    expect(kept).toEqual(rest);
    expect(backupLocation).toMatchObject({
      location: {
        case: 's3',
        value: {
          bucket: 'backups',
          region: 'eu-west-1',
          endpoint: 'https://minio:9000',
          keyPrefix: 'db/main',
          useEnvCredentials: true,
        },
      },
      requireInitialRepoEncryption: false,
    });
  });

  test('keeps unknown fields on every level and the authoritative generation (C6)', () => {
    const value = rewritten(rich, bucket, true);

    const database: Database = fromBinary(DatabaseSchema, value);
    const location = database.backupLocation ?? expect.unreachable();
    expect(location.authoritativeGeneration).toBe(7n);
    expect(location.requireInitialRepoEncryption).toBe(true);
    const unknown = [{ no: 777, wireType: WireType.LengthDelimited }];
    expect(database.$unknown).toMatchObject(unknown);
    expect(location.$unknown).toMatchObject(unknown);
    expect(location.location.value?.$unknown).toMatchObject(unknown);
    expect(Buffer.from(value).toString('latin1').split('kept')).toHaveLength(4);
    expect(placeIn(value)).toEqual(bucket);
  });

  test('to a place of another sort keeps all but that of the sort before', () => {
    const value = rewritten(rich, { type: 'filesystem', path: '/backups' }, null);

    expect(placeIn(value)).toEqual({ type: 'filesystem', path: '/backups' });
    expect(fromBinary(DatabaseSchema, value).backupLocation?.authoritativeGeneration).toBe(7n);
    expect(Buffer.from(value).toString('latin1').split('kept')).toHaveLength(3);
  });

  test('of nothing gives the same record', () => {
    expect(Buffer.from(rewritten(recorded, null, null)).equals(recorded)).toBe(true);
    expect(Buffer.from(rewritten(rich, null, null)).equals(rich)).toBe(true);
    expect(Buffer.from(rewritten(named, null, null)).equals(named)).toBe(true);
  });

  test('of the flag alone leaves the place', () => {
    const value = rewritten(recorded, null, true);

    expect(decodeDatabase(value, 'postgres')).toMatchObject({
      record: { place: { path: '/run/mg/run/data/backups' }, mustEncrypt: true },
    });
  });

  test('twice is the same as once', () => {
    const once = rewritten(rich, bucket, true);

    expect(Buffer.from(rewritten(once, bucket, true)).equals(once)).toBe(true);
  });
});
