import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compareRules, isSamePooler } from '#shared/topology/topology.ts';

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
