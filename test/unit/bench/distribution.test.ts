import { describe, expect, test } from 'vitest';
import { histogram, mean, median, percentile } from '#test/bench/distribution.ts';

describe('a percentile', () => {
  test('is a value that was measured and that so many do not exceed', () => {
    const values = [40, 10, 30, 20];

    expect([0, 0.25, 0.5, 0.51, 0.99, 1].map((share) => percentile(values, share))).toEqual([
      10, 10, 20, 30, 40, 40,
    ]);
  });

  test('of nothing is no number', () => {
    expect(percentile([], 0.5)).toBeNaN();
    expect(mean([])).toBeNaN();
  });

  test('leaves the values in their order', () => {
    const values = [3, 1, 2];

    median(values);

    expect(values).toEqual([3, 1, 2]);
  });
});

describe('a histogram', () => {
  test('counts each value once, in the first interval that holds it', () => {
    expect(histogram([0, 10, 11, 20, 21, 500], [10, 20], 'ms')).toBe(
      '≤ 10 ms: 2, ≤ 20 ms: 2, more: 2',
    );
  });
});
