import { describe, expect, test } from 'vitest';
import type { ChoosingRecord } from '#shared/api/drain-record.ts';
import type { Condition } from '#shared/api/shard.ts';
import { unknown } from '#shared/kernel/read.ts';
import { recordText } from '#shared/kernel/record.ts';
import { type DrainBuilder, aShardOf, shardUid, uidOf } from './a-drain.ts';
import { conditionIn, look, nextRecord } from './what-it-says.ts';

const choosing: ChoosingRecord = {
  v: 1,
  uid: shardUid,
  key: `drain-step/${shardUid}/4`,
  state: 'choosing',
  generation: 4,
  attempt: 0,
  since: '2026-01-01T00:00:00Z',
  reason: 'NobodySafeToChoose',
  wake: { every: 60 },
  data: {},
};

/** Nobody can be picked, and the record says so. */
function choosingIn(drain: DrainBuilder, change: Partial<ChoosingRecord> = {}): DrainBuilder {
  const record = { ...choosing, ...change };
  return drain.with({ record: { kind: 'ours', text: recordText(record), record } });
}

describe('a record', () => {
  test('that cannot be read is looked at again in a minute', () => {
    const drain = aShardOf(3).with({
      record: { kind: 'unreadable', text: '{}', why: 'v: expected 1' },
    });

    expect(look(drain)).toMatchObject({ outcome: 'blocked', wake: { every: 60 } });
    expect(conditionIn(look(drain))).toMatchObject({
      status: 'Unknown',
      message: 'the record step.millrace.dev/drain-step cannot be read: v: expected 1',
    });
  });

  test('of another object is cleared only as it was read (D9)', () => {
    const drain = aShardOf(3).with({ record: { kind: 'foreign', text: '{"v":1}', uid: 'other' } });

    expect(look(drain).effects).toEqual([
      {
        kind: 'advance',
        record: null,
        guard: { uid: shardUid, generation: 4, previous: '{"v":1}' },
      },
    ]);
  });

  test('that waits for somebody to be picked is cleared once nobody has to leave', () => {
    const decision = look(choosingIn(aShardOf(3)));

    expect(decision.outcome).toBe('settled');
    expect(nextRecord(decision)).toBeNull();
  });

  test('that is not there is not cleared', () => {
    expect(nextRecord(look(aShardOf(3)))).toBeUndefined();
  });
});

describe('a shard that nobody leaves', () => {
  const said = (change: Partial<Condition>): Condition => ({
    type: 'Drained',
    status: 'True',
    reason: 'MemberLeft',
    message: 'orders-2 has left',
    observedGeneration: 4,
    lastTransitionTime: '2026-01-01T00:00:00Z',
    ...change,
  });

  test('goes on saying who left last', () => {
    const decision = look(aShardOf(3).withShard({ drained: said({}) }));

    expect(conditionIn(decision)).toEqual(said({}));
  });

  test.each([
    ['of another generation', { observedGeneration: 3 }],
    ['that somebody was leaving', { status: 'False' as const }],
  ])('says anew what it said %s', (_what, change) => {
    const decision = look(aShardOf(3).withShard({ drained: said(change) }));

    expect(conditionIn(decision)).toMatchObject({
      status: 'True',
      reason: 'NobodyLeaves',
      message: 'no member has to leave',
      observedGeneration: 4,
    });
  });
});

describe('while something is unknown nobody is picked', () => {
  test.each([
    [
      'the Database',
      (drain: DrainBuilder) => drain.with({ database: unknown('403') }),
      'DatabaseUnknown',
      'the Database cannot be read: 403',
    ],
    [
      'the claims',
      (drain: DrainBuilder) => drain.with({ claims: unknown('403') }),
      'ClaimsUnknown',
      "the shard's claims cannot be listed: 403",
    ],
    [
      'the primary',
      (drain: DrainBuilder) => drain.withPooler('orders-0', { role: 'none' }),
      'NobodySafeToChoose',
      'a member has to leave and none can be chosen: no pooler is PRIMARY',
    ],
  ])('such as %s', (_what, change, reason, message) => {
    const decision = look(change(aShardOf(3).wanting(2)));

    expect(decision).toMatchObject({ outcome: 'waiting', reason, message, wake: { every: 60 } });
    expect(nextRecord(decision)).toEqual({ ...choosing, since: '2026-01-01T00:10:00Z', reason });
    expect(conditionIn(decision)).toMatchObject({ status: 'False', reason, message });
  });

  test.each([
    ['again for the same reason', {}, undefined],
    ['for another reason', { reason: 'TopologyUnknown' }, 'NobodySafeToChoose'],
    ['in another generation', { key: `drain-step/${shardUid}/3` }, 'NobodySafeToChoose'],
  ])('and what was recorded is recorded anew only %s', (_what, change, reason) => {
    const drain = aShardOf(3).wanting(2).withPooler('orders-0', { role: 'none' });

    expect(nextRecord(look(choosingIn(drain, change)))?.reason).toBe(reason);
  });

  test('what a person has to do stands in the condition', () => {
    const drain = aShardOf(3)
      .wanting(2)
      .with({ database: { kind: 'absent' } });

    expect(conditionIn(look(drain))?.message).toBe(
      'a member has to leave, but the Database main does not exist; to go on: create the Database main in namespace db',
    );
  });
});

describe('a pod that a person names for force', () => {
  test('is picked before others who were asked', () => {
    const drain = aShardOf(4).requested('orders-2').requested('orders-3');

    expect(nextRecord(look(drain))?.data).toMatchObject({ pod: 'orders-2' });
    expect(
      nextRecord(look(drain.withShard({ forcedPodUid: uidOf('orders-3') })))?.data,
    ).toMatchObject({ pod: 'orders-3' });
  });

  test('is no reason to pick it where nobody asked it to go', () => {
    const drain = aShardOf(4)
      .requested('orders-2')
      .withShard({ forcedPodUid: uidOf('orders-3') });

    expect(nextRecord(look(drain))?.data).toMatchObject({ pod: 'orders-2' });
  });

  const withoutTopology = (drain: DrainBuilder) => drain.with({ topology: unknown('down') });

  test('is picked, recorded as forced, and leaves without the topology', () => {
    const requested = aShardOf(3)
      .requested('orders-2')
      .withShard({ forcedPodUid: uidOf('orders-2') });
    const picked = look(withoutTopology(requested));
    requested.draining('orders-2', 'requested', 6, { cause: 'requested' });
    const recorded = look(withoutTopology(requested));
    requested.draining('orders-2', 'finished', 6, { cause: 'requested', forced: true });
    requested.withShard({ forcedPodUid: null });
    const gone = look(withoutTopology(requested));

    expect([picked.reason, recorded.reason, gone.reason]).toEqual([
      'MemberChosen',
      'DrainForced',
      'MemberDeleted',
    ]);
  });

  test.each([
    ['another one is leaving', (drain: DrainBuilder) => drain.draining('orders-1', 'requested')],
    ['it has not to leave', (drain: DrainBuilder) => drain.wanting(2)],
  ])('does nothing for a drain without the topology where %s', (_what, change) => {
    const drain = change(aShardOf(3).requested('orders-1'));
    drain.withShard({ forcedPodUid: uidOf('orders-0') });

    expect(look(withoutTopology(drain)).reason).toBe('TopologyUnknown');
  });
});
