import fc from 'fast-check';
import { absent, present, unknown } from '#shared/kernel/read.ts';
import type { DrainSnapshot } from '#functions/drain-step/snapshot.ts';
import { type DrainBuilder, aShardOf, uidOf } from './a-drain.ts';

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

export const anySnapshot = fc
  .tuple(fc.integer({ min: 1, max: 5 }), fc.array(circumstance, { maxLength: 8 }))
  .map(([count, circumstances]) =>
    circumstances.reduce((drain, change) => change(drain), aShardOf(count)).build(),
  );
