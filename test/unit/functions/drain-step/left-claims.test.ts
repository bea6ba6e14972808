import { describe, expect, test } from 'vitest';
import type { LeavingRecord } from '#shared/api/drain-record.ts';
import { absent, present, unknown } from '#shared/kernel/read.ts';
import { claimsLeftBehind } from '#functions/drain-step/leaving.ts';
import { type DrainBuilder, aMember, aShardOf, poolerOf, shardUid } from './a-drain.ts';
import { conditionIn, look, nextRecord } from './what-it-says.ts';

const subject = 'the claim data-orders-2 of a member that is gone';

/** orders-2 was the surplus of two, and nobody saw it go. */
function left(): DrainBuilder {
  return aShardOf(3).wanting(2).goneUnseen('orders-2');
}

/** Its claim is leaving. */
function leaving(state: LeavingRecord['state'], secondsAgo?: number): DrainBuilder {
  return left().drainingClaim('orders-2', state, secondsAgo);
}

/** Another pod lives on the claim, under the same name or another. */
function withMemberOnClaim(drain: DrainBuilder, pod = 'orders-2'): DrainBuilder {
  const { members } = drain.build();
  const newcomer = { ...aMember(pod), uid: 'a-newcomer', claim: 'data-orders-2' };
  return drain.with({
    members: present([...(members.kind === 'present' ? members.value : []), newcomer]),
    claimsInUse: present(['data-orders-2']),
  });
}

describe('a surplus claim whose pod went unseen', () => {
  test('is picked through the record of a drain, in which its uid stands for the pod’s (S4)', () => {
    const decision = look(left());

    expect(decision).toMatchObject({
      outcome: 'acting',
      reason: 'MemberChosen',
      message: `${subject} is to leave: its pool has as many members as wanted`,
    });
    expect(nextRecord(decision)).toMatchObject({
      key: `drain-step/${shardUid}/claim-uid-orders-2`,
      state: 'requested',
      wake: { every: 5 },
      data: {
        pod: 'orders-2',
        podUid: 'claim-uid-orders-2',
        claimUid: 'claim-uid-orders-2',
        node: '',
        pool: 'main',
        cell: 'zone-a',
        index: 2,
        pooler: poolerOf('orders-2'),
        cause: 'surplus',
        forced: false,
      },
    });
    expect(conditionIn(decision)).toMatchObject({
      status: 'False',
      reason: 'Draining',
      message: `${subject} is leaving (surplus); no further loss would be survivable`,
    });
  });

  test('of two is the one of the highest index, and the other’s comes after it (S1)', () => {
    const both = () => aShardOf(4).wanting(2).goneUnseen('orders-2').goneUnseen('orders-3');

    expect(nextRecord(look(both()))?.data).toMatchObject({ pod: 'orders-3' });
    expect(
      nextRecord(look(both().withClaim('orders-3', { isBeingDeleted: true })))?.data,
    ).toMatchObject({ pod: 'orders-2' });
  });

  test('waits for every member that has to leave', () => {
    const requested = left().requested('orders-1');
    const surplus = left().wanting(1);

    expect(nextRecord(look(requested))?.data).toMatchObject({ pod: 'orders-1' });
    expect(nextRecord(look(surplus))?.data).toMatchObject({ pod: 'orders-1' });
  });

  test.each([
    ['its pool keeps claims', (drain: DrainBuilder) => drain.withPool({ whenScaled: 'Retain' })],
    ['its pool is attached', (drain: DrainBuilder) => drain.withPool({ isAttached: true })],
    ['a member is missing', (drain: DrainBuilder) => drain.wanting(3)],
    [
      'a member is on its way out, whose place it may take',
      (drain: DrainBuilder) => drain.withMember('orders-1', { isBeingDeleted: true }),
    ],
    [
      'a member is in another operator’s hands',
      (drain: DrainBuilder) => drain.withMember('orders-1', { isMarkedByOthers: true }),
    ],
    [
      'it was kept on purpose',
      (drain: DrainBuilder) => drain.withClaim('orders-2', { released: 'another-pod' }),
    ],
    ['it is going', (drain: DrainBuilder) => drain.withClaim('orders-2', { isBeingDeleted: true })],
    [
      'it is not one of ours',
      (drain: DrainBuilder) => drain.withClaim('orders-2', { member: null }),
    ],
    [
      'its pool is no more',
      (drain: DrainBuilder) =>
        drain.withClaim('orders-2', {
          member: { pod: 'orders-2', pool: 'former', cell: 'zone-a', index: 2 },
        }),
    ],
    [
      'its cell is no more',
      (drain: DrainBuilder) =>
        drain.withClaim('orders-2', {
          member: { pod: 'orders-2', pool: 'main', cell: 'zone-b', index: 2 },
        }),
    ],
    [
      'a pod mounts it',
      (drain: DrainBuilder) => drain.with({ claimsInUse: present(['data-orders-2']) }),
    ],
    [
      'a pod of its name stands, whose it is',
      (drain: DrainBuilder) => {
        const { members } = drain.build();
        const stranger = { ...aMember('orders-2'), control: 'foreign' as const, claim: '' };
        return drain.with({
          members: present([...(members.kind === 'present' ? members.value : []), stranger]),
        });
      },
    ],
  ])('is left alone where %s (S3)', (_what, change) => {
    const decision = look(change(left()));

    expect(decision).toMatchObject({ outcome: 'settled', reason: 'NobodyLeaves' });
    expect(nextRecord(decision)).toBeUndefined();
  });

  test.each([
    ['which claims there are', (drain: DrainBuilder) => drain.with({ claims: unknown('403') })],
    ['who mounts it', (drain: DrainBuilder) => drain.with({ claimsInUse: unknown('403') })],
  ])('keeps the shard awake while it is unknown %s', (_what, change) => {
    const decision = look(change(left()));

    expect(decision).toMatchObject({
      outcome: 'waiting',
      reason: 'ClaimsUnknown',
      message: 'whether a surplus member has left its claim is unknown: 403',
      wake: { every: 60 },
    });
    expect(nextRecord(decision)?.state).toBe('choosing');
  });

  test('is nothing to know of while the pods are unknown, or where claims are kept', () => {
    const blind = { members: unknown('403'), claims: unknown('was not asked') };

    expect(claimsLeftBehind(left().with(blind).build()).kind).toBe('unknown');
    expect(claimsLeftBehind(aShardOf(3).with(blind).build())).toEqual(present([]));
  });

  test('is not picked while its pooler answers, which is no dead member’s', () => {
    const decision = look(left().with({ statuses: aliveStatuses() }));

    expect(decision).toMatchObject({
      outcome: 'blocked',
      reason: 'NobodySafeToChoose',
      message: `${subject} cannot go: its pooler answers, so the member may still run`,
      needs: 'find where orders-2 runs and stop it',
    });
    expect(nextRecord(decision)?.state).toBe('choosing');
  });

  test('that cannot be picked holds up no other', () => {
    const drain = aShardOf(4).wanting(2).withoutPod('orders-3').goneUnseen('orders-2');

    expect(nextRecord(look(drain))?.data).toMatchObject({ pod: 'orders-2' });
  });

  test('waits for its Database, and the condition says what for', () => {
    expect(look(left().with({ database: absent }))).toMatchObject({
      outcome: 'blocked',
      reason: 'DatabaseMissing',
      message: 'a surplus member may have left its claim, but the Database main does not exist',
    });
  });
});

/** What every pooler of three says while all live. */
function aliveStatuses() {
  return aShardOf(3).build().statuses;
}

describe('the drain of a claim', () => {
  test.each([
    ['requested', 'draining', `${subject} can be spared`],
    ['draining', 'acknowledged', `the gates held for ${subject} over the settle time`],
    ['acknowledged', 'finished', `${subject} may go`],
  ] as const)(
    'goes from %s to %s through the gates of every drain (D4)',
    (state, next, message) => {
      const decision = look(leaving(state));

      expect(decision).toMatchObject({ outcome: 'acting', message });
      expect(nextRecord(decision)?.state).toBe(next);
      expect(decision.effects.map(({ kind }) => kind)).toEqual(['advance', 'applyStatus']);
    },
  );

  test('settles as long as every other', () => {
    expect(look(leaving('draining', 4))).toMatchObject({
      reason: 'Settling',
      message: `the gates hold for ${subject}; they are looked at again`,
    });
  });

  test('waits for the quorum of the others (D5)', () => {
    expect(look(leaving('requested').withStatus('orders-1', null))).toMatchObject({
      outcome: 'blocked',
      reason: 'QuorumTooSmall',
    });
  });

  test.each([
    [
      'has failed, although nobody leads',
      (drain: DrainBuilder) =>
        drain
          .withMember('orders-0', { hasEnded: true, isReady: false })
          .withStatus('orders-0', null),
    ],
    ['was asked to go', (drain: DrainBuilder) => drain.requested('orders-1')],
    ['is one too many', (drain: DrainBuilder) => drain.wanting(1)],
    ['is one too many and lives on it', (drain: DrainBuilder) => withMemberOnClaim(drain)],
  ])('gives its place to a member that %s', (_what, change) => {
    for (const state of ['requested', 'draining', 'acknowledged'] as const) {
      const decision = look(change(leaving(state)));

      expect(decision).toMatchObject({
        reason: 'DrainCancelled',
        message: `${subject} stays until the members that have to leave have left`,
      });
      expect(nextRecord(decision)).toBeNull();
    }
  });

  test('is forced by the uid that its record names', () => {
    const decision = look(leaving('requested').withShard({ forcedPodUid: 'claim-uid-orders-2' }));

    expect(decision.reason).toBe('DrainForced');
    expect(decision.message).toContain(subject);
  });
});

describe.each(['requested', 'draining', 'acknowledged'] as const)(
  'before the point of no return, in %s, a claim stays (D7)',
  (state) => {
    test.each([
      ['the shard wants it again', (drain: DrainBuilder) => drain.wanting(3)],
      [
        'its pool keeps the claims of surplus members',
        (drain: DrainBuilder) => drain.withPool({ whenScaled: 'Retain' }),
      ],
      [
        'it is going already',
        (drain: DrainBuilder) => drain.withClaim('orders-2', { isBeingDeleted: true }),
      ],
      [
        'it is going already',
        (drain: DrainBuilder) => drain.withClaim('orders-2', { uid: 'another-incarnation' }),
      ],
      [
        'it is marked as kept',
        (drain: DrainBuilder) => drain.withClaim('orders-2', { released: 'another-pod' }),
      ],
      [
        'its labels say that it is somebody else’s',
        (drain: DrainBuilder) => drain.withClaim('orders-2', { member: null }),
      ],
      [
        'its pooler answers, so its member may still run',
        (drain: DrainBuilder) => drain.with({ statuses: aliveStatuses() }),
      ],
      [
        'a pod uses it again',
        (drain: DrainBuilder) => drain.with({ claimsInUse: present(['data-orders-2']) }),
      ],
    ])('because %s', (why, change) => {
      const decision = look(change(leaving(state)));

      expect(decision).toMatchObject({
        outcome: 'acting',
        reason: 'DrainCancelled',
        message: `${subject} stays: ${why}`,
      });
      expect(nextRecord(decision)).toBeNull();
    });

    test.each([
      ['claims', { claims: unknown('403') }],
      ['pods that mount them', { claimsInUse: unknown('403') }],
    ])('while the %s cannot be listed', (_what, change) => {
      const decision = look(leaving(state).with(change));

      expect(decision).toMatchObject({
        outcome: 'waiting',
        reason: 'ClaimsUnknown',
        message: `whether ${subject} is in use is unknown: 403`,
      });
      expect(nextRecord(decision)).toBeUndefined();
    });
  },
);

describe('after the point of no return', () => {
  /** Out of the cohort, and its pooler has said that it stops. */
  const over = () =>
    leaving('finished').withPooler('orders-2', { lifecycle: 'shutdown' }).outOfCohort('orders-2');

  test('a claim is deleted under its own uid and version, by the record that names it (S3, S4)', () => {
    expect(look(over()).effects).toEqual([
      {
        kind: 'deleteObject',
        object: { kind: 'PersistentVolumeClaim', namespace: 'db', name: 'data-orders-2' },
        guard: {
          uid: 'claim-uid-orders-2',
          resourceVersion: '50',
          recordKey: `drain-step/${shardUid}/claim-uid-orders-2`,
        },
      },
    ]);
  });

  test('its drain ends once it is going', () => {
    const decision = look(over().withClaim('orders-2', { isBeingDeleted: true }));

    expect(decision.reason).toBe('MemberLeft');
    expect(nextRecord(decision)).toBeNull();
  });

  test('a member that was made on it meanwhile keeps it, and the drain ends (S3)', () => {
    for (const pod of ['orders-2', 'orders-7']) {
      const decision = look(withMemberOnClaim(over(), pod));

      expect(decision.reason).toBe('MemberLeft');
      expect(decision.effects.map(({ kind }) => kind)).toEqual([
        'advance',
        'applyStatus',
        'emitEvent',
      ]);
    }
  });

  test('a stranger’s pod that mounts it is waited for, whatever its labels (S3)', () => {
    const stranger = withMemberOnClaim(over(), 'orders-7').withMember('orders-7', {
      control: 'foreign',
    });

    for (const drain of [over().with({ claimsInUse: present(['data-orders-2']) }), stranger]) {
      expect(look(drain)).toMatchObject({ outcome: 'blocked', reason: 'ClaimInUse' });
    }
  });

  test('a claim that is to be kept after all is marked so', () => {
    const decision = look(over().withPool({ whenScaled: 'Retain' }));

    expect(decision.effects[1]).toMatchObject({
      kind: 'patchObject',
      patch: { metadata: { annotations: { 'millrace.dev/released': 'claim-uid-orders-2' } } },
    });
    expect(nextRecord(decision)).toBeNull();
  });

  test('a silent pooler’s record is retired, although no node proves that it stopped (F32)', () => {
    expect(look(leaving('finished'))).toMatchObject({
      reason: 'SilentMemberRetired',
      effects: [{ kind: 'topologyTxn', guard: { modRevision: '42' } }],
    });
  });

  test('a pooler that answers is retired only by force (G5)', () => {
    const answering = leaving('finished').with({ statuses: aliveStatuses() });

    expect(look(answering)).toMatchObject({
      outcome: 'blocked',
      reason: 'NodeUnproven',
      message: 'orders-2 is gone, but its pooler still answers: the member may still run',
      needs:
        'find where it runs and stop it, or set the annotation millrace.dev/force-drain=claim-uid-orders-2 on the Shard',
    });
    answering.draining('orders-2', 'finished', 6, {
      podUid: 'claim-uid-orders-2',
      node: '',
      forced: true,
    });
    expect(look(answering).reason).toBe('SilentMemberRetired');
  });

  test('silence proves nothing while the primary is silent too (G5)', () => {
    expect(look(leaving('finished').withStatus('orders-0', null))).toMatchObject({
      outcome: 'waiting',
      reason: 'NoAgreedPrimary',
      message:
        'orders-2 is gone; there is no agreed primary: the primary zone-a/orders-0 does not answer',
    });
  });

  test('the silence of a member whose pod was seen is proven by its node alone', () => {
    const seen = left().draining('orders-2', 'finished').with({ statuses: aliveStatuses() });
    seen.with({ nodes: { 'node-1': present({ isReady: true }) } });

    expect(look(seen).reason).toBe('SilentMemberRetired');
  });

  test('its absence from the cohort is waited for', () => {
    const silent = leaving('finished').withPooler('orders-2', { lifecycle: 'shutdown' });

    expect(look(silent)).toMatchObject({ outcome: 'waiting', reason: 'AwaitingCohortExit' });
  });
});

test('the claim of a member that was seen to go is kept by a newcomer of its name, too (S3)', () => {
  const drain = aShardOf(3)
    .wanting(2)
    .withPool({ whenScaled: 'Delete' })
    .draining('orders-2', 'finished')
    .gone('orders-2')
    .outOfCohort('orders-2');

  expect(look(withMemberOnClaim(drain)).reason).toBe('MemberLeft');
});
