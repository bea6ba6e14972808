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
        modRevision: fc.constantFrom('1', '9223372036854775807'),
      }),
    ),
    first: fc.constantFrom(0, 0, 7),
  })
  .map(({ owned, first }) => owned.map((each, place) => ({ shard: first + place, ...each })));

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
      modRevision: String(1_000_000 + shard),
      target: `10.0.0.${shard % 3}:47000`,
      current: `10.0.0.${shard % 3}:47000`,
      flags: [],
    }));

    expect(JSON.stringify(packShards(given)).length).toBeLessThan(100_000);
  });

  test.each([
    { owner: '0x2', modRevision: '1' },
    { owner: '0', modRevision: '1,2' },
    { owner: '1', modRevision: '1' },
    { owner: '0x99999999', modRevision: '1' },
    { owner: '0', modRevision: '1', shard: '0,1' },
  ])('whose columns do not fit each other are none: %j', (columns) => {
    const owners = [{ target: '', current: '', flags: [] }];

    expect(goverseShards.safeParse({ owners, ...columns }).success).toBe(false);
  });
});
