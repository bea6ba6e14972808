import { describe, expect, test } from 'vitest';
import { drainRequest, releasedClaim } from '#shared/api/annotations.ts';
import { indexLabel } from '#shared/api/labels.ts';
import { claimName } from '#shared/api/names.ts';
import { present } from '#shared/kernel/read.ts';
import { checks, decide } from '#functions/pool-pods/decide.ts';
import { aShard, aTemplate } from '#test/builders/shard.ts';
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

/** The status that a look at this snapshot wants stands already. */
function withItsStatus(builder: SnapshotBuilder): SnapshotBuilder {
  const { status } = effectOf(decide(builder.snapshot, now), 'applyStatus');
  const { observedGeneration, conditions, pools } = status as {
    readonly observedGeneration: number;
    readonly conditions: SnapshotBuilder['snapshot']['shard']['conditions'];
    readonly pools: SnapshotBuilder['snapshot']['shard']['poolStatuses'];
  };
  const others = builder.snapshot.shard.conditions.filter(
    ({ type }) => !conditions.some((own) => own.type === type),
  );
  return builder.withShard({
    observedGeneration,
    conditions: [...others, ...conditions],
    poolStatuses: pools,
  });
}

function withDrained(builder: SnapshotBuilder, reason: string): SnapshotBuilder {
  const condition = {
    type: 'Drained',
    status: 'False' as const,
    reason,
    message: 'a pod is leaving',
    observedGeneration: 1,
    lastTransitionTime: '2026-01-01T00:00:00Z',
  };
  return builder.withShard({ conditions: [...builder.snapshot.shard.conditions, condition] });
}

test('the rows are asked in this order: people, what is unreadable or unknown, then the work', () => {
  expect(checks.map(({ name }) => name)).toEqual([
    'targetBeingDeleted',
    'pausedByUser',
    'pausedByDatabase',
    'recordUnreadable',
    'foreignRecord',
    'membersUnknown',
    'drainUnreadable',
    'databaseMissing',
    'makeWhatIsMissing',
    'claimsUnknown',
    'objectsUnknown',
    'nameTaken',
    'waitForName',
  ]);
});

describe('people and the unknown', () => {
  test('a shard that is being deleted gets nothing, not even a status', () => {
    const { snapshot } = aSnapshotOf(3).withoutPod(1).withShard({ isBeingDeleted: true });

    const decision = decide(snapshot, now);

    expect(decision).toMatchObject({ outcome: 'settled', reason: 'TargetBeingDeleted' });
    expect(decision.effects).toEqual([]);
  });

  test('a paused shard is observed: its status says so, and nothing is made', () => {
    const { snapshot } = aSnapshotOf(3).withoutPod(1).withShard({ isPaused: true });

    const decision = decide(snapshot, now);

    expect(decision).toMatchObject({ outcome: 'settled', reason: 'Paused' });
    expect(writesOf(decision)).toEqual([]);
    expect(conditionIn(decision, 'Reconciling')).toBe('False Paused');
    expect(conditionIn(decision, 'Ready')).toBe('False MembersNotReady');
  });

  test('a paused database stops creation as well', () => {
    const { snapshot } = aSnapshotOf(3).withoutPod(1).withPausedDatabase();

    const decision = decide(snapshot, now);

    expect(decision).toMatchObject({ outcome: 'settled', reason: 'Paused' });
    expect(writesOf(decision)).toEqual([]);
  });

  test('a paused database stops everything also where the pods are unknown by now', () => {
    const { snapshot } = aSnapshotOf(3).withPausedDatabase().with({ pods: notRead });

    const decision = decide(snapshot, now);

    expect(decision).toMatchObject({ outcome: 'settled', reason: 'Paused' });
    expect(writesOf(decision)).toEqual([]);
  });

  test('a paused database is no news for a shard that lacks nothing', () => {
    const { snapshot } = aSnapshotOf(3).withPausedDatabase();

    const decision = decide(snapshot, now);

    expect(decision).toMatchObject({ outcome: 'settled', reason: 'MembersReady' });
  });

  test('D12: an unreadable record of its own is left alone, and says how to get out', () => {
    const { snapshot } = aSnapshotOf(3)
      .withoutPod(1)
      .with({ record: { kind: 'unreadable', text: '{', why: 'it is not JSON' } });

    const decision = decide(snapshot, now);

    expect(decision).toMatchObject({ outcome: 'blocked', reason: 'RecordUnreadable' });
    expect(writesOf(decision)).toEqual([]);
    expect(conditionIn(decision, 'Stalled')).toBe('True RecordUnreadable');
  });

  test('D9: a record copied from another object is cleared and not obeyed', () => {
    const { snapshot } = aSnapshotOf(3)
      .withoutPod(1)
      .with({ record: { kind: 'foreign', text: '{"v":1}', uid: 'other' } });

    const decision = decide(snapshot, now);

    expect(decision).toMatchObject({ outcome: 'acting', reason: 'RecordForeign' });
    expect(decision.effects).toEqual([
      {
        kind: 'advance',
        record: null,
        guard: { uid: snapshot.shard.uid, generation: 1, previous: '{"v":1}' },
      },
    ]);
  });

  test('pods that cannot be listed mean waiting with a slow wake, and a status that claims nothing', () => {
    const { snapshot } = aSnapshotOf(3)
      .withShard({ poolStatuses: [{ name: 'main', cell: 'zone-a', desired: 3, ready: 2 }] })
      .with({ pods: notRead });

    const decision = decide(snapshot, now);

    expect(decision).toMatchObject({
      outcome: 'waiting',
      reason: 'MembersUnknown',
      wake: { every: 60 },
    });
    expect(writesOf(decision)).toEqual(['advance']);
    expect(effectOf(decision, 'advance').record).toMatchObject({
      key: `pool-pods/${snapshot.shard.uid}/1`,
      wake: { every: 60 },
    });
    expect(conditionIn(decision, 'Ready')).toBe('Unknown MembersUnknown');
    expect(conditionIn(decision, 'Stalled')).toBe('True MembersUnknown');
    expect(effectOf(decision, 'applyStatus').status['pools']).toEqual([
      { name: 'main', cell: 'zone-a', desired: 3, ready: 2 },
    ]);
  });

  test('nothing is made in a shard whose drain record cannot be read', () => {
    const { snapshot } = aSnapshotOf(3)
      .withoutPod(1)
      .with({ drain: { kind: 'unreadable', text: '{', why: 'it is not JSON' } });

    const decision = decide(snapshot, now);

    expect(decision).toMatchObject({ outcome: 'blocked', reason: 'RecordUnreadable' });
    expect(writesOf(decision)).toEqual(['advance']);
  });

  test('a drain record that cannot be read hinders nobody while nothing is missing', () => {
    const { snapshot } = aSnapshotOf(3).with({
      drain: { kind: 'unreadable', text: '{', why: 'it is not JSON' },
    });

    const decision = decide(snapshot, now);

    expect(decision).toMatchObject({ outcome: 'settled', reason: 'MembersReady' });
  });

  test('a drain record of another object does not keep an index free', () => {
    const builder = aSnapshotOf(3)
      .withoutPod(1)
      .with({ drain: { kind: 'foreign', text: '{}', uid: 'other' } });

    const decision = decide(builder.snapshot, now);

    expect(writesOf(decision)).toEqual([`create Pod ${builder.pod(1)}`]);
  });

  test.each([
    ['does not exist', notThere, 'blocked', 'DatabaseMissing'],
    ['cannot be read', notRead, 'waiting', 'DatabaseUnknown'],
  ] as const)('nothing is made while the Database %s', (_text, database, outcome, reason) => {
    const { snapshot } = aSnapshotOf(3).withoutPod(1).with({ database });

    const decision = decide(snapshot, now);

    expect(decision).toMatchObject({ outcome, reason, wake: { every: 60 } });
    expect(writesOf(decision)).toEqual(['advance']);
  });

  test('claims that cannot be listed mean that no member is made, but the rest is', () => {
    const builder = aSnapshotOf(3).withoutPod(1).with({ claims: notRead });

    const first = decide(builder.with({ service: notThere }).snapshot, now);
    const second = decide(builder.snapshot, now);

    expect(writesOf(first)).toEqual(['advance', expect.stringMatching(/^create Service /)]);
    expect(effectOf(first, 'advance').record).toMatchObject({ wake: { every: 5 } });
    expect(second).toMatchObject({ outcome: 'waiting', reason: 'ClaimsUnknown' });
    expect(writesOf(second)).toEqual(['advance']);
  });

  test('members are made although the budgets cannot be listed, and the next look says so', () => {
    const builder = aSnapshotOf(3).with({ budgets: notRead });

    const first = decide(builder.withoutPod(1).snapshot, now);
    const second = decide(builder.snapshot, now);

    expect(writesOf(first)).toEqual(['advance', `create Pod ${builder.pod(1)}`]);
    expect(effectOf(first, 'advance').record?.wake).toEqual({ every: 5 });
    expect(second).toMatchObject({ outcome: 'waiting', reason: 'ObjectsUnknown' });
  });

  test('waiting for the same reason in the same generation writes nothing again', () => {
    const builder = withItsStatus(aSnapshotOf(3).with({ pods: notRead })).withRecord();

    const again = decide(builder.snapshot, now);
    const changed = decide(builder.withShard({ generation: 2 }).snapshot, now);

    expect(again.effects).toEqual([]);
    expect(writesOf(changed)).toEqual(['advance']);
  });
});

describe('members', () => {
  test('from nothing: a Service and a budget, then each claim before its pod', () => {
    const builder = aSnapshotOf(0).wanting(3);

    const decision = decide(
      builder.with({ service: notThere, budgets: present([]) }).snapshot,
      now,
    );

    expect(decision).toMatchObject({ outcome: 'acting', reason: 'ObjectsMade' });
    expect(writesOf(decision).map((write) => write.split(' ').slice(0, 2).join(' '))).toEqual([
      'create Service',
      'create PodDisruptionBudget',
      ...[0, 1, 2].flatMap(() => ['create PersistentVolumeClaim', 'create Pod']),
    ]);
  });

  test('the status goes before every creation, under the version of the Shard that was read', () => {
    const { snapshot } = aSnapshotOf(3).withoutPod(1);

    const decision = decide(snapshot, now);

    expect(decision.effects[0]).toMatchObject({
      kind: 'applyStatus',
      guard: { uid: snapshot.shard.uid, resourceVersion: snapshot.shard.resourceVersion },
    });
  });

  test('the status goes first also where it says nothing new', () => {
    const builder = withItsStatus(aSnapshotOf(3).withoutPod(1));

    const decision = decide(builder.snapshot, now);

    expect(decision.effects.map(({ kind }) => kind)).toEqual(['applyStatus', 'createObject']);
  });

  test('one look makes at most ten objects, and says when to look again', () => {
    const decision = decide(aSnapshotOf(0, aShard().withPool(32)).snapshot, now);

    expect(writesOf(decision).filter((write) => write.startsWith('create'))).toHaveLength(10);
    expect(effectOf(decision, 'advance').record).toMatchObject({
      state: 'making',
      wake: { every: 5 },
    });
  });

  test('a lost pod comes back at its own index, on its claim', () => {
    const builder = aSnapshotOf(3).withoutPod(1);

    const decision = decide(builder.snapshot, now);

    expect(writesOf(decision)).toEqual([`create Pod ${builder.pod(1)}`]);
  });

  test('a pod that is lost with its claim gets both again', () => {
    const builder = aSnapshotOf(3).withoutPod(1).withoutClaim(1);

    const decision = decide(builder.snapshot, now);

    expect(writesOf(decision)).toEqual([
      `create PersistentVolumeClaim ${claimName(builder.pod(1))}`,
      `create Pod ${builder.pod(1)}`,
    ]);
  });

  test('an index whose claim lost its pod comes before a lower one that is free', () => {
    const builder = aSnapshotOf(0, aShard().withPool(2)).withMembers(1).withClaim(2);

    const decision = decide(builder.snapshot, now);

    expect(writesOf(decision)).toEqual([`create Pod ${builder.pod(2)}`]);
  });

  test('a released claim is no reason to prefer its index, and loses its mark when it is used', () => {
    const builder = aSnapshotOf(0, aShard().withPool(2))
      .withMembers(0)
      .withClaim(1, { released: 'a-pod' })
      .withClaim(3, { released: 'a-pod' });

    const decision = decide(builder.snapshot, now);

    expect(writesOf(decision)).toEqual([
      `patch PersistentVolumeClaim ${claimName(builder.pod(1))}`,
      `create Pod ${builder.pod(1)}`,
    ]);
    expect(effectOf(decision, 'patchObject')).toMatchObject({
      patch: { metadata: { annotations: { [releasedClaim]: null } } },
      guard: { uid: `uid-of-${claimName(builder.pod(1))}`, resourceVersion: '20' },
    });
  });

  test('a pod that is being deleted counts until it is gone', () => {
    const { snapshot } = aSnapshotOf(3).withPod(1, { isBeingDeleted: true });

    const decision = decide(snapshot, now);

    expect(decision).toMatchObject({ outcome: 'settled', reason: 'MembersStarting' });
    expect(writesOf(decision)).toEqual([]);
  });

  test('a surplus is left to drain-step', () => {
    const decision = decide(aSnapshotOf(4).wanting(3).snapshot, now);

    expect(writesOf(decision)).toEqual([expect.stringMatching(/^patch PodDisruptionBudget /)]);
    expect(conditionIn(decision, 'PodsUpToDate')).toBe('False SurplusMembers');
    expect(conditionIn(decision, 'Reconciling')).toBe('True SurplusMembers');
  });

  test.each(['requested', 'failed'] as const)(
    'D13: while the drain of a %s member is open its place is kept and nobody takes another',
    (cause) => {
      const { snapshot } = aSnapshotOf(3).withoutPod(1).draining(1, 'finished', cause);

      const decision = decide(snapshot, now);

      expect(decision.outcome).toBe('settled');
      expect(writesOf(decision)).toEqual([]);
    },
  );

  test('D13: while the drain of a surplus member is open another index is used for a new one', () => {
    const builder = aSnapshotOf(3).withoutPod(2).draining(2, 'finished', 'surplus');

    const decision = decide(builder.snapshot, now);

    expect(writesOf(decision)).toEqual([
      `create PersistentVolumeClaim ${claimName(builder.pod(3))}`,
      `create Pod ${builder.pod(3)}`,
    ]);
  });

  test('pools and cells are counted apart', () => {
    const shard = aShard().withPool(1, { cells: ['zone-a', 'zone-b'] });

    const decision = decide(aSnapshotOf(1, shard).snapshot, now);

    const pods = writesOf(decision).filter((write) => write.startsWith('create Pod '));
    expect(pods).toEqual([expect.stringMatching(/^create Pod orders-main-zone-b-[0-9a-f]{8}-0$/)]);
  });

  test('a template that mounts no data gets no claims', () => {
    const spec = { containers: [{ name: 'pooler', image: 'pooler:1' }] };
    const shard = aShard().withPool(1, { podTemplate: { spec } });
    const builder = aSnapshotOf(1, shard).withoutPod(0).with({ claims: notRead });

    const decision = decide(builder.snapshot, now);

    expect(writesOf(decision)).toEqual([`create Pod ${builder.pod(0)}`]);
  });

  test('an attached pool is only reported', () => {
    const shard = aShard().withAttachedPool(2);
    const attached = {
      name: 'their-pod',
      uid: 'their-uid',
      resourceVersion: '1',
      owner: 'foreign',
      isBeingDeleted: false,
      labels: { 'millrace.dev/pool': 'attached', 'millrace.dev/cell': 'zone-a' },
      annotations: {},
      isReady: true,
      hasStarted: true,
    } as const;
    const { snapshot } = aSnapshotOf(0, shard).with({
      pods: present([attached]),
      service: notRead,
      budgets: notRead,
    });

    const decision = decide(snapshot, now);

    expect(decision).toMatchObject({ outcome: 'settled', reason: 'MembersStarting' });
    expect(effectOf(decision, 'applyStatus').status['pools']).toEqual([
      { name: 'attached', cell: 'zone-a', desired: 2, ready: 1 },
    ]);
  });
});

describe('names that are taken', () => {
  test('a pod of somebody else is never touched; the others are made', () => {
    const builder = aSnapshotOf(3).withoutPod(1).withoutPod(2).withPod(1, { owner: 'foreign' });

    const first = decide(builder.snapshot, now);
    const second = decide(builder.withMembers(2).snapshot, now);

    expect(writesOf(first)).toEqual(['advance', `create Pod ${builder.pod(2)}`]);
    expect(second).toMatchObject({
      outcome: 'blocked',
      reason: 'NameTaken',
      wake: { every: 60 },
      message: `somebody else's object has a name that the shard needs: Pod ${builder.pod(1)}`,
    });
    expect(conditionIn(second, 'Stalled')).toBe('True NameTaken');
  });

  test('a pod of a Shard that had the same name goes by itself and is waited for', () => {
    const { snapshot } = aSnapshotOf(3).withPod(1, { owner: 'former' });

    const decision = decide(snapshot, now);

    expect(decision).toMatchObject({
      outcome: 'waiting',
      reason: 'NameBeingFreed',
      wake: { every: 5 },
    });
    expect(conditionIn(decision, 'Reconciling')).toBe('True NameBeingFreed');
  });

  test('S5: no pod is made on a claim that is being deleted, nor beside it', () => {
    const { snapshot } = aSnapshotOf(3).withoutPod(1).withClaim(1, { isBeingDeleted: true });

    const decision = decide(snapshot, now);

    expect(decision).toMatchObject({ outcome: 'waiting', reason: 'NameBeingFreed' });
    expect(writesOf(decision)).toEqual(['advance']);
  });

  test('a member that has not started gets the claim it lacks', () => {
    const builder = aSnapshotOf(3)
      .withPod(1, { isReady: false, hasStarted: false })
      .withoutClaim(1);

    const decision = decide(builder.snapshot, now);

    expect(decision).toMatchObject({ outcome: 'acting', reason: 'ObjectsMade' });
    expect(writesOf(decision)).toEqual([
      `create PersistentVolumeClaim ${claimName(builder.pod(1))}`,
    ]);
  });

  test('a member that has not started waits for the end of a claim that goes', () => {
    const { snapshot } = aSnapshotOf(3)
      .withPod(1, { isReady: false, hasStarted: false })
      .withClaim(1, { isBeingDeleted: true });

    expect(decide(snapshot, now)).toMatchObject({ outcome: 'waiting', reason: 'NameBeingFreed' });
  });

  test.each([
    ['has started', aSnapshotOf(3).withPod(1, { isReady: false })],
    ['is stopping', aSnapshotOf(3).withPod(1, { hasStarted: false, isBeingDeleted: true })],
    [
      'leaves (D13)',
      aSnapshotOf(3).withPod(1, { hasStarted: false }).draining(1, 'finished', 'surplus'),
    ],
  ])('no claim is made for a member that %s', (_how, builder) => {
    expect(writesOf(decide(builder.withoutClaim(1).snapshot, now))).toEqual([]);
  });

  test('a released claim that is being deleted is passed over', () => {
    const builder = aSnapshotOf(1)
      .withClaim(1, { released: 'a-pod', isBeingDeleted: true })
      .wanting(2);

    const decision = decide(builder.snapshot, now);

    expect(writesOf(decision)).toContain(`create Pod ${builder.pod(2)}`);
  });

  test.each([
    ['has other labels', { labels: {} }],
    ['has a controller', { hasController: true }],
  ])('a claim that %s is not used', (_text, changes) => {
    const { snapshot } = aSnapshotOf(3).withoutPod(1).withClaim(1, changes);

    const decision = decide(snapshot, now);

    expect(decision).toMatchObject({ outcome: 'blocked', reason: 'NameTaken' });
    expect(writesOf(decision)).toEqual(['advance']);
  });

  test.each(['service', 'budgets'] as const)(
    'a foreign object where the %s should be blocks',
    (kind) => {
      const { snapshot } = aSnapshotOf(1);
      const [budget] = snapshot.budgets.kind === 'present' ? snapshot.budgets.value : [];
      const { service } = snapshot;
      if (budget === undefined || service.kind !== 'present') {
        throw new Error('a converged shard has both');
      }
      const taken =
        kind === 'service'
          ? { service: present({ ...service.value, owner: 'foreign' as const }) }
          : { budgets: present([{ ...budget, owner: 'foreign' as const }]) };

      const decision = decide({ ...snapshot, ...taken }, now);

      expect(decision).toMatchObject({ outcome: 'blocked', reason: 'NameTaken' });
    },
  );
});

describe('what is updated in place', () => {
  test('labels and annotations of the template reach running pods, ours win, and our domain stays ours', () => {
    const shard = aShard().withPool(1, {
      podTemplate: {
        metadata: {
          labels: { team: 'orders', [indexLabel]: '7' },
          annotations: { note: 'new', [drainRequest]: 'always' },
        },
        spec: aTemplate(),
      },
    });
    const builder = aSnapshotOf(1, shard).withPod(0, { labels: {}, annotations: {} });

    const decision = decide(builder.snapshot, now);

    expect(writesOf(decision)).toEqual([`patch Pod ${builder.pod(0)}`]);
    expect(effectOf(decision, 'patchObject')).toMatchObject({
      patch: {
        metadata: {
          labels: { team: 'orders', [indexLabel]: '0' },
          annotations: { note: 'new' },
        },
      },
      guard: { uid: `uid-of-${builder.pod(0)}`, resourceVersion: '10' },
    });
    expect(JSON.stringify(decision.effects)).not.toContain(drainRequest);
  });

  test('further labels and annotations of a pod are left alone', () => {
    const builder = aSnapshotOf(1);
    const { pods } = builder.snapshot;
    const [pod] = pods.kind === 'present' ? pods.value : [];

    const decision = decide(
      builder.withPod(0, {
        labels: { ...pod?.labels, theirs: 'x' },
        annotations: { ...pod?.annotations, [drainRequest]: 'please' },
      }).snapshot,
      now,
    );

    expect(writesOf(decision)).toEqual([]);
  });

  test('the labels of a pod that is being deleted are left as they are', () => {
    const { snapshot } = aSnapshotOf(3).withPod(1, { isBeingDeleted: true, labels: {} });

    const decision = decide(snapshot, now);

    expect(writesOf(decision)).toEqual([]);
  });

  test('the budget follows the number of members', () => {
    const { snapshot } = aSnapshotOf(3).withMembers(3, 4).wanting(5);

    const decision = decide(snapshot, now);

    expect(writesOf(decision)).toEqual([expect.stringMatching(/^patch PodDisruptionBudget /)]);
    expect(effectOf(decision, 'patchObject').patch).toEqual({
      spec: { minAvailable: 4, maxUnavailable: null },
    });
  });

  test('a selector that was widened is made exact again', () => {
    const { snapshot } = aSnapshotOf(1);
    const { service } = snapshot;
    if (service.kind !== 'present') {
      throw new Error('a converged shard has a Service');
    }
    const selector = { ...service.value.selector, other: 'x' };

    const decision = decide({ ...snapshot, service: present({ ...service.value, selector }) }, now);

    expect(effectOf(decision, 'patchObject').patch).toEqual({
      spec: { selector: { ...service.value.selector, other: null } },
    });
  });

  test('a pod made with an earlier template stays and is named', () => {
    const builder = aSnapshotOf(2);
    const shard = aShard()
      .withPool(2, { podTemplate: { spec: aTemplate('pooler:2') } })
      .build();

    const decision = decide(builder.withShard({ pools: shard.spec.pools }).snapshot, now);

    expect(writesOf(decision)).toEqual([]);
    expect(conditionIn(decision, 'PodsUpToDate')).toBe('False TemplateChanged');
    expect(JSON.stringify(decision.effects)).toContain(`${builder.pod(0)}, ${builder.pod(1)}`);
    expect(conditionIn(decision, 'Reconciling')).toBe('False NothingToDo');
  });
});

describe('the status', () => {
  test('X7: a converged shard writes nothing', () => {
    const builder = withItsStatus(aSnapshotOf(3));

    const decision = decide(builder.snapshot, now);

    expect(decision).toMatchObject({ outcome: 'settled', reason: 'MembersReady' });
    expect(decision.effects).toEqual([]);
  });

  test('a converged shard says so in every condition', () => {
    const decision = decide(aSnapshotOf(3).snapshot, now);

    expect(conditionIn(decision, 'Ready')).toBe('True MembersReady');
    expect(conditionIn(decision, 'Reconciling')).toBe('False NothingToDo');
    expect(conditionIn(decision, 'Stalled')).toBe('False NothingStalled');
    expect(conditionIn(decision, 'PodsUpToDate')).toBe('True PodsUpToDate');
    expect(effectOf(decision, 'applyStatus').status).toMatchObject({
      observedGeneration: 1,
      pools: [{ name: 'main', cell: 'zone-a', desired: 3, ready: 3 }],
    });
  });

  test('members that start are an event away: settled, reconciling, and no record', () => {
    const { snapshot } = aSnapshotOf(3).withPod(2, { isReady: false }).withRecord();

    const decision = decide(snapshot, now);

    expect(decision).toMatchObject({ outcome: 'settled', reason: 'MembersStarting' });
    expect(effectOf(decision, 'advance').record).toBeNull();
    expect(conditionIn(decision, 'Reconciling')).toBe('True MembersStarting');
    expect(conditionIn(decision, 'Ready')).toBe('False MembersNotReady');
  });

  test('a drain in progress shows as Reconciling', () => {
    const decision = decide(withDrained(aSnapshotOf(3), 'Draining').snapshot, now);

    expect(conditionIn(decision, 'Reconciling')).toBe('True Draining');
    expect(conditionIn(decision, 'Stalled')).toBe('False NothingStalled');
    expect(conditionIn(decision, 'Ready')).toBe('True MembersReady');
  });

  test('a drain that is stuck shows as Stalled with its own reason, and not as Reconciling', () => {
    const decision = decide(withDrained(aSnapshotOf(3), 'DrainStuck').snapshot, now);

    expect(conditionIn(decision, 'Stalled')).toBe('True DrainStuck');
    expect(conditionIn(decision, 'Reconciling')).toBe('False DrainStuck');
  });

  test('our own conditions from a time when something was stuck do not keep the shard stalled', () => {
    const stuck = withItsStatus(withDrained(aSnapshotOf(3), 'DrainStuck'));
    const own = stuck.snapshot.shard.conditions.filter(({ type }) => type !== 'Drained');

    const decision = decide(stuck.withShard({ conditions: own }).snapshot, now);

    expect(conditionIn(decision, 'Stalled')).toBe('False NothingStalled');
  });

  test('a status without the observed generation is written', () => {
    const builder = withItsStatus(aSnapshotOf(3)).withShard({ observedGeneration: null });

    const decision = decide(builder.snapshot, now);

    expect(effectOf(decision, 'applyStatus').status['observedGeneration']).toBe(1);
  });

  test('a Service that is made alone leaves no trace in the status, since no event would take it away', () => {
    const builder = withItsStatus(aSnapshotOf(3));

    const decision = decide(builder.with({ service: notThere }).snapshot, now);

    expect(decision.reason).toBe('ObjectsMade');
    expect(conditionIn(decision, 'Reconciling')).toBe('False NothingToDo');
  });

  test('the time of the last transition moves only with the status of its condition', () => {
    const builder = withItsStatus(aSnapshotOf(3));
    const later = (now + 60_000) as typeof now;

    const decision = decide(builder.withPod(2, { isReady: false }).snapshot, later);

    const conditions = effectOf(decision, 'applyStatus').status['conditions'];
    expect(conditions).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ type: 'Ready', lastTransitionTime: '2026-01-01T00:01:00Z' }),
        expect.objectContaining({ type: 'Stalled', lastTransitionTime: '2026-01-01T00:00:00Z' }),
      ]),
    );
  });
});
