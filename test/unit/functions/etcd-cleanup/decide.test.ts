import { describe, expect, test } from 'vitest';
import { present, unknown } from '#shared/kernel/read.ts';
import { recordText } from '#shared/kernel/record.ts';
import type { PoolerRecord } from '#shared/topology/topology.ts';
import { maxWatched } from '#functions/etcd-cleanup/record.ts';
import {
  aPooler,
  aShardOfThree,
  aStatus,
  changeIn,
  deleteAfterSeconds,
  idOf,
  kindsOf,
  leading,
  now,
  quietSeconds,
  recordAfter,
  rule,
  seenFor,
  statusAfter,
  stopped,
} from './a-cleanup.ts';

const dead = aPooler('orders-7');
const marked = aPooler('orders-7', { ...stopped, modRevision: '55' });

/** Seen for long enough, and nobody explains it: what every test below changes one thing of. */
const due = () => aShardOfThree().seen(quietSeconds, dead);
const dueAgain = () => aShardOfThree().seen(deleteAfterSeconds, marked);

describe('a shard whose records are all its members’', () => {
  test('says so once, and then costs no write (X7)', () => {
    const first = aShardOfThree().decide();
    const condition = statusAfter(first)?.['conditions'];

    const again = aShardOfThree()
      .shard({
        condition: {
          type: 'TopologyClean',
          status: 'True',
          reason: 'TopologyClean',
          message: 'every pooler record has its member',
          observedGeneration: 1,
          lastTransitionTime: '2026-01-01T00:00:00Z',
        },
      })
      .decide();

    expect(first).toMatchObject({ outcome: 'settled', reason: 'TopologyClean' });
    expect(kindsOf(first)).toEqual(['applyStatus']);
    expect(condition).toMatchObject([{ type: 'TopologyClean', status: 'True' }]);
    expect(again).toMatchObject({ outcome: 'settled', effects: [] });
  });
});

describe('a record without a member', () => {
  test('is written down at first sight, and looked at again when it has been quiet', () => {
    const decision = aShardOfThree().records(dead).decide();

    expect(decision).toMatchObject({
      outcome: 'waiting',
      reason: 'StaleRecords',
      wake: { at: '2026-01-02T12:10:00Z' },
    });
    expect(kindsOf(decision)).toEqual(['advance', 'applyStatus']);
    expect(recordAfter(decision)?.data.seen).toEqual([seenFor(dead, 0)]);
    expect(statusAfter(decision)).toMatchObject({
      conditions: [{ status: 'False', reason: 'StaleRecords' }],
      cleanup: {
        candidates: [{ pooler: 'zone-a/orders-7', why: 'NoPod', since: '2026-01-02T12:00:00Z' }],
      },
    });
  });

  test('is marked as stopped after quietFor, under a record that names it and its revision (G1)', () => {
    const decision = due().decide();

    expect(decision).toMatchObject({ outcome: 'acting', reason: 'PoolerToRetire' });
    expect(kindsOf(decision)).toEqual(['advance', 'topologyTxn']);
    const record = recordAfter(decision);
    expect(record).toMatchObject({
      state: 'retiring',
      wake: { every: 15 },
      data: { act: { pooler: 'zone-a/orders-7', rev: '40' }, pass: [now / 1000, 1] },
    });
    expect(changeIn(decision)).toMatchObject({
      operation: { kind: 'retirePooler', cell: 'zone-a', key: dead.key },
      guard: { modRevision: '40', recordKey: record?.key },
    });
  });

  test('waits as long as quietFor from its first sight, to the second', () => {
    const early = aShardOfThree()
      .seen(quietSeconds - 1, dead)
      .decide();

    expect(changeIn(early)).toBeUndefined();
    expect(early).toMatchObject({ outcome: 'waiting', wake: { every: 5 } });
  });

  test('has waited only when the look began to read after it, however long the look takes (G1)', () => {
    const slow = aShardOfThree()
      .seen(quietSeconds - 20, dead)
      .decideAfterReading(20);

    expect(changeIn(slow)).toBeUndefined();
    expect(slow).toMatchObject({ reason: 'StaleRecords', wake: { every: 5 } });
  });

  test('begins to wait anew when it was written since (G5)', () => {
    const written = { ...dead, modRevision: '41' };

    const decision = aShardOfThree()
      .records(written)
      .recorded({ seen: [seenFor(dead, 10 * quietSeconds)] })
      .decide();

    expect(changeIn(decision)).toBeUndefined();
    expect(recordAfter(decision)?.data.seen).toEqual([seenFor(written, 0)]);
  });

  test.each<[string, Partial<PoolerRecord>, string]>([
    ['its name', {}, 'orders-7'],
    ['its hostname', { hostname: 'elsewhere-3' }, 'elsewhere-3'],
    [
      'what stands before a dot of its hostname',
      { hostname: 'elsewhere-3.orders.db.svc' },
      'elsewhere-3',
    ],
    ['a pod with a dot in its name', { hostname: 'a.b.svc' }, 'a.b'],
    ['the service id that follows from the pod’s long name', { id: idOf('p-b83b6ca8') }, longPod()],
  ])('is a member’s by %s, also where that pod has lost its label', (_, changes, pod) => {
    const record = aPooler('orders-7', changes);

    const decision = aShardOfThree().seen(quietSeconds, record).withPod(pod).decide();

    expect(changeIn(decision)).toBeUndefined();
    expect(decision).toMatchObject({ outcome: 'settled', reason: 'TopologyClean' });
    expect(recordAfter(decision)).toBeNull();
  });

  test.each(['orders-77', 'orders-7x', 'xorders-7', 'orders', 'svc'])(
    'is not that of pod %s, whose name is only like it',
    (pod) => {
      const record = aPooler('orders-7', { hostname: 'orders-7.svc' });

      const decision = aShardOfThree().seen(quietSeconds, record).withPod(pod).decide();

      expect(changeIn(decision)).toBeDefined();
    },
  );

  test('is kept while its pool lacks a member, which may come back at any index', () => {
    const decision = due()
      .shard({ groups: [{ base: 'orders', replicas: 4 }] })
      .decide();

    expect(decision.reason).toBe('TopologyClean');
  });

  test.each([
    ['by its pooler', 'orders-9', idOf('orders-7')],
    ['by its pod', 'orders-7', idOf('p-1')],
  ])('is drain-step’s as long as the drain is open, %s', (_, pod, pooler) => {
    const decision = due()
      .with({ drain: { kind: 'open', pod, pooler } })
      .decide();

    expect(decision.reason).toBe('TopologyClean');
  });

  test.each<[string, Partial<PoolerRecord>, string]>([
    [
      'the primary under the highest rule',
      { role: 'primary', rule: { term: '4', subterm: '0' } },
      'Leads',
    ],
    ['of a role that is not known, under no lower rule', { role: 'unknown', rule }, 'Leads'],
    ['quarantined', { lifecycle: 'quarantined' }, 'SetAside'],
    [
      'DRAINED in the older generation',
      { generation: 'legacy', lifecycle: 'unknown', role: 'none' },
      'SetAside',
    ],
  ])('is told and left where it is %s', (_, changes, why) => {
    const decision = aShardOfThree().seen(quietSeconds, aPooler('orders-7', changes)).decide();

    expect(changeIn(decision)).toBeUndefined();
    expect(decision).toMatchObject({ outcome: 'settled', reason: 'RecordsLeft' });
    expect(statusAfter(decision)).toMatchObject({
      conditions: [{ status: 'False', reason: 'RecordsLeft' }],
      cleanup: { candidates: [{ pooler: 'zone-a/orders-7', why }] },
    });
  });

  test('goes where it was primary under a lower rule than the primary there is', () => {
    const decision = aShardOfThree()
      .seen(
        quietSeconds,
        aPooler('orders-7', { role: 'primary', rule: { term: '2', subterm: '9' } }),
      )
      .decide();

    expect(changeIn(decision)).toBeDefined();
  });

  test('of the older generation goes as well', () => {
    const old = aPooler('orders-7', { generation: 'legacy', lifecycle: 'unknown' });

    expect(changeIn(aShardOfThree().seen(quietSeconds, old).decide())).toBeDefined();
  });

  test('is left as long as its pooler answers, and others go meanwhile (G5)', () => {
    const other = aPooler('orders-8');
    const snapshot = aShardOfThree().seen(quietSeconds, dead, other).answering(aStatus('orders-7'));

    const decision = snapshot.decide();
    const alone = due().answering(aStatus('orders-7')).decide();

    expect(changeIn(decision)).toMatchObject({ operation: { key: other.key } });
    expect(alone).toMatchObject({
      outcome: 'waiting',
      reason: 'PoolerAnswers',
      wake: { every: 60 },
    });
    expect(statusAfter(alone)).toMatchObject({
      cleanup: { candidates: [{ why: 'Answers' }] },
    });
  });
});

describe('nothing is removed', () => {
  test.each([
    [
      'while nobody leads',
      due().with({
        topology: present({ poolers: [aPooler('orders-1'), dead], undecodable: [] }),
      }),
    ],
    ['while the primary does not answer', due().with({ statuses: [] })],
    [
      'while the primary says that another leads',
      due().answering({
        ...leading(),
        decision: { ...ruleOf(), leader: idOf('orders-1') },
      }),
    ],
    ['while the primary is not sure', due().answering({ ...leading(), role: 'replica' })],
    [
      'while somebody knows a newer rule',
      due().answering({
        ...aStatus('orders-1'),
        decision: { ...ruleOf(), rule: { term: '9', subterm: '0' } },
      }),
    ],
    [
      'while the primary is none of the labelled pods',
      due().with({ members: present(['orders-1', 'orders-2', 'orders-3']) }),
    ],
    [
      'while two lead under one rule',
      due().records(aPooler('orders-2', { role: 'primary', rule })),
    ],
    [
      'while a proposal names it leader',
      due().answering({ ...leading(), proposal: { ...ruleOf(), leader: idOf('orders-7') } }),
    ],
  ])('%s', (_, snapshot) => {
    const decision = snapshot.records(aPooler('orders-9')).decide();

    expect(changeIn(decision)).toBeUndefined();
  });

  test.each([
    ['the topology', due().with({ topology: unknown('zone-b is down') }), 'TopologyUnknown'],
    ['the pods', due().with({ members: unknown('page 2: 410') }), 'MembersUnknown'],
    ['the namespace’s pods', due().with({ pods: unknown('403') }), 'MembersUnknown'],
    ['any pod with the label', due().with({ members: present([]) }), 'NoMembers'],
    ['drain-step’s record', due().with({ drain: { kind: 'unknown', why: 'v 2' } }), 'DrainUnknown'],
    ['the Database', due().with({ database: unknown('403') }), 'DatabaseUnknown'],
  ])('without %s (G2), and what was seen is kept', (_, snapshot, reason) => {
    const decision = snapshot.decide();

    expect(decision).toMatchObject({ outcome: 'blocked', reason, wake: { every: 300 } });
    expect(changeIn(decision)).toBeUndefined();
    expect(recordAfter(decision)?.data.seen).toEqual([seenFor(dead, quietSeconds)]);
    expect(statusAfter(decision)).toMatchObject({ conditions: [{ status: 'Unknown', reason }] });
  });

  test.each([
    ['the shard is paused', due().shard({ isPaused: true }), 'Paused'],
    ['the shard is being deleted', due().shard({ isBeingDeleted: true }), 'TargetBeingDeleted'],
  ])('and nothing written while %s', (_, snapshot, reason) => {
    expect(snapshot.decide()).toMatchObject({ outcome: 'settled', reason, effects: [] });
  });

  test('where cleanup is not enabled: stale records are told, and none is woken for', () => {
    const decision = due().shard({ isEnabled: false }).decide();

    expect(decision).toMatchObject({ outcome: 'settled', reason: 'CleanupOff' });
    expect(changeIn(decision)).toBeUndefined();
    expect(recordAfter(decision)?.wake).toBeUndefined();
    expect(statusAfter(decision)).toMatchObject({
      conditions: [{ status: 'False', reason: 'CleanupOff' }],
      cleanup: { candidates: [{ pooler: 'zone-a/orders-7', why: 'NoPod' }] },
    });
  });

  test('under a record that cannot be read; one of another object is cleared', () => {
    const broken = due()
      .with({ record: { kind: 'unreadable', text: '{}', why: 'v' } })
      .decide();
    const foreign = due()
      .with({ record: { kind: 'foreign', text: '{}', uid: 'x' } })
      .decide();

    expect(kindsOf(broken)).toEqual(['applyStatus']);
    expect(broken.outcome).toBe('blocked');
    expect(kindsOf(foreign)).toEqual(['advance']);
    expect(recordAfter(foreign)).toBeNull();
  });
});

describe('an undecodable record', () => {
  const key = '/multigres/zone-a/poolers/multipooler-zone-a-x/Pooler';

  test('is told and left, and others go meanwhile', () => {
    const alone = aShardOfThree().undecodable(key).decide();
    const besides = due().undecodable(key).decide();

    expect(alone).toMatchObject({ outcome: 'settled', reason: 'RecordsLeft' });
    expect(statusAfter(alone)).toMatchObject({
      cleanup: { candidates: [{ pooler: key, why: 'Undecodable' }] },
    });
    expect(changeIn(besides)).toMatchObject({ operation: { key: dead.key } });
  });
});

describe('a record that is marked as stopped', () => {
  test('that says so itself is nothing to alarm anybody, one that does not is', () => {
    const stoppedOnly = aShardOfThree().records(marked).decide();
    const both = aShardOfThree().records(marked, dead).decide();

    expect(statusAfter(stoppedOnly)).toMatchObject({
      conditions: [{ status: 'True', reason: 'DeletionAwaited' }],
      cleanup: { candidates: [{ why: 'Stopped' }] },
    });
    expect(statusAfter(both)).toMatchObject({
      conditions: [{ status: 'False', reason: 'StaleRecords' }],
    });
  });

  test('is deleted after deleteAfter, not sooner', () => {
    const early = aShardOfThree()
      .seen(deleteAfterSeconds - 1, marked)
      .decide();

    const decision = dueAgain().decide();

    expect(changeIn(early)).toBeUndefined();
    expect(changeIn(decision)).toMatchObject({
      operation: { kind: 'removePooler', cell: 'zone-a', key: marked.key },
      guard: { modRevision: '55', recordKey: recordAfter(decision)?.key },
    });
    expect(recordAfter(decision)).toMatchObject({ state: 'deleting' });
    expect(recordAfter(decision)?.key.endsWith('/55')).toBe(true);
  });

  test('is never deleted sooner than quietFor', () => {
    const decision = aShardOfThree()
      .shard({ deleteAfterSeconds: 5 })
      .seen(quietSeconds - 1, marked)
      .decide();

    expect(changeIn(decision)).toBeUndefined();
  });

  test.each([
    ['the decided rule', leading('orders-0', 'orders-7')],
    [
      'a proposal',
      { ...leading('orders-0'), proposal: { ...ruleOf(), cohort: [idOf('orders-7')] } },
    ],
  ])('is not deleted while %s counts on its vote', (_, status) => {
    const decision = dueAgain().answering(status).decide();

    expect(changeIn(decision)).toBeUndefined();
    expect(decision).toMatchObject({ outcome: 'waiting', reason: 'AwaitingCohortExit' });
  });

  test('that says only half of what a stop leaves is marked, not deleted', () => {
    const half = aPooler('orders-7', { ...stopped, serving: 'serving' });

    const decision = aShardOfThree().seen(deleteAfterSeconds, half).decide();

    expect(changeIn(decision)).toMatchObject({ operation: { kind: 'retirePooler' } });
  });
});

describe('a change that is authorised', () => {
  const retiring = () => aShardOfThree().records(dead).acting('retiring', dead);
  const deleting = () => aShardOfThree().records(marked).acting('deleting', marked);

  test('is made again under the same record where nothing shows it', () => {
    expect(kindsOf(retiring().decide())).toEqual(['topologyTxn']);
    expect(changeIn(deleting().decide())).toMatchObject({ operation: { kind: 'removePooler' } });
  });

  test('is told when it is seen, and the record’s wait begins anew', () => {
    const decision = aShardOfThree().records(marked).acting('retiring', dead).decide();

    expect(decision).toMatchObject({
      reason: 'PoolerRetired',
      counts: [{ metric: 'pooler_records_cleaned_total', labels: { move: 'marked' }, count: 1 }],
    });
    expect(kindsOf(decision)).toEqual(['advance', 'applyStatus', 'emitEvent']);
    expect(recordAfter(decision)).toMatchObject({
      state: 'watching',
      wake: { at: '2026-01-03T12:00:00Z' },
      data: { seen: [seenFor(marked, 0)], pass: [now / 1000, 1] },
    });
  });

  test('a deletion is told when the record is gone', () => {
    const decision = aShardOfThree().acting('deleting', marked).decide();

    expect(decision).toMatchObject({ reason: 'PoolerDeleted' });
    expect(statusAfter(decision)).toMatchObject({
      conditions: [{ status: 'True' }],
      cleanup: { lastRemoved: { pooler: 'zone-a/orders-7', at: '2026-01-02T12:00:00Z' } },
    });
  });

  test.each([
    [
      'was written by somebody else',
      aShardOfThree()
        .records({ ...dead, modRevision: '41' })
        .acting('retiring', dead),
    ],
    [
      'was written by somebody else before it was deleted',
      aShardOfThree()
        .records({ ...marked, modRevision: '56' })
        .acting('deleting', marked),
    ],
    ['went by itself', aShardOfThree().acting('retiring', dead)],
    [
      'cannot be decoded any more',
      aShardOfThree().undecodable(marked.key).acting('deleting', marked),
    ],
    ['has a pod now', retiring().withPod('orders-7')],
    ['has a pooler that answers', retiring().answering(aStatus('orders-7'))],
    ['is not to be touched any more', retiring().shard({ isEnabled: false })],
    [
      'is to be left alone for longer than when it was authorised',
      retiring().shard({ quietSeconds: quietSeconds + 1 }),
    ],
    [
      'is to be deleted later than when it was authorised',
      deleting().shard({ deleteAfterSeconds: deleteAfterSeconds + 1 }),
    ],
  ])('is taken back where the record %s', (_, snapshot) => {
    const decision = snapshot.decide();

    expect(changeIn(decision)).toBeUndefined();
    expect(decision.reason).toBe('CleanupCancelled');
    expect(recordAfter(decision)?.state).toBe('watching');
  });

  test.each([
    ['while nobody leads', retiring().with({ statuses: [] }), 'waiting'],
    ['while the pods are not known', retiring().with({ members: unknown('403') }), 'blocked'],
  ])('stays, and is not made, %s', (_, snapshot, outcome) => {
    const decision = snapshot.decide();

    expect(decision).toMatchObject({ outcome, wake: { every: 15 } });
    expect(changeIn(decision)).toBeUndefined();
    expect(recordAfter(decision)).toBeUndefined();
  });
});

describe('a pass', () => {
  const many = Array.from({ length: 6 }, (_, index) => aPooler(`orders-1${index}`));
  const seen = many.map((record) => seenFor(record, quietSeconds));

  test.each([
    ['one where no more are wanted', 1, 1],
    ['as many as are wanted', 2, 2],
    ['a third of the shard’s records, rounded up', 8, 3],
  ])('changes %s (G4)', (_, maxPerPass, most) => {
    const after = (count: number) =>
      aShardOfThree()
        .shard({ maxPerPass })
        .records(...many)
        .recorded({ seen, ...(count === 0 ? {} : { pass: [now / 1000, count] }) })
        .decide();

    expect(changeIn(after(most - 1))).toBeDefined();
    expect(recordAfter(after(most - 1))?.data.pass).toEqual([now / 1000, most]);
    expect(changeIn(after(most))).toBeUndefined();
    expect(after(most)).toMatchObject({
      reason: 'PassFull',
      wake: { at: '2026-01-02T12:10:00Z' },
    });
  });

  test('is followed by another after quietFor', () => {
    const decision = aShardOfThree()
      .records(...many)
      .recorded({ seen, pass: [now / 1000 - quietSeconds, 1] })
      .decide();

    expect(changeIn(decision)).toBeDefined();
    expect(recordAfter(decision)?.data.pass).toEqual([now / 1000, 1]);
  });

  test('takes poolers that are not marked first, then those seen first', () => {
    const older = aPooler('orders-30');
    const newer = aPooler('orders-20');
    const decision = aShardOfThree()
      .records(marked, newer, older)
      .recorded({
        seen: [
          seenFor(marked, 2 * deleteAfterSeconds),
          seenFor(newer, quietSeconds),
          seenFor(older, 2 * quietSeconds),
        ],
      })
      .decide();

    expect(changeIn(decision)).toMatchObject({ operation: { key: older.key } });
  });

  test('remembers the oldest ten, in a record of at most 1 KiB', () => {
    const revision = '9223372036854775807';
    const crowd = Array.from({ length: 40 }, (_, index) =>
      aPooler(`orders-${100 + index}`, { modRevision: revision }),
    );
    const name = 'x'.repeat(63);
    const longest = aPooler(name, {
      id: { cell: 'c'.repeat(63), name },
      modRevision: revision,
    });

    const decision = aShardOfThree()
      .shard({ generation: Number.MAX_SAFE_INTEGER })
      .records(...crowd, longest)
      .recorded({ seen: [seenFor(longest, 2 * quietSeconds)] })
      .decide();

    const record = recordAfter(decision);
    expect(changeIn(decision)).toMatchObject({ operation: { key: longest.key } });
    expect(record?.data.seen).toHaveLength(maxWatched);
    expect(Buffer.byteLength(record ? recordText(record) : '')).toBeLessThanOrEqual(1024);
  });
});

function ruleOf() {
  const { decision } = leading('orders-0', 'orders-1', 'orders-2');
  return decision ?? expect.unreachable();
}

/** Too long for PostgreSQL with its cell before it. */
function longPod(): string {
  return `orders-main-zone-a-${'0123456789'.repeat(4)}-7`;
}
