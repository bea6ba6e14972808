import { describe, expect, test } from 'vitest';
import { cellLabel, poolLabel } from '#shared/api/labels.ts';
import { present } from '#shared/kernel/read.ts';
import type { RepositoryWiring } from '#functions/pool-pods/repository-wiring.ts';
import {
  type Standing,
  isGrowing,
  memberGauges,
  standingOfMembers,
  statusEffect,
} from '#functions/pool-pods/status.ts';
import { aShard } from '#test/builders/shard.ts';
import {
  type SnapshotBuilder,
  aSnapshotOf,
  notRead,
  notThere,
  now,
  onSharedClaim,
} from './a-snapshot.ts';

const done: Standing = { kind: 'done', reason: 'MembersReady', message: 'all is well' };
const moving: Standing = { kind: 'moving', reason: 'ObjectsMade', message: 'making a pod' };
const stuck: Standing = { kind: 'stuck', reason: 'NameTaken', message: 'a name is taken' };
const paused: Standing = { kind: 'paused', reason: 'Paused', message: 'the shard is paused' };

function statusOf({ snapshot }: SnapshotBuilder, standing = done) {
  const { effect } = statusEffect(snapshot, now, standing);
  const { conditions, pools } = effect.status as {
    readonly conditions: SnapshotBuilder['snapshot']['shard']['conditions'];
    readonly pools: SnapshotBuilder['snapshot']['shard']['poolStatuses'];
  };
  return { conditions, pools };
}

/** `True NothingToDo: what is wanted is there` */
function conditionOf(type: string, builder: SnapshotBuilder, standing = done): string {
  const found = statusOf(builder, standing).conditions.find((each) => each.type === type);
  return `${found?.status} ${found?.reason}: ${found?.message}`;
}

/** The status of this standing stands already. */
function standing(builder: SnapshotBuilder): SnapshotBuilder {
  const { conditions, pools } = statusOf(builder);
  return builder.withShard({ observedGeneration: 1, conditions, poolStatuses: pools });
}

function isThere({ snapshot }: SnapshotBuilder): boolean {
  return statusEffect(snapshot, now, done).isThere;
}

/** Another step says this of the shard. */
function withCondition(
  builder: SnapshotBuilder,
  change: Partial<SnapshotBuilder['snapshot']['shard']['conditions'][number]>,
): SnapshotBuilder {
  const condition = {
    type: 'Drained',
    status: 'False' as const,
    reason: 'DrainStuck',
    message: 'a drain is stuck',
    observedGeneration: 1,
    lastTransitionTime: '2026-01-01T00:00:00Z',
    ...change,
  };
  return builder.withShard({ conditions: [condition] });
}

/** Two cells of pool `main`, of which the first is complete and the second has no member. */
function twoCells(): SnapshotBuilder {
  const shard = aShard().withPool(2, { cells: ['zone-a', 'zone-b'] });
  return aSnapshotOf(2, shard);
}

describe('what the members say', () => {
  test('that all are ready', () => {
    expect(standingOfMembers(aSnapshotOf(3).snapshot)).toEqual({
      kind: 'done',
      reason: 'MembersReady',
      message: '3 of 3 members are ready',
    });
  });

  test('that some start, by the pools and cells that wait for them', () => {
    expect(standingOfMembers(twoCells().snapshot)).toEqual({
      kind: 'moving',
      reason: 'MembersStarting',
      message: 'waiting for members of main/zone-b to become ready',
    });
  });

  test('that some are too many, even while others start', () => {
    const builder = twoCells().wanting(1).withPod(0, { isReady: false });

    expect(standingOfMembers(builder.snapshot)).toEqual({
      kind: 'moving',
      reason: 'SurplusMembers',
      message: 'more members than wanted in main/zone-a; they leave one by one',
    });
  });
});

describe('the numbers of members', () => {
  const measured = ({ snapshot }: SnapshotBuilder) =>
    memberGauges(snapshot).map(
      ({ metric, labels, value }) => `${metric} ${Object.values(labels).join('/')} ${value}`,
    );

  test('say of each pool and cell what is wanted and what is missing', () => {
    expect(measured(twoCells().withPod(0, { isReady: false }))).toEqual([
      'millrace_pool_members_wanted main/zone-a 2',
      'millrace_pool_members_missing main/zone-a 1',
      'millrace_pool_members_wanted main/zone-b 2',
      'millrace_pool_members_missing main/zone-b 2',
    ]);
  });

  test('miss nobody where there are more than wanted', () => {
    expect(measured(aSnapshotOf(3).wanting(2))).toEqual([
      'millrace_pool_members_wanted main/zone-a 2',
      'millrace_pool_members_missing main/zone-a 0',
    ]);
  });

  test('say nothing where the pods could not be listed, or the shard is being deleted', () => {
    expect(measured(aSnapshotOf(3).with({ pods: notRead }))).toEqual([]);
    expect(measured(aSnapshotOf(3).withShard({ isBeingDeleted: true }))).toEqual([]);
  });
});

describe('Ready', () => {
  test('is true where each pool and cell has as many ready members as wanted', () => {
    expect(conditionOf('Ready', aSnapshotOf(3))).toBe(
      'True MembersReady: 3 of 3 members are ready',
    );
  });

  test.each([
    ['not ready', { isReady: false }],
    ['going', { isBeingDeleted: true }],
  ])('does not count a member that is %s', (_what, change) => {
    expect(conditionOf('Ready', aSnapshotOf(3).withPod(1, change))).toBe(
      'False MembersNotReady: 2 of 3 members are ready',
    );
  });

  test('is false where one of two cells lacks its members, though the sum is right', () => {
    const builder = twoCells().withMembers(2, 3);

    expect(conditionOf('Ready', builder)).toBe('False MembersNotReady: 4 of 4 members are ready');
  });

  test('is unknown while the pods cannot be listed', () => {
    expect(conditionOf('Ready', aSnapshotOf(3).with({ pods: notRead }))).toBe(
      'Unknown MembersUnknown: the pods of the shard cannot be read',
    );
  });
});

describe('Reconciling and Stalled', () => {
  const both = (builder: SnapshotBuilder, standing = done) => [
    conditionOf('Reconciling', builder, standing),
    conditionOf('Stalled', builder, standing),
  ];
  const nothingStalled = 'False NothingStalled: nothing waits for a repair';
  const nothingToDo = 'False NothingToDo: what is wanted is there';

  test.each([
    ['all is done', done, [nothingToDo, nothingStalled]],
    ['it goes on by itself', moving, ['True ObjectsMade: making a pod', nothingStalled]],
    ['it does not', stuck, ['False NameTaken: a name is taken', 'True NameTaken: a name is taken']],
    [
      'a person holds it',
      paused,
      ['False Paused: the shard is paused', 'False Paused: the shard is paused'],
    ],
  ])('say so where %s', (_what, standing, said) => {
    expect(both(aSnapshotOf(3), standing)).toEqual(said);
  });

  test('repeat what another step is stuck in, unless a person holds the shard', () => {
    const builder = withCondition(aSnapshotOf(3), {});
    const said = ['False DrainStuck: a drain is stuck', 'True DrainStuck: a drain is stuck'];

    expect(both(builder)).toEqual(said);
    expect(both(builder, moving)).toEqual(said);
    expect(both(builder, paused)).toEqual([
      'False Paused: the shard is paused',
      'False Paused: the shard is paused',
    ]);
  });

  test('repeat a drain that goes on, and nothing of one that is over', () => {
    const draining = { reason: 'Draining', message: 'a pod is leaving' };

    expect(both(withCondition(aSnapshotOf(3), draining))).toEqual([
      'True Draining: a pod is leaving',
      nothingStalled,
    ]);
    expect(both(withCondition(aSnapshotOf(3), { ...draining, status: 'True' }))).toEqual([
      nothingToDo,
      nothingStalled,
    ]);
  });

  test.each([
    ['is our own', { type: 'Stalled' }],
    ['holds', { status: 'True' as const }],
  ])('repeat no condition that %s', (_what, change) => {
    expect(both(withCondition(aSnapshotOf(3), change))[1]).toBe(nothingStalled);
  });

  test('take a condition of another name for no drain', () => {
    const builder = withCondition(aSnapshotOf(3), { type: 'BackupConfigured', reason: 'Draining' });

    expect(both(builder)[0]).toBe(nothingToDo);
  });
});

describe('PodsUpToDate', () => {
  test('is true where every pod is there and of the present template', () => {
    expect(conditionOf('PodsUpToDate', aSnapshotOf(3))).toBe(
      'True PodsUpToDate: every pod is as the spec has it',
    );
  });

  test('names the pools and cells that lack members', () => {
    expect(conditionOf('PodsUpToDate', twoCells())).toBe(
      'False MembersMissing: members are missing in main/zone-b',
    );
  });

  test('names the pools and cells that have too many', () => {
    const shard = aShard().withPool(1).withPool(0, { name: 'other' });

    expect(conditionOf('PodsUpToDate', aSnapshotOf(2, shard))).toBe(
      'False SurplusMembers: members are too many in main/zone-a',
    );
  });

  test('names the pods of another template, in their order, and no others', () => {
    const builder = aSnapshotOf(3);
    const annotations = { 'millrace.dev/other': 'x' };
    const old = builder.withPod(2, { annotations }).withPod(0, { annotations });

    expect(conditionOf('PodsUpToDate', old)).toBe(
      `False TemplateChanged: made with another pod template, or for another repository: ${builder.pod(0)}, ` +
        `${builder.pod(2)}; a pod gets the present ones when it is made anew`,
    );
  });

  test.each<[string, RepositoryWiring]>([
    ['keys', { kind: 'keys', secret: 'backup-keys' }],
    ['a service account', { kind: 'identity', serviceAccount: 'backups' }],
    ['a file system', onSharedClaim],
  ])('names the pods that were made before the repository needs %s', (_what, wiring) => {
    expect(conditionOf('PodsUpToDate', aSnapshotOf(1).withWiring(wiring))).toMatch(
      /^False TemplateChanged: .*orders-main-zone-a/,
    );
  });

  test.each([
    [
      'does not exist',
      notThere,
      'DatabaseMissing: which repository pods are to be made for is unknown: the Database main does not exist',
    ],
    [
      'cannot be read',
      notRead,
      'DatabaseUnknown: which repository pods are to be made for is unknown: the Database cannot be read: listing pods: 403 Forbidden',
    ],
  ])('is unknown while the Database %s', (_what, database, said) => {
    expect(conditionOf('PodsUpToDate', aSnapshotOf(3).with({ database }))).toBe(`Unknown ${said}`);
  });

  test('needs no Database where all pods are somebody else’s', () => {
    const builder = aSnapshotOf(0, aShard().withAttachedPool(2)).with({ database: notRead });

    expect(conditionOf('PodsUpToDate', builder)).toBe(
      'True PodsUpToDate: every pod is as the spec has it',
    );
  });

  test('is unknown while the pods cannot be listed', () => {
    expect(conditionOf('PodsUpToDate', aSnapshotOf(3).with({ pods: notRead }))).toBe(
      'Unknown MembersUnknown: the pods of the shard cannot be read',
    );
  });
});

describe('a shard', () => {
  test.each([
    ['has all its members', aSnapshotOf(3), false],
    ['begins', aSnapshotOf(0, aShard().withPool(3)), false],
    ['has nobody ready', aSnapshotOf(1).withPod(0, { isReady: false }), false],
    ['lacks a member', aSnapshotOf(2).wanting(3), true],
    ['has one that is not ready', aSnapshotOf(3).withPod(1, { isReady: false }), true],
    ['has one in the other cell alone', twoCells(), true],
    ['is read without its pods', aSnapshotOf(2).wanting(3).with({ pods: notRead }), false],
    ['waits for the pods of others', aSnapshotOf(0, aShard().withAttachedPool(2)), false],
  ])('that %s grows or not', (_what, { snapshot }, expected) => {
    expect(isGrowing(snapshot)).toBe(expected);
  });
});

describe('the numbers of the pools', () => {
  test('count what is wanted and ready in each pool and cell', () => {
    expect(statusOf(twoCells().withPod(1, { isReady: false })).pools).toEqual([
      { name: 'main', cell: 'zone-a', desired: 2, ready: 1 },
      { name: 'main', cell: 'zone-b', desired: 2, ready: 0 },
    ]);
  });

  test('count the pods of an attached pool by their labels', () => {
    const builder = aSnapshotOf(0, aShard().withAttachedPool(2));
    const labelled = (name: string, pool: string, cell: string) => ({
      name,
      uid: name,
      resourceVersion: '1',
      owner: 'foreign' as const,
      isBeingDeleted: false,
      labels: { [poolLabel]: pool, [cellLabel]: cell },
      annotations: {},
      isReady: true,
      hasStarted: true,
    });
    const pods = present([
      labelled('a', 'attached', 'zone-a'),
      labelled('b', 'attached', 'zone-b'),
      labelled('c', 'other', 'zone-a'),
      { ...labelled('d', 'attached', 'zone-a'), isReady: false },
    ]);

    expect(statusOf(builder.with({ pods })).pools).toEqual([
      { name: 'attached', cell: 'zone-a', desired: 2, ready: 1 },
    ]);
  });

  test('stay as they are while the pods cannot be listed', () => {
    const poolStatuses = [{ name: 'main', cell: 'zone-a', desired: 3, ready: 2 }];
    const builder = aSnapshotOf(3).withShard({ poolStatuses }).with({ pods: notRead });

    expect(statusOf(builder).pools).toEqual(poolStatuses);
  });
});

describe('a status', () => {
  test('is applied under the version of the Shard that was read', () => {
    const { shard } = aSnapshotOf(1).snapshot;

    expect(statusEffect(aSnapshotOf(1).snapshot, now, done).effect.guard).toEqual({
      uid: shard.uid,
      resourceVersion: shard.resourceVersion,
    });
  });

  test('is there where nothing in it differs, whatever the order of the pools', () => {
    const builder = standing(twoCells());
    const { poolStatuses } = builder.snapshot.shard;

    expect(isThere(builder)).toBe(true);
    expect(isThere(builder.withShard({ poolStatuses: poolStatuses.toReversed() }))).toBe(true);
  });

  const [first = { name: '', cell: '', desired: 0, ready: 0 }, second = first] =
    statusOf(twoCells()).pools;
  test.each([
    ['lacks a pool', [first]],
    ['has a pool that is no more', [first, second, { ...first, name: 'former' }]],
    ['has another pool', [{ ...first, name: 'former' }, second]],
    ['has another cell', [{ ...first, cell: 'zone-c' }, second]],
    ['wants another number', [{ ...first, desired: 9 }, second]],
    ['counts another number of ready members', [{ ...first, ready: 9 }, second]],
  ])('is not there where it %s', (_what, poolStatuses) => {
    expect(isThere(standing(twoCells()).withShard({ poolStatuses }))).toBe(false);
  });

  test('is not there in another generation, or with another condition', () => {
    const builder = standing(twoCells());
    const [condition, ...others] = builder.snapshot.shard.conditions;

    expect(isThere(builder.withShard({ observedGeneration: 0 }))).toBe(false);
    expect(
      isThere(
        builder.withShard({
          conditions:
            condition === undefined ? others : [{ ...condition, message: 'x' }, ...others],
        }),
      ),
    ).toBe(false);
  });
});
