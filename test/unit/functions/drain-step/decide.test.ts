import { describe, expect, test } from 'vitest';
import type { DrainRecord, LeavingRecord } from '#shared/api/drain-record.ts';
import { plusSeconds, toText } from '#shared/kernel/instant.ts';
import { absent, present, unknown } from '#shared/kernel/read.ts';
import { afterNoReturn, beforeAnyone, beforeNoReturn } from '#functions/drain-step/decide.ts';
import type { DrainDecision } from '#functions/drain-step/moves.ts';
import {
  type DrainBuilder,
  aClaim,
  aMember,
  aShardOf,
  now,
  poolerOf,
  shardUid,
  uidOf,
} from './a-drain.ts';
import { conditionIn, effectsOf, look, nextRecord } from './what-it-says.ts';

function kinds(decision: DrainDecision): readonly string[] {
  return decision.effects.map(({ kind }) => kind);
}

function destructive(decision: DrainDecision): readonly string[] {
  return kinds(decision).filter((kind) =>
    ['deleteObject', 'topologyTxn', 'switchPrimary'].includes(kind),
  );
}

const intent = { rule: { term: '3', subterm: '1' } };

test('the tables are read in this order', () => {
  const names = [beforeAnyone, beforeNoReturn, afterNoReturn].map((rows) =>
    rows.map((row) => row.name),
  );

  expect(names).toEqual([
    [
      'targetBeingDeleted',
      'pausedByUser',
      'pausedByDatabase',
      'recordUnreadable',
      'foreignRecord',
      'membersUnknown',
      'nobodyLeaves',
      'databaseMissing',
      'topologyUnknown',
      'chooseClaim',
      'chooseLeaver',
    ],
    [
      'cancelled',
      'membersFirst',
      'claimWanted',
      'handedOver',
      'forcedByPerson',
      'betterNow',
      'awaitSwitchover',
      'waitForPrimary',
      'waitForProposal',
      'failedMemberFirst',
      'waitForQuorum',
      'switchOver',
      'startDraining',
      'waitForSettle',
      'acknowledge',
      'authoriseDeletion',
    ],
    [
      'forcedByPerson',
      'keepOffOthers',
      'becamePrimary',
      'sayFinished',
      'deleteMember',
      'waitForPodGone',
      'waitForNodeProof',
      'waitForSilence',
      'retireSilentRecord',
      'waitForCohortExit',
      'releaseClaim',
      'finishDrain',
    ],
  ]);
});

describe('before anyone is picked', () => {
  test('a shard that is being deleted is left to its owner’s garbage collection', () => {
    expect(look(aShardOf(3).wanting(2).withShard({ isBeingDeleted: true }))).toMatchObject({
      outcome: 'settled',
      reason: 'TargetBeingDeleted',
      effects: [],
    });
  });

  test.each(['requested', 'finished'] as const)(
    'a paused shard does nothing, whatever its %s record authorises',
    (state) => {
      expect(
        look(aShardOf(3).wanting(2).draining('orders-2', state).withShard({ isPaused: true })),
      ).toMatchObject({
        outcome: 'settled',
        reason: 'Paused',
        effects: [],
      });
    },
  );

  test('a paused database does nothing', () => {
    const paused = aShardOf(3).wanting(2).draining('orders-2', 'finished');
    paused.with({
      database: present({
        shard: { database: 'postgres', tableGroup: 'default', shard: '0-inf' },
        ref: { namespace: 'db', name: 'main', uid: 'database-uid' },
        isPaused: true,
      }),
    });

    expect(look(paused)).toMatchObject({ outcome: 'settled', reason: 'Paused', effects: [] });
  });

  test('an unreadable record is hands-off, with a condition that names the way out (D12)', () => {
    const decision = look(
      aShardOf(3)
        .wanting(2)
        .with({ record: { kind: 'unreadable', text: '{"v":9}', why: 'v: 9' } }),
    );

    expect(decision).toMatchObject({ outcome: 'blocked', reason: 'RecordUnreadable' });
    expect(kinds(decision)).toEqual(['applyStatus']);
    expect(decision.outcome === 'blocked' && decision.needs).toContain(
      'millrace reset shd/orders drain-step -n db',
    );
  });

  test('a record of another object is cleared and never obeyed (D9)', () => {
    const decision = look(
      aShardOf(3)
        .wanting(2)
        .with({ record: { kind: 'foreign', text: '{}', uid: 'other' } }),
    );

    expect(decision).toMatchObject({ outcome: 'acting', reason: 'RecordForeign' });
    expect(kinds(decision)).toEqual(['advance']);
    expect(nextRecord(decision)).toBeNull();
  });

  test('pods that cannot be listed stop everything and are looked at again', () => {
    const decision = look(
      aShardOf(3)
        .wanting(2)
        .with({ members: unknown('listing pods: 403 Forbidden') }),
    );

    expect(decision).toMatchObject({
      outcome: 'waiting',
      reason: 'MembersUnknown',
      wake: { every: 60 },
    });
    expect(nextRecord(decision)).toMatchObject({ state: 'choosing', wake: { every: 60 } });
    expect(conditionIn(decision)?.message).toContain('403 Forbidden');
  });

  test('what an earlier drain left on a pod that stays is taken off (D7)', () => {
    const decision = look(aShardOf(3).withMember('orders-1', { mirror: 'draining' }));

    expect(decision).toMatchObject({ outcome: 'settled', reason: 'NobodyLeaves' });
    expect(effectsOf(decision).filter(({ kind }) => kind === 'patchObject')).toEqual([
      {
        kind: 'patchObject',
        object: { kind: 'Pod', namespace: 'db', name: 'orders-1' },
        patch: { metadata: { annotations: { 'drain.millrace.dev/state': null } } },
        guard: { uid: uidOf('orders-1'), resourceVersion: '100' },
      },
    ]);
  });

  test.each([{ control: 'foreign' as const }, { isBeingDeleted: true }])(
    'a mark on a pod that is not ours to write, or goes, is left: %o',
    (change) => {
      const decision = look(
        aShardOf(3)
          .wanting(2)
          .withMember('orders-1', { mirror: 'finished', ...change }),
      );

      expect(kinds(decision)).not.toContain('patchObject');
    },
  );

  test('a converged shard is settled, and says so once', () => {
    const first = look(aShardOf(3));
    const status = first.effects[0];
    const said = status?.kind === 'applyStatus' ? status.status : {};
    const second = look(
      aShardOf(3).withShard({
        drained: (said['conditions'] as never[])[0] ?? null,
        primary: said['primary'] as never,
      }),
    );

    expect(first).toMatchObject({ outcome: 'settled', reason: 'NobodyLeaves' });
    expect(conditionIn(first)).toMatchObject({ status: 'True' });
    expect(second.effects).toEqual([]);
  });

  test('a missing Database blocks a drain and says what to create', () => {
    const decision = look(aShardOf(3).wanting(2).with({ database: absent }));

    expect(decision).toMatchObject({
      outcome: 'blocked',
      reason: 'DatabaseMissing',
      needs: 'create the Database main in namespace db',
    });
    expect(destructive(decision)).toEqual([]);
  });

  test('an unreadable topology stops every drain', () => {
    const decision = look(
      aShardOf(3)
        .wanting(2)
        .with({ topology: unknown('cell zone-a: connection refused') }),
    );

    expect(decision).toMatchObject({ outcome: 'waiting', reason: 'TopologyUnknown' });
  });

  test('a pooler record that cannot be decoded stops every drain and is named', () => {
    const drain = aShardOf(3).wanting(2);
    const { topology } = drain.build();
    drain.with({
      topology:
        topology.kind === 'present'
          ? present({ ...topology.value, undecodable: [{ key: '/x/Pooler', why: 'fits neither' }] })
          : topology,
    });

    const decision = look(drain);

    expect(decision).toMatchObject({ outcome: 'blocked', reason: 'PoolerRecordUnreadable' });
    expect(decision.message).toContain('/x/Pooler');
  });
});

describe('who leaves', () => {
  test('the highest index of the surplus is picked, and never the primary', () => {
    expect(nextRecord(look(aShardOf(3).wanting(2)))?.data).toMatchObject({
      pod: 'orders-2',
      cause: 'surplus',
    });
    expect(nextRecord(look(aShardOf(3).ledBy('orders-2').wanting(2)))?.data).toMatchObject({
      pod: 'orders-1',
    });
  });

  test('a member that is not ready goes before ready ones', () => {
    expect(
      nextRecord(look(aShardOf(4).wanting(3).withMember('orders-1', { isReady: false })))?.data,
    ).toMatchObject({
      pod: 'orders-1',
    });
  });

  test('nobody is picked as surplus while the primary is not known', () => {
    const decision = look(aShardOf(3).wanting(2).withPooler('orders-0', { role: 'replica' }));

    expect(decision).toMatchObject({ outcome: 'waiting', reason: 'NobodySafeToChoose' });
    expect(nextRecord(decision)?.state).toBe('choosing');
  });

  test('a pod a person asked for is picked, its cause kept apart from surplus', () => {
    expect(nextRecord(look(aShardOf(3).requested('orders-1')))?.data).toMatchObject({
      pod: 'orders-1',
      cause: 'requested',
    });
  });

  test('a requested pod of a pool with too many members leaves as its surplus', () => {
    expect(nextRecord(look(aShardOf(3).wanting(2).requested('orders-1')))?.data).toMatchObject({
      pod: 'orders-1',
      cause: 'surplus',
    });
  });

  test('an ended pod and a pod whose node is gone have failed; an unready one has not', () => {
    const ended = aShardOf(3).withMember('orders-2', { hasEnded: true, isReady: false });
    const stranded = aShardOf(3)
      .withMember('orders-2', { node: 'node-9', isReady: false })
      .with({ nodes: { 'node-9': absent } });
    const unready = aShardOf(3).withMember('orders-2', { isReady: false });

    expect(nextRecord(look(ended))?.data).toMatchObject({ pod: 'orders-2', cause: 'failed' });
    expect(nextRecord(look(stranded))?.data).toMatchObject({ pod: 'orders-2', cause: 'failed' });
    expect(look(unready).reason).toBe('NobodyLeaves');
  });

  test('a pool in attach mode obeys requests and no counts', () => {
    const attached = () =>
      aShardOf(3)
        .wanting(1)
        .withPool({ isAttached: true })
        .withMember('orders-2', { control: 'attached' });

    expect(look(attached()).reason).toBe('NobodyLeaves');
    expect(nextRecord(look(attached().requested('orders-2')))?.data).toMatchObject({
      cause: 'requested',
    });
  });

  test.each([
    ['another controller’s', { control: 'foreign' as const }],
    ['marked by another operator', { isMarkedByOthers: true }],
  ])('a pod that is %s is no member: neither counted nor taken', (_what, change) => {
    const drain = aShardOf(3).wanting(2).withMember('orders-2', change);

    expect(look(drain).reason).toBe('NobodyLeaves');
  });

  test('the record names everything its drain will need', () => {
    const record = nextRecord(look(aShardOf(3).wanting(2))) as LeavingRecord;

    expect(record).toMatchObject({
      key: `drain-step/${shardUid}/${uidOf('orders-2')}`,
      state: 'requested',
      wake: { every: 5 },
    });
    expect(record.data).toMatchObject({
      podUid: uidOf('orders-2'),
      node: 'node-1',
      claimUid: 'claim-uid-orders-2',
      pooler: poolerOf('orders-2'),
      index: 2,
    });
  });
});

describe('before the point of no return', () => {
  test('the states follow one another, each by one record move', () => {
    expect(nextRecord(look(aShardOf(3).wanting(2).draining('orders-2', 'requested')))?.state).toBe(
      'draining',
    );
    expect(nextRecord(look(aShardOf(3).wanting(2).draining('orders-2', 'draining')))?.state).toBe(
      'acknowledged',
    );
    expect(
      nextRecord(look(aShardOf(3).wanting(2).draining('orders-2', 'acknowledged')))?.state,
    ).toBe('finished');
  });

  test('the gates must hold on two looks at least five seconds apart (D4)', () => {
    const decision = look(aShardOf(3).wanting(2).draining('orders-2', 'draining', 4));

    expect(decision).toMatchObject({
      outcome: 'waiting',
      reason: 'Settling',
      wake: { every: 5 },
      effects: [],
    });
  });

  test.each(['requested', 'draining', 'acknowledged'] as const)(
    'a raised count takes a drain back from %s',
    (state) => {
      const decision = look(
        aShardOf(3).draining('orders-2', state).withMember('orders-2', { mirror: 'draining' }),
      );

      expect(decision).toMatchObject({ outcome: 'acting', reason: 'DrainCancelled' });
      expect(nextRecord(decision)).toBeNull();
      expect(decision.effects).toContainEqual(
        expect.objectContaining({
          kind: 'patchObject',
          patch: { metadata: { annotations: { 'drain.millrace.dev/state': null } } },
        }),
      );
    },
  );

  test('a request taken back cancels; a pod that is gone cannot take it back', () => {
    const drain = () => aShardOf(3).draining('orders-1', 'draining', 6, { cause: 'requested' });

    expect(look(drain()).reason).toBe('DrainCancelled');
    expect(look(drain().withoutPod('orders-1')).reason).toBe('GatesHeld');
  });

  test.each(['requested', 'draining', 'acknowledged'] as const)(
    'in %s, a lost quorum blocks and says what it needs (D5)',
    (state) => {
      const decision = look(
        aShardOf(3)
          .wanting(2)
          .draining('orders-2', state)
          .withStatus('orders-1', { isReady: false }),
      );

      expect(decision).toMatchObject({
        outcome: 'blocked',
        reason: 'QuorumTooSmall',
        wake: { every: 60 },
      });
      expect(decision.message).toBe(
        'without orders-2 only 1 healthy member remains, and a commit needs 2',
      );
      expect(nextRecord(decision)?.state).toBe(state);
      expect(conditionIn(decision)).toMatchObject({ status: 'False', reason: 'QuorumTooSmall' });
    },
  );

  test('a leader without a vote is named where that is why nobody can be spared (D5)', () => {
    const decision = look(
      aShardOf(3).wanting(2).draining('orders-2', 'requested').outOfCohort('orders-0'),
    );

    expect(decision).toMatchObject({
      outcome: 'blocked',
      reason: 'QuorumTooSmall',
      message:
        'without orders-2 only 1 healthy member remains, and a commit needs 2; the leader zone-a/orders-0 has no vote',
    });
    expect(conditionIn(decision)?.message).toContain(
      'to go on: hand the lead to a member that has one',
    );
  });

  test.each([
    ['unreachable', (drain: DrainBuilder) => drain.withStatus('orders-1', null)],
    [
      'not streaming',
      (drain: DrainBuilder) => drain.withStatus('orders-1', { isStreaming: false }),
    ],
    [
      'of an unknown role',
      (drain: DrainBuilder) => drain.withStatus('orders-1', { role: 'unknown' }),
    ],
    [
      'draining its clients',
      (drain: DrainBuilder) => drain.withPooler('orders-1', { serving: 'draining' }),
    ],
    ['starting', (drain: DrainBuilder) => drain.withPooler('orders-1', { lifecycle: 'starting' })],
    [
      'of a pod that is going',
      (drain: DrainBuilder) => drain.withMember('orders-1', { isBeingDeleted: true }),
    ],
    [
      'of a pod in another operator’s hands',
      (drain: DrainBuilder) => drain.withMember('orders-1', { isMarkedByOthers: true }),
    ],
    ['out of the cohort', (drain: DrainBuilder) => drain.outOfCohort('orders-1')],
  ])('a voter that is %s does not count as healthy', (_what, change) => {
    const drain = aShardOf(3)
      .requested('orders-2')
      .draining('orders-2', 'draining', 6, { cause: 'requested' });

    expect(look(change(drain)).reason).toBe('QuorumTooSmall');
  });

  test('a policy over cells counts cells', () => {
    const drain = aShardOf(3)
      .wanting(2)
      .draining('orders-2', 'draining')
      .withRule({ policy: { kind: 'multi-cell-at-least-n', requiredCount: 2 } });

    expect(look(drain)).toMatchObject({ reason: 'QuorumTooSmall' });
  });

  test('an unknown durability policy is never enough', () => {
    const drain = aShardOf(5)
      .wanting(4)
      .draining('orders-4', 'draining')
      .withRule({ policy: { kind: 'unknown', requiredCount: 0 } });

    expect(look(drain)).toMatchObject({ outcome: 'blocked', reason: 'QuorumTooSmall' });
  });

  test('an undecided proposal is waited for', () => {
    const proposal = {
      rule: { term: '4', subterm: '0' },
      leader: null,
      cohort: [],
      policy: { kind: 'at-least-n' as const, requiredCount: 2 },
    };
    const drain = aShardOf(3)
      .wanting(2)
      .draining('orders-2', 'acknowledged')
      .withStatus('orders-0', { proposal });

    expect(look(drain)).toMatchObject({
      outcome: 'waiting',
      reason: 'ProposalUndecided',
      effects: [],
    });
  });

  test.each([
    [
      'nobody claims to lead',
      (drain: DrainBuilder) => drain.withPooler('orders-0', { role: 'none' }),
    ],
    [
      'two claim to lead',
      (drain: DrainBuilder) =>
        drain.withPooler('orders-1', { role: 'primary', rule: { term: '2', subterm: '0' } }),
    ],
    [
      'a role is unknown',
      (drain: DrainBuilder) => drain.withPooler('orders-1', { role: 'unknown' }),
    ],
    ['the primary does not answer', (drain: DrainBuilder) => drain.withStatus('orders-0', null)],
    [
      'the primary says it follows',
      (drain: DrainBuilder) => drain.withStatus('orders-0', { role: 'replica' }),
    ],
    [
      'the primary’s rule names another leader',
      (drain: DrainBuilder) => drain.withRule({ leader: poolerOf('orders-1') }),
    ],
  ])('no move is made while %s (F33)', (_what, change) => {
    const decision = look(change(aShardOf(3).wanting(2).draining('orders-2', 'acknowledged')));

    expect(decision).toMatchObject({ outcome: 'waiting', reason: 'NoAgreedPrimary', effects: [] });
  });

  test('an old claim of a pod that is gone disturbs nobody', () => {
    const drain = aShardOf(4)
      .wanting(2)
      .draining('orders-3', 'acknowledged')
      .ledBy('orders-1')
      .withoutPod('orders-0');
    drain
      .withPooler('orders-0', { role: 'primary', rule: { term: '3', subterm: '1' } })
      .withStatus('orders-0', null);

    expect(look(drain).reason).toBe('MemberMayGo');
  });

  test('an old claim of a pod whose containers have ended disturbs nobody', () => {
    const drain = aShardOf(4)
      .wanting(3)
      .draining('orders-0', 'requested', 6, { cause: 'failed' })
      .ledBy('orders-1')
      .withMember('orders-0', { hasEnded: true, isReady: false });
    drain
      .withPooler('orders-0', { role: 'primary', rule: { term: '3', subterm: '1' } })
      .withStatus('orders-0', null);

    expect(look(drain).reason).toBe('GatesHold');
  });

  test('an old claim of a pod that runs is a dispute, ready or not', () => {
    const drain = aShardOf(4)
      .wanting(3)
      .draining('orders-3', 'requested')
      .ledBy('orders-1')
      .withMember('orders-0', { isReady: false });
    drain.withPooler('orders-0', { role: 'primary', rule: { term: '3', subterm: '1' } });

    expect(look(drain).reason).toBe('NoAgreedPrimary');
  });

  test.each(['requested', 'draining', 'acknowledged'] as const)(
    'a leaver in %s without whom the others are too few stays until a failed one is replaced',
    (state) => {
      const drain = aShardOf(3)
        .requested('orders-1')
        .draining('orders-1', state, 6, { cause: 'requested' })
        .withMember('orders-2', { hasEnded: true, isReady: false })
        .withStatus('orders-2', null);

      const decision = look(drain);

      expect(decision).toMatchObject({ outcome: 'acting', reason: 'FailedMemberFirst' });
      expect(nextRecord(decision)).toBeNull();
      expect(destructive(decision)).toEqual([]);
    },
  );

  test('a failed member changes nothing for a leaver that can be spared', () => {
    const drain = aShardOf(4)
      .requested('orders-1')
      .draining('orders-1', 'requested', 6, { cause: 'requested' })
      .withMember('orders-3', { hasEnded: true, isReady: false })
      .withStatus('orders-3', null);

    expect(look(drain).reason).toBe('GatesHold');
  });

  test('a failed member does not stop one whom a person forces out', () => {
    const drain = aShardOf(3)
      .requested('orders-1')
      .draining('orders-1', 'requested', 6, { cause: 'requested', forced: true })
      .withMember('orders-2', { hasEnded: true, isReady: false })
      .withStatus('orders-2', null);

    expect(look(drain).reason).toBe('GatesHold');
  });

  test('a leader that was asked to go keeps its place although another has failed', () => {
    const drain = aShardOf(4)
      .requested('orders-1')
      .draining('orders-1', 'requested', 6, { cause: 'requested' })
      .ledBy('orders-1')
      .withMember('orders-3', { hasEnded: true, isReady: false })
      .withStatus('orders-3', null);

    expect(look(drain).reason).toBe('SwitchoverAsked');
  });

  test('of two failed members the one that was picked first goes on', () => {
    const drain = aShardOf(3)
      .draining('orders-1', 'requested', 6, { cause: 'failed' })
      .withMember('orders-1', { hasEnded: true, isReady: false })
      .withMember('orders-2', { hasEnded: true, isReady: false })
      .withStatus('orders-1', null)
      .withStatus('orders-2', null);

    expect(look(drain)).toMatchObject({ outcome: 'blocked', reason: 'QuorumTooSmall' });
  });

  test('a surplus leaver that became primary gives its place to another', () => {
    const decision = look(
      aShardOf(3).wanting(2).draining('orders-2', 'requested').ledBy('orders-2'),
    );

    expect(decision).toMatchObject({ outcome: 'acting', reason: 'BecamePrimary' });
    expect(nextRecord(decision)).toBeNull();
  });

  test.each(['draining', 'acknowledged'] as const)(
    'a leaver that became primary in %s starts again from its request (D1)',
    (state) => {
      const drain = aShardOf(3)
        .requested('orders-1')
        .draining('orders-1', state, 6, { cause: 'requested' })
        .ledBy('orders-1');

      expect(nextRecord(look(drain))).toBeNull();
    },
  );

  test('waiting past the deadline is written down once, with the exact unmet gate', () => {
    const stuck = () =>
      aShardOf(3)
        .wanting(2)
        .draining('orders-2', 'acknowledged', 400)
        .withPooler('orders-0', { role: 'none' });
    const first = look(stuck());
    const told = effectsOf(first).find((effect) => effect.kind === 'applyStatus');
    const status = told?.status as { conditions: never[]; drain: never; primary?: never };
    const record = nextRecord(first) as DrainRecord;
    const second = look(
      stuck()
        .with({ record: { kind: 'ours', text: 'x', record } })
        .withShard({
          drained: status.conditions[0] ?? null,
          drain: status.drain,
          primary: status.primary ?? null,
        }),
    );

    expect(conditionIn(first)).toMatchObject({
      status: 'False',
      reason: 'DrainStuck',
      message: `there is no agreed primary: no pooler is PRIMARY; to go on: repair that, or set the annotation millrace.dev/force-drain=${uidOf('orders-2')} on the Shard to go on regardless`,
    });
    expect(kinds(first)).toEqual(['advance', 'applyStatus', 'emitEvent']);
    expect(second).toMatchObject({ outcome: 'waiting', wake: { every: 60 }, effects: [] });
  });
});

describe('the primary', () => {
  const primaryDrain = (leaver: { intent?: typeof intent & { at: string } } = {}) =>
    aShardOf(3)
      .requested('orders-0')
      .draining('orders-0', 'requested', 6, { cause: 'requested', ...leaver });
  const secondsAgo = (seconds: number) => toText(plusSeconds(now, -seconds));

  test('is asked to hand over under a recorded intent, once', () => {
    const decision = look(primaryDrain());

    expect(decision.reason).toBe('SwitchoverAsked');
    expect(kinds(decision).at(0)).toBe('advance');
    expect(kinds(decision).at(-1)).toBe('switchPrimary');
    expect(nextRecord(decision)?.data).toMatchObject({ intent: { ...intent, at: toText(now) } });
    expect(decision.effects.at(-1)).toMatchObject({ guard: { sendBy: plusSeconds(now, 10) } });
  });

  test.each([
    [
      'it still leads within the window',
      primaryDrain({ intent: { ...intent, at: secondsAgo(74) } }),
    ],
    [
      'nobody leads',
      primaryDrain({ intent: { ...intent, at: secondsAgo(200) } }).withPooler('orders-0', {
        role: 'none',
      }),
    ],
    [
      'two claim to lead',
      primaryDrain({ intent: { ...intent, at: secondsAgo(200) } }).withPooler('orders-1', {
        role: 'primary',
      }),
    ],
  ])('is not asked again while %s (X9)', (_what, drain) => {
    expect(look(drain)).toMatchObject({ outcome: 'waiting', reason: 'AwaitingNewPrimary' });
  });

  test('is asked again after the window when it still leads', () => {
    expect(look(primaryDrain({ intent: { ...intent, at: secondsAgo(75) } })).reason).toBe(
      'SwitchoverAsked',
    );
  });

  test('goes on as a replica once another leads under a newer rule (D6)', () => {
    const decision = look(
      primaryDrain({ intent: { ...intent, at: secondsAgo(9) } }).ledBy('orders-1'),
    );

    expect(decision.reason).toBe('PrimarySwitched');
    expect(nextRecord(decision)?.state).toBe('requested');
    expect(nextRecord(decision)?.data).not.toHaveProperty('intent');
  });

  test('is never asked without a standby that is ready', () => {
    const drain = primaryDrain()
      .withRule({ policy: { kind: 'at-least-n', requiredCount: 0 } })
      .withStatus('orders-1', { isReady: false })
      .withStatus('orders-2', null);

    expect(look(drain)).toMatchObject({ outcome: 'blocked', reason: 'NoStandbyReady' });
  });

  test('does not leave by force while it leads', () => {
    const drain = primaryDrain().withStatus('orders-1', null).withStatus('orders-2', null);
    drain.draining('orders-0', 'requested', 6, { cause: 'requested', forced: true });

    expect(look(drain)).toMatchObject({ outcome: 'blocked', reason: 'NoStandbyReady' });
  });
});

test('the record fits 1 KiB with the longest names there are', () => {
  const cell = 'c'.repeat(30);
  const drain = aShardOf(3).draining('orders-0', 'requested', 6, {
    pod: 'p'.repeat(63),
    podUid: shardUid,
    node: 'n'.repeat(200),
    claimUid: shardUid,
    pool: 'x'.repeat(25),
    cell,
    index: 99,
    pooler: { cell, name: 'p-12345678' },
    cause: 'requested',
    intent: { rule: { term: '1234567890', subterm: '1234567890' }, at: '2026-01-01T00:00:00.123Z' },
  });

  const { text } = drain.build().record;

  expect(Buffer.byteLength(text ?? '')).toBeLessThanOrEqual(1024);
});

describe('after the point of no return', () => {
  const finished = () => aShardOf(3).wanting(2).draining('orders-2', 'finished');

  test('the pod is deleted by its uid under the record that names it (D3)', () => {
    const decision = look(finished());

    expect(decision.effects).toEqual([
      {
        kind: 'deleteObject',
        object: { kind: 'Pod', namespace: 'db', name: 'orders-2' },
        guard: {
          uid: uidOf('orders-2'),
          resourceVersion: '100',
          recordKey: `drain-step/${shardUid}/${uidOf('orders-2')}`,
        },
      },
    ]);
  });

  test.each([null, 'draining'])(
    'its pod says so before it is asked to stop, also after a crash between: %s',
    (mirror) => {
      const decision = look(finished().withMember('orders-2', { mirror }));

      expect(decision).toMatchObject({ outcome: 'acting', reason: 'MemberMayGo' });
      expect(decision.effects).toEqual([
        {
          kind: 'patchObject',
          object: { kind: 'Pod', namespace: 'db', name: 'orders-2' },
          patch: { metadata: { annotations: { 'drain.millrace.dev/state': 'finished' } } },
          guard: { uid: uidOf('orders-2'), resourceVersion: '100' },
        },
      ]);
    },
  );

  test('a member that became primary in somebody else’s hands is left alone', () => {
    const decision = look(
      finished().ledBy('orders-2').withMember('orders-2', { isMarkedByOthers: true }),
    );

    expect(decision).toMatchObject({ outcome: 'blocked', reason: 'MemberOfOthers' });
    expect(kinds(decision)).not.toContain('patchObject');
  });

  test('a member that became primary meanwhile goes back to its request (D1, D6)', () => {
    const decision = look(finished().ledBy('orders-2'));

    expect(decision.reason).toBe('BecamePrimary');
    expect(nextRecord(decision)?.state).toBe('requested');
    expect(destructive(decision)).toEqual([]);
  });

  test.each(['finished', null])(
    'its pod is written before the record goes back, so that an older view cannot delete it (D3): mirror %s',
    (mirror) => {
      const decision = look(finished().withMember('orders-2', { mirror }).ledBy('orders-2'));

      expect(decision.effects.map(({ kind }) => kind)).toEqual([
        'patchObject',
        'advance',
        'emitEvent',
      ]);
      expect(decision.effects[0]).toMatchObject({ guard: { resourceVersion: '100' } });
      expect(decision.effects[0]).not.toMatchObject({
        patch: { metadata: { annotations: { 'drain.millrace.dev/state': mirror } } },
      });
    },
  );

  test('the claim of who was forced out is kept, whatever the policy (S3)', () => {
    const forced = aShardOf(3)
      .wanting(2)
      .withPool({ whenScaled: 'Delete' })
      .draining('orders-2', 'finished', 6, { forced: true })
      .gone('orders-2')
      .outOfCohort('orders-2');

    const decision = look(forced);

    expect(decision.reason).toBe('MemberLeft');
    expect(destructive(decision)).toEqual([]);
    expect(kinds(decision)).toContain('patchObject');
  });

  test('is not deleted while the topology cannot be read', () => {
    expect(look(finished().with({ topology: unknown('etcd is down') }))).toMatchObject({
      outcome: 'waiting',
      reason: 'TopologyUnknown',
    });
  });

  test.each([{ control: 'foreign' as const }, { isMarkedByOthers: true }])(
    'a pod that came into somebody else’s hands is not deleted: %o',
    (change) => {
      expect(look(finished().withMember('orders-2', change))).toMatchObject({
        outcome: 'blocked',
        reason: 'MemberOfOthers',
      });
      const early = aShardOf(3).wanting(2).draining('orders-2', 'acknowledged');
      expect(nextRecord(look(early.withMember('orders-2', change)))).toBeNull();
    },
  );

  test('a raised count comes too late: the drain goes to its end (D7)', () => {
    expect(look(finished().wanting(3)).reason).toBe('MemberDeleted');
  });

  test('a pod that is stopping is waited for', () => {
    expect(look(finished().withMember('orders-2', { isBeingDeleted: true }))).toMatchObject({
      outcome: 'waiting',
      reason: 'AwaitingPodGone',
    });
  });

  test('a pod gone from a node that is not Ready proves nothing', () => {
    const drain = finished()
      .gone('orders-2')
      .with({ nodes: { 'node-1': present({ isReady: false }) } });

    expect(look(drain)).toMatchObject({ outcome: 'blocked', reason: 'NodeUnproven' });
  });

  test('a member that died without a word has its record retired under its mod revision (F32)', () => {
    const decision = look(
      finished()
        .gone('orders-2')
        .withPooler('orders-2', { lifecycle: 'active', serving: 'serving', role: 'replica' }),
    );

    expect(decision.effects).toMatchObject([{ kind: 'topologyTxn', guard: { modRevision: '42' } }]);
  });

  test('the record of a new pod of the same name is never touched', () => {
    const drain = finished()
      .gone('orders-2')
      .withPooler('orders-2', { lifecycle: 'active', serving: 'serving' });
    const { members } = drain.build();
    drain.with({
      members: present([
        ...(members.kind === 'present' ? members.value : []),
        { ...aMember('orders-2'), uid: 'a-new-uid' },
      ]),
    });

    expect(destructive(look(drain))).toEqual([]);
  });

  test('its absence from the cohort is waited for', () => {
    expect(look(finished().gone('orders-2'))).toMatchObject({
      outcome: 'waiting',
      reason: 'AwaitingCohortExit',
    });
  });

  test('a kept claim is marked free before the record is cleared', () => {
    const decision = look(finished().gone('orders-2').outOfCohort('orders-2'));

    expect(decision.reason).toBe('MemberLeft');
    expect(kinds(decision)).toEqual([
      'advance',
      'patchObject',
      'advance',
      'applyStatus',
      'emitEvent',
    ]);
    expect(nextRecord(decision)).toBeNull();
  });

  test('the claim is marked only under a record that is still in force (S4)', () => {
    const decision = look(finished().gone('orders-2').outOfCohort('orders-2'));
    const advances = effectsOf(decision).filter((effect) => effect.kind === 'advance');

    const [again, cleared] = advances;

    expect(again?.record).toMatchObject({ state: 'finished' });
    expect(cleared).toMatchObject({
      record: null,
      guard: { previous: JSON.stringify(again?.record) },
    });
  });

  test('a claim is deleted by policy, only for a surplus member and only when nothing mounts it (S3)', () => {
    const gone = () =>
      finished().withPool({ whenScaled: 'Delete' }).gone('orders-2').outOfCohort('orders-2');

    expect(look(gone()).effects).toMatchObject([
      {
        kind: 'deleteObject',
        object: { kind: 'PersistentVolumeClaim' },
        guard: { uid: 'claim-uid-orders-2' },
      },
    ]);
    expect(look(gone().with({ claimsInUse: present(['data-orders-2']) }))).toMatchObject({
      outcome: 'blocked',
      reason: 'ClaimInUse',
    });
    expect(look(gone().with({ claimsInUse: unknown('403') }))).toMatchObject({
      outcome: 'waiting',
      reason: 'ClaimsUnknown',
    });
    expect(
      look(gone().with({ claims: present([{ ...aClaim('orders-2'), isBeingDeleted: true }]) }))
        .reason,
    ).toBe('MemberLeft');
    expect(
      look(
        gone().with({ claims: present([{ ...aClaim('orders-2'), uid: 'another-incarnation' }]) }),
      ).reason,
    ).toBe('MemberLeft');
    expect(look(gone().draining('orders-2', 'finished', 6, { cause: 'requested' })).reason).toBe(
      'MemberLeft',
    );
  });

  test('a person’s force is recorded loudly before it passes a gate, also after the pod is gone', () => {
    const stuck = finished()
      .gone('orders-2')
      .with({ nodes: { 'node-1': present({ isReady: false }) } });
    const named = stuck.withShard({ forcedPodUid: uidOf('orders-2') });
    const first = look(named);
    const forced = named.draining('orders-2', 'finished', 6, { forced: true });

    expect(first.reason).toBe('DrainForced');
    expect(kinds(first)).toEqual(['advance', 'emitEvent']);
    expect(look(forced).reason).toBe('MemberLeft');
  });

  test('another pod’s uid forces nobody (Z2)', () => {
    const drain = aShardOf(3)
      .wanting(2)
      .draining('orders-2', 'requested')
      .withStatus('orders-1', null)
      .withShard({ forcedPodUid: uidOf('orders-1') });

    expect(look(drain).reason).toBe('QuorumTooSmall');
  });
});
