import { describe, expect, test } from 'vitest';
import { costRow, mostNamed, progressIn } from '#infra/local/show/goverse-told.ts';

describe('what is told of a cluster of GoVerse', () => {
  test('is how many shards the node that goes still has, as the status says', () => {
    const draining = { pod: 'cache-1', left: 2_731, since: '2026-01-01T00:00:00Z' };

    expect(progressIn({ draining, inMigration: 1_365 })).toBe(
      'cache-1 has 2,731 shards left, 1,365 are meant for others',
    );
  });

  test('is nothing while no node is handed over, whatever GoVerse moves by itself', () => {
    expect(progressIn({ inMigration: 64, unowned: 12 })).toBeUndefined();
  });

  test('is what it cost that a node went, in seconds', () => {
    const seen = {
      allOwnedMs: 9_940,
      unowned: { count: 2_731, meanMs: 2_600, maxMs: 3_900 },
      unroutable: { count: 2_731, meanMs: 7_560, maxMs: 8_849 },
    };

    expect(costRow('handed over', 'cache-1', seen, 0)).toEqual({
      'how it goes': 'handed over',
      node: 'cache-1',
      'shards hit': '2,731',
      'all owned after': '9.9 s',
      'unowned mean / max': '2.6 / 3.9 s',
      'unroutable mean / max': '7.6 / 8.8 s',
      'marks left': '0',
    });
  });
});

describe('the name that occurs most often', () => {
  test('is the first by name among equals, which is GoVerse’s order', () => {
    expect(mostNamed(['b', 'c', 'a', 'b', 'a'])).toBe('a');
    expect(mostNamed(['b', 'c', 'b', 'a'])).toBe('b');
  });

  test('is none of none', () => {
    expect(mostNamed([])).toBeUndefined();
  });
});
