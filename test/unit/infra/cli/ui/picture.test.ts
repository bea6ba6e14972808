import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { binNear, binsOf, crowdedLanes, firstFrom, nextMark } from '#infra/cli/ui/page/bins.ts';
import { shapeAt, strokeAt } from '#infra/cli/ui/page/shapes.ts';
import { durationText } from '#infra/cli/ui/page/time-text.ts';
import {
  around,
  instantAt,
  panned,
  placeOf,
  showing,
  ticksIn,
  zoomed,
} from '#infra/cli/ui/page/window.ts';
import { type Mark, outcomes } from '#infra/cli/ui/protocol.ts';

const minute = 60_000;
const day = 24 * 60 * minute;
const midnight = Date.parse('2026-01-01T00:00:00Z');

function mark(at: number, change: Partial<Mark> = {}): Mark {
  return { at, lane: 0, outcome: 'settled', reason: 'R', message: '', effects: [], ...change };
}

const everything = (): boolean => true;

describe('the stretch of time that is shown', () => {
  const limit = { from: 0, to: 1_000_000 };
  const place = fc.double({ min: 0, max: 1, noNaN: true });

  test('whatever is zoomed and moved, it stays within what there is and never turns around', () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.tuple(
            fc.constantFrom('zoom', 'pan'),
            fc.double({ min: -3, max: 3, noNaN: true }),
            place,
          ),
        ),
        (moves) => {
          const end = moves.reduce(
            (window, [how, by, where]) =>
              how === 'zoom'
                ? zoomed(
                    window,
                    Math.exp(by),
                    window.from + where * (window.to - window.from),
                    limit,
                  )
                : panned(window, by, limit),
            limit,
          );
          expect(end.to - end.from).toBeGreaterThanOrEqual(999.99);
          expect(end.from).toBeGreaterThanOrEqual(-0.01);
          expect(end.to).toBeLessThanOrEqual(limit.to + 0.01);
        },
      ),
    );
  });

  test('what is zoomed at stays where it is', () => {
    const before = { from: 200_000, to: 600_000 };

    const after = zoomed(before, 0.5, 300_000, limit);

    expect(placeOf(300_000, after, 800)).toBeCloseTo(placeOf(300_000, before, 800));
  });

  test('a place is the instant that is drawn there', () => {
    expect(instantAt(placeOf(123_456, limit, 700), limit, 700)).toBeCloseTo(123_456);
  });

  test('what is pointed at comes into view, and the window keeps its length', () => {
    const window = { from: 0, to: 100_000 };

    const moved = showing(window, 500_000, limit);

    expect(moved).toEqual({ from: 450_000, to: 550_000 });
    expect(showing(moved, 460_000, limit)).toBe(moved);
  });

  test('all of it has a little room at both ends', () => {
    expect(around({ from: 0, to: 1_000_000 })).toEqual({ from: -20_000, to: 1_020_000 });
  });

  test('ticks are round times of the wall, midnights among them', () => {
    const ticks = ticksIn({ from: midnight - 5 * minute, to: midnight + 5 * minute }, 5, 0);

    expect(ticks).toContainEqual({ at: midnight, grain: 'day' });
    expect(ticks.map(({ at }) => (at - midnight) / minute)).toEqual([-4, -2, 0, 2, 4]);
  });

  test('where the wall is ahead of UTC, days begin earlier', () => {
    const ticks = ticksIn({ from: midnight - day, to: midnight + day }, 4, 60);

    expect(ticks).toContainEqual({ at: midnight - 60 * minute, grain: 'day' });
  });

  test('there are never many more ticks than fit', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1_000, max: 400 * day }),
        fc.integer({ min: 2, max: 30 }),
        (span, most) => {
          expect(
            ticksIn({ from: midnight, to: midnight + span }, most, 0).length,
          ).toBeLessThanOrEqual(most + 1);
        },
      ),
    );
  });
});

describe('what is drawn of many marks', () => {
  const window = { from: 0, to: 900 };

  test('10,000 marks are no more than there are places for', () => {
    const marks = Array.from({ length: 10_000 }, (_, place) =>
      mark(place / 12, {
        lane: place % 4,
        outcome: outcomes[place % outcomes.length] ?? 'settled',
      }),
    );

    const bins = binsOf(marks, window, 900, everything);

    expect(bins.length).toBeLessThanOrEqual(4 * outcomes.length * 301);
    expect(bins.reduce((sum, { count }) => sum + count, 0)).toBe(10_000);
  });

  test('a mark about a member is in two lanes, and knows its newest neighbour', () => {
    const marks = [mark(99, { member: 5 }), mark(100, { member: 5 })];

    const bins = binsOf(marks, window, 900, everything);

    expect(bins).toEqual([
      { x: 99, lane: 0, outcome: 'settled', count: 2, last: 1 },
      { x: 99, lane: 5, outcome: 'settled', count: 2, last: 1 },
    ]);
  });

  test('what is hidden or out of view is not drawn', () => {
    const marks = [mark(-5), mark(100, { outcome: 'event' }), mark(200), mark(901)];

    const bins = binsOf(marks, window, 900, (outcome) => outcome !== 'event');

    expect(bins.map(({ last }) => last)).toEqual([2]);
  });

  test('a lane is crowded when shapes would lie upon one another', () => {
    const marks = Array.from({ length: 200 }, (_, place) => mark(place * 4.5));
    const bins = binsOf([...marks, mark(899, { lane: 1 })], window, 900, everything);

    expect([...crowdedLanes(bins, 900)]).toEqual([0]);
  });

  test('a pointer means the nearest mark of its lane, if one is near', () => {
    const bins = binsOf([mark(100), mark(110), mark(112, { lane: 1 })], window, 900, everything);

    expect(binNear(bins, 0, 107, 9)?.last).toBe(1);
    expect(binNear(bins, 0, 300, 9)).toBeUndefined();
  });

  test('keys go from mark to mark, along a lane and past what is hidden', () => {
    const marks = [
      mark(1),
      mark(2, { lane: 1 }),
      mark(3, { outcome: 'event' }),
      mark(4, { lane: 2, member: 1 }),
    ];
    const isShown = (outcome: string): boolean => outcome !== 'event';

    expect(nextMark(marks, undefined, 1, isShown)).toBe(0);
    expect(nextMark(marks, 1, 1, isShown)).toBe(3);
    expect(nextMark(marks, undefined, -1, isShown, 1)).toBe(3);
    expect(nextMark(marks, 3, -1, isShown, 1)).toBe(1);
    expect(nextMark(marks, 3, 1, isShown)).toBeUndefined();
  });

  test('the first mark of a time is found however many there are', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: 50 })),
        fc.integer({ min: 0, max: 50 }),
        (times, at) => {
          const marks = times.toSorted((one, other) => one - other).map((each) => mark(each));
          const found = marks.findIndex((each) => each.at >= at);
          expect(firstFrom(marks, at)).toBe(found === -1 ? marks.length : found);
        },
      ),
    );
  });

  test('every outcome has a shape and a stroke of its own', () => {
    expect(new Set(outcomes.map((outcome) => shapeAt(outcome, 0, 0))).size).toBe(outcomes.length);
    // Two that say nothing of a decision may look alike in a crowd.
    expect(new Set(outcomes.map((outcome) => strokeAt(outcome, 0, 0))).size).toBe(
      outcomes.length - 1,
    );
  });
});

test.each([
  [400, '0 s'],
  [89_000, '89 s'],
  [100_000, '1 min'],
  [125 * minute, '2 h 5 min'],
  [13 * 60 * minute + minute, '13 h'],
  [3 * day, '3 d'],
])('%i ms are said as %s', (ms, text) => {
  expect(durationText(ms)).toBe(text);
});
