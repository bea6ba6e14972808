import { describe, expect, test } from 'vitest';
import { type Decision, acting, blocked, settled, waiting } from '#shared/kernel/decision.ts';
import { RefusedEffect, RetryableError } from '#shared/kernel/errors.ts';
import { execute } from '#shared/kernel/execute.ts';
import { type StepRecord, recordText } from '#shared/kernel/record.ts';
import {
  aRecord,
  aTarget,
  aWriter,
  advance,
  anInvocation,
  deletePod,
  now,
  step,
} from './an-execution.ts';

function unchecked(decision: unknown): Decision {
  return decision as Decision;
}

describe('the executor', () => {
  test('writes the effects in their order, the status from the version the record’s write returned', async () => {
    const { calls, writers } = aWriter();
    const decision = acting('MemberChosen', '', [
      advance(aRecord(), null),
      { kind: 'applyStatus', status: { a: 1 }, guard: { uid: 'shard-uid', resourceVersion: '7' } },
    ]);

    const execution = await execute(step, aTarget(null), decision, writers, anInvocation());

    expect(execution).toEqual({ kind: 'done', effects: ['advance', 'applyStatus'] });
    expect(calls.map(([name]) => name)).toEqual(['swapAnnotation', 'applyStatus']);
    expect(calls[1]?.at(-1)).toEqual({ uid: 'shard-uid', resourceVersion: '8' });
  });

  test('stops at a lost race and says what was written before it', async () => {
    const { calls, writers } = aWriter({ swapAnnotation: { kind: 'lostRace', why: 'moved' } });
    const decision = acting('MemberChosen', '', [
      advance(aRecord(), null),
      { kind: 'emitEvent', type: 'Normal', reason: 'X', message: 'x' },
    ]);

    const execution = await execute(step, aTarget(null), decision, writers, anInvocation());

    expect(execution).toEqual({ kind: 'lostRace', why: 'moved', effects: [] });
    expect(calls).toHaveLength(1);
  });

  test('deletes under a record in force that names the victim (X3)', async () => {
    const { calls, writers } = aWriter();

    await execute(
      step,
      aTarget(aRecord()),
      acting('MemberDeleted', '', [], deletePod),
      writers,
      anInvocation(),
    );

    expect(calls).toEqual([['delete', deletePod.object, deletePod.guard]]);
  });

  const refused: readonly [string, StepRecord | null, unknown][] = [
    ['a delete without any record', null, acting('MemberDeleted', '', [], deletePod)],
    [
      'a delete of a uid the record does not name',
      aRecord(),
      acting('MemberDeleted', '', [], {
        ...deletePod,
        guard: { ...deletePod.guard, uid: 'other-uid' },
      }),
    ],
    [
      'a delete under another record’s key',
      aRecord({ key: 'drain-step/shard-uid/elsewhere', data: { podUid: 'pod-uid' } }),
      acting('MemberDeleted', '', [], deletePod),
    ],
    [
      'a delete without a uid',
      aRecord(),
      acting('MemberDeleted', '', [], {
        ...deletePod,
        guard: { ...deletePod.guard, uid: '' },
      }),
    ],
    [
      'two destructive effects',
      aRecord(),
      { outcome: 'acting', reason: 'MemberDeleted', message: '', effects: [deletePod, deletePod] },
    ],
    [
      'a destructive effect that is not the last',
      aRecord(),
      {
        outcome: 'acting',
        reason: 'MemberDeleted',
        message: '',
        effects: [deletePod, { kind: 'emitEvent', type: 'Normal', reason: 'X', message: '' }],
      },
    ],
    [
      'a destructive effect of a decision that does not act',
      aRecord(),
      { outcome: 'settled', reason: 'MemberDeleted', message: '', effects: [deletePod] },
    ],
    [
      'an effect the step does not declare',
      aRecord(),
      acting('MemberDeleted', '', [], { ...deletePod, object: { kind: 'Node', name: 'n' } }),
    ],
    [
      'an advance under another uid',
      null,
      acting('MemberChosen', '', [
        { ...advance(aRecord(), null), guard: { uid: 'other', generation: 3, previous: null } },
      ]),
    ],
    [
      'an advance from a record that was not read',
      aRecord(),
      acting('MemberChosen', '', [advance(null, null)]),
    ],
    [
      'a record that belongs to another step',
      null,
      acting('MemberChosen', '', [advance(aRecord({ key: 'pool-pods/shard-uid/3' }), null)]),
    ],
    [
      'a record over 1 KiB',
      null,
      acting('MemberChosen', '', [advance(aRecord({ data: 'x'.repeat(1024) }), null)]),
    ],
    ['a wait that nobody wakes', null, waiting('Settling', '', { every: 5 })],
    [
      'a wait with another wake than its record’s',
      aRecord(),
      waiting('Settling', '', { every: 60 }),
    ],
    [
      'a status without the version it was made from',
      null,
      settled('NobodyLeaves', '', [
        { kind: 'applyStatus', status: {}, guard: { uid: 'shard-uid', resourceVersion: '' } },
      ]),
    ],
  ];
  test.each(refused)('refuses %s before anything is written', async (_name, record, decision) => {
    const { calls, writers } = aWriter();

    const execution = execute(step, aTarget(record), unchecked(decision), writers, anInvocation());

    await expect(execution).rejects.toBeInstanceOf(RefusedEffect);
    expect(calls).toEqual([]);
  });

  test.each([
    ['from a later version', '{"v":2,"key":"drain-step/shard-uid/x","wake":{"every":5}}'],
    ['of a state it does not know', recordText(aRecord({ state: 'dreaming' }))],
    ['that is no JSON', 'garbage'],
  ])('leaves a record %s alone, its wake included (D12)', async (_what, text) => {
    const { calls, writers } = aWriter();
    const target = aTarget(null);
    const broken = {
      ...target,
      metadata: { ...target.metadata, annotations: { 'step.millrace.dev/drain-step': text } },
    };
    const decision = blocked('RecordUnreadable', '', 'look at it', { every: 60 });

    const execution = await execute(step, broken, decision, writers, anInvocation());

    expect(execution).toEqual({ kind: 'done', effects: [] });
    expect(calls).toEqual([]);
  });

  test('starts no effect with less time left than it may take (P6)', async () => {
    const { calls, writers } = aWriter();
    const invocation = anInvocation({ remainingMs: () => 500 });

    const execution = execute(
      step,
      aTarget(aRecord()),
      acting('MemberDeleted', '', [], deletePod),
      writers,
      invocation,
    );

    await expect(execution).rejects.toBeInstanceOf(RetryableError);
    expect(calls).toEqual([]);
  });

  test('asks for no switchover after its send-by instant (X9)', async () => {
    const { calls, writers } = aWriter();
    const decision = acting('SwitchoverAsked', '', [], {
      kind: 'switchPrimary',
      database: { namespace: 'db', name: 'main', uid: 'database-uid' },
      shard: { database: 'postgres', tableGroup: 'default', shard: '0-inf' },
      reason: 'test',
      guard: { recordKey: 'drain-step/shard-uid/pod-uid', sendBy: now },
    });

    const execution = execute(step, aTarget(aRecord()), decision, writers, anInvocation());

    await expect(execution).rejects.toMatchObject({ reason: 'SendByPassed' });
    expect(calls.map(([name]) => name)).not.toContain('switchPrimary');
  });

  test('a decision with two destructive effects is a type error', () => {
    // @ts-expect-error at most one destructive effect, in the last place
    const twice: Decision = acting('MemberDeleted', '', [deletePod, deletePod]);
    // @ts-expect-error a kind the step does not declare
    const undeclared: Decision<'advance'> = acting('MemberDeleted', '', [], deletePod);

    expect([twice.outcome, undeclared.outcome]).toEqual(['acting', 'acting']);
  });
});
