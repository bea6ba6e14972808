import fc from 'fast-check';
import { absent, present, unknown } from '#shared/kernel/read.ts';
import type { RepositoryWiring } from '#functions/pool-pods/repository-wiring.ts';
import type { Owner, PoolPodsSnapshot } from '#functions/pool-pods/snapshot.ts';
import { aShard } from '#test/builders/shard.ts';
import { type SnapshotBuilder, aSnapshotOf, onSharedClaim } from './a-snapshot.ts';

const indices = fc.integer({ min: 0, max: 6 });
const owner = fc.constantFrom<Owner>('ours', 'ours', 'ours', 'former', 'foreign');
const why = unknown('it was refused');

const pod = fc.record({
  index: indices,
  owner,
  isBeingDeleted: fc.boolean(),
  isReady: fc.boolean(),
  hasStarted: fc.boolean(),
});
const claim = fc.record({
  index: indices,
  isBeingDeleted: fc.boolean(),
  hasController: fc.boolean(),
  released: fc.constantFrom(null, null, 'a-pod'),
  isLabelled: fc.boolean(),
});
const drain = fc.option(
  fc.record({
    index: indices,
    state: fc.constantFrom('requested' as const, 'finished' as const),
    cause: fc.constantFrom('surplus' as const, 'requested' as const, 'failed' as const),
  }),
);
const wiring = fc.constantFrom<RepositoryWiring>(
  { kind: 'none' },
  { kind: 'keys', secret: 'backup-keys' },
  { kind: 'identity', serviceAccount: 'backups' },
  onSharedClaim,
  onSharedClaim,
);
const read = fc.oneof(
  { weight: 20, arbitrary: fc.constant('present') },
  { weight: 1, arbitrary: fc.constantFrom('absent', 'unknown') },
);

/** Any snapshot of a shard with one pool in two cells, of which the first is filled at random. */
export const anySnapshot = fc
  .record({
    replicas: fc.integer({ min: 1, max: 5 }),
    pods: fc.array(pod, { maxLength: 6 }),
    claims: fc.array(claim, { maxLength: 6 }),
    drain,
    reads: fc.record({ pods: read, claims: read, service: read, budgets: read, database: read }),
    wiring,
    backups: fc.option(fc.boolean()),
    shared: fc.option(
      fc.record({
        isBeingDeleted: fc.boolean(),
        hasController: fc.boolean(),
        isLabelled: fc.boolean(),
      }),
    ),
    isPaused: fc.boolean(),
    isDatabasePaused: fc.boolean(),
    isBeingDeleted: fc.boolean(),
    record: fc.constantFrom('none', 'none', 'ours', 'ours', 'foreign', 'unreadable'),
    isDrainUnreadable: fc.boolean(),
  })
  .map((given): PoolPodsSnapshot => {
    const cells = ['zone-a', 'zone-b'];
    const empty = aSnapshotOf(0, aShard().withPool(given.replicas, { cells }));
    const filled = [
      ...given.pods.map(
        ({ index, ...changes }) =>
          (builder: SnapshotBuilder) =>
            builder.withPod(index, changes),
      ),
      ...given.claims.map(
        ({ index, isLabelled, ...changes }) =>
          (builder: SnapshotBuilder) =>
            builder.withClaim(index, isLabelled ? changes : { ...changes, labels: {} }),
      ),
    ].reduce((builder, fill) => fill(builder), empty);
    const drained =
      given.drain === null
        ? filled
        : filled.draining(given.drain.index, given.drain.state, given.drain.cause);
    const { isLabelled: isSharedLabelled, ...shared } = given.shared ?? { isLabelled: true };
    const shares =
      given.shared === null
        ? drained
        : drained.withSharedClaim(isSharedLabelled ? shared : { ...shared, labels: {} });
    const asked = given.backups === null ? shares : shares.withBackups(given.backups);
    const recorded = given.record === 'ours' ? asked.withRecord() : asked;
    const { snapshot } = recorded.withShard({
      isPaused: given.isPaused && given.replicas > 3,
      isBeingDeleted: given.isBeingDeleted && given.replicas > 4,
    });
    return {
      ...snapshot,
      pods: asRead(given.reads.pods, snapshot.pods),
      claims: asRead(given.reads.claims, snapshot.claims),
      service: asRead(given.reads.service, snapshot.service),
      budgets: asRead(given.reads.budgets, snapshot.budgets),
      database: asRead(
        given.reads.database,
        present({
          isPaused: given.isDatabasePaused && given.replicas > 3,
          wiring: given.wiring,
        }),
      ),
      ...(given.record === 'foreign'
        ? { record: { kind: 'foreign', text: '{"v":1}', uid: 'x' } }
        : {}),
      ...(given.record === 'unreadable' && given.replicas > 3
        ? { record: { kind: 'unreadable', text: '{', why: 'it is not JSON' } }
        : {}),
      ...(given.isDrainUnreadable && given.replicas > 4
        ? { drain: { kind: 'unreadable', text: '{', why: 'it is not JSON' } }
        : {}),
    };
  });

function asRead<T>(kind: string, value: T) {
  return kind === 'absent' ? absent : kind === 'unknown' ? why : value;
}
