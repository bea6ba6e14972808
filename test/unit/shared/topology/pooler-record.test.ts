import { create, fromBinary, toBinary, toJson } from '@bufbuild/protobuf';
import { BinaryReader, BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseInstant } from '#shared/kernel/instant.ts';
import { type DecodedPooler, decodePooler, retirePooler } from '#shared/topology/pooler-record.ts';
import {
  CellSchema,
  ComponentType,
  DatabaseSchema,
  IDSchema,
  LegacyMultipoolerSchema,
  type Multipooler,
  MultipoolerSchema,
  PoolerLifecycleSchema,
  PoolerLifecycleStatus,
  PoolerServingStatus,
  PoolerType,
  QuorumType,
  RoutingRole,
  ShardInitClaimSchema,
} from '#shared/topology/proto/clustermetadata_pb.ts';
import {
  recordedCell,
  recordedClaim,
  recordedDatabase,
  recordedPoolers,
} from './recorded-records.ts';

const now = parseInstant('2026-01-01T00:00:00Z') ?? expect.unreachable();
const shard = { database: 'postgres', tableGroup: 'default', shard: '0-inf' };

function bytes(base64: string): Uint8Array {
  return Uint8Array.from(Buffer.from(base64, 'base64'));
}

function recordOf(decoded: DecodedPooler) {
  return decoded.kind === 'decoded' ? decoded.record : expect.unreachable(decoded.why);
}

function retired(value: Uint8Array): Uint8Array {
  const result = retirePooler(value, now);
  return result.kind === 'retired' ? result.value : expect.unreachable(result.kind);
}

/** A live follower, with whatever a test changes. */
function live(change: (record: Multipooler) => void = () => undefined): Uint8Array {
  const record = fromBinary(MultipoolerSchema, bytes(recordedPoolers.replica.value));
  change(record);
  return toBinary(MultipoolerSchema, record);
}

function legacy(
  type: PoolerType,
  servingStatus: PoolerServingStatus = PoolerServingStatus.SERVING,
): Uint8Array {
  const record = create(LegacyMultipoolerSchema, {
    ...shard,
    hostname: 'pod-0.pods.db.svc.cluster.local',
    portMap: { grpc: 15270 },
    poolerDir: '/data',
  });
  record.id = create(IDSchema, {
    component: ComponentType.MULTIPOOLER,
    cell: 'zone1',
    name: 'pod-0',
  });
  record.type = type;
  record.servingStatus = servingStatus;
  return toBinary(LegacyMultipoolerSchema, record);
}

/** Everything a stop does not change. */
function identity(value: Uint8Array) {
  const record = fromBinary(MultipoolerSchema, value);
  record.servingStatus = PoolerServingStatus.SERVING;
  record.type = PoolerType.UNKNOWN;
  delete record.lifecycleStatus;
  delete record.routingState;
  return record;
}

function field(no: number, data: Uint8Array | string): Uint8Array {
  return new BinaryWriter()
    .tag(no, WireType.LengthDelimited)
    .bytes(typeof data === 'string' ? Buffer.from(data) : data)
    .finish();
}

/** The last number that a message holds in a field, read without the schema. */
function numberIn(value: Uint8Array, wanted: number): number | undefined {
  const reader = new BinaryReader(value);
  let found: number | undefined;
  while (reader.pos < reader.len) {
    const [no, wireType] = reader.tag();
    if (no === wanted && wireType === WireType.Varint) {
      found = reader.int32();
    } else {
      reader.skip(wireType, no);
    }
  }
  return found;
}

/** The contents of every occurrence of a field, one after the other, as a merge would read them. */
function contentOf(value: Uint8Array, wanted: number): Uint8Array {
  const reader = new BinaryReader(value);
  const parts: Uint8Array[] = [];
  while (reader.pos < reader.len) {
    const [no, wireType] = reader.tag();
    if (no === wanted && wireType === WireType.LengthDelimited) {
      parts.push(reader.bytes());
    } else {
      reader.skip(wireType, no);
    }
  }
  return Buffer.concat(parts);
}

/** What a stop leaves, except its time and its words. */
function ending(value: Uint8Array) {
  const record = fromBinary(MultipoolerSchema, value);
  return {
    lifecycle: record.lifecycleStatus?.status,
    hasTime: record.lifecycleStatus?.updated !== undefined,
    hasReason: record.lifecycleStatus?.reason !== '',
    routingState: record.routingState,
    serving: record.servingStatus,
    type: record.type,
  };
}

describe('a recorded record', () => {
  test('of the primary decodes with its rule', () => {
    const decoded = decodePooler(bytes(recordedPoolers.primary.value));

    expect(decoded).toEqual({
      kind: 'decoded',
      record: {
        id: { cell: 'zone1', name: 'p-00000001' },
        shard,
        hostname: 'localhost',
        lifecycle: 'active',
        serving: 'serving',
        role: 'primary',
        rule: { term: '1', subterm: '0' },
        generation: 'current',
      },
    });
  });

  test('of a replica decodes as one that serves', () => {
    const record = recordOf(decodePooler(bytes(recordedPoolers.replica.value)));

    expect(record).toMatchObject({
      id: { cell: 'zone2', name: 'p-00000002' },
      lifecycle: 'active',
      serving: 'serving',
      role: 'replica',
      rule: null,
    });
  });

  test('after a graceful stop decodes as shut down, disabled and without a role', () => {
    const record = recordOf(decodePooler(bytes(recordedPoolers.stopped.value)));

    expect(record).toMatchObject({
      id: { cell: 'zone3', name: 'p-00000003' },
      lifecycle: 'shutdown',
      serving: 'disabled',
      role: 'none',
      rule: null,
    });
  });

  test.each<[PoolerLifecycleStatus, string]>([
    [PoolerLifecycleStatus.UNKNOWN, 'quarantined'],
    [PoolerLifecycleStatus.ACTIVE, 'active'],
  ])('of the type DRAINED and the life cycle %i is %s', (status, lifecycle) => {
    const record = fromBinary(MultipoolerSchema, bytes(recordedPoolers.replica.value));
    record.type = PoolerType.DRAINED;
    record.lifecycleStatus = create(PoolerLifecycleSchema, { status });

    expect(recordOf(decodePooler(toBinary(MultipoolerSchema, record)))).toMatchObject({
      lifecycle,
    });
  });

  test('after a kill still decodes as a live replica', () => {
    const record = recordOf(decodePooler(bytes(recordedPoolers.killed.value)));

    expect(record).toMatchObject({ lifecycle: 'active', serving: 'serving', role: 'replica' });
  });

  test('of a cell, a database and a claim reads as what was recorded', () => {
    const cell = fromBinary(CellSchema, bytes(recordedCell.value));
    const database = fromBinary(DatabaseSchema, bytes(recordedDatabase.value));
    const claim = fromBinary(ShardInitClaimSchema, bytes(recordedClaim.value));

    expect(cell).toMatchObject({
      name: 'zone1',
      serverAddresses: ['localhost:21000'],
      root: '/multigres/zone1',
    });
    expect(database).toMatchObject({
      name: 'postgres',
      cells: ['zone1', 'zone2', 'zone3'],
      backupLocation: { location: { case: 'filesystem' } },
      bootstrapDurabilityPolicy: { quorumType: QuorumType.AT_LEAST_N, requiredCount: 2 },
    });
    expect(claim.cohortMembers.map(({ name }) => name)).toEqual([
      'p-00000002',
      'p-00000001',
      'p-00000003',
    ]);
    expect(claim.claimerId).toMatchObject({ component: ComponentType.MULTIORCH });
  });

  test.each([
    ['poolers', MultipoolerSchema, recordedPoolers.killed.value],
    ['cells', CellSchema, recordedCell.value],
    ['databases', DatabaseSchema, recordedDatabase.value],
    ['claims', ShardInitClaimSchema, recordedClaim.value],
  ] as const)('of %s has no field that the schema does not know', (_, schema, value) => {
    const message = fromBinary(schema, bytes(value));

    expect(message.$unknown).toBeUndefined();
    expect(Buffer.from(toBinary(schema, message)).toString('base64')).toBe(value);
  });
});

describe('retiring', () => {
  test('leaves in a killed pooler’s record what a graceful stop leaves', () => {
    const killed = bytes(recordedPoolers.killed.value);

    const value = retired(killed);

    expect(ending(value)).toEqual(ending(bytes(recordedPoolers.stopped.value)));
    expect(identity(value)).toEqual(identity(killed));
    expect(toJson(MultipoolerSchema, fromBinary(MultipoolerSchema, value))).toMatchObject({
      lifecycleStatus: { updated: '2026-01-01T00:00:00Z' },
    });
  });

  test('takes the role and the rule from a primary', () => {
    const value = retired(bytes(recordedPoolers.primary.value));

    expect(recordOf(decodePooler(value))).toMatchObject({
      lifecycle: 'shutdown',
      serving: 'disabled',
      role: 'none',
      rule: null,
    });
  });

  test('keeps the fields it does not know, at the top and inside the lifecycle', () => {
    const unknown = [{ no: 99, wireType: WireType.LengthDelimited, data: Uint8Array.of(2, 7, 8) }];
    const inside = [{ no: 55, wireType: WireType.Varint, data: Uint8Array.of(42) }];
    const value = live((record) => {
      record.$unknown = unknown;
      if (record.lifecycleStatus !== undefined) {
        record.lifecycleStatus.$unknown = inside;
      }
    });

    const record = fromBinary(MultipoolerSchema, retired(value));

    expect(record.$unknown).toEqual(unknown);
    expect(record.lifecycleStatus?.$unknown).toEqual(inside);
  });

  test('changes nothing in a record that says so already', () => {
    expect(retirePooler(bytes(recordedPoolers.stopped.value), now)).toEqual({ kind: 'unchanged' });
    expect(retirePooler(retired(live()), now)).toEqual({ kind: 'unchanged' });
  });

  test('a record that is shut down but still serves is finished', () => {
    const value = live((record) => {
      record.lifecycleStatus = {
        ...(record.lifecycleStatus ?? expect.unreachable()),
        status: PoolerLifecycleStatus.SHUTDOWN,
      };
    });

    expect(recordOf(decodePooler(retired(value)))).toMatchObject({
      serving: 'disabled',
      role: 'none',
    });
  });

  test('only stops an older record from serving, and keeps the rest byte for byte', () => {
    const value = retired(legacy(PoolerType.REPLICA));

    expect(Buffer.from(value)).toEqual(
      Buffer.from(legacy(PoolerType.REPLICA, PoolerServingStatus.DISABLED)),
    );
    expect(retirePooler(value, now)).toEqual({ kind: 'unchanged' });
  });

  test('a record that fits no generation is refused', () => {
    expect(retirePooler(Uint8Array.of(1, 2, 3), now)).toMatchObject({ kind: 'undecodable' });
  });

  test('keeps whatever a record holds besides its ending', () => {
    fc.assert(
      fc.property(
        fc.record({
          hostname: fc.string(),
          portMap: fc.dictionary(fc.string(), fc.integer({ min: 0, max: 65_535 })),
          poolerDir: fc.string(),
          type: fc.integer({ min: 0, max: 9 }),
          servingStatus: fc.integer({ min: 0, max: 9 }),
          unknown: fc.array(
            fc.record({
              no: fc.integer({ min: 14, max: 5_000 }),
              data: fc.uint8Array({ maxLength: 100 }),
            }),
          ),
        }),
        ({ unknown, ...fields }) => {
          const value = live((record) => {
            Object.assign(record, fields);
            record.$unknown = unknown.map(({ no, data }) => ({
              no,
              wireType: WireType.LengthDelimited,
              data: new BinaryWriter().bytes(data).finish(),
            }));
          });

          const next = retired(value);

          expect(identity(next)).toEqual(identity(value));
          expect(ending(next)).toEqual(ending(bytes(recordedPoolers.stopped.value)));
        },
      ),
    );
  });
});

describe('the older generation', () => {
  test('is told by its three strings, and its role comes from the type', () => {
    const decoded = decodePooler(legacy(PoolerType.PRIMARY));

    expect(decoded).toEqual({
      kind: 'decoded',
      record: {
        id: { cell: 'zone1', name: 'pod-0' },
        shard,
        hostname: 'pod-0.pods.db.svc.cluster.local',
        lifecycle: 'unknown',
        serving: 'serving',
        role: 'primary',
        rule: null,
        generation: 'legacy',
      },
    });
  });

  test.each<[number, string]>([
    [PoolerType.UNKNOWN, 'unknown'],
    [PoolerType.REPLICA, 'replica'],
    [PoolerType.DRAINED, 'none'],
    [4, 'unknown'],
  ])('reads the type %i as the role %s', (type, role) => {
    expect(recordOf(decodePooler(legacy(type as PoolerType))).role).toBe(role);
  });

  test.each([
    [0, 'serving'],
    [1, 'disabled'],
    [4, 'unknown'],
  ])('reads the serving status %i as %s', (status, serving) => {
    expect(
      recordOf(decodePooler(legacy(PoolerType.REPLICA, status as PoolerServingStatus))).serving,
    ).toBe(serving);
  });
});

describe('a value that this version does not know', () => {
  test('is unknown in each place of a record', () => {
    fc.assert(
      fc.property(fc.integer({ min: 6, max: 2_147_483_647 }), (value) => {
        const record = recordOf(
          decodePooler(
            live((record) => {
              record.servingStatus = value as PoolerServingStatus;
              record.lifecycleStatus = {
                ...(record.lifecycleStatus ?? expect.unreachable()),
                status: value as PoolerLifecycleStatus,
              };
              record.routingState = {
                ...(record.routingState ?? expect.unreachable()),
                role: value as RoutingRole,
              };
            }),
          ),
        );

        expect(record).toMatchObject({ serving: 'unknown', lifecycle: 'unknown', role: 'unknown' });
      }),
    );
  });

  test('is never read from the deprecated type of a current record', () => {
    const record = recordOf(
      decodePooler(
        live((record) => {
          record.type = PoolerType.REPLICA;
          delete record.routingState;
        }),
      ),
    );

    expect(record.role).toBe('none');
  });

  test.each([
    [
      'a role that is not set',
      (record: Multipooler) => {
        record.routingState = { ...(record.routingState ?? expect.unreachable()), role: 0 };
      },
      { role: 'unknown' },
    ],
    [
      'a lifecycle that is missing',
      (record: Multipooler) => {
        delete record.lifecycleStatus;
      },
      { lifecycle: 'unknown' },
    ],
    [
      'draining',
      (record: Multipooler) => {
        record.servingStatus = PoolerServingStatus.DRAINING;
      },
      { serving: 'draining' },
    ],
  ] as const)('%s has a reading of its own', (_, change, reading) => {
    expect(recordOf(decodePooler(live(change)))).toMatchObject(reading);
  });
});

describe('bytes that are no record', () => {
  test.each<[string, Uint8Array]>([
    ['nothing', new Uint8Array()],
    ['text', Buffer.from('{"id":{"cell":"zone1"}}')],
    ['a cell', bytes(recordedCell.value)],
    ['a database', bytes(recordedDatabase.value)],
    ['half a record', bytes(recordedPoolers.primary.value).subarray(0, 40)],
    ['a record with the shard of both generations', Buffer.concat([live(), field(3, 'default')])],
    ['a record with two shards', Buffer.concat([live(), field(2, 'postgres')])],
    ['a record with two ids', Buffer.concat([live(), field(1, '')])],
    [
      'a current record with an empty shard',
      live((record) => {
        record.shardKey = { ...(record.shardKey ?? expect.unreachable()), shard: '' };
      }),
    ],
    [
      'a record of another component',
      live((record) => {
        record.id = { ...(record.id ?? expect.unreachable()), component: ComponentType.MULTIORCH };
      }),
    ],
    ['a record with a number for its shard', Uint8Array.of(0x10, 1)],
    ['a record with broken text', Buffer.concat([live(), Uint8Array.of(0x42, 2, 0xff, 0xfe)])],
  ])('are refused: %s', (_, value) => {
    expect(decodePooler(value)).toMatchObject({ kind: 'undecodable' });
  });

  test('never throw and never become a member', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (value) => {
        const decoded = decodePooler(value);

        expect(decoded.kind).toBe('undecodable');
        expect(retirePooler(value, now).kind).toBe('undecodable');
      }),
    );
  });

  test('a damaged record is a replica only where its bytes still say so', () => {
    const damaged = fc
      .tuple(
        fc.constantFrom(recordedPoolers.primary.value, recordedPoolers.stopped.value),
        fc.array(fc.tuple(fc.nat(), fc.integer({ min: 0, max: 255 })), {
          minLength: 1,
          maxLength: 3,
        }),
      )
      .map(([value, changes]) => {
        const damagedBytes = bytes(value);
        for (const [position, byte] of changes) {
          damagedBytes[position % damagedBytes.length] = byte;
        }
        return damagedBytes;
      });

    fc.assert(
      fc.property(damaged, (value) => {
        const decoded = decodePooler(value);

        const isReplica = decoded.kind === 'decoded' && decoded.record.role === 'replica';
        if (isReplica && decoded.record.generation === 'current') {
          expect(numberIn(contentOf(value, 13), 1)).toBe(RoutingRole.REPLICA);
        } else if (isReplica) {
          expect(numberIn(value, 6)).toBe(PoolerType.REPLICA);
        }
      }),
      { numRuns: 2_000 },
    );
  });

  test('a record that was cut short is refused or has no role', () => {
    const value = bytes(recordedPoolers.replica.value);

    for (let length = 0; length < value.length; length++) {
      const decoded = decodePooler(value.subarray(0, length));

      expect(decoded.kind === 'decoded' ? decoded.record.role : 'none').toBe('none');
    }
  });
});
