import { describe, expect, test } from 'vitest';
import { servedKinds } from '#infra/kubernetes/crd.ts';
import { rulesOf } from '#infra/kubernetes/structural-schema.ts';
import { ruleHolds } from '#test/world/model/cel-rules.ts';

const rules = servedKinds.flatMap(({ kind, schema }) =>
  rulesOf(schema).map(({ path, rule }) => ({ kind, path, rule })),
);

describe('the rules of the definitions, in the model', () => {
  test('are found', () => {
    expect(rules.length).toBeGreaterThan(35);
  });

  test.each(rules)('$kind $path: $rule', ({ rule }) => {
    // What a rule makes of values of the wrong form is of no interest; that it is known is.
    expect(() => ruleHolds(rule, '', '')).not.toThrow();
  });

  test('throw where one is new, so that the model admits nothing unseen', () => {
    expect(() => ruleHolds("self.startsWith('new')", 'new', undefined)).toThrow('does not know');
  });

  test.each([
    ['10Gi', true],
    ['0.5', true],
    ['.5Ti', true],
    ['1e3', true],
    ['100m', true],
    ['0', false],
    ['0Gi', false],
    ['-1', false],
    ['1 Gi', false],
    ['1KB', false],
    ['', false],
    [7, false],
  ])('a size of %j is one: %s', (size, isSize) => {
    const rule = "isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))";

    expect(ruleHolds(rule, size, undefined)).toBe(isSize);
  });
});
