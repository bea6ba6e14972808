import { describe, expect, test } from 'vitest';
import { present } from '#shared/kernel/read.ts';
import { recordText } from '#shared/kernel/record.ts';
import { podName } from '#shared/api/names.ts';
import { managedGroupsOf } from '#functions/pool-pods/manifests.ts';
import {
  mayLackClaims,
  membersOf,
  missingMembers,
  needsClaims,
  planOf,
  surplusMembers,
  wantsChange,
} from '#functions/pool-pods/plan.ts';
import { aShard } from '#test/builders/shard.ts';
import { type SnapshotBuilder, aSnapshotOf, notRead } from './a-snapshot.ts';

function groupOf({ snapshot }: SnapshotBuilder) {
  const [group] = managedGroupsOf(snapshot.shard);
  if (group === undefined) {
    throw new Error('the shard has no pool whose pods Millrace makes');
  }
  return group;
}

function missingIn(builder: SnapshotBuilder): number {
  return missingMembers(builder.snapshot, groupOf(builder));
}

/** `make Pod orders-…-0`, in the order of the plan. */
function worksOf({ snapshot }: SnapshotBuilder): string[] {
  return planOf(snapshot).works.map(({ kind, object }) => `${kind} ${object.kind} ${object.name}`);
}

describe('a plan', () => {
  test('is empty while the pods cannot be listed, and nothing is wanted', () => {
    const { snapshot } = aSnapshotOf(1).wanting(3).with({ pods: notRead });

    expect(planOf(snapshot)).toEqual({ works: [], obstacles: [] });
    expect([wantsChange(snapshot), needsClaims(snapshot)]).toEqual([false, false]);
  });

  test('needs the claims again where a member that has not started lacks its own', () => {
    const starting = aSnapshotOf(3).withPod(1, { hasStarted: false });

    expect(needsClaims(starting.snapshot)).toBe(false);
    expect(needsClaims(starting.withoutClaim(1).snapshot)).toBe(true);
  });

  test('asks for claims where one of two pools has a member that has not started', () => {
    const { pools } = aShard().withPool(2).build().spec;
    const starting = aSnapshotOf(2).withPod(0, { hasStarted: false });
    const further = pools.map((pool) => ({ ...pool, name: 'further' }));

    expect(mayLackClaims(starting.withShard({ pools: [...pools, ...further] }).snapshot)).toBe(
      true,
    );
    expect(mayLackClaims(aSnapshotOf(2).snapshot)).toBe(false);
  });

  test('is empty for a shard whose pods are all somebody else’s', () => {
    const shard = aShard().withPool(1);
    const attached = aShard().withAttachedPool(3).build();
    const { snapshot } = aSnapshotOf(0, shard)
      .with({ service: { kind: 'absent' }, budgets: present([]) })
      .withShard({ pools: attached.spec.pools });

    expect(planOf(snapshot)).toEqual({ works: [], obstacles: [] });
  });

  test('makes no Service while nobody knows whether there is one', () => {
    expect(worksOf(aSnapshotOf(1).with({ service: notRead }))).toEqual([]);
  });

  test('with nothing but an obstacle wants a change', () => {
    const builder = aSnapshotOf(1);
    const { service } = builder.snapshot;
    const foreign =
      service.kind === 'present'
        ? present({ ...service.value, owner: 'foreign' as const })
        : service;
    const { snapshot } = builder.with({ service: foreign });

    expect(planOf(snapshot)).toEqual({
      works: [],
      obstacles: [{ kind: 'foreign', object: expect.objectContaining({ kind: 'Service' }) }],
    });
    expect(wantsChange(snapshot)).toBe(true);
  });

  test('puts a widened budget’s selector right together with its number', () => {
    const builder = aSnapshotOf(3);
    const { budgets } = builder.snapshot;
    const [budget] = budgets.kind === 'present' ? budgets.value : [];
    if (budget === undefined) {
      throw new Error('a converged shard has a budget');
    }
    const selector = { ...budget.selector, other: 'x' };

    const { works } = planOf(
      builder.with({ budgets: present([{ ...budget, selector }]) }).snapshot,
    );

    expect(works[0]?.effects[0]).toMatchObject({
      patch: {
        spec: {
          minAvailable: 2,
          maxUnavailable: null,
          selector: { matchLabels: { ...budget.selector, other: null } },
        },
      },
    });
  });

  test('goes up to the last index whose name is a DNS label, and no further', () => {
    const builder = aSnapshotOf(98).wanting(101);

    expect(worksOf(builder).filter((work) => work.startsWith('make Pod '))).toEqual([
      `make Pod ${builder.pod(98)}`,
      `make Pod ${builder.pod(99)}`,
    ]);
  });
});

describe('members', () => {
  test('are none while the pods cannot be listed, neither missing nor too many', () => {
    const builder = aSnapshotOf(2).with({ pods: notRead });
    const group = groupOf(builder);

    expect(membersOf(builder.snapshot, group)).toEqual([]);
    expect([missingIn(builder), surplusMembers(builder.snapshot, group)]).toEqual([0, 0]);
  });

  test('are the pods whose whole name is the group’s and an index from 0 to 99', () => {
    const builder = aSnapshotOf(1);
    const { base } = groupOf(builder);
    const named = (name: string) => builder.withPod(0, { name: `${base}${name}` });
    const indices = (name: string) =>
      membersOf(named(name).snapshot, groupOf(builder)).map(({ index }) => index);

    expect(indices('-7')).toEqual([0, 7]);
    expect(indices('-99')).toEqual([0, 99]);
    for (const other of ['-100', '-07', '-x1', '-1x', '-', '', '7', '-1-1']) {
      expect(indices(other), other).toEqual([0]);
    }
  });

  test('are as many missing as are wanted beyond those that are there', () => {
    expect(missingIn(aSnapshotOf(2).wanting(5))).toBe(3);
    expect(missingIn(aSnapshotOf(3).wanting(2))).toBe(0);
  });

  test('whose leaver is to come back lack one less, once its pod is gone', () => {
    const draining = aSnapshotOf(3).wanting(4).draining(2, 'finished', 'requested');

    expect(missingIn(draining)).toBe(1);
    expect(missingIn(draining.withoutPod(2))).toBe(1);
    expect(missingIn(draining.withoutPod(2).wanting(3))).toBe(0);
  });

  test('lack no less for a drain of another group', () => {
    const builder = aSnapshotOf(2).wanting(3).draining(2, 'finished', 'requested');
    const { drain } = builder.snapshot;
    if (drain.kind !== 'ours' || drain.record.state === 'choosing') {
      throw new Error('nobody is leaving');
    }
    const { record } = drain;
    const other = { ...record, data: { ...record.data, pod: podName('orders-other-zone-a', 2) } };

    expect(missingIn(builder)).toBe(0);
    expect(missingIn(builder.with({ drain: { ...drain, record: other } }))).toBe(1);
  });

  test('lack no less while nobody is picked yet', () => {
    const builder = aSnapshotOf(2).wanting(3).draining(2, 'requested', 'requested');
    const { drain } = builder.snapshot;
    if (drain.kind !== 'ours') {
      throw new Error('nobody is leaving');
    }
    const record = { ...drain.record, state: 'choosing' as const, data: {} };

    expect(
      missingIn(builder.with({ drain: { kind: 'ours', text: recordText(record), record } })),
    ).toBe(1);
  });
});
