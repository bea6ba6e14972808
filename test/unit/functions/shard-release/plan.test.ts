import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Move, handOver, isUneven, settle, unsettled } from '#functions/shard-release/plan.ts';
import type { GoverseShard, GoverseView, ShardWrite } from '#shared/goverse/goverse.ts';
import { isPinned, marksOf, pinOf } from '#shared/goverse/shard-value.ts';
import { rebalance } from '#infra/local/goverse/leader.ts';
import { mark, shardsOf } from './a-release.ts';

const shardCount = 48;

function aView(nodes: readonly string[], shards: readonly GoverseShard[]): GoverseView {
  const member = (address: string) => ({ address, modRevision: '1' });
  const leader = nodes[0] === undefined ? null : member(nodes[0]);
  return { revision: '99', nodes: nodes.map(member), gates: [], leader, shards, unreadable: [] };
}

function writesOf(move: Move): readonly ShardWrite[] {
  return move.kind === 'write' ? move.writes : [];
}

/** The view once so many of the writes are done. */
function written(view: GoverseView, writes: readonly ShardWrite[], count = writes.length) {
  const done = new Map(writes.slice(0, count).map((write) => [write.shard, write]));
  const shards = view.shards.map((shard) => ({ ...shard, ...done.get(shard.shard) }));
  return { ...view, shards };
}

/** What GoVerse's leader would move if it ticked now. */
function leadersMoves({ nodes, shards }: GoverseView) {
  return rebalance(
    {
      nodes: new Set(nodes.map(({ address }) => address)),
      gates: new Set(),
      leader: nodes[0]?.address ?? '',
      leaderRevision: 1,
      changedAtMs: 0,
      shards: new Map(
        shards.map(({ shard, ...value }) => [shard, { ...value, modRevision: 1 }] as const),
      ),
    },
    shards.length,
  );
}

function loads({ nodes, shards }: GoverseView): number[] {
  return nodes.map(({ address }) => shards.filter(({ target }) => target === address).length);
}

describe('a hand-over', () => {
  test('pins what the holder has, then gives it its new shards with the pin, then the others theirs', () => {
    const view = aView(['a', 'b', 'c'], shardsOf(['a', 'b', 'c'], shardCount));

    const writes = writesOf(handOver(view, new Set(['c']), mark));
    const after = written(view, writes);

    expect(
      writes.slice(0, 16).every(({ target, flags }) => target === 'a' && flags.length === 2),
    ).toBe(true);
    expect(writes.slice(16, 24).map(({ target }) => target)).toEqual(Array(8).fill('a'));
    expect(writes.slice(24).map(({ target }) => target)).toEqual(Array(8).fill('b'));
    expect(loads(after)).toEqual([24, 24, 0]);
    expect(after.shards.filter(({ target }) => target === 'a').every(isPinned)).toBe(true);
  });

  test('begun anywhere ends in the same shares, and the leader finds nothing to do then', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 2, max: 5 }),
        fc.nat({ max: shardCount }),
        fc.nat(),
        (count, done, who) => {
          const nodes = Array.from({ length: count }, (_, place) => `n${place}`);
          const leaving = new Set([nodes[who % count] ?? '']);
          const view = aView(nodes, shardsOf(nodes, shardCount));
          const whole = writesOf(handOver(view, leaving, mark));
          const half = written(view, whole, done);

          const end = written(half, writesOf(handOver(half, leaving, mark)));

          expect(loads(end)).toEqual(loads(written(view, whole)));
          expect(handOver(end, leaving, mark).kind).toBe('claims');
          expect(leadersMoves(end)).toEqual([]);
        },
      ),
    );
  });

  test('leaves alone what others have pinned', () => {
    const shards = shardsOf(['a', 'b', 'c'], shardCount).map((shard) =>
      shard.shard < 9 ? { ...shard, flags: ['pinned'] } : shard,
    );

    const writes = writesOf(handOver(aView(['a', 'b', 'c'], shards), new Set(['c']), mark));

    expect(writes.every(({ shard }) => shard >= 9)).toBe(true);
  });
});

describe('whatever the shards look like', () => {
  const nodeName = fc.constantFrom('a', 'b', 'c', 'gone', '');
  const flags = fc.constantFrom<string[]>([], ['pinned'], ['pinned', `millrace-${mark}`], ['odd']);
  const anyShards = fc
    .array(fc.record({ target: nodeName, current: nodeName, flags }), {
      minLength: 1,
      maxLength: 40,
    })
    .map((values) => values.map((value, shard) => ({ ...value, shard, modRevision: '5' })));
  const nodes = ['a', 'b', 'c'];

  test('no write says another current, takes a flag of others, or touches a foreign pin (H2, H5)', () => {
    fc.assert(
      fc.property(anyShards, fc.boolean(), (shards, isStill) => {
        const view = aView(nodes, shards);
        const moves = [
          handOver(view, new Set(['c']), mark),
          settle(view, mark, { shardCount: shards.length, isStill }),
        ];
        for (const write of moves.flatMap(writesOf)) {
          const before = shards[write.shard];
          expect(write.current).toBe(before?.current);
          expect(write.modRevision).toBe(before?.modRevision);
          expect(before === undefined ? '' : pinOf(before)).not.toBe('foreign');
          expect(isPinned(write)).toBe(marksOf(write).length > 0);
          expect(nodes.includes(write.target) || write.target === before?.target).toBe(true);
        }
      }),
    );
  });

  test('settling comes to an end: every write of it done and claimed, no mark is left', () => {
    fc.assert(
      fc.property(anyShards, (shards) => {
        let view = aView(nodes, shards);
        for (let look = 0; look < 8; look += 1) {
          const move = settle(view, mark, { shardCount: shards.length, isStill: true });
          view = written(view, writesOf(move));
          // GoVerse's part: targets for those without a living one, and claims.
          view = {
            ...view,
            shards: view.shards.map((shard) => {
              const isKept = shard.target !== '' && isPinned(shard);
              const target = isKept || nodes.includes(shard.target) ? shard.target : 'a';
              return { ...shard, target, current: nodes.includes(target) ? target : shard.current };
            }),
          };
        }

        expect(view.shards.flatMap(marksOf)).toEqual([]);
        expect(unsettled(view, shards.length)).toBe(0);
      }),
    );
  });
});

describe('a node that joins meanwhile', () => {
  const begun = aView(['a', 'b', 'c'], shardsOf(['a', 'b', 'c'], shardCount));
  const retargeted = written(begun, writesOf(handOver(begun, new Set(['c']), mark)));
  const joined = { ...retargeted, nodes: aView(['a', 'b', 'c', 'd'], []).nodes };

  test('gets its part of what the leaving one still has, and the leader finds nothing on the way', () => {
    const writes = writesOf(handOver(joined, new Set(['c']), mark));

    for (let done = 0; done <= writes.length; done += 1) {
      expect(leadersMoves(written(joined, writes, done)), `after ${done}`).toEqual([]);
    }
    expect(loads(written(joined, writes))).toEqual([16, 16, 0, 16]);
    expect(writes.every(({ current }) => current === 'c')).toBe(true);
    expect(new Set(writes.map(({ shard }) => shard)).size).toBe(writes.length);
  });

  test('gets nothing that has been let go: that is levelled afterwards', () => {
    const shards = joined.shards.map((shard) =>
      shard.current === 'c' ? { ...shard, current: '' } : shard,
    );

    expect(handOver({ ...joined, shards }, new Set(['c']), mark)).toEqual({
      kind: 'claims',
      count: 16,
    });
  });

  test('does not make it begin anew once it has its part', () => {
    const after = written(joined, writesOf(handOver(joined, new Set(['c']), mark)));

    expect(handOver(after, new Set(['c']), mark)).toEqual({ kind: 'claims', count: 16 });
  });
});

describe('levelling', () => {
  test('takes from the holder last, so that the leader finds nothing on the way', () => {
    const nodes = ['a', 'b', 'c'];
    const view = aView(nodes, shardsOf(['a', 'b'], shardCount));
    const held = written(view, writesOf(settle(view, mark, { shardCount, isStill: true })));
    const level = writesOf(settle(held, mark, { shardCount, isStill: true }));

    for (let done = 0; done <= level.length; done += 1) {
      expect(leadersMoves(written(held, level, done)), `after ${done}`).toEqual([]);
    }
    expect(loads(written(held, level))).toEqual([16, 16, 16]);
    expect(isUneven(written(held, level))).toBe(false);
  });

  test('waits for the window, but pins at once', () => {
    const view = aView(['a', 'b', 'c'], shardsOf(['a', 'b'], shardCount));
    const pins = settle(view, mark, { shardCount, isStill: false });

    const next = settle(written(view, writesOf(pins)), mark, { shardCount, isStill: false });

    expect(pins).toMatchObject({ kind: 'write', what: 'hold' });
    expect(next).toEqual({ kind: 'window' });
  });

  test('gives a shard back where it still is', () => {
    const shards = shardsOf(['a', 'b', 'c'], shardCount).map((shard) =>
      shard.target === 'c' ? { ...shard, target: 'a' } : shard,
    );
    const view = aView(['a', 'b', 'c'], shards);
    const held = written(view, writesOf(settle(view, mark, { shardCount, isStill: true })));

    const level = writesOf(settle(held, mark, { shardCount, isStill: true }));

    expect(level.every(({ target, current }) => target === 'c' && current === 'c')).toBe(true);
    expect(level).toHaveLength(16);
  });
});
