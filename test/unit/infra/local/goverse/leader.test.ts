import { describe, expect, test } from 'vitest';
import {
  leaderWork,
  missingTargets,
  noMemory,
  rebalance,
  unclaimedShards,
} from '#infra/local/goverse/leader.ts';
import { viewOf } from './view-of.ts';

const minute = 60_000;

function targets(writes: readonly { readonly shard: number; readonly target: string }[]) {
  return Object.fromEntries(writes.map(({ shard, target }) => [shard, target]));
}

/** So many shards that belong to the node, pinned or not. */
function owned(node: string, count: number, flags = ''): string[] {
  return Array.from({ length: count }, () => `${node},${node}${flags}`);
}

describe('shards without a living target', () => {
  test('stay where they are if somebody alive has them and none was chosen', () => {
    const view = viewOf({ nodes: ['a', 'b'], shards: [',b', ',a'] });

    expect(targets(missingTargets(view, 2))).toEqual({ 0: 'b', 1: 'a' });
  });

  test('are spread by their numbers over the sorted nodes when the target is dead, whoever has them', () => {
    const view = viewOf({ nodes: ['b', 'a'], shards: ['gone,', 'gone,b', 'gone,gone', ','] });

    expect(targets(missingTargets(view, 4))).toEqual({ 0: 'a', 1: 'b', 2: 'a', 3: 'b' });
  });

  test('are made where there is no key yet', () => {
    const [write] = missingTargets(viewOf({ nodes: ['a'], shards: [null] }), 1);

    expect(write).toMatchObject({ target: 'a', current: '', modRevision: 0 });
  });

  test('keep a dead target while they are pinned, and get one if they have none', () => {
    const view = viewOf({ nodes: ['a'], shards: ['gone,,f=pinned', ',,f=pinned'] });

    expect(targets(missingTargets(view, 2))).toEqual({ 1: 'a' });
  });

  test('keep what else their keys say', () => {
    const view = viewOf({ nodes: ['a'], shards: ['gone,gone,f=mark'] });

    expect(missingTargets(view, 1)[0]?.flags).toEqual(['mark']);
  });

  test('stay as they are when nobody lives', () => {
    expect(missingTargets(viewOf({ shards: ['gone,gone'] }), 1)).toEqual([]);
  });
});

describe('shards that their target does not claim', () => {
  const view = viewOf({
    nodes: ['a'],
    shards: ['a,', 'gone,', 'a,,f=pinned', 'a,a', ','],
  });

  test('lose it at the second look, a minute later', () => {
    const first = unclaimedShards(view, noMemory, { speed: 1 }, 0);
    const second = unclaimedShards(view, first.memory, { speed: 1 }, minute);

    expect(first.writes).toEqual([]);
    expect(targets(second.writes)).toEqual({ 0: '' });
    expect(second.memory.unclaimedSinceMs.size).toBe(0);
  });

  test('are not looked at in between', () => {
    const first = unclaimedShards(view, noMemory, { speed: 1 }, 0);
    const between = unclaimedShards(view, first.memory, { speed: 1 }, minute - 1);

    expect(between).toEqual({ writes: [], memory: first.memory });
  });

  test('count from the first look that found them so, also if they were claimed since', () => {
    const first = unclaimedShards(view, noMemory, { speed: 1 }, 0);
    const again = viewOf({ nodes: ['a'], shards: ['a,a'] });
    again.take({ key: '/goverse/shard/0', value: 'a,', modRevision: 90 }, 30_000);

    const second = unclaimedShards(again, first.memory, { speed: 1 }, minute);

    expect(targets(second.writes)).toEqual({ 0: '' });
  });

  test('are forgotten when a look finds them claimed', () => {
    const first = unclaimedShards(view, noMemory, { speed: 1 }, 0);
    const claimed = viewOf({ nodes: ['a'], shards: ['a,a'] });
    const second = unclaimedShards(claimed, first.memory, { speed: 1 }, minute);

    const third = unclaimedShards(view, second.memory, { speed: 1 }, 2 * minute);

    expect(third.writes).toEqual([]);
  });
});

describe('the rebalance', () => {
  test('moves from the first with the most to the first with the fewest, in order of numbers', () => {
    const view = viewOf({ nodes: ['c', 'b', 'a'], shards: [...owned('a', 4), ...owned('b', 4)] });

    expect(targets(rebalance(view, 8))).toEqual({ 0: 'c' });
  });

  test('takes one shard in 128 at a time, and leaves a difference of a fifth of the share', () => {
    const shards = [...owned('a', 512), ...owned('b', 512)];

    const first = rebalance(viewOf({ nodes: ['a', 'b', 'c'], shards }), 1_024);

    expect(first).toHaveLength(8);
    expect(targets(first)).toMatchObject({ 0: 'c', 512: 'c', 1: 'c', 513: 'c' });
  });

  test.each([
    ['a difference of 1', [...owned('a', 2), ...owned('b', 1)], 0],
    ['a fifth of the share, to the shard', [...owned('a', 11), ...owned('b', 9)], 0],
    ['more than that', [...owned('a', 12), ...owned('b', 8)], 1],
  ])('%s', (_, shards, count) => {
    const view = viewOf({ nodes: ['a', 'b'], shards });

    expect(rebalance(view, shards.length)).toHaveLength(count);
  });

  test('does nothing while one shard has no target', () => {
    const shards = [...owned('a', 9), ',a'];

    expect(rebalance(viewOf({ nodes: ['a', 'b'], shards }), 10)).toEqual([]);
  });

  test('passes over pinned shards, and ends where the fullest node has nothing else', () => {
    const somePinned = [...owned('a', 9, ',f=pinned'), ...owned('a', 1)];
    const allPinned = [...owned('a', 10, ',f=pinned'), ...owned('b', 8)];

    expect(targets(rebalance(viewOf({ nodes: ['a', 'b'], shards: somePinned }), 10))).toEqual({
      9: 'b',
    });
    expect(rebalance(viewOf({ nodes: ['a', 'b', 'c'], shards: allPinned }), 18)).toEqual([]);
  });

  test('neither counts nor moves shards of the dead', () => {
    const shards = [...owned('gone', 8), ...owned('a', 2)];

    expect(targets(rebalance(viewOf({ nodes: ['a', 'b'], shards }), 10))).toEqual({ 8: 'b' });
  });
});

describe('a leader does one thing in a tick', () => {
  const options = { shardCount: 4, speed: 1 };

  test('targets first', () => {
    const view = viewOf({ nodes: ['a', 'b'], shards: ['a,a', 'a,a', 'a,a', 'gone,gone'] });

    expect(leaderWork(view, noMemory, options, 0)).toMatchObject({ kind: 'targets' });
  });

  test('then unclaimed shards, then the rebalance', () => {
    const view = viewOf({ nodes: ['a', 'b'], shards: ['a,a', 'a,a', 'a,a', 'a,'] });

    const first = leaderWork(view, noMemory, options, 0);
    const second = leaderWork(view, first.memory, options, minute);

    expect([first.kind, second.kind]).toEqual(['rebalance', 'unclaimed']);
  });

  test('and nothing where all is well', () => {
    const view = viewOf({ nodes: ['a', 'b'], shards: ['a,a', 'a,a', 'b,b', 'b,b'] });

    expect(leaderWork(view, noMemory, options, 0)).toMatchObject({ kind: 'nothing', writes: [] });
  });
});
