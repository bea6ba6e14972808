import { describe, expect, test } from 'vitest';
import { membersOf } from '#functions/shard-release/members.ts';
import { plusSeconds } from '#shared/kernel/instant.ts';
import { unknown } from '#shared/kernel/read.ts';
import { recordText } from '#shared/kernel/record.ts';
import { aLeaver, aPod, aReleaseOf, mark, now } from './a-release.ts';

const kinds = ({ effects }: { readonly effects: readonly { readonly kind: string }[] }) =>
  effects.map(({ kind }) => kind);

/** Three nodes, the last of which is to go, after a long quiet time. */
const leaving = () =>
  aReleaseOf('a', 'b', 'c').withRecord('resting').withPod('c', { isBeingDeleted: true });

const ourPin = ['pinned', `millrace-${mark}`];

describe('the rows, each on its own', () => {
  test('a cluster that is being deleted is left alone', () => {
    expect(leaving().withCluster({ isBeingDeleted: true }).decide()).toMatchObject({
      outcome: 'settled',
      reason: 'TargetBeingDeleted',
      effects: [],
    });
  });

  test('a paused one is observed', () => {
    const decision = leaving().withCluster({ isPaused: true }).decide();

    expect(decision).toMatchObject({ outcome: 'settled', reason: 'Paused' });
    expect(kinds(decision)).toEqual(['applyStatus']);
  });

  test('a record that cannot be read stops everything', () => {
    const decision = leaving().withRecordText('{"v":2}').decide();

    expect(decision).toMatchObject({ outcome: 'blocked', reason: 'RecordUnreadable' });
    expect(kinds(decision)).toEqual(['applyStatus']);
  });

  test('a record of another object is cleared', () => {
    expect(leaving().withRecordText('{"v":1,"uid":"other"}').decide()).toMatchObject({
      outcome: 'acting',
      reason: 'RecordForeign',
      effects: [{ kind: 'advance', record: null }],
    });
  });

  test.each([
    ['the pods', { pods: unknown('forbidden') }, 'MembersUnknown'],
    ['the keys', { view: unknown('etcd does not answer') }, 'KeysUnknown'],
  ] as const)('where %s are not known no shard is touched', (_what, changes, reason) => {
    const decision = leaving().with(changes).decide();

    expect(decision).toMatchObject({ outcome: 'waiting', reason });
    expect(kinds(decision)).not.toContain('writeShards');
  });

  test('a key that cannot be read may be any of them', () => {
    const unreadable = [{ key: '/goverse/shard/x', why: 'it is none of 24 shards' }];

    expect(
      leaving()
        .withView(() => ({ unreadable }))
        .decide(),
    ).toMatchObject({
      outcome: 'blocked',
      reason: 'KeysUnreadable',
    });
  });

  test('pins that are left over are taken off where all is in its place', () => {
    const decision = aReleaseOf('a', 'b')
      .withShards(({ target }) => (target === 'a' ? { flags: ourPin } : {}))
      .decide();

    expect(decision).toMatchObject({ outcome: 'acting', reason: 'PinsTakenOff' });
    expect(kinds(decision).at(-1)).toBe('writeShards');
  });

  test('shards that we pinned to a dead node get another one at once, the leaving one among them', () => {
    const decision = leaving()
      .withRecord('moving', { stillFor: 0, leavers: [aLeaver('c', 3)] })
      .withShards(({ target }) => (target === 'a' ? { target: 'dead', flags: ourPin } : {}))
      .decide();

    expect(decision).toMatchObject({ outcome: 'acting', reason: 'OrphansMoved' });
    expect(decision.effects).toContainEqual(
      expect.objectContaining({
        kind: 'advance',
        record: expect.objectContaining({ state: 'levelling' }),
      }),
    );
  });

  test('where nobody leaves, the first look says so and the next one writes nothing (X7)', () => {
    const first = aReleaseOf('a', 'b').withRecord('resting').decide();
    const status = first.effects.flatMap((effect) =>
      effect.kind === 'applyStatus' ? [effect.status] : [],
    )[0];

    const again = aReleaseOf('a', 'b')
      .withRecord('resting')
      .withCluster({ status: structuredClone(status) as never })
      .decide();

    expect(first).toMatchObject({ outcome: 'settled', reason: 'ShardsInPlace' });
    expect(again.effects).toEqual([]);
  });

  test.each(['quick', 'clean'] as const)(
    'while GoVerse moves shards by itself a %s cluster is looked at again: no event tells of the end',
    (mode) => {
      const decision = aReleaseOf('a', 'b')
        .withRecord('resting')
        .withCluster({ mode })
        .withShards(({ shard }) => (shard === 7 ? { current: '' } : {}))
        .decide();

      expect(decision).toMatchObject({
        outcome: 'waiting',
        reason: 'ShardsInPlace',
        wake: { every: 15 },
      });
      expect(kinds(decision)).not.toContain('writeShards');
    },
  );

  test('a cluster that is quick keeps no record', () => {
    const decision = aReleaseOf('a', 'b').withCluster({ mode: 'quick' }).decide();

    expect(kinds(decision)).toEqual(['applyStatus']);
  });

  test('the last node is not drained', () => {
    const decision = aReleaseOf('a')
      .withRecord('resting')
      .withPod('a', { isBeingDeleted: true })
      .decide();

    expect(decision).toMatchObject({ outcome: 'blocked', reason: 'LastNode' });
  });

  test('nor is a node of a cluster that nobody leads', () => {
    expect(
      leaving()
        .withView(() => ({ leader: { address: 'dead', modRevision: '3' } }))
        .withRecord('resting')
        .decide(),
    ).toMatchObject({ outcome: 'blocked', reason: 'NoLiveLeader' });
  });

  test.each([0, 9])('%i s after a node came or went it does not begin', (stillFor) => {
    expect(leaving().withRecord('resting', { stillFor }).decide()).toMatchObject({
      outcome: 'waiting',
      reason: 'AwaitingStillness',
      wake: { every: 2 },
    });
  });

  test('a hand-over that was written down, and of which no key tells, has not begun', () => {
    const decision = leaving()
      .withRecord('moving', { stillFor: 3, leavers: [aLeaver('c', 20)] })
      .decide();

    expect(decision).toMatchObject({ outcome: 'waiting', reason: 'AwaitingStillness' });
    expect(kinds(decision)).not.toContain('writeShards');
  });

  test('a quiet time that a clock an hour ahead began is counted from now', () => {
    const decision = leaving().withRecord('resting', { stillFor: -3_600 }).decide();

    expect(decision).toMatchObject({ outcome: 'waiting', reason: 'AwaitingStillness' });
    expect(decision.effects).toContainEqual(
      expect.objectContaining({
        kind: 'advance',
        record: expect.objectContaining({
          data: expect.objectContaining({ still: [expect.any(String), now / 1000] }),
        }),
      }),
    );
  });

  test('and so is the time of who goes', () => {
    const decision = leaving()
      .withRecord('awaiting', { stillFor: 0, leavers: [aLeaver('c', -3_600)] })
      .decide();

    expect(decision.effects).toContainEqual(
      expect.objectContaining({
        kind: 'advance',
        record: expect.objectContaining({
          data: expect.objectContaining({ leavers: [aLeaver('c', 0)] }),
        }),
      }),
    );
  });

  test('nor while a shard is on its way', () => {
    expect(
      leaving()
        .withShards(({ shard }) => (shard === 7 ? { current: '' } : {}))
        .decide(),
    ).toMatchObject({ outcome: 'waiting', reason: 'ShardsUnsettled' });
  });

  test('it begins by one write that its record and its pod tell of first', () => {
    const decision = leaving().decide();

    expect(decision).toMatchObject({ outcome: 'acting', reason: 'HandingOver' });
    expect(kinds(decision)).toEqual([
      'advance',
      'patchObject',
      'applyStatus',
      'emitEvent',
      'writeShards',
    ]);
    expect(decision.effects).toContainEqual({
      kind: 'emitEvent',
      type: 'Normal',
      reason: 'HandoverBegun',
      message: 'c is deleted: its 8 shards are handed over',
    });
    expect(decision.effects[1]).toMatchObject({
      patch: { metadata: { annotations: { 'release.millrace.dev/state': 'draining' } } },
    });
  });

  test('once all are claimed the node may go, and is counted once', () => {
    const moved = leaving()
      .withShards(({ target }) => (target === 'c' ? { target: 'b', current: 'b' } : {}))
      .withShards(({ target }) => (target === 'b' ? { flags: ourPin } : {}))
      .withRecord('moving', { leavers: [aLeaver('c', 8)] });

    const decision = moved.decide();

    expect(decision).toMatchObject({ outcome: 'waiting', reason: 'ShardsReleased' });
    expect(decision.counts).toEqual([
      {
        metric: 'goverse_shutdown_total',
        labels: { mode: 'clean', status: 'success' },
        count: 1,
      },
      { metric: 'goverse_shards_released_total', labels: { node: 'c' }, count: 8 },
    ]);
    expect(decision.gauges).toMatchObject([{ value: 8 }]);
  });

  test('one that was released and has shards again, as when another node died, is handed over anew', () => {
    const decision = aReleaseOf('a', 'b', 'c')
      .withPod('c', { isAskedToLeave: true, mirror: 'released' })
      .withRecord('resting', {
        leavers: [aLeaver('c', 90, { why: 'requested', end: 'released' })],
      })
      .decide();

    expect(decision).toMatchObject({ outcome: 'acting', reason: 'HandingOver' });
    expect(decision.effects).toContainEqual(
      expect.objectContaining({
        kind: 'patchObject',
        patch: { metadata: { annotations: { 'release.millrace.dev/state': 'draining' } } },
      }),
    );
  });

  test('when its time is over it is let go as it is, and nothing is begun for it', () => {
    const late = leaving().withRecord('awaiting', {
      stillFor: 0,
      leavers: [aLeaver('c', 30)],
    });

    const decision = late.decide();

    expect(kinds(decision)).not.toContain('writeShards');
    expect(decision.effects).toContainEqual(
      expect.objectContaining({
        kind: 'patchObject',
        patch: { metadata: { annotations: { 'release.millrace.dev/state': 'released' } } },
      }),
    );
    expect(decision.counts?.map(({ metric }) => metric)).toContain(
      'goverse_clean_shutdown_timeouts_total',
    );
  });

  test('one that leaves before its hand-over ended is counted as an error', () => {
    const decision = aReleaseOf('a', 'b')
      .withRecord('moving', { leavers: [aLeaver('c', 3)] })
      .decide(plusSeconds(now, 1));

    expect(decision.counts).toContainEqual({
      metric: 'goverse_shutdown_total',
      labels: { mode: 'clean', status: 'error' },
      count: 1,
    });
    expect(decision.effects).toContainEqual({
      kind: 'emitEvent',
      type: 'Warning',
      reason: 'HandoverBroken',
      message: 'c left before its 8 shards were handed over',
      level: 'error',
    });
  });

  test.each([
    ['gvc/world says', 'quick', null],
    ['it says itself', 'clean', 'quick'],
  ] as const)('a quick one is told once, and who chose that: as %s', (who, mode, ownMode) => {
    const quick = aReleaseOf('a', 'b')
      .withCluster({ mode })
      .withPod('b', { isBeingDeleted: true, mode: ownMode });

    const first = quick.decide();
    const record = first.effects.find(({ kind }) => kind === 'advance');
    const text = record?.kind === 'advance' && record.record !== null ? record.record : undefined;
    const second = quick.withRecordText(recordText(text ?? expect.unreachable())).decide();

    expect(first.effects).toContainEqual({
      kind: 'emitEvent',
      type: 'Normal',
      reason: 'ShutdownQuick',
      message: `b is deleted, quickly as ${who}: its shards stay as they are`,
    });
    expect(kinds(second)).not.toContain('emitEvent');
    expect(kinds(first)).not.toContain('writeShards');
  });

  test('a time that passes while the keys cannot be read is told too', () => {
    const late = leaving()
      .withRecord('moving', { leavers: [aLeaver('c', 31)] })
      .withUnknownKeys();

    expect(late.decide().effects).toContainEqual(
      expect.objectContaining({ kind: 'emitEvent', reason: 'HandoverTimedOut' }),
    );
  });
});

describe('who goes', () => {
  test.each([
    ['deleted in a clean cluster', 'clean', { isBeingDeleted: true }, true],
    ['deleted in a quick cluster', 'quick', { isBeingDeleted: true }, false],
    ['deleted, and clean by itself', 'quick', { isBeingDeleted: true, mode: 'clean' }, true],
    ['deleted, and quick by itself', 'clean', { isBeingDeleted: true, mode: 'quick' }, false],
    ['asked to leave a quick cluster', 'quick', { isAskedToLeave: true }, true],
    ['asked, and quick by itself', 'clean', { isAskedToLeave: true, mode: 'quick' }, false],
  ] as const)('%s', (_what, mode, pod, goes) => {
    const decision = aReleaseOf('a', 'b', 'c')
      .withCluster({ mode })
      .withRecord('resting')
      .withPod('c', pod)
      .decide();

    expect(kinds(decision).includes('writeShards')).toBe(goes);
  });

  test('a pod that is none of the nodes, while one of them has none, is told', () => {
    const decision = aReleaseOf('a', 'b', 'c')
      .withRecord('resting')
      .withPod('c', { isBeingDeleted: true, address: 'other:1' })
      .decide();

    expect(decision).toMatchObject({ outcome: 'settled', reason: 'NodeUnidentified' });
  });

  test('a pod with less time to stop in than the hand-over may take is told', () => {
    const decision = aReleaseOf('a', 'b')
      .withRecord('resting')
      .withPod('b', { graceSeconds: 30 })
      .decide();

    expect(decision).toMatchObject({ outcome: 'settled', reason: 'GraceTooShort' });
  });
});

describe('a node is the pod', () => {
  test.each([
    ['whose name is its host', 'node-1:48000', aPod('node-1')],
    ['whose name its host begins with', 'node-1.nodes.games.svc:48000', aPod('node-1')],
    ['whose address is its host', '10.0.0.7:48000', aPod('node-1', { ips: ['10.0.0.7'] })],
    ['whose IPv6 address is its host', '[fd00::7]:48000', aPod('node-1', { ips: ['fd00::7'] })],
    ['that says so', 'edge:48000', aPod('node-1', { address: 'edge:48000' })],
  ])('%s', (_what, node, pod) => {
    expect(membersOf([node], [pod, aPod('node-10')])).toEqual({
      nodeOf: new Map([[pod.uid, node]]),
      strays: [],
    });
  });

  test.each([
    ['two pods might be', ['h:1'], [aPod('x', { ips: ['h'] }), aPod('y', { ips: ['h'] })]],
    ['whose pod might be another one as well', ['h:1', 'h:2'], [aPod('x', { ips: ['h'] })]],
    ['whose name only begins like one', ['node-10:1'], [aPod('node-1')]],
    ['whose pod says another address', ['node-1:1'], [aPod('node-1', { address: 'other:1' })]],
  ])('none, %s', (_what, nodes, pods) => {
    expect(membersOf(nodes, pods)).toEqual({ nodeOf: new Map(), strays: nodes });
  });
});
