import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  type PoolerRecord,
  compareRules,
  isRetired,
  isSamePooler,
  isSetAside,
} from '#shared/topology/topology.ts';

const int64 = fc.bigInt({ min: 0n, max: 2n ** 63n - 1n });
const rule = fc
  .tuple(int64, int64)
  .map(([term, subterm]) => ({ term: String(term), subterm: String(subterm) }));

describe('comparing rules', () => {
  test.each([
    ['1', '0', '2', '0', -1],
    ['2', '0', '1', '9', 1],
    ['1', '1', '1', '2', -1],
    ['9', '0', '10', '0', -1],
    ['9007199254740993', '0', '9007199254740992', '0', 1],
    ['3', '4', '3', '4', 0],
  ])('%s.%s against %s.%s is %i', (term, subterm, otherTerm, otherSubterm, order) => {
    expect(compareRules({ term, subterm }, { term: otherTerm, subterm: otherSubterm })).toBe(order);
  });

  test('is an order', () => {
    fc.assert(
      fc.property(rule, rule, (a, b) => {
        expect(compareRules(a, b) + compareRules(b, a)).toBe(0);
        expect(compareRules(a, a)).toBe(0);
      }),
    );
  });
});

test('poolers of one name in two cells are two', () => {
  expect(isSamePooler({ cell: 'a', name: 'p' }, { cell: 'a', name: 'p' })).toBe(true);
  expect(isSamePooler({ cell: 'a', name: 'p' }, { cell: 'b', name: 'p' })).toBe(false);
});

type Standing = Pick<PoolerRecord, 'generation' | 'lifecycle' | 'serving' | 'role'>;

const stopped: Standing = {
  generation: 'current',
  lifecycle: 'shutdown',
  serving: 'disabled',
  role: 'none',
};
const legacy: Standing = { ...stopped, generation: 'legacy', lifecycle: 'unknown' };

test.each<[string, Standing, boolean]>([
  ['says all that a graceful stop leaves', stopped, true],
  ['still serves', { ...stopped, serving: 'serving' }, false],
  ['still has a role', { ...stopped, role: 'replica' }, false],
  ['is active', { ...stopped, lifecycle: 'active' }, false],
  ['is of the older generation, which keeps its role', { ...legacy, role: 'replica' }, true],
  ['is of the older generation and serves', { ...legacy, serving: 'serving' }, false],
])('a record that %s is retired or not', (_, record, expected) => {
  expect(isRetired(record)).toBe(expected);
});

test.each<[string, Standing, boolean]>([
  ['QUARANTINED', { ...stopped, lifecycle: 'quarantined' }, true],
  ['DRAINED in the older generation', legacy, true],
  ['a replica of the older generation', { ...legacy, role: 'replica' }, false],
  ['stopped', stopped, false],
])('a record that is %s is put aside or not', (_, record, expected) => {
  expect(isSetAside(record)).toBe(expected);
});
