import { describe, expect, test } from 'vitest';
import type { DrainCause, LeavingRecord } from '#shared/api/drain-record.ts';
import { plusSeconds, toText } from '#shared/kernel/instant.ts';
import {
  acknowledge,
  authoriseDeletion,
  startDraining,
} from '#functions/drain-step/before-return.ts';
import { type DrainBuilder, aShardOf, now, uidOf } from './a-drain.ts';
import { look, nextRecord } from './what-it-says.ts';

function recordOf(drain: DrainBuilder): LeavingRecord {
  const { record } = drain.build();
  if (record.kind !== 'ours' || record.record.state === 'choosing') {
    throw new Error('nobody is leaving');
  }
  return record.record;
}

function withRecord(drain: DrainBuilder, change: Partial<LeavingRecord>): DrainBuilder {
  const record = { ...recordOf(drain), ...change };
  return drain.with({ record: { kind: 'ours', text: JSON.stringify(record), record } });
}

const proposal = {
  rule: { term: '9', subterm: '0' },
  leader: null,
  cohort: [],
  policy: { kind: 'at-least-n' as const, requiredCount: 2 },
};

describe('a person’s force', () => {
  const named = () =>
    aShardOf(3)
      .wanting(2)
      .draining('orders-2', 'draining')
      .withShard({ forcedPodUid: uidOf('orders-2') });

  test('changes the record in nothing but that it is forced, and why', () => {
    const before = recordOf(named());

    const decision = look(named());

    expect(decision.reason).toBe('DrainForced');
    expect(nextRecord(decision)).toEqual({
      ...before,
      reason: 'DrainForced',
      wake: { every: 5 },
      data: { ...before.data, forced: true },
    });
  });

  test('is recorded once', () => {
    const drain = named().draining('orders-2', 'draining', 6, { forced: true });

    expect(look(drain).reason).toBe('GatesHeld');
  });

  test.each(['requested', 'draining', 'acknowledged'] as const)(
    'passes an unknown leader, an open proposal and a lost quorum in %s',
    (state) => {
      const drain = aShardOf(3)
        .wanting(2)
        .draining('orders-2', state, 6, { forced: true })
        .withPooler('orders-0', { role: 'none' })
        .withStatus('orders-0', { proposal })
        .withStatus('orders-1', null);

      expect(look(drain)).toMatchObject({ outcome: 'acting' });
      expect(nextRecord(look(drain))).not.toMatchObject({ state });
    },
  );

  test.each([
    ['an open proposal', (drain: DrainBuilder) => drain.withStatus('orders-0', { proposal })],
    ['a lost quorum', (drain: DrainBuilder) => drain.withStatus('orders-1', null)],
  ])('passes %s under an agreed leader', (_what, change) => {
    const drain = aShardOf(3).wanting(2).draining('orders-2', 'acknowledged', 6, { forced: true });

    expect(look(change(drain)).reason).toBe('MemberMayGo');
  });

  test('need not wait for the settle time', () => {
    const drain = aShardOf(3).wanting(2).draining('orders-2', 'draining', 0, { forced: true });

    expect(look(drain).reason).toBe('GatesHeld');
  });
});

describe('a leaver that leads', () => {
  const leading = (cause: DrainCause = 'surplus') =>
    aShardOf(4).draining('orders-3', 'requested', 6, { cause }).ledBy('orders-3');

  test('as surplus gives its place to the first of its pool and cell', () => {
    const decision = look(leading().wanting(3));

    expect(decision.reason).toBe('BecamePrimary');
    expect(decision.message).toBe('orders-3 became primary; orders-2 leaves instead');
    expect(nextRecord(decision)).toBeNull();
  });

  test.each([
    ['pool', { pool: 'other' }],
    ['cell', { cell: 'zone-b' }],
  ])('keeps its place where only those of another %s could leave instead', (_what, elsewhere) => {
    const drain = aShardOf(4).draining('orders-0', 'requested');
    const main = {
      name: 'main',
      cells: ['zone-b', 'zone-a'],
      replicasPerCell: 0,
      isAttached: false,
      whenScaled: 'Retain' as const,
    };
    drain.withShard({ pools: [{ ...main, name: 'other' }, main] });
    for (const pod of ['orders-1', 'orders-2', 'orders-3']) {
      drain.withMember(pod, elsewhere);
    }

    expect(look(drain).reason).toBe('SwitchoverAsked');
  });

  test('keeps its place where nobody else is left to go', () => {
    const drain = leading().wanting(3).withMember('orders-3', { isBeingDeleted: true });

    expect(look(drain).reason).toBe('SwitchoverAsked');
  });

  test('keeps its place where a person asked for it, whoever is surplus', () => {
    const drain = leading('requested').requested('orders-3').wanting(2);

    expect(look(drain).reason).toBe('SwitchoverAsked');
  });

  test('as the only one there is keeps its place', () => {
    const drain = aShardOf(1)
      .wanting(0)
      .draining('orders-0', 'requested')
      .withRule({ policy: { kind: 'at-least-n', requiredCount: 0 } });

    expect(look(drain).reason).toBe('NoStandbyReady');
  });
});

describe('a switchover', () => {
  const asked = (secondsAgo = 9) => {
    const at = toText(plusSeconds(now, -secondsAgo));
    const intent = { rule: { term: '3', subterm: '1' }, at };
    return aShardOf(3)
      .requested('orders-0')
      .draining('orders-0', 'requested', 20, { cause: 'requested', intent });
  };

  test('is asked for under a record that says under which rule and when, and wakes the next look', () => {
    const drain = aShardOf(3)
      .requested('orders-0')
      .draining('orders-0', 'requested', 20, { cause: 'requested' });
    const before = recordOf(drain);

    const decision = look(drain);

    expect(nextRecord(decision)).toEqual({
      ...before,
      reason: 'SwitchoverAsked',
      wake: { every: 5 },
      data: { ...before.data, intent: { rule: { term: '3', subterm: '1' }, at: toText(now) } },
    });
    expect(decision.effects.at(-1)).toEqual({
      kind: 'switchPrimary',
      database: { namespace: 'db', name: 'main', uid: 'database-uid' },
      shard: { database: 'postgres', tableGroup: 'default', shard: '0-inf' },
      reason: 'millrace: orders-0 is to leave (requested)',
      guard: { recordKey: before.key, sendBy: plusSeconds(now, 10) },
    });
  });

  test('that ended with the same leader under a newer rule has not happened (D6)', () => {
    const decision = look(asked().ledBy('orders-0'));

    expect(decision).toMatchObject({ outcome: 'waiting', reason: 'AwaitingNewPrimary' });
  });

  test('that has happened takes the intent off the record and nothing else', () => {
    const { intent: _done, ...data } = recordOf(asked()).data;

    const decision = look(asked().ledBy('orders-1'));

    expect(decision.reason).toBe('PrimarySwitched');
    expect(decision.message).toBe('zone-a/orders-1 is primary now under rule 4.1');
    expect(nextRecord(decision)).toEqual({
      ...recordOf(asked()),
      reason: 'PrimarySwitched',
      wake: { every: 5 },
      data,
    });
  });

  test.each([
    ['the same', { term: '3', subterm: '1' }],
    ['an older', { term: '2', subterm: '0' }],
  ])('has not happened while another leads under %s rule (D6)', (_what, rule) => {
    const decision = look(asked().ledBy('orders-1', rule));

    expect(decision).toMatchObject({
      outcome: 'waiting',
      reason: 'AwaitingNewPrimary',
      message:
        'orders-0 was asked to hand over its lead: no different leader stands under a newer rule yet',
    });
  });

  test('is waited for with the words of whoever does not lead', () => {
    const decision = look(asked().withPooler('orders-0', { role: 'none' }));

    expect(decision.message).toBe('orders-0 was asked to hand over its lead: no pooler is PRIMARY');
  });

  test('whose instant cannot be read is not asked for again (D8)', () => {
    const drain = asked();
    const { data } = recordOf(drain);
    const intent = { rule: { term: '3', subterm: '1' }, at: 'yesterday' };

    expect(look(withRecord(drain, { data: { ...data, intent } })).reason).toBe(
      'AwaitingNewPrimary',
    );
  });

  test('that never came is passed by force once its window is over, and not before', () => {
    const forced = (secondsAgo: number) => {
      const drain = asked(secondsAgo).withPooler('orders-0', { role: 'none' });
      const { data } = recordOf(drain);
      return withRecord(drain, { data: { ...data, forced: true } });
    };

    expect(look(forced(74)).reason).toBe('AwaitingNewPrimary');
    expect(look(forced(75)).reason).toBe('GatesHold');
  });
});

describe('the gates', () => {
  test('name an unknown policy as what is in the way', () => {
    const drain = aShardOf(3)
      .wanting(2)
      .draining('orders-2', 'draining')
      .withRule({ policy: { kind: 'unknown', requiredCount: 0 } });

    expect(look(drain).message).toBe('the durability policy is one this version does not know');
  });

  test('must hold for five seconds, and no longer (D4)', () => {
    const after = (seconds: number) =>
      look(aShardOf(3).wanting(2).draining('orders-2', 'draining', seconds)).reason;

    expect([after(4.999), after(5)]).toEqual(['Settling', 'GatesHeld']);
  });

  test('are not held by a time that cannot be read (D8)', () => {
    const drain = aShardOf(3).wanting(2).draining('orders-2', 'draining', 60);

    expect(look(withRecord(drain, { since: 'long ago' })).reason).toBe('Settling');
  });

  test('whose settle time is still to come are counted from now (F26)', () => {
    const drain = aShardOf(3).wanting(2).draining('orders-2', 'draining', -3_600);
    const decision = look(drain);

    expect(decision.reason).toBe('GatesHold');
    expect(nextRecord(decision)).toMatchObject({ state: 'draining', since: toText(now) });
  });

  test('are waited for where their settle time begins a little later than this look', () => {
    const drain = aShardOf(3).wanting(2).draining('orders-2', 'draining', -5);

    expect(look(drain).reason).toBe('Settling');
  });

  test('once held need no further wait: the next look authorises', () => {
    expect(look(aShardOf(3).wanting(2).draining('orders-2', 'acknowledged', 0)).reason).toBe(
      'MemberMayGo',
    );
  });

  test('that held write the record, and the status where it differs', () => {
    const decision = look(aShardOf(3).wanting(2).draining('orders-2', 'draining'));

    expect(decision.effects.map(({ kind }) => kind)).toEqual(['advance', 'applyStatus']);
  });
});

test('each move is made from its own state alone', () => {
  const movesFrom = (state: 'requested' | 'draining' | 'acknowledged' | 'finished') => {
    const snapshot = aShardOf(3).wanting(2).draining('orders-2', state).build();
    return [startDraining, acknowledge, authoriseDeletion].map((row) => row(snapshot, now)?.reason);
  };

  expect(movesFrom('requested')).toEqual(['GatesHold', undefined, undefined]);
  expect(movesFrom('draining')).toEqual([undefined, 'GatesHeld', undefined]);
  expect(movesFrom('acknowledged')).toEqual([undefined, undefined, 'MemberMayGo']);
  expect(movesFrom('finished')).toEqual([undefined, undefined, undefined]);
});
