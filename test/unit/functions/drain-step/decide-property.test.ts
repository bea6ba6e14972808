import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { recordAnnotation } from '#shared/api/annotations.ts';
import type { Effect } from '#shared/kernel/effect.ts';
import { isDestructive } from '#shared/kernel/effect.ts';
import { type Writers, execute } from '#shared/kernel/execute.ts';
import { createLogger } from '#shared/kernel/logger.ts';
import { absent, present, unknown } from '#shared/kernel/read.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import { decide } from '#functions/drain-step/decide.ts';
import type { DrainSnapshot } from '#functions/drain-step/snapshot.ts';
import { drainStep } from '#functions/drain-step/step.ts';
import { type DrainBuilder, aShardOf, now, shardUid, uidOf } from './a-drain.ts';
import { noGoverse } from '#test/builders/no-goverse.ts';

const pod = fc.integer({ min: 0, max: 4 }).map((index) => `orders-${index}`);

/** One thing that can be so in a shard. */
const circumstance: fc.Arbitrary<(drain: DrainBuilder) => DrainBuilder> = fc.oneof(
  fc.integer({ min: 1, max: 5 }).map((count) => (drain: DrainBuilder) => drain.wanting(count)),
  pod.map((name) => (drain: DrainBuilder) => drain.requested(name)),
  pod.map((name) => (drain: DrainBuilder) => drain.withoutPod(name)),
  pod.map((name) => (drain: DrainBuilder) => drain.ledBy(name)),
  pod.map((name) => (drain: DrainBuilder) => drain.outOfCohort(name)),
  pod.map((name) => (drain: DrainBuilder) => drain.gone(name)),
  pod.map((name) => (drain: DrainBuilder) => drain.goneUnseen(name)),
  fc
    .tuple(
      pod,
      fc.constantFrom('requested', 'draining', 'acknowledged', 'finished'),
      fc.integer({ min: 0, max: 600 }),
    )
    .map(
      ([name, state, ago]) =>
        (drain: DrainBuilder) =>
          drain.goneUnseen(name).drainingClaim(name, state, ago),
    ),
  fc
    .tuple(pod, fc.constantFrom({ released: 'a-pod' }, { isBeingDeleted: true }, { member: null }))
    .map(
      ([name, change]) =>
        (drain: DrainBuilder) =>
          drain.withClaim(name, change),
    ),
  pod.map((name) => (drain: DrainBuilder) => drain.withStatus(name, null)),
  fc.tuple(pod, fc.boolean()).map(
    ([name, isReady]) =>
      (drain: DrainBuilder) =>
        drain.withStatus(name, { isReady }),
  ),
  fc
    .tuple(
      pod,
      fc.record({
        hasEnded: fc.boolean(),
        isReady: fc.boolean(),
        isBeingDeleted: fc.boolean(),
        isMarkedByOthers: fc.boolean(),
      }),
    )
    .map(
      ([name, change]) =>
        (drain: DrainBuilder) =>
          drain.withMember(name, change),
    ),
  pod.map((name) => (drain: DrainBuilder) => drain.withMember(name, { control: 'foreign' })),
  fc
    .tuple(
      pod,
      fc.constantFrom('primary', 'replica', 'none', 'unknown'),
      fc.constantFrom('active', 'shutdown', 'stopping', 'unknown'),
    )
    .map(
      ([name, role, lifecycle]) =>
        (drain: DrainBuilder) =>
          drain.withPooler(name, { role, lifecycle }),
    ),
  fc
    .tuple(
      pod,
      fc.constantFrom('requested', 'draining', 'acknowledged', 'finished'),
      fc.integer({ min: 0, max: 600 }),
      fc.record(
        {
          cause: fc.constantFrom('surplus', 'requested', 'failed'),
          forced: fc.boolean(),
          intent: fc.constant({
            rule: { term: '3', subterm: '1' },
            at: '2026-01-01T00:09:00Z',
          }),
        },
        { requiredKeys: ['cause', 'forced'] },
      ),
    )
    .map(
      ([name, state, ago, leaver]) =>
        (drain: DrainBuilder) =>
          drain.draining(name, state, ago, leaver),
    ),
  pod.map((name) => (drain: DrainBuilder) => drain.withShard({ forcedPodUid: uidOf(name) })),
  fc
    .constantFrom<Partial<DrainSnapshot>>(
      { topology: unknown('etcd is away') },
      { members: unknown('403') },
      { database: absent },
      { database: unknown('timeout') },
      { claims: unknown('403') },
      { claimsInUse: unknown('403') },
      { claimsInUse: present(['data-orders-2']) },
      { nodes: { 'node-1': absent } },
      { nodes: { 'node-1': present({ isReady: true }) } },
      { nodes: { 'node-1': unknown('403') } },
      { record: { kind: 'foreign', text: '{}', uid: 'other' } },
      { record: { kind: 'unreadable', text: '{"v":2}', why: 'v' } },
    )
    .map((change) => (drain: DrainBuilder) => drain.with(change)),
  fc.boolean().map((isAttached) => (drain: DrainBuilder) => drain.withPool({ isAttached })),
  fc.constant((drain: DrainBuilder) => drain.withPool({ whenScaled: 'Delete' })),
);

const situation = fc
  .tuple(fc.integer({ min: 1, max: 5 }), fc.array(circumstance, { maxLength: 8 }))
  .map(([count, circumstances]) =>
    circumstances.reduce((drain, change) => change(drain), aShardOf(count)).build(),
  );

function destructiveOf(snapshot: DrainSnapshot): readonly Effect[] {
  return (decide(snapshot, now).effects as readonly Effect[]).filter(isDestructive);
}

describe('whatever the situation', () => {
  test('a decision is made, and the same one every time', () => {
    fc.assert(
      fc.property(situation, (snapshot) => {
        expect(decide(snapshot, now)).toEqual(decide(structuredClone(snapshot), now));
      }),
      { numRuns: 3000 },
    );
  });

  test('nothing is destroyed on unknown pods, on a record that is not ours, or without one', () => {
    fc.assert(
      fc.property(situation, (snapshot) => {
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
      fc.property(situation, (seen) => {
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
      fc.property(situation, (snapshot) => {
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
      fc.property(situation, (snapshot) => {
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
      fc.asyncProperty(situation, async (snapshot) => {
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
