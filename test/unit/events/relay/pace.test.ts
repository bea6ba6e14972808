import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Pace } from '#events/relay/pace.ts';

const limits = { burst: 5, everyMs: 1_000 };

/** Spends whenever it may, at these moments; says at which. */
function spendings(pace: Pace, momentsMs: readonly number[]): number[] {
  return momentsMs.filter((ms) => {
    const isAllowed = pace.allows('a', ms);
    if (isAllowed) {
      pace.spend('a', ms);
    }
    return isAllowed;
  });
}

describe('a target’s pace', () => {
  test('is a burst, then one in each period', () => {
    const moments = Array.from({ length: 31 }, (_, index) => index * 100);

    expect(spendings(new Pace(limits), moments)).toEqual([
      0, 100, 200, 300, 400, 1_000, 2_000, 3_000,
    ]);
  });

  test('is a whole burst again after a rest, and never more', () => {
    const pace = new Pace(limits);
    spendings(pace, [0, 0, 0, 0, 0]);

    const later = 1_000_000;

    expect(spendings(pace, Array<number>(20).fill(later))).toHaveLength(5);
  });

  test('is its own: another one’s burst takes nothing from it', () => {
    const pace = new Pace(limits);
    spendings(pace, [0, 0, 0, 0, 0, 0]);

    expect([pace.allows('a', 0), pace.allows('b', 0)]).toEqual([false, true]);
  });

  test('never exceeds the burst and one a period, over any moments', () => {
    fc.assert(
      fc.property(fc.array(fc.nat({ max: 700 }), { maxLength: 200 }), (gapsMs) => {
        let ms = 0;
        const spent = spendings(
          new Pace(limits),
          gapsMs.map((gapMs) => (ms += gapMs)),
        );

        for (const [place, from] of spent.entries()) {
          for (const [further, to] of spent.slice(place).entries()) {
            expect(further + 1).toBeLessThanOrEqual(5 + (to - from) / 1_000);
          }
        }
      }),
    );
  });

  test('L8: is remembered only of those that were hinted at lately', () => {
    const pace = new Pace(limits);
    for (let count = 0; count < 10_000; count += 1) {
      pace.spend(`target-${count}`, count * 10);
    }

    expect(pace.size).toBeLessThanOrEqual(limits.everyMs / 10 + 1);
  });
});
