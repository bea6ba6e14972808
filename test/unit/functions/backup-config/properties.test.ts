import fc from 'fast-check';
import { expect, test } from 'vitest';
import { recordAnnotation } from '#shared/api/annotations.ts';
import { hashOfPlace } from '#shared/api/repository.ts';
import { isDestructive, type Effect } from '#shared/kernel/effect.ts';
import { execute } from '#shared/kernel/execute.ts';
import { createLogger } from '#shared/kernel/logger.ts';
import { absent } from '#shared/kernel/read.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import { decide } from '#functions/backup-config/decide.ts';
import type { BackupConfigSnapshot } from '#functions/backup-config/snapshot.ts';
import { backupConfig } from '#functions/backup-config/step.ts';
import { now } from './a-look.ts';
import { noGoverse } from '#test/builders/no-goverse.ts';
import { anySnapshot, own, uid } from './any-snapshot.ts';

const runs = 3_000;
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
