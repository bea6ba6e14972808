import fc from 'fast-check';
import { type RepositoryPlace, hashOfPlace } from '#shared/api/repository.ts';
import { type Read, absent, present } from '#shared/kernel/read.ts';
import type { RepositoryRead, RepositorySurvey } from '#shared/repository/repository.ts';
import type { DatabaseRecord } from '#shared/topology/topology.ts';
import type { BackupConfigSnapshot } from '#functions/backup-config/snapshot.ts';
import { type Repository, aBucket, aFilesystem, aLook, bucketPlace, why } from './a-look.ts';

export const uid = 'database-uid';

function reads<T>(...values: readonly T[]): fc.Arbitrary<Read<T>> {
  return fc.constantFrom<Read<T>>(...values.map((value) => present(value)), absent, why);
}

/** Mostly sound, so that the last rows are reached as well. */
function answers<T>(sound: T, ...others: readonly T[]): fc.Arbitrary<RepositoryRead<T>> {
  return fc.oneof(
    { weight: 8, arbitrary: fc.constant<RepositoryRead<T>>(present(sound)) },
    {
      weight: 1,
      arbitrary: fc.constantFrom<RepositoryRead<T>>(
        ...others.map((value) => present(value)),
        absent,
        why,
        { kind: 'noBucket' },
        { kind: 'otherRegion', region: null },
        { kind: 'refused', why: '403' },
      ),
    },
  );
}

export const own = { cluster: 'test', namespace: 'db', name: 'main', uid };
const places: readonly (RepositoryPlace | null)[] = [
  null,
  bucketPlace,
  { ...bucketPlace, region: 'us-east-1' },
  { ...bucketPlace, bucket: 'others' },
  { type: 'filesystem', path: '/backups' },
];
const wanted: readonly (Repository | null)[] = [
  null,
  aBucket,
  { ...aBucket, encryption: { required: true } },
  aFilesystem,
  { type: 's3' },
];

const survey: fc.Arbitrary<RepositorySurvey> = fc.record({
  credentials: fc.oneof(
    { weight: 8, arbitrary: fc.constant(present({ missing: [] })) },
    { weight: 1, arbitrary: reads({ missing: ['AWS_ACCESS_KEY_ID'] }) },
  ),
  owner: answers(
    { etag: '"1"', owner: own },
    { etag: '"1"', owner: { ...own, uid: 'earlier' } },
    { etag: '"1"', owner: { ...own, name: 'other' } },
    { etag: '"1"', owner: null },
  ),
  keepsConditions: answers(true, false),
  isVersioned: answers(true, false),
  isEncrypted: answers(true, false),
});

const topology: fc.Arbitrary<Read<DatabaseRecord>> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc
      .record({ place: fc.constantFrom(...places), mustEncrypt: fc.boolean() })
      .map((record) => present({ modRevision: '42', ...record })),
  },
  { weight: 1, arbitrary: fc.constantFrom<Read<DatabaseRecord>>(absent, why) },
);

export const anySnapshot: fc.Arbitrary<BackupConfigSnapshot> = fc
  .record({
    wanted: fc.constantFrom(...wanted),
    survey,
    topology,
    record: fc.constantFrom('none', 'none', 'ours', 'foreign', 'unreadable'),
    intent: fc.option(
      fc.record({
        modRevision: fc.constantFrom('41', '42'),
        generation: fc.constantFrom(1, 2),
      }),
    ),
    confirmed: fc.constantFrom(null, null, hashOfPlace(bucketPlace)),
    isPaused: fc.boolean(),
    isBeingDeleted: fc.boolean(),
    shards: reads([{ name: 'orders', members: 3, cells: 1 }]),
    isTheirsBefore: fc.boolean(),
    rare: fc.nat(9),
  })
  .map((given) => {
    const look = aLook(given.wanted)
      .with({ survey: given.survey, topology: given.topology, shards: given.shards })
      .withDatabase({
        confirmed: given.confirmed,
        isPaused: given.isPaused && given.rare === 0,
        isBeingDeleted: given.isBeingDeleted && given.rare === 1,
        repository: given.isTheirsBefore
          ? { hash: hashOfPlace(bucketPlace), checkedAt: '2026-01-01T00:00:00Z' }
          : null,
      });
    switch (given.record) {
      case 'ours':
        return look.applying(given.intent ?? { modRevision: '40', generation: 2 }).snapshot;
      case 'foreign':
        return look.with({ record: { kind: 'foreign', text: '{"v":1}', uid: 'x' } }).snapshot;
      case 'unreadable':
        return look.with({ record: { kind: 'unreadable', text: '{', why: 'no JSON' } }).snapshot;
      case 'none':
      default:
        return look.snapshot;
    }
  });
