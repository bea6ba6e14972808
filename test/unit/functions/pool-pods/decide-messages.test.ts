import { describe, expect, test } from 'vitest';
import { serviceName } from '#shared/api/names.ts';
import { absent, present } from '#shared/kernel/read.ts';
import type { Wake } from '#shared/kernel/record.ts';
import { decide } from '#functions/pool-pods/decide.ts';
import type { PoolPodsRecord } from '#functions/pool-pods/record.ts';
import {
  type SnapshotBuilder,
  aSnapshotOf,
  conditionIn,
  effectOf,
  notRead,
  notThere,
  now,
  writesOf,
} from './a-snapshot.ts';

const service = `Service ${serviceName('orders')}`;

function look({ snapshot }: SnapshotBuilder) {
  return decide(snapshot, now);
}

/** Somebody else's Service stands under the shard's name. */
function withForeignService(builder: SnapshotBuilder): SnapshotBuilder {
  const { service } = builder.snapshot;
  return service.kind === 'present'
    ? builder.with({ service: present({ ...service.value, owner: 'foreign' as const }) })
    : builder;
}

/** The Service selects more pods than those of the shard. */
function withWidenedService(builder: SnapshotBuilder): SnapshotBuilder {
  const { service } = builder.snapshot;
  return service.kind === 'present'
    ? builder.with({
        service: present({
          ...service.value,
          selector: { ...service.value.selector, other: 'x' },
        }),
      })
    : builder;
}

describe('what a decision says it does', () => {
  test('names what it makes', () => {
    const builder = aSnapshotOf(3).withoutPod(1).withoutPod(2);

    expect(look(builder)).toMatchObject({
      reason: 'ObjectsMade',
      message: `making Pod ${builder.pod(1)}, Pod ${builder.pod(2)}`,
    });
  });

  test('names what it updates', () => {
    expect(look(withWidenedService(aSnapshotOf(3)))).toMatchObject({
      reason: 'ObjectsUpdated',
      message: `updating ${service}`,
    });
  });

  test('names both, what is made first', () => {
    const builder = withWidenedService(aSnapshotOf(3).withoutPod(1));

    expect(look(builder)).toMatchObject({
      reason: 'ObjectsMade',
      message: `making Pod ${builder.pod(1)}; updating ${service}`,
    });
  });

  test('shows in the status only while pods are made, whatever is made beside them', () => {
    const pods = aSnapshotOf(3).withoutPod(1).with({ service: notThere });
    const { conditions } = effectOf(look(pods), 'applyStatus').status as {
      readonly conditions: readonly { readonly type: string; readonly message: string }[];
    };

    expect(conditionIn(look(pods), 'Reconciling')).toBe('True ObjectsMade');
    expect(conditions.find(({ type }) => type === 'Reconciling')?.message).toBe(look(pods).message);
    expect(conditionIn(look(aSnapshotOf(3).with({ service: notThere })), 'Reconciling')).toBe(
      'False NothingToDo',
    );
  });
});

describe('what a decision says it waits for', () => {
  const refused = 'listing pods: 403 Forbidden';

  test.each([
    ['the budgets', (builder: SnapshotBuilder) => builder.with({ budgets: notRead }), refused],
    ['the Service', (builder: SnapshotBuilder) => builder.with({ service: notRead }), refused],
    [
      'both',
      (builder: SnapshotBuilder) => builder.with({ service: notRead, budgets: notRead }),
      `${refused}; ${refused}`,
    ],
    [
      'budgets that are not served, which nobody could read',
      (builder: SnapshotBuilder) => builder.with({ budgets: absent }),
      '',
    ],
  ])('names why it cannot read %s', (_what, change, why) => {
    expect(look(change(aSnapshotOf(3)))).toMatchObject({
      outcome: 'waiting',
      reason: 'ObjectsUnknown',
      message: `the shard's Service or disruption budgets cannot be read: ${why}`,
    });
  });

  test.each([
    ['refused', notRead, refused],
    ['not served', absent, 'the API server does not serve them'],
  ])('names why it cannot read claims that are %s', (_what, claims, why) => {
    expect(look(aSnapshotOf(3).withoutPod(1).with({ claims }))).toMatchObject({
      reason: 'ClaimsUnknown',
      message: `members are missing, and the shard's claims cannot be read: ${why}`,
    });
  });

  test('names the object that has a name it needs, and what to do with it', () => {
    expect(look(withForeignService(aSnapshotOf(3)))).toMatchObject({
      outcome: 'blocked',
      reason: 'NameTaken',
      message: `somebody else's object has a name that the shard needs: ${service}`,
      needs: 'remove it, or give it the labels and the owner that the shard would give it',
    });
  });

  test('names the former object that is to go first', () => {
    const { snapshot } = aSnapshotOf(3);
    const leaving =
      snapshot.service.kind === 'present'
        ? present({ ...snapshot.service.value, isBeingDeleted: true })
        : snapshot.service;

    expect(look(aSnapshotOf(3).with({ service: leaving }))).toMatchObject({
      outcome: 'waiting',
      reason: 'NameBeingFreed',
      message: `waiting until the former object of this name is gone: ${service}`,
      wake: { every: 5 },
    });
  });
});

describe('a record that carries the wake', () => {
  const waiting = (change: Partial<PoolPodsRecord>) =>
    writesOf(look(aSnapshotOf(3).with({ pods: notRead }).withRecord(change)));
  const otherWake: Wake = { every: 5 };

  test('stands where it says the same', () => {
    expect(waiting({})).toEqual([]);
  });

  test.each([
    ['of another state', { state: 'blocked' as const }],
    ['for another reason', { reason: 'ClaimsUnknown' }],
    ['with another wake', { wake: otherWake }],
    ['of another generation', { key: 'pool-pods/other/1' }],
  ])('is written anew over one %s', (_what, change) => {
    expect(waiting(change)).toEqual(['advance']);
  });
});
