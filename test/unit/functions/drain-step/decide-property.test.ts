import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { recordAnnotation } from '#shared/api/annotations.ts';
import type { Effect } from '#shared/kernel/effect.ts';
import { isDestructive } from '#shared/kernel/effect.ts';
import { type Writers, execute } from '#shared/kernel/execute.ts';
import { createLogger } from '#shared/kernel/logger.ts';
import { absent, unknown } from '#shared/kernel/read.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import { decide } from '#functions/drain-step/decide.ts';
import type { DrainSnapshot } from '#functions/drain-step/snapshot.ts';
import { drainStep } from '#functions/drain-step/step.ts';
import { now, shardUid } from './a-drain.ts';
import { noGoverse } from '#test/builders/no-goverse.ts';
import { anySnapshot } from './any-snapshot.ts';

function destructiveOf(snapshot: DrainSnapshot): readonly Effect[] {
  return (decide(snapshot, now).effects as readonly Effect[]).filter(isDestructive);
}

describe('whatever the situation', () => {
  test('a decision is made, and the same one every time', () => {
    fc.assert(
      fc.property(anySnapshot, (snapshot) => {
        expect(decide(snapshot, now)).toEqual(decide(structuredClone(snapshot), now));
      }),
      { numRuns: 3000 },
    );
  });

  test('nothing is destroyed on unknown pods, on a record that is not ours, or without one', () => {
    fc.assert(
      fc.property(anySnapshot, (snapshot) => {
        const isBlind =
          snapshot.members.kind !== 'present' ||
          snapshot.database.kind !== 'present' ||
          snapshot.record.kind !== 'ours';
        fc.pre(isBlind);
        expect(destructiveOf(snapshot)).toEqual([]);
      }),
      { numRuns: 3000 },
    );
  });

  test('without the topology only what a person forced goes on', () => {
    fc.assert(
      fc.property(anySnapshot, (seen) => {
        const snapshot: DrainSnapshot = { ...seen, topology: unknown('etcd is down') };
        const isForced =
          snapshot.record.kind === 'ours' &&
          (snapshot.record.record.data as { forced?: boolean }).forced === true;
        fc.pre(!isForced);
        expect(destructiveOf(snapshot)).toEqual([]);
      }),
      { numRuns: 3000 },
    );
  });

  test('a pod is deleted only when its record is finished and names its uid (D3)', () => {
    fc.assert(
      fc.property(anySnapshot, (snapshot) => {
        for (const effect of destructiveOf(snapshot)) {
          if (effect.kind === 'deleteObject' && effect.object.kind === 'Pod') {
            const record = snapshot.record.kind === 'ours' ? snapshot.record.record : undefined;
            expect(record?.state).toBe('finished');
            expect(record?.data).toMatchObject({
              podUid: effect.guard.uid,
              pod: effect.object.name,
            });
          }
        }
      }),
      { numRuns: 3000 },
    );
  });

  test('a claim is deleted only by policy, under its recorded uid, and while no pod mounts it (S3, D13)', () => {
    fc.assert(
      fc.property(anySnapshot, (snapshot) => {
        for (const effect of destructiveOf(snapshot)) {
          if (effect.kind === 'deleteObject' && effect.object.kind === 'PersistentVolumeClaim') {
            const { record, shard, claimsInUse, members } = snapshot;
            expect(record.kind === 'ours' && record.record).toMatchObject({
              state: 'finished',
              data: { claimUid: effect.guard.uid, cause: 'surplus' },
            });
            expect(shard.pools.map(({ whenScaled }) => whenScaled)).toEqual(['Delete']);
            expect(claimsInUse).toMatchObject({ kind: 'present' });
            const mounted = [
              ...(claimsInUse.kind === 'present' ? claimsInUse.value : []),
              ...(members.kind === 'present' ? members.value.map(({ claim }) => claim) : []),
            ];
            expect(mounted).not.toContain(effect.object.name);
          }
        }
      }),
      { numRuns: 3000 },
    );
  });

  test('every decision is one the executor accepts', async () => {
    await fc.assert(
      fc.asyncProperty(anySnapshot, async (snapshot) => {
        const done = async () => ({ kind: 'written' as const, resourceVersion: '1' });
        const writers: Writers = {
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
          admin: async () => ({
            switchPrimary: async () => ({ kind: 'sent', detail: '' }),
            startBackup: async () => ({ kind: 'refused', why: 'not this step' }),
          }),
          repository: async () => ({ put: done }),
        };
        const { record, shard } = snapshot;
        const target = {
          metadata: {
            name: shard.name,
            namespace: shard.namespace,
            uid: shardUid,
            resourceVersion: shard.resourceVersion,
            annotations:
              record.text === null ? {} : { [recordAnnotation('drain-step')]: record.text },
          },
        } as KubeObject<'Shard'>;

        const execution = await execute(drainStep, target, decide(snapshot, now), writers, {
          clock: () => now,
          logger: createLogger('silent', {}),
          signal: new AbortController().signal,
          remainingMs: () => 30_000,
        });

        expect(execution.kind).toBe('done');
      }),
      { numRuns: 2000 },
    );
  });
});
