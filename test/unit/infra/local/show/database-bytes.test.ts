import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { describe, expect, test } from 'vitest';
import { othersIn, withLaterFields } from '#infra/local/show/database-bytes.ts';
import { rewriteDatabase } from '#shared/topology/database-record.ts';
import { DatabaseSchema } from '#shared/topology/proto/clustermetadata_pb.ts';

const record = toBinary(
  DatabaseSchema,
  create(DatabaseSchema, {
    name: 'postgres',
    backupLocation: {
      location: { case: 'filesystem', value: { path: '/backups' } },
      authoritativeGeneration: 7n,
    },
    cells: ['zone-a'],
  }),
);

function moved(value: Uint8Array): Uint8Array {
  const rewritten = rewriteDatabase(value, 'postgres', {
    place: {
      type: 's3',
      bucket: 'backups',
      region: 'eu-west-1',
      endpoint: '',
      keyPrefix: 'demo/main',
      usesEnvironment: true,
    },
    mustEncrypt: true,
  });
  return rewritten.kind === 'rewritten' ? rewritten.value : expect.unreachable(rewritten.why);
}

describe('the bytes of a database’s record', () => {
  test('that are not Millrace’s are the same after a move', () => {
    const before = withLaterFields(record);

    const after = moved(before);

    expect(after).not.toEqual(before);
    expect(othersIn(after)).toEqual(othersIn(before));
  });

  test('show a lost field of a later version, in the record and in its location', () => {
    const before = withLaterFields(record);
    const inRecord = fromBinary(DatabaseSchema, before);
    delete inRecord.$unknown;
    const inLocation = fromBinary(DatabaseSchema, before);
    delete inLocation.backupLocation?.$unknown;

    for (const lossy of [inRecord, inLocation]) {
      expect(othersIn(toBinary(DatabaseSchema, lossy))).not.toEqual(othersIn(before));
    }
  });

  test('show a changed generation of the location', () => {
    const changed = fromBinary(DatabaseSchema, record);
    if (changed.backupLocation !== undefined) {
      changed.backupLocation.authoritativeGeneration = 8n;
    }

    expect(othersIn(toBinary(DatabaseSchema, changed))).not.toEqual(othersIn(record));
  });
});
