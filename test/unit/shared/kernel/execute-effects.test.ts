import { describe, expect, test, vi } from 'vitest';
import { acting, blocked, settled, waiting } from '#shared/kernel/decision.ts';
import type { Decision } from '#shared/kernel/decision.ts';
import { type Effect, answerPlace } from '#shared/kernel/effect.ts';
import { RefusedEffect, RetryableError, TerminalError } from '#shared/kernel/errors.ts';
import { emitFailure, execute } from '#shared/kernel/execute.ts';
import { plusSeconds } from '#shared/kernel/instant.ts';
import { createLogger } from '#shared/kernel/logger.ts';
import { absent, present, unknown } from '#shared/kernel/read.ts';
import { maxRecordBytes, recordText } from '#shared/kernel/record.ts';
import type { StepDeclaration } from '#shared/kernel/step.ts';
import type { JsonObject } from '#shared/kube/json.ts';
import {
  type WriterAnswers,
  aRecord,
  aTarget,
  aWriter,
  advance,
  anInvocation,
  deletePod,
  now,
  step,
} from './an-execution.ts';

const shard = { kind: 'Shard', namespace: 'db', name: 'orders' } as const;
const pod = { kind: 'Pod', namespace: 'db', name: 'orders-2' } as const;
const database = { namespace: 'db', name: 'main', uid: 'database-uid' };
const shardKey = { database: 'postgres', tableGroup: 'default', shard: '0-inf' };
const recordKey = 'drain-step/shard-uid/pod-uid';

const patchPod: Effect<'patchObject'> = {
  kind: 'patchObject',
  object: pod,
  patch: { metadata: { annotations: { a: 'b' } } },
  guard: { uid: 'pod-uid', resourceVersion: '100' },
};

const applyStatus: Effect<'applyStatus'> = {
  kind: 'applyStatus',
  status: { a: 1 },
  guard: { uid: 'shard-uid', resourceVersion: '7' },
};

const switchPrimary: Effect<'switchPrimary'> = {
  kind: 'switchPrimary',
  database,
  shard: shardKey,
  reason: 'orders-2 is to leave',
  guard: { recordKey, sendBy: plusSeconds(now, 10) },
};

const retire: Effect<'topologyTxn'> = {
  kind: 'topologyTxn',
  database,
  operation: { kind: 'retirePooler', cell: 'zone-a', key: '/a/Pooler' },
  guard: { modRevision: '42', recordKey },
};

const rewrite: Effect<'topologyTxn'> = {
  ...retire,
  operation: {
    kind: 'rewriteDatabase',
    name: 'postgres',
    change: { place: { type: 'filesystem', path: '/backups' }, mustEncrypt: null },
  },
};

function removeUnder(recordKey: string): Effect<'topologyTxn'> {
  return {
    kind: 'topologyTxn',
    database,
    operation: { kind: 'removePooler', cell: 'zone-a', key: '/a/Pooler' },
    guard: { modRevision: '42', recordKey },
  };
}

const putOwner: Effect<'putRepositoryObject'> = {
  kind: 'putRepositoryObject',
  database,
  key: 'millrace-owner.json',
  text: '{}',
  guard: { ifNoneMatch: '*' },
};

function createOf(
  metadata: JsonObject,
  kind: 'Pod' | 'PersistentVolumeClaim' = 'Pod',
): Effect<'createObject'> {
  return {
    kind: 'createObject',
    object: { kind, namespace: 'db', name: 'orders-2' },
    manifest: { metadata },
    guard: { absent: true },
  };
}

const owned = { ownerReferences: [{ uid: 'shard-uid', controller: true }] };

function anEvent(message: string): Effect<'emitEvent'> {
  return { kind: 'emitEvent', type: 'Warning', reason: 'DrainStuck', message };
}

function unchecked(decision: unknown): Decision {
  return decision as Decision;
}

describe('the record', () => {
  test('is swapped under uid, generation and the text that was read', async () => {
    const { calls, writers } = aWriter();
    const next = aRecord({ state: 'requested' });

    await execute(
      step,
      aTarget(aRecord()),
      acting('BecamePrimary', '', [advance(next, aRecord())]),
      writers,
      anInvocation(),
    );

    expect(calls).toEqual([
      [
        'swapAnnotation',
        shard,
        {
          key: 'step.millrace.dev/drain-step',
          next: recordText(next),
          uid: 'shard-uid',
          generation: 3,
          previous: recordText(aRecord()),
        },
        expect.objectContaining({ resourceVersion: '7', hasAnnotations: true }),
      ],
    ]);
  });

  test('is cleared by swapping it for nothing', async () => {
    const { calls, writers } = aWriter();

    const execution = await execute(
      step,
      aTarget(aRecord()),
      settled('NobodyLeaves', '', [advance(null, aRecord())]),
      writers,
      anInvocation(),
    );

    expect(execution).toEqual({ kind: 'done', effects: ['advance'] });
    expect(calls[0]?.[2]).toMatchObject({ next: null, previous: recordText(aRecord()) });
  });

  test('that moves twice goes on from what the first move wrote, and in the version it returned', async () => {
    const { calls, writers } = aWriter();
    const first = aRecord({ state: 'requested' });
    const second = aRecord({ state: 'draining' });

    const execution = await execute(
      step,
      aTarget(null),
      acting('GatesHold', '', [advance(first, null), advance(second, first)]),
      writers,
      anInvocation(),
    );

    expect(execution).toEqual({ kind: 'done', effects: ['advance', 'advance'] });
    expect(calls[0]?.[3]).toMatchObject({ resourceVersion: '7', hasAnnotations: false });
    expect(calls[1]?.[3]).toMatchObject({ resourceVersion: '8', hasAnnotations: true });
  });

  test('that lost its race leaves the view as it was', async () => {
    const { calls, writers } = aWriter({ swapAnnotation: { kind: 'lostRace', why: 'moved' } });

    const execution = await execute(
      step,
      aTarget(null),
      acting('MemberChosen', '', [advance(aRecord(), null), applyStatus]),
      writers,
      anInvocation(),
    );

    expect(execution).toEqual({ kind: 'lostRace', why: 'moved', effects: [] });
    expect(calls.map(([name]) => name)).toEqual(['swapAnnotation']);
  });

  test('of a target that has no annotations at all is written as into one that has none', async () => {
    const { calls, writers } = aWriter();
    const target = aTarget(null);
    const { annotations: _none, ...metadata } = target.metadata;

    await execute(
      step,
      { ...target, metadata },
      acting('MemberChosen', '', [advance(aRecord(), null)]),
      writers,
      anInvocation(),
    );

    expect(calls[0]?.[2]).toMatchObject({ previous: null });
    expect(calls[0]?.[3]).toMatchObject({ hasAnnotations: false });
  });

  test('may have exactly as many bytes as fit', async () => {
    const empty = Buffer.byteLength(recordText(aRecord({ data: '' })));
    const largest = aRecord({ data: 'x'.repeat(maxRecordBytes - empty) });
    const { calls, writers } = aWriter();

    await execute(
      step,
      aTarget(null),
      acting('MemberChosen', '', [advance(largest, null)]),
      writers,
      anInvocation(),
    );

    expect(calls).toHaveLength(1);
  });
});

describe('the status', () => {
  test('is applied by the step under the version that was read, and the next one under the version returned', async () => {
    const { calls, writers } = aWriter();

    const execution = await execute(
      step,
      aTarget(null),
      settled('NobodyLeaves', '', [applyStatus, applyStatus]),
      writers,
      anInvocation(),
    );

    expect(execution).toEqual({ kind: 'done', effects: ['applyStatus', 'applyStatus'] });
    expect(calls).toEqual([
      ['applyStatus', shard, { a: 1 }, 'drain-step', { uid: 'shard-uid', resourceVersion: '7' }],
      ['applyStatus', shard, { a: 1 }, 'drain-step', { uid: 'shard-uid', resourceVersion: '8' }],
    ]);
  });

  test('that lost its race ends the execution, and says what was written before', async () => {
    const { calls, writers } = aWriter({ applyStatus: { kind: 'lostRace', why: 'newer' } });

    const execution = await execute(
      step,
      aTarget(null),
      acting('MemberChosen', '', [advance(aRecord(), null), applyStatus, anEvent('x')]),
      writers,
      anInvocation(),
    );

    expect(execution).toEqual({ kind: 'lostRace', why: 'newer', effects: ['advance'] });
    expect(calls.map(([name]) => name)).toEqual(['swapAnnotation', 'applyStatus']);
  });

  test.each([
    ['what is behind it loses', { applyStatus: { kind: 'lostRace', why: 'newer' } }, 1],
    ['it loses itself', { swapAnnotation: { kind: 'lostRace', why: 'moved' } }, 0],
  ] as const)('counts are told with the record: where %s', async (_, answers, told) => {
    const lines: string[] = [];
    const logger = createLogger('trace', {}, { write: (line: string) => lines.push(line) });
    const { writers } = aWriter(answers);
    const next = aRecord();

    await execute(
      step,
      aTarget(null),
      {
        ...acting('MemberChosen', 'm', [advance(next, null), applyStatus]),
        counts: [{ metric: 'pooler_records_cleaned_total', labels: { move: 'marked' }, count: 1 }],
      },
      writers,
      anInvocation({ logger }),
    );

    expect(lines.filter((line) => line.includes('"counted"'))).toHaveLength(told);
  });
});

describe('an object', () => {
  test('is patched under its own uid and version', async () => {
    const { calls, writers } = aWriter();

    const execution = await execute(
      step,
      aTarget(null),
      acting('GatesHold', '', [patchPod]),
      writers,
      anInvocation(),
    );

    expect(execution).toEqual({ kind: 'done', effects: ['patchObject'] });
    expect(calls).toEqual([['mergePatch', pod, patchPod.patch, patchPod.guard]]);
  });

  test('is created where nothing has its name', async () => {
    const { calls, writers } = aWriter();

    const execution = await execute(
      step,
      aTarget(null),
      acting('ObjectsMade', '', [createOf(owned)]),
      writers,
      anInvocation(),
    );

    expect(execution).toEqual({ kind: 'done', effects: ['createObject'] });
    expect(calls).toEqual([['create', pod, { metadata: owned }]]);
  });

  const labels = { app: 'orders', pool: 'main' };
  test.each([
    ['has the same controller', owned, { ...owned, labels: { app: 'orders' } }],
    [
      'has the same controller beside another owner',
      owned,
      { ownerReferences: [{ uid: 'node-uid' }, ...owned.ownerReferences] },
    ],
    ['has no controller by design, and every label', { labels }, { labels: { ...labels, b: 'c' } }],
    ['has neither, as it was asked for', {}, { labels }],
  ])('that stands already counts as made where it %s', async (_what, wanted, found) => {
    const metadata = { ...found, resourceVersion: '55' };
    const { writers } = aWriter({ standing: present({ metadata }) });

    const execution = await execute(
      step,
      aTarget(null),
      acting('ObjectsMade', '', [createOf(wanted)]),
      writers,
      anInvocation(),
    );

    expect(execution).toEqual({ kind: 'done', effects: ['createObject'] });
  });

  test.each([
    ['has another controller', owned, { ownerReferences: [{ uid: 'b', controller: true }] }],
    ['has an owner that does not control it', owned, { ownerReferences: [{ uid: 'shard-uid' }] }],
    ['has no owner', owned, {}],
    ['has a controller where none was meant', { labels }, { ...owned, labels }],
    ['lacks a label', { labels }, { labels: { app: 'orders' } }],
    ['has another value in a label', { labels }, { labels: { ...labels, pool: 'b' } }],
    ['has no labels', { labels }, {}],
  ])("that stands already is somebody else's where it %s", async (_what, wanted, found) => {
    const { writers } = aWriter({ standing: present({ metadata: found }) });

    const execution = await execute(
      step,
      aTarget(null),
      acting('ObjectsMade', '', [createOf(wanted)]),
      writers,
      anInvocation(),
    );

    expect(execution).toEqual({
      kind: 'lostRace',
      why: 'Pod orders-2 exists and is not the one to create',
      effects: [],
    });
  });

  test.each([
    ['is gone by now', absent],
    ['cannot be read', unknown('403 Forbidden')],
  ])('that stood in the way and %s is looked at anew', async (_what, standing) => {
    const { writers } = aWriter({ standing });

    const execution = await execute(
      step,
      aTarget(null),
      acting('ObjectsMade', '', [createOf(owned)]),
      writers,
      anInvocation(),
    );

    expect(execution).toMatchObject({ kind: 'lostRace' });
  });

  test('that is to be deleted and has changed is a race lost', async () => {
    const { writers } = aWriter({ delete: { kind: 'lostRace', why: '409 Conflict' } });

    const execution = await execute(
      step,
      aTarget(aRecord()),
      acting('MemberDeleted', '', [], deletePod),
      writers,
      anInvocation(),
    );

    expect(execution).toEqual({ kind: 'lostRace', why: '409 Conflict', effects: [] });
  });
});

describe('the data plane', () => {
  test('has a record retired under the mod revision that was read', async () => {
    const { calls, writers } = aWriter();

    const execution = await execute(
      step,
      aTarget(aRecord()),
      acting('SilentMemberRetired', '', [], retire),
      writers,
      anInvocation(),
    );

    expect(execution).toEqual({ kind: 'done', effects: ['topologyTxn'] });
    expect(calls).toEqual([
      ['topology', database],
      ['retire', retire.operation, '42'],
    ]);
  });

  test('has a record deleted under the mod revision that was read, which its own record names', async () => {
    const { calls, writers } = aWriter();
    const key = 'drain-step/shard-uid/1f2e3d4c/42';

    const execution = await execute(
      step,
      aTarget(aRecord({ key })),
      acting('PoolerToDelete', '', [], removeUnder(key)),
      writers,
      anInvocation(),
    );

    expect(execution).toEqual({ kind: 'done', effects: ['topologyTxn'] });
    expect(calls).toEqual([
      ['topology', database],
      ['remove', { kind: 'removePooler', cell: 'zone-a', key: '/a/Pooler' }, '42'],
    ]);
  });

  test('has the record of the database rewritten under the mod revision that was read', async () => {
    const { calls, writers } = aWriter();

    const execution = await execute(
      step,
      aTarget(aRecord()),
      acting('RepositoryApplied', '', [], rewrite),
      writers,
      anInvocation(),
    );

    expect(execution).toEqual({ kind: 'done', effects: ['topologyTxn'] });
    expect(calls).toEqual([
      ['topology', database],
      [
        'rewriteDatabase',
        'postgres',
        { place: { type: 'filesystem', path: '/backups' }, mustEncrypt: null },
        '42',
      ],
    ]);
  });

  test('that holds another revision by now is a race lost', async () => {
    const { writers } = aWriter({ retire: { kind: 'lostRace', why: 'at 43 now' } });

    const execution = await execute(
      step,
      aTarget(aRecord()),
      acting('SilentMemberRetired', '', [], retire),
      writers,
      anInvocation(),
    );

    expect(execution).toEqual({ kind: 'lostRace', why: 'at 43 now', effects: [] });
  });

  test('is asked for a switchover once, whatever it answers (X9)', async () => {
    const { calls, writers } = aWriter({
      switchPrimary: { kind: 'unknown', why: 'the connection broke' },
    });

    const execution = await execute(
      step,
      aTarget(aRecord()),
      acting('SwitchoverAsked', '', [], switchPrimary),
      writers,
      anInvocation(),
    );

    expect(execution).toEqual({ kind: 'done', effects: ['switchPrimary'] });
    expect(calls).toEqual([
      ['admin', database],
      ['switchPrimary', shardKey, 'orders-2 is to leave'],
    ]);
  });

  test.each([
    ['a millisecond before', 9_999, 'done'],
    ['at', 10_000, 'refused'],
    ['after', 10_001, 'refused'],
  ])('is asked or not %s the send-by instant (X9)', async (_when, afterMs, ending) => {
    const { calls, writers } = aWriter();

    const execution = execute(
      step,
      aTarget(aRecord()),
      acting('SwitchoverAsked', '', [], switchPrimary),
      writers,
      anInvocation({ clock: () => plusSeconds(now, afterMs / 1000) }),
    );

    await (ending === 'done'
      ? expect(execution).resolves.toMatchObject({ kind: 'done' })
      : expect(execution).rejects.toMatchObject({
          reason: 'SendByPassed',
          message: expect.stringContaining('2026-01-01T00:00:10Z'),
        }));
    expect(calls.some(([name]) => name === 'switchPrimary')).toBe(ending === 'done');
  });

  test('answers go to the log', async () => {
    const { writers } = aWriter({ switchPrimary: { kind: 'refused', why: 'no standby' } });
    const logger = createLogger('silent', {});
    const info = vi.spyOn(logger, 'info');

    await execute(
      step,
      aTarget(aRecord()),
      acting('SwitchoverAsked', '', [], switchPrimary),
      writers,
      anInvocation({ logger }),
    );

    expect(info).toHaveBeenCalledWith(
      { result: { kind: 'refused', why: 'no standby' } },
      'switchover asked for',
    );
  });
});

describe('a backup', () => {
  const asked = aRecord({ state: 'asked', data: { podUid: 'pod-uid', job: null } });
  const startBackup: Effect<'startBackup'> = {
    kind: 'startBackup',
    database,
    shard: shardKey,
    type: 'full',
    answered: {
      started: aRecord({ state: 'running', data: { job: answerPlace } }),
      refused: aRecord({ state: 'refused', data: { refused: answerPlace } }),
    },
    guard: { recordKey, sendBy: plusSeconds(now, 10) },
  };

  function start(answers: WriterAnswers = {}, change: Partial<Effect<'startBackup'>> = {}) {
    const { calls, writers } = aWriter(answers);
    const before = aRecord({ state: 'idle' });
    const decision = acting('BackupAsked', '', [advance(asked, before)], {
      ...startBackup,
      ...change,
    });
    return { calls, execution: execute(step, aTarget(before), decision, writers, anInvocation()) };
  }

  /** The records in the order in which they were written, each with what it was compared with. */
  function recordsOf(calls: readonly unknown[][]) {
    return calls
      .filter(([name]) => name === 'swapAnnotation')
      .map(([, , change]) => change as { next: string; previous: string; uid: string });
  }

  test('is asked for once, and its job is written under the intent’s own text (X2, X9)', async () => {
    const { calls, execution } = start({ startBackup: { kind: 'started', job: 'job-1' } });

    expect(await execution).toEqual({ kind: 'done', effects: ['advance', 'startBackup'] });
    expect(calls.filter(([name]) => name === 'startBackup')).toEqual([
      ['startBackup', shardKey, 'full'],
    ]);
    const [, answered] = recordsOf(calls);
    expect(answered).toMatchObject({
      previous: recordText(asked),
      uid: 'shard-uid',
      generation: 3,
      next: recordText(aRecord({ state: 'running', data: { job: 'job-1' } })),
    });
  });

  test('that is refused leaves why, in plain characters and not too many', async () => {
    const { calls, execution } = start({
      startBackup: { kind: 'refused', why: `"no"\n${'x'.repeat(200)}` },
    });

    await execution;

    const { data } = JSON.parse(recordsOf(calls)[1]?.next ?? '') as { data: { refused: string } };
    expect(data.refused).toBe(`?no??${'x'.repeat(123)}`);
  });

  test('without an answer leaves the intent as it is', async () => {
    const { calls, execution } = start({ startBackup: { kind: 'unknown', why: 'no answer' } });

    expect(await execution).toMatchObject({ kind: 'done' });
    expect(recordsOf(calls)).toHaveLength(1);
  });

  test('is not asked for when the intent lost its race', async () => {
    const { calls, execution } = start({ swapAnnotation: { kind: 'lostRace', why: 'moved' } });

    expect(await execution).toMatchObject({ kind: 'lostRace' });
    expect(calls.map(([name]) => name)).toEqual(['swapAnnotation']);
  });

  test.each([
    ['goes into another record', { started: aRecord({ key: 'drain-step/shard-uid/other' }) }],
    ['has no place to go', { started: aRecord() }],
    ['has two', { started: aRecord({ data: [answerPlace, answerPlace] }) }],
    ['would not fit', { refused: aRecord({ data: [answerPlace, 'x'.repeat(800)] }) }],
  ])('is refused whose answer %s, before anything is written', async (_, answered) => {
    const { calls, execution } = start({}, { answered: { ...startBackup.answered, ...answered } });

    await expect(execution).rejects.toBeInstanceOf(RefusedEffect);
    expect(calls).toEqual([]);
  });
});

describe('a Job', () => {
  const asked = aRecord({ state: 'asked', data: { podUid: 'pod-uid', job: null } });
  const labels = { 'millrace.dev/slot': 'one' };
  const owner = { uid: 'shard-uid', controller: true };
  const startJob: Effect<'startJob'> = {
    kind: 'startJob',
    object: { kind: 'Job', namespace: 'db', name: 'a-job' },
    manifest: { metadata: { labels, ownerReferences: [owner] } },
    answered: {
      started: aRecord({ state: 'running', data: { job: answerPlace } }),
      refused: aRecord({ state: 'refused', data: { refused: answerPlace } }),
    },
    guard: { recordKey, sendBy: plusSeconds(now, 10) },
  };

  function start(answers: WriterAnswers = {}, change: Partial<Effect<'startJob'>> = {}) {
    const { calls, writers } = aWriter(answers);
    const before = aRecord({ state: 'idle' });
    const decision = acting('BackupAsked', '', [advance(asked, before)], {
      ...startJob,
      ...change,
    });
    return { calls, execution: execute(step, aTarget(before), decision, writers, anInvocation()) };
  }

  function recordsOf(calls: readonly unknown[][]): string[] {
    return calls
      .filter(([name]) => name === 'swapAnnotation')
      .map(([, , change]) => (change as { next: string }).next);
  }

  test('is made once, and its name is written under the intent’s own text (X2, X9)', async () => {
    const { calls, execution } = start();

    expect(await execution).toEqual({ kind: 'done', effects: ['advance', 'startJob'] });
    expect(calls.map(([name]) => name)).toEqual(['swapAnnotation', 'create', 'swapAnnotation']);
    expect(calls[2]?.[2]).toMatchObject({
      previous: recordText(asked),
      next: recordText(aRecord({ state: 'running', data: { job: 'a-job' } })),
    });
  });

  test('that is there already is the one to make if owner and labels are', async () => {
    const ours = start({ standing: present({ metadata: { labels, ownerReferences: [owner] } }) });
    const others = [
      present({ metadata: { labels: {}, ownerReferences: [owner] } }),
      present({ metadata: { labels } }),
      unknown('no answer'),
    ].map((standing) => start({ standing }));

    await ours.execution;
    expect(recordsOf(ours.calls)).toHaveLength(2);
    for (const { calls, execution } of others) {
      expect(await execution).toMatchObject({ kind: 'done' });
      expect(recordsOf(calls)).toHaveLength(1);
    }
  });

  test.each([
    ['invalid', new TerminalError('WriteInvalid', 'writing Job db/a-job: 422 Invalid (spec: No)')],
    [
      'forbidden',
      new RetryableError('WriteForbidden', 'writing Job db/a-job: 422 Invalid (spec: No)'),
    ],
  ])('that the API server finds %s leaves why, without its name', async (_, createFails) => {
    const { calls, execution } = start({ createFails });

    expect(await execution).toMatchObject({ kind: 'done' });
    expect(recordsOf(calls)[1]).toBe(
      recordText(aRecord({ state: 'refused', data: { refused: '422 Invalid (spec: No)' } })),
    );
  });

  test('without an answer leaves the intent as it is, and the message comes again', async () => {
    const { calls, execution } = start({
      createFails: new RetryableError('WriteOutcomeUnknown', 'no answer'),
    });

    await expect(execution).rejects.toThrow('no answer');
    expect(recordsOf(calls)).toHaveLength(1);
  });

  test('is not made at or after its send-by instant', async () => {
    const { calls, execution } = start({}, { guard: { recordKey, sendBy: now } });

    await expect(execution).rejects.toMatchObject({ reason: 'SendByPassed' });
    expect(calls.map(([name]) => name)).toEqual(['swapAnnotation']);
  });

  test('is not made when the intent lost its race', async () => {
    const { calls, execution } = start({ swapAnnotation: { kind: 'lostRace', why: 'moved' } });

    expect(await execution).toMatchObject({ kind: 'lostRace' });
    expect(calls.map(([name]) => name)).toEqual(['swapAnnotation']);
  });

  test.each([
    ['a record that does not name it', { guard: { recordKey: 'other', sendBy: now } }],
    ['an answer with no place to go', { answered: { ...startJob.answered, started: aRecord() } }],
  ])('is refused with %s, before anything is written', async (_, change) => {
    const { calls, execution } = start({}, change);

    await expect(execution).rejects.toBeInstanceOf(RefusedEffect);
    expect(calls).toEqual([]);
  });
});

test('a step may declare a longer record than others', async () => {
  const long = aRecord({ data: 'x'.repeat(1500) });
  const run = (recordBytes?: number) =>
    execute(
      { ...step, ...(recordBytes === undefined ? {} : { recordBytes }) },
      aTarget(null),
      acting('GatesHold', '', [advance(long, null)]),
      aWriter().writers,
      anInvocation(),
    );

  await expect(run()).rejects.toThrow('1024 are the most');
  await expect(run(2048)).resolves.toMatchObject({ kind: 'done' });
});

describe('an Event', () => {
  async function emitted(
    effect: Effect<'emitEvent'>,
    target = aTarget(aRecord()),
  ): Promise<{ ref: { name: string }; manifest: JsonObject }> {
    const { calls, writers } = aWriter();
    await execute(step, target, acting('DrainForced', '', [effect]), writers, anInvocation());
    const [, ref, manifest] = calls[0] ?? [];
    return { ref: ref as { name: string }, manifest: manifest as JsonObject };
  }

  test('says who is meant, by whom, why and when', async () => {
    const { ref, manifest } = await emitted(anEvent('no standby is ready'));

    expect(ref).toEqual({
      kind: 'Event',
      namespace: 'db',
      name: expect.stringMatching(/^orders\.[0-9a-f]{16}$/),
    });
    expect(manifest).toEqual({
      metadata: { name: ref.name, namespace: 'db' },
      involvedObject: {
        apiVersion: 'millrace.dev/v1alpha1',
        kind: 'Shard',
        name: 'orders',
        namespace: 'db',
        uid: 'shard-uid',
      },
      type: 'Warning',
      reason: 'DrainStuck',
      message: 'no standby is ready',
      action: 'DrainStuck',
      reportingComponent: 'millrace.dev',
      reportingInstance: 'drain-step',
      source: { component: 'drain-step' },
      firstTimestamp: '2026-01-01T00:00:00Z',
      lastTimestamp: '2026-01-01T00:00:00Z',
      count: 1,
    });
  });

  test('about an object outside of namespaces has none', async () => {
    const target = aTarget(aRecord());
    const { namespace: _none, ...metadata } = target.metadata;

    const { ref, manifest } = await emitted(anEvent('x'), { ...target, metadata });

    expect(ref).not.toHaveProperty('namespace');
    expect(manifest['metadata']).not.toHaveProperty('namespace');
    expect(manifest['involvedObject']).not.toHaveProperty('namespace');
  });

  test('that says the same under the same record has the same name, and any other another', async () => {
    const { ref } = await emitted(anEvent('x'));
    const again = await emitted(anEvent('x'));
    const others = await Promise.all([
      emitted(anEvent('y')),
      emitted({ ...anEvent('x'), reason: 'DrainForced' }),
      emitted(anEvent('x'), aTarget(null)),
      emitted(anEvent('x'), aTarget(aRecord({ key: 'drain-step/shard-uid/other' }))),
    ]);

    expect(again.ref.name).toBe(ref.name);
    expect(new Set([ref.name, ...others.map((other) => other.ref.name)]).size).toBe(5);
  });

  test.each([['garbage'], ['null'], ['7'], ['{}'], ['{"key":7}']])(
    'is written under a record that has no key, such as %s, as under none',
    async (text) => {
      const target = aTarget(null);
      const annotations = { 'step.millrace.dev/drain-step': text };

      const { ref } = await emitted(anEvent('x'), {
        ...target,
        metadata: { ...target.metadata, annotations },
      });

      expect(ref.name).toBe((await emitted(anEvent('x'), target)).ref.name);
    },
  );

  test.each([
    ['info', 'Normal', {}],
    ['warn', 'Warning', {}],
    ['error', 'Warning', { level: 'error' }],
  ] as const)('is told by the log too, at the level %s', async (level, type, more) => {
    const { writers } = aWriter();
    const logger = createLogger('silent', {});
    const line = vi.spyOn(logger, level);
    const effect = { ...anEvent('no standby is ready'), type, ...more };

    await execute(
      step,
      aTarget(null),
      acting('DrainForced', '', [effect]),
      writers,
      anInvocation({ logger }),
    );

    expect(line).toHaveBeenCalledWith(
      { reason: 'DrainStuck', message: 'no standby is ready' },
      'event',
    );
  });

  test('has the first kibibyte of a long message', async () => {
    const { manifest } = await emitted(anEvent('m'.repeat(2_000)));

    expect(manifest['message']).toBe('m'.repeat(1_024));
  });

  test.each([new RetryableError('ApiServerBusy', 'busy'), new TerminalError('WriteInvalid', 'no')])(
    'that cannot be written stops nothing and goes to the log: %s',
    async (createFails) => {
      const { writers } = aWriter({ createFails });
      const logger = createLogger('silent', {});
      const warn = vi.spyOn(logger, 'warn');

      const execution = await execute(
        step,
        aTarget(null),
        acting('DrainForced', '', [anEvent('x'), applyStatus]),
        writers,
        anInvocation({ logger }),
      );

      expect(execution).toEqual({ kind: 'done', effects: ['emitEvent', 'applyStatus'] });
      expect(warn).toHaveBeenCalledWith(
        { reason: createFails.reason, why: createFails.message },
        'event not emitted',
      );
    },
  );

  test('that meets a defect does not hide it', async () => {
    const { writers } = aWriter({ createFails: new TypeError('a defect') });

    const execution = execute(
      step,
      aTarget(null),
      acting('DrainForced', '', [anEvent('x')]),
      writers,
      anInvocation(),
    );

    await expect(execution).rejects.toThrow(TypeError);
  });

  test('tells of a look that ended for good', async () => {
    const { calls, writers } = aWriter();

    await emitFailure(
      step,
      aTarget(aRecord()),
      new TerminalError('WriteInvalid', 'the API server refuses the pod'),
      writers,
      anInvocation(),
    );

    expect(calls).toEqual([
      [
        'create',
        expect.objectContaining({ kind: 'Event' }),
        expect.objectContaining({
          type: 'Warning',
          reason: 'WriteInvalid',
          message: 'the API server refuses the pod',
        }),
      ],
    ]);
  });
});

describe('a repository', () => {
  test.each([
    ['is not there', { ifNoneMatch: '*' }],
    ['is the version that was read', { ifMatch: '"1"' }],
  ] as const)('has an object written under the condition that it %s', async (_what, guard) => {
    const { calls, writers } = aWriter();

    const execution = await execute(
      step,
      aTarget(null),
      acting('RepositoryClaimed', '', [{ ...putOwner, guard }]),
      writers,
      anInvocation(),
    );

    expect(execution).toEqual({ kind: 'done', effects: ['putRepositoryObject'] });
    expect(calls).toEqual([
      ['repository', database],
      ['put', 'millrace-owner.json', '{}', guard],
    ]);
  });

  test('whose object is another by now is a race lost, and nothing comes after it', async () => {
    const { calls, writers } = aWriter({ put: { kind: 'lostRace', why: '412' } });

    const execution = await execute(
      step,
      aTarget(aRecord()),
      acting('RepositoryClaimed', '', [putOwner], rewrite),
      writers,
      anInvocation(),
    );

    expect(execution).toEqual({ kind: 'lostRace', why: '412', effects: [] });
    expect(calls.map(([name]) => name)).toEqual(['repository', 'put']);
  });

  test.each([
    ['no condition', {}],
    ['an empty condition', { ifMatch: '' }],
  ])('has no object written under %s', async (_what, guard) => {
    const { calls, writers } = aWriter();

    const execution = execute(
      step,
      aTarget(null),
      unchecked(acting('RepositoryClaimed', '', [{ ...putOwner, guard } as typeof putOwner])),
      writers,
      anInvocation(),
    );

    await expect(execution).rejects.toThrow('putRepositoryObject has an empty guard');
    expect(calls).toEqual([]);
  });
});

describe('the time left', () => {
  test.each([
    ['advance', 3_000, acting('GatesHold', '', [advance(aRecord(), aRecord())])],
    ['patchObject', 3_000, acting('GatesHold', '', [patchPod])],
    ['applyStatus', 3_000, settled('NobodyLeaves', '', [applyStatus])],
    ['createObject', 3_000, acting('ObjectsMade', '', [createOf(owned)])],
    ['emitEvent', 2_000, acting('DrainForced', '', [anEvent('x')])],
    ['deleteObject', 3_000, acting('MemberDeleted', '', [], deletePod)],
    ['topologyTxn', 8_000, acting('SilentMemberRetired', '', [], retire)],
    ['putRepositoryObject', 8_000, acting('RepositoryClaimed', '', [putOwner])],
    ['switchPrimary', 10_000, acting('SwitchoverAsked', '', [], switchPrimary)],
  ])('must be enough for %s: %d ms (P6)', async (kind, neededMs, decision) => {
    const { calls, writers } = aWriter();
    const run = (remainingMs: number) =>
      execute(
        step,
        aTarget(aRecord()),
        decision,
        writers,
        anInvocation({ remainingMs: () => remainingMs }),
      );

    await expect(run(neededMs - 1)).rejects.toMatchObject({
      reason: 'OutOfTime',
      afterSeconds: 1,
      message: expect.stringContaining(kind),
    });
    expect(calls).toEqual([]);
    await expect(run(neededMs)).resolves.toMatchObject({ kind: 'done' });
  });

  test('is asked for before each effect, and what was written stays written', async () => {
    const { calls, writers } = aWriter();
    const left = [30_000, 100];

    const execution = execute(
      step,
      aTarget(null),
      acting('MemberChosen', '', [advance(aRecord(), null), applyStatus]),
      writers,
      anInvocation({ remainingMs: () => left.shift() ?? 0 }),
    );

    await expect(execution).rejects.toBeInstanceOf(RetryableError);
    expect(calls.map(([name]) => name)).toEqual(['swapAnnotation']);
  });
});

describe('what breaks a rule is refused by name', () => {
  const podOnly: StepDeclaration = { ...step, writes: [{ effect: 'patchObject', kind: 'Pod' }] };
  const mirrorOnly: StepDeclaration = {
    ...step,
    writes: [{ effect: 'patchObject', kind: 'Pod', annotations: ['mirror'] }],
  };

  test.each([
    [
      'an effect that is not declared',
      podOnly,
      null,
      settled('NobodyLeaves', '', [applyStatus]),
      'drain-step does not declare applyStatus',
    ],
    [
      'a declared effect on another kind of object',
      podOnly,
      null,
      acting('GatesHold', '', [{ ...patchPod, object: shard }]),
      'drain-step does not declare patchObject of Shard',
    ],
    [
      'an annotation that is not declared',
      mirrorOnly,
      null,
      acting('GatesHold', '', [
        { ...patchPod, patch: { metadata: { annotations: { mirror: 'a', another: 'b' } } } },
      ]),
      'drain-step declares a patch of Pod that writes less than this one',
    ],
    [
      'a label where annotations are declared',
      mirrorOnly,
      null,
      acting('GatesHold', '', [
        { ...patchPod, patch: { metadata: { annotations: { mirror: 'a' }, labels: { a: 'b' } } } },
      ]),
      'drain-step declares a patch of Pod that writes less than this one',
    ],
    [
      'a spec where annotations are declared',
      mirrorOnly,
      null,
      acting('GatesHold', '', [{ ...patchPod, patch: { spec: { paused: true } } }]),
      'drain-step declares a patch of Pod that writes less than this one',
    ],
    [
      'a destructive effect that is not the last',
      step,
      aRecord(),
      { outcome: 'acting', reason: 'x', message: '', effects: [deletePod, applyStatus] },
      'deleteObject must be the last effect of an acting decision, and the only one of its sort',
    ],
    [
      'a destructive effect without a guard',
      step,
      aRecord(),
      acting('MemberDeleted', '', [], unguarded(deletePod)),
      'deleteObject has no authorising record',
    ],
    [
      'a destructive effect whose guard names no record',
      step,
      aRecord(),
      acting('MemberDeleted', '', [], guardedBy(deletePod, { uid: 'pod-uid' })),
      'deleteObject has no authorising record',
    ],
    [
      'a destructive effect on nobody',
      step,
      aRecord(),
      acting('MemberDeleted', '', [], guardedBy(deletePod, { ...deletePod.guard, uid: '' })),
      'the record in force does not authorise deleteObject',
    ],
    [
      'a destructive effect under an empty key',
      step,
      aRecord({ key: '' }),
      acting('MemberDeleted', '', [], guardedBy(deletePod, { ...deletePod.guard, recordKey: '' })),
      'the record in force does not authorise deleteObject',
    ],
    [
      'a retirement under another record',
      step,
      aRecord({ key: 'drain-step/shard-uid/other' }),
      acting('SilentMemberRetired', '', [], retire),
      'the record in force does not authorise topologyTxn',
    ],
    [
      'a record’s deletion under one of ours that names no revision, or another',
      step,
      aRecord({ key: 'drain-step/shard-uid/142' }),
      acting('PoolerToDelete', '', [], removeUnder('drain-step/shard-uid/142')),
      'the record in force does not name the revision that is to be deleted',
    ],
    [
      'a delete under a record that the same decision clears',
      step,
      aRecord(),
      acting('MemberDeleted', '', [advance(null, aRecord())], deletePod),
      'the record in force does not authorise deleteObject',
    ],
    [
      'a guard with an empty part',
      step,
      null,
      acting('GatesHold', '', [guardedBy(patchPod, { uid: '', resourceVersion: '1' })]),
      'patchObject has an empty guard',
    ],
    [
      'a guard with a part that is not there',
      step,
      null,
      acting('GatesHold', '', [guardedBy(patchPod, { uid: 'a', resourceVersion: undefined })]),
      'patchObject has an empty guard',
    ],
    [
      'a guard with a part that is null',
      step,
      null,
      acting('GatesHold', '', [guardedBy(patchPod, { uid: 'a', resourceVersion: null })]),
      'patchObject has an empty guard',
    ],
    [
      'an advance from another record',
      step,
      aRecord(),
      acting('GatesHold', '', [advance(aRecord(), null)]),
      'advance must be guarded by the uid and the record that this look read',
    ],
    [
      'a record with another uid',
      step,
      null,
      acting('GatesHold', '', [advance(aRecord({ uid: 'other' }), null)]),
      "the record's key drain-step/shard-uid/pod-uid does not name this step and target",
    ],
    [
      'a record with the key of another target',
      step,
      null,
      acting('GatesHold', '', [advance(aRecord({ key: 'drain-step/other/pod-uid' }), null)]),
      "the record's key drain-step/other/pod-uid does not name this step and target",
    ],
    [
      'a record of one byte too many',
      step,
      null,
      acting('GatesHold', '', [advance(ofBytes(maxRecordBytes + 1), null)]),
      'the record has 1025 bytes, 1024 are the most',
    ],
    [
      'a wait whose record is cleared',
      step,
      aRecord(),
      waiting('Settling', '', { every: 5 }, [advance(null, aRecord())]),
      'waiting for Settling, but no record in force carries its wake',
    ],
    [
      'a block whose record has no wake',
      step,
      recordWithoutWake(),
      blocked('QuorumTooSmall', '', 'more members', { every: 60 }),
      'blocked for QuorumTooSmall, but no record in force carries its wake',
    ],
  ])('%s', async (_what, declared, record, decision, message) => {
    const { calls, writers } = aWriter();

    const execution = execute(
      declared,
      aTarget(record),
      unchecked(decision),
      writers,
      anInvocation(),
    );

    const refusal = expect.objectContaining({ name: 'RefusedEffect', message });
    await expect(execution).rejects.toEqual(refusal);
    expect(calls).toEqual([]);
  });

  test('an effect that is declared together with the kind of its target is not', async () => {
    const { writers } = aWriter();
    const declared: StepDeclaration = {
      ...step,
      writes: [{ effect: 'applyStatus', kind: 'Shard' }],
    };

    const execution = execute(
      declared,
      aTarget(null),
      settled('NobodyLeaves', '', [applyStatus]),
      writers,
      anInvocation(),
    );

    await expect(execution).resolves.toMatchObject({ kind: 'done' });
  });

  test.each([
    ['a delete under the record that the same decision writes', null, deleteAfter(aRecord())],
    ['a wait under the record that stands', aRecord(), waiting('Settling', '', { every: 5 })],
    [
      'a wait under the record that it writes',
      null,
      waiting('Settling', '', { every: 60 }, [advance(aRecord({ wake: { every: 60 } }), null)]),
    ],
    ['a settled decision without any record', null, settled('NobodyLeaves', '')],
  ])('%s is not', async (_what, record, decision) => {
    const { writers } = aWriter();

    const execution = execute(step, aTarget(record), decision, writers, anInvocation());

    await expect(execution).resolves.toMatchObject({ kind: 'done' });
  });

  function deleteAfter(record: ReturnType<typeof aRecord>): Decision {
    return acting('MemberDeleted', '', [advance(record, null)], deletePod);
  }

  function unguarded<E extends Effect>(effect: E): E {
    const { guard: _none, ...rest } = effect as E & { guard: unknown };
    return rest as E;
  }

  function guardedBy<E extends Effect>(effect: E, guard: object): E {
    return { ...effect, guard };
  }

  function ofBytes(bytes: number) {
    const empty = Buffer.byteLength(recordText(aRecord({ data: '' })));
    return aRecord({ data: 'x'.repeat(bytes - empty) });
  }

  function recordWithoutWake() {
    const { wake: _none, ...record } = aRecord();
    return record;
  }
});
