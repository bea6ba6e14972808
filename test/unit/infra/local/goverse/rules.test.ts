import { describe, expect, test } from 'vitest';
import { LocalObjects, objectIds, shardOfObject } from '#infra/local/goverse/objects.ts';
import {
  claimsOf,
  evictionsOf,
  isOwned,
  isRoutable,
  isStable,
  mustCampaign,
  releasesOf,
} from '#infra/local/goverse/rules.ts';
import { parseShard } from '#shared/goverse/shard-value.ts';
import { viewOf } from './view-of.ts';

const options = { self: 'a', stableMs: 10_000 };
const noObjects = new LocalObjects([], 4);

function numbers(writes: readonly { readonly shard: number }[]): number[] {
  return writes.map(({ shard }) => shard);
}

describe('a node waits until the cluster has been still', () => {
  test('for ten seconds, not one less', () => {
    const view = viewOf({ nodes: ['a'], atMs: 1_000 });

    expect(isStable(view, options, 10_999)).toBe(false);
    expect(isStable(view, options, 11_000)).toBe(true);
  });

  test('and is never sure of a cluster that it is not registered in', () => {
    expect(isStable(viewOf({ nodes: ['b'] }), options, 60_000)).toBe(false);
  });

  test.each([
    ['a node', '/goverse/nodes/c', 'c'],
    ['a gate', '/goverse/gates/g', 'g'],
    ['the leader', '/goverse/leader', 'a'],
  ])('%s that comes or goes begins the wait anew', (_, key, value) => {
    const view = viewOf({ nodes: ['a'] });

    view.take({ key, value, modRevision: 50 }, 20_000);
    const comes = isStable(view, options, 29_000);
    view.take({ key, value: null, modRevision: 51 }, 30_000);

    expect(comes).toBe(false);
    expect(isStable(view, options, 39_000)).toBe(false);
    expect(isStable(view, options, 40_000)).toBe(true);
  });

  test('a shard that changes does not', () => {
    const view = viewOf({ nodes: ['a'], shards: ['a,a'] });

    view.take({ key: '/goverse/shard/0', value: 'b,a', modRevision: 50 }, 20_000);

    expect(isStable(view, options, 20_001)).toBe(true);
  });
});

describe('a node tries to lead', () => {
  test.each([
    ['where nobody does', undefined, true],
    ['where who did is gone', 'gone', true],
    ['not while the leader lives', 'b', false],
    ['not when it does already', 'a', false],
  ])('%s', (_, leader, mustTry) => {
    const view = viewOf({ nodes: ['a', 'b'], ...(leader === undefined ? {} : { leader }) });

    expect(mustCampaign(view, 'a')).toBe(mustTry);
  });

  test('not before it is registered', () => {
    expect(mustCampaign(viewOf({ nodes: ['b'] }), 'a')).toBe(false);
  });
});

describe('hand-overs', () => {
  test('a node claims what is meant for it and nobody alive has', () => {
    const view = viewOf({ nodes: ['a', 'b'], shards: ['a,', 'a,gone', 'a,b', 'b,', 'a', 'a,a'] });

    expect(numbers(claimsOf(view, 'a'))).toEqual([0, 1, 4]);
    expect(claimsOf(view, 'a')[0]).toMatchObject({ target: 'a', current: 'a' });
  });

  test('a node releases what is meant for another, whether that one lives or not', () => {
    const view = viewOf({ nodes: ['a', 'b'], shards: ['b,a', 'gone,a', 'a,a', ',a', 'b,b'] });

    expect(numbers(releasesOf(view, 'a', noObjects))).toEqual([0, 1]);
    expect(releasesOf(view, 'a', noObjects)[0]).toMatchObject({ target: 'b', current: '' });
  });

  test('flags that nobody knows survive a claim and a release', () => {
    const view = viewOf({ nodes: ['a', 'b'], shards: ['a,,f=x,f=pinned', 'b,a,f=y'] });

    expect(claimsOf(view, 'a')[0]?.flags).toEqual(['x', 'pinned']);
    expect(releasesOf(view, 'a', noObjects)[0]?.flags).toEqual(['y']);
  });

  test('a shard is kept while an object of it is in memory, and evicted first', () => {
    const view = viewOf({ nodes: ['a', 'b'], shards: ['b,a'] });
    const objects = new LocalObjects(['one'], 1);
    objects.load([0]);

    const before = releasesOf(view, 'a', objects);
    objects.evict(evictionsOf(view, 'a', objects));

    expect(before).toEqual([]);
    expect(numbers(releasesOf(view, 'a', objects))).toEqual([0]);
  });

  test('objects of shards that somebody else has leave the memory, the others stay', () => {
    const objects = new LocalObjects(objectIds(50), 3);
    objects.load([0, 1, 2]);

    const evictions = evictionsOf(
      viewOf({ nodes: ['a', 'b'], shards: ['a,a', 'b,b', 'b,a'] }),
      'a',
      objects,
    );

    expect(evictions).toEqual([1, 2]);
  });
});

describe('a caller', () => {
  const nodes = new Set(['a', 'b']);

  test.each([
    ['a,a', true, true],
    [',a', true, true],
    ['b,a', true, false],
    ['a,', false, false],
    ['a,gone', false, false],
    ['gone,gone', false, false],
    ['a', false, false],
  ])('of a shard at %s: owned %s, routable %s', (text, owned, routable) => {
    const value = parseShard(text) ?? expect.unreachable();

    expect([isOwned(nodes, value), isRoutable(nodes, value)]).toEqual([owned, routable]);
  });
});

describe('objects', () => {
  test('are spread by FNV-1a of 32 bits', () => {
    // The reference vectors of the algorithm: 0x811c9dc5, 0xe40c292c, 0xbf9cf968.
    expect(['', 'a', 'foobar'].map((id) => shardOfObject(id, 2 ** 32))).toEqual([
      2_166_136_261, 3_826_002_220, 3_214_735_720,
    ]);
    expect(shardOfObject('foobar', 8_192)).toBe(3_214_735_720 % 8_192);
  });

  test('with a slash in their id are neither counted nor evicted', () => {
    const objects = new LocalObjects(['shard#0/x', 'a/y', 'plain'], 1);

    objects.load([0]);

    expect([objects.countOf(0), objects.size]).toEqual([1, 1]);
  });
});
