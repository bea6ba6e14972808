import { describe, expect, test } from 'vitest';
import { keysOf, shardKey, shardNumber } from '#shared/goverse/keys.ts';
import { viewOf } from '#shared/goverse/view.ts';

const keys = keysOf('/goverse');

function aView(entries: Readonly<Record<string, string>>, shardCount = 8) {
  return viewOf(
    keys,
    shardCount,
    '77',
    Object.entries(entries).map(([key, value], place) => ({
      key,
      value: Buffer.from(value),
      modRevision: String(place + 1),
    })),
  );
}

describe('the keys of a cluster', () => {
  test('are found below its prefix', () => {
    expect([shardKey(keys, 7), keysOf('/a/b').leader]).toEqual(['/goverse/shard/7', '/a/b/leader']);
  });

  test.each(['', 'goverse', '/goverse/', '/a//b', '/a b'])(
    'are not looked for below %j',
    (prefix) => {
      expect(() => keysOf(prefix)).toThrow('prefix');
    },
  );

  test.each([
    ['7', 7],
    ['8', undefined],
    ['07', undefined],
    ['-1', undefined],
    ['7x', undefined],
    ['', undefined],
  ])('shard/%s is shard %s of eight', (digits, shard) => {
    expect(shardNumber(keys, `${keys.shards}${digits}`, 8)).toBe(shard);
  });
});

describe('a view', () => {
  test('has members and shards in their order, with what a write has to compare', () => {
    const view = aView({
      '/goverse/gates/g:1': 'g:1',
      '/goverse/leader': 'b:1',
      '/goverse/nodes/b:1': 'b:1',
      '/goverse/nodes/a:1': 'a:1',
      '/goverse/shard/2': 'a:1,b:1,f=pinned',
      '/goverse/shard/1': 'a:1',
    });

    expect(view).toEqual({
      revision: '77',
      nodes: [
        { address: 'a:1', modRevision: '4' },
        { address: 'b:1', modRevision: '3' },
      ],
      gates: [{ address: 'g:1', modRevision: '1' }],
      leader: { address: 'b:1', modRevision: '2' },
      shards: [
        { shard: 1, modRevision: '6', target: 'a:1', current: '', flags: [] },
        { shard: 2, modRevision: '5', target: 'a:1', current: 'b:1', flags: ['pinned'] },
      ],
      unreadable: [],
    });
  });

  test('of an empty store has no leader', () => {
    expect(aView({})).toMatchObject({ leader: null, nodes: [], shards: [] });
  });

  test('leaves out keys of other kinds', () => {
    expect(aView({ '/goverse/lock/x': '1' })).toEqual(aView({}));
  });

  test.each([
    ['a shard beyond the count', '/goverse/shard/8', 'a:1,a:1'],
    ['a shard without a number', '/goverse/shard/x', 'a:1,a:1'],
    ['a value with parts of unknown meaning', '/goverse/shard/1', 'a:1,a:1,new'],
    ['a node whose value is another’s', '/goverse/nodes/a:1', 'b:1'],
    ['a gate without an address', '/goverse/gates/g:1', ''],
    ['a leader that is no address', '/goverse/leader', 'a,b'],
  ])('does not pass over %s', (_, key, value) => {
    expect(aView({ [key]: value })).toMatchObject({
      nodes: [],
      gates: [],
      leader: null,
      shards: [],
      unreadable: [{ key }],
    });
  });
});
