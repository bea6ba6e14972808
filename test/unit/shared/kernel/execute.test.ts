import { describe, expect, test } from 'vitest';
import type { Shard } from '#shared/api/shard.ts';
import { type Decision, acting, blocked, settled, waiting } from '#shared/kernel/decision.ts';
import type { Effect } from '#shared/kernel/effect.ts';
import { RefusedEffect, RetryableError } from '#shared/kernel/errors.ts';
import { type Invocation, type Writers, execute } from '#shared/kernel/execute.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import { createLogger } from '#shared/kernel/logger.ts';
import { type StepRecord, recordText } from '#shared/kernel/record.ts';
import { absent } from '#shared/kernel/read.ts';
import type { WriteResult } from '#shared/kube/kube.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import type { StepDeclaration } from '#shared/kernel/step.ts';

const now = Date.parse('2026-01-01T00:00:00Z') as Instant;
const written: WriteResult = { kind: 'written', resourceVersion: '8' };

const step: StepDeclaration = {
  name: 'drain-step',
  target: 'Shard',
  reads: [],
  writes: [
    { effect: 'advance' },
    { effect: 'applyStatus' },
    { effect: 'emitEvent' },
    { effect: 'deleteObject', kind: 'Pod' },
    { effect: 'switchPrimary' },
  ],
};

function aRecord(change: Partial<StepRecord> = {}): StepRecord {
  return {
    v: 1,
    uid: 'shard-uid',
    key: 'drain-step/shard-uid/pod-uid',
    state: 'finished',
    generation: 3,
    attempt: 0,
    since: '2026-01-01T00:00:00Z',
    reason: 'MemberMayGo',
    wake: { every: 5 },
    data: { podUid: 'pod-uid' },
    ...change,
  };
}

function aTarget(record: StepRecord | null): KubeObject<'Shard'> {
  return {
    metadata: {
      name: 'orders',
      namespace: 'db',
      uid: 'shard-uid',
      resourceVersion: '7',
      generation: 3,
      annotations: record === null ? {} : { 'step.millrace.dev/drain-step': recordText(record) },
    },
  } as KubeObject<'Shard'> & Shard;
}

function advance(next: StepRecord | null, previous: StepRecord | null): Effect<'advance'> {
  return {
    kind: 'advance',
    record: next,
    guard: {
      uid: 'shard-uid',
      generation: 3,
      previous: previous === null ? null : recordText(previous),
    },
  };
}

const deletePod: Effect<'deleteObject'> = {
  kind: 'deleteObject',
  object: { kind: 'Pod', namespace: 'db', name: 'orders-2' },
  guard: {
    uid: 'pod-uid',
    resourceVersion: '100',
    recordKey: 'drain-step/shard-uid/pod-uid',
  },
};

/** A port that writes nowhere and tells what it was asked. */
function aWriter(answers: { swapAnnotation?: WriteResult } = {}) {
  const calls: unknown[][] = [];
  const record =
    (name: string, answer: WriteResult = written) =>
    async (...given: unknown[]) => {
      calls.push([name, ...given.slice(0, -1)]);
      return answer;
    };
  const writers: Writers = {
    kube: {
      get: async () => absent,
      swapAnnotation: record('swapAnnotation', answers.swapAnnotation),
      mergePatch: record('mergePatch'),
      applyStatus: record('applyStatus'),
      create: record('create'),
      delete: record('delete'),
    },
    topology: async () => ({ retire: record('retire') }),
    admin: async () => ({
      switchPrimary: async () => {
        calls.push(['switchPrimary']);
        return { kind: 'sent', detail: '' };
      },
    }),
  };
  return { calls, writers };
}

function anInvocation(change: Partial<Invocation> = {}): Invocation {
  return {
    clock: () => now,
    logger: createLogger('silent', {}),
    signal: new AbortController().signal,
    remainingMs: () => 30_000,
    ...change,
  };
}

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
    expect(calls).toEqual([]);
  });

  test('a decision with two destructive effects is a type error', () => {
    // @ts-expect-error at most one destructive effect, in the last place
    const twice: Decision = acting('MemberDeleted', '', [deletePod, deletePod]);
    // @ts-expect-error a kind the step does not declare
    const undeclared: Decision<'advance'> = acting('MemberDeleted', '', [], deletePod);

    expect([twice.outcome, undeclared.outcome]).toEqual(['acting', 'acting']);
  });
});
