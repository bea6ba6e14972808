import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { goverseShards, packShards } from '#shared/archive/packed-shards.ts';
import type { GoverseShard } from '#shared/goverse/goverse.ts';

const node = fc.constantFrom('', '10.0.0.1:47000', '10.0.0.2:47000');
const shards: fc.Arbitrary<GoverseShard[]> = fc
  .record({
    owned: fc.array(
      fc.record({
        target: node,
        current: node,
        flags: fc.constantFrom([], ['pinned', 'millrace-a']),
        modRevision: fc.constantFrom('1', '7', '9223372036854775807'),
      }),
    ),
    first: fc.constantFrom(0, 0, 7),
  })
  .map(({ owned, first }) => owned.map((each, place) => ({ shard: first + 2 * place, ...each })));

describe('packed shards', () => {
  test('are what they were', () => {
    fc.assert(
      fc.property(shards, (given) => {
        const text = JSON.stringify(packShards(given));

        expect(goverseShards.parse(JSON.parse(text))).toEqual(given);
        expect(goverseShards.parse(given)).toEqual(given);
      }),
    );
  });

  test('of a cluster with 8,192 leave room for the rest of an entry', () => {
    const given = Array.from({ length: 8_192 }, (_, shard) => ({
      shard,
      modRevision: String(1_000_000 + ((shard * 7) % 8_192)),
      target: `10.0.0.${shard % 3}:47000`,
      current: `10.0.0.${shard % 3}:47000`,
      flags: [],
    }));

    expect(JSON.stringify(packShards(given)).length).toBeLessThan(60_000);
  });

  test.each([
    { shards: '0,1', modRevisions: '1' },
    { shards: '0', modRevisions: '1x2' },
    { shards: '0x99999', modRevisions: '1x99999' },
    { shards: 'a', modRevisions: '1' },
  ])('whose columns do not fit each other are none: %j', (columns) => {
    const packed = [{ target: '', current: '', flags: [], ...columns }];

    expect(goverseShards.safeParse({ packed }).success).toBe(false);
  });
});
