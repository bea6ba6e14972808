import fc from 'fast-check';
import { expect, test } from 'vitest';
import { recordAnnotation } from '#shared/api/annotations.ts';
import { type RepositoryPlace, hashOfPlace } from '#shared/api/repository.ts';
import { isDestructive, type Effect } from '#shared/kernel/effect.ts';
import { execute } from '#shared/kernel/execute.ts';
import { createLogger } from '#shared/kernel/logger.ts';
import { type Read, absent, present } from '#shared/kernel/read.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import type { RepositoryRead, RepositorySurvey } from '#shared/repository/repository.ts';
import type { DatabaseRecord } from '#shared/topology/topology.ts';
import { decide } from '#functions/backup-config/decide.ts';
import type { BackupConfigSnapshot } from '#functions/backup-config/snapshot.ts';
import { backupConfig } from '#functions/backup-config/step.ts';
import { type Repository, aBucket, aFilesystem, aLook, bucketPlace, now, why } from './a-look.ts';
import { noGoverse } from '#test/builders/no-goverse.ts';

const runs = 3_000;
const uid = 'database-uid';

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

const own = { cluster: 'test', namespace: 'db', name: 'main', uid };
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

const anySnapshot: fc.Arbitrary<BackupConfigSnapshot> = fc
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

function effectsOf(snapshot: BackupConfigSnapshot): readonly Effect[] {
  return decide(snapshot, now).effects;
}

test('the same look decides the same, whatever it found', () => {
  fc.assert(
    fc.property(anySnapshot, (snapshot) => {
      expect(decide(snapshot, now)).toEqual(decide(structuredClone(snapshot), now));
    }),
    { numRuns: runs },
  );
});

test('nothing is told to the data plane that is not wholly known to be in order (C4, C5)', () => {
  fc.assert(
    fc.property(anySnapshot, (snapshot) => {
      const change = effectsOf(snapshot).flatMap((effect) =>
        effect.kind === 'topologyTxn' && effect.operation.kind === 'rewriteDatabase'
          ? [effect.operation.change]
          : [],
      )[0];
      if (change === undefined || (change.place === null && change.mustEncrypt === null)) {
        return;
      }
      const { database, topology: record, survey: found } = snapshot;
      const { wanted: repository } = database;
      if (repository.kind !== 'wanted' || record.kind !== 'present') {
        expect.unreachable('a place without a repository, or over a record that was not read');
      }
      expect(change.place).toEqual(repository.place);
      expect(
        record.value.place === null ||
          hashOfPlace(record.value.place) === repository.hash ||
          database.confirmed === repository.hash,
      ).toBe(true);
      if (repository.place.type === 's3') {
        expect(found).toMatchObject({
          credentials: { kind: 'present', value: { missing: [] } },
          owner: { kind: 'present', value: { owner: own } },
          keepsConditions: { kind: 'present', value: true },
        });
        expect(repository.mustEncrypt !== true || found.isEncrypted.kind === 'present').toBe(true);
      }
    }),
    { numRuns: runs },
  );
});

test('a hand on the Database, or a record that is not ours, stops every write outside of it', () => {
  fc.assert(
    fc.property(anySnapshot, (snapshot) => {
      const { database, record } = snapshot;
      const isHeld =
        database.isPaused ||
        database.isBeingDeleted ||
        record.kind === 'foreign' ||
        record.kind === 'unreadable';
      const outside = effectsOf(snapshot).filter(
        (effect) => isDestructive(effect) || effect.kind === 'putRepositoryObject',
      );
      expect(isHeld && outside.length > 0).toBe(false);
    }),
    { numRuns: runs },
  );
});

test('while a write for an earlier generation may be under way, nothing is decided but its end (C2)', () => {
  fc.assert(
    fc.property(anySnapshot, (snapshot) => {
      const { record, topology: read } = snapshot;
      const intent = record.kind === 'ours' ? record.record.data.intent : undefined;
      const mayLand =
        intent?.generation === 1 &&
        (read.kind === 'unknown' ||
          (read.kind === 'present' && read.value.modRevision === intent.modRevision));
      const { database } = snapshot;
      if (mayLand && !database.isPaused && !database.isBeingDeleted) {
        expect(decide(snapshot, now).reason).toMatch(/^(EarlierWriteFenced|TopologyUnknown)$/);
      }
    }),
    { numRuns: runs },
  );
});

test('every decision is one the executor accepts', async () => {
  await fc.assert(
    fc.asyncProperty(anySnapshot, async (snapshot) => {
      const done = async () => ({ kind: 'written' as const, resourceVersion: '8' });
      const { database, record } = snapshot;
      const target = {
        metadata: {
          name: database.name,
          namespace: database.namespace,
          uid,
          resourceVersion: database.resourceVersion,
          generation: database.generation,
          annotations:
            record.text === null ? {} : { [recordAnnotation('backup-config')]: record.text },
        },
      } as KubeObject<'Database'>;

      const execution = await execute(
        backupConfig,
        target,
        decide(snapshot, now),
        {
          kube: {
            get: async () => absent,
            swapAnnotation: done,
            mergePatch: done,
            applyStatus: done,
            create: done,
            delete: done,
          },
          goverse: noGoverse,
          topology: async () => ({ retire: done, remove: done, rewriteDatabase: done }),
          admin: () => expect.unreachable('the admin service is not asked'),
          repository: async () => ({ put: done }),
        },
        {
          clock: () => now,
          logger: createLogger('silent', {}),
          signal: new AbortController().signal,
          remainingMs: () => 30_000,
        },
      );

      expect(execution.kind).toBe('done');
    }),
    { numRuns: runs },
  );
});
