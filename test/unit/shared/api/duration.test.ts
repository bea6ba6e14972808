import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { durationSeconds } from '#shared/api/duration.ts';

describe('a duration', () => {
  test.each([
    ['5m', 300],
    ['1h30m', 5400],
    ['90s', 90],
    ['1.5h', 5400],
    ['250ms', 0.25],
    ['1m0.001s', 60.001],
    ['30m1h', 5400],
    ['0s', 0],
  ])('%s has %d seconds', (duration, seconds) => {
    expect(durationSeconds(duration)).toBe(seconds);
  });

  test.each(['', '5', 'm', '-5m', '+5m', '5 m', '5M', '1d', '1h-5m', '.5h', '1e3s', ' 5m', '5m\n'])(
    '%j is none',
    (text) => {
      expect(() => durationSeconds(text)).toThrow(RangeError);
    },
  );

  test('is refused where it is longer than the API admits', () => {
    expect(() => durationSeconds('1h1h1h1h1h1h1h1h1h')).toThrow(RangeError);
  });

  test('is what its hours, minutes and seconds add up to', () => {
    const part = fc.nat(9999);

    fc.assert(
      fc.property(part, part, part, (hours, minutes, seconds) => {
        expect(durationSeconds(`${hours}h${minutes}m${seconds}s`)).toBe(
          hours * 3600 + minutes * 60 + seconds,
        );
      }),
    );
  });
});
