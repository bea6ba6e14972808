import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Wakes } from '#events/relay/wakes.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import type { Wake } from '#shared/kernel/record.ts';

const start = Date.parse('2026-01-01T00:00:00Z');
const at = (seconds: number) => (start + seconds * 1000) as Instant;
const sleeper = { step: 'drain-step', uid: 'a' } as const;

/** Seconds at which it fired when it was looked at every second from 0 to `until`. */
function firings(wakes: Wakes, until: number): number[] {
  const fired: number[] = [];
  for (let second = 0; second <= until; second += 1) {
    fired.push(...wakes.fire(at(second)).map(() => second));
  }
  return fired;
}

describe('a wake', () => {
  test('with a period fires each time it is over', () => {
    const wakes = new Wakes();
    wakes.set(sleeper, { every: 5 }, at(0));

    expect(firings(wakes, 16)).toEqual([5, 10, 15]);
  });

  test('with a period begins it anew when its record was written, and not when it is only seen again', () => {
    const wakes = new Wakes();
    wakes.set(sleeper, { every: 5 }, at(0), 'requested');
    wakes.set(sleeper, { every: 5 }, at(3), 'draining');
    wakes.set(sleeper, { every: 5 }, at(6), 'draining');

    expect(firings(wakes, 14)).toEqual([8, 13]);
  });

  test('at an instant fires then', () => {
    const wakes = new Wakes();
    wakes.set(sleeper, { at: '2026-01-01T00:00:07Z' }, at(0));

    expect(firings(wakes, 100)).toEqual([7]);
  });

  test('L9: whose instant has passed when it is first seen fires at once', () => {
    const wakes = new Wakes();
    wakes.set(sleeper, { at: '2025-12-31T00:00:00Z' }, at(0));

    expect(wakes.fire(at(0))).toEqual([{ ...sleeper, due: at(-86_400) }]);
  });

  test('F26: that nobody answered because a clock was behind fires again after five minutes', () => {
    const wakes = new Wakes();
    wakes.set(sleeper, { at: '2026-01-01T00:00:07Z' }, at(0));

    expect(firings(wakes, 700)).toEqual([7, 307, 607]);
  });

  test('seen again as it was keeps its time', () => {
    const wakes = new Wakes();
    wakes.set(sleeper, { every: 5 }, at(0));
    wakes.set(sleeper, { every: 5 }, at(4));

    expect(wakes.nextDue()).toBe(at(5));
  });

  test('at an instant, seen again after it fired, is not due at once', () => {
    const wakes = new Wakes();
    const wake = { at: '2026-01-01T00:00:07Z' };
    wakes.set(sleeper, wake, at(0));
    wakes.fire(at(7));

    wakes.set(sleeper, wake, at(8));

    expect(wakes.nextDue()).toBe(at(307));
  });

  test.each([
    ['went on by half a second', 10.5, 15],
    ['went back by a second, as clocks do', 9, 15],
    ['was set back by more', 8.999, 13.999],
  ])('with a period keeps it or begins it anew where the clock %s', (_what, second, due) => {
    const wakes = new Wakes();
    wakes.set(sleeper, { every: 5 }, at(10));
    wakes.fire(at(10));

    wakes.fire(at(second));

    expect(wakes.nextDue()).toBe(at(due));
  });

  test('that changed counts from then', () => {
    const wakes = new Wakes();
    wakes.set(sleeper, { every: 60 }, at(0));
    wakes.set(sleeper, { every: 5 }, at(10));

    expect(wakes.nextDue()).toBe(at(15));
  });

  test('that was taken back never fires', () => {
    const wakes = new Wakes();
    wakes.set(sleeper, { every: 5 }, at(0));
    wakes.set(sleeper, undefined, at(1));

    expect(wakes.fire(at(100))).toEqual([]);
    expect(wakes.nextDue()).toBeUndefined();
    expect(wakes.size).toBe(0);
  });

  test('that missed many periods fires once', () => {
    const wakes = new Wakes();
    wakes.set(sleeper, { every: 5 }, at(0));

    expect(wakes.fire(at(100))).toHaveLength(1);
    expect(wakes.nextDue()).toBe(at(105));
  });

  test('F26: with a period does not wait for a wall clock that was set back', () => {
    const wakes = new Wakes();
    wakes.set(sleeper, { every: 5 }, at(3600));
    wakes.fire(at(3601));

    wakes.fire(at(0));

    expect(wakes.nextDue()).toBe(at(5));
  });
});

test('L8: wakes that change for ever take no more memory than there are wakes', () => {
  const wakes = new Wakes();

  for (let second = 0; second < 100_000; second += 1) {
    wakes.set(sleeper, { at: new Date(at(second + 1_000_000)).toISOString() }, at(second));
  }

  expect(wakes.size).toBe(1);
  expect(wakes.heapSize).toBeLessThan(200);
});

test('wakes that change often still fire in their order', () => {
  const wakes = new Wakes();
  for (const [uid, every] of Object.entries({ late: 300, middle: 200, early: 100 })) {
    wakes.set({ step: 'drain-step', uid }, { every }, at(0));
  }

  for (let round = 0; round < 200; round += 1) {
    wakes.set(sleeper, { every: 1_000 + round }, at(0));
  }

  expect(wakes.nextDue()).toBe(at(100));
  expect(wakes.fire(at(1_200)).map(({ uid }) => uid)).toEqual(['early', 'middle', 'late', 'a']);
});

test('L8: wakes that are taken back take no memory until they would have been due', () => {
  const wakes = new Wakes();
  const uids = Array.from({ length: 1_000 }, (_, index) => `target-${index}`);
  uids.forEach((uid) => wakes.set({ step: 'drain-step', uid }, { every: 60 }, at(0)));

  uids.forEach((uid) => wakes.set({ step: 'drain-step', uid }, undefined, at(1)));

  expect(wakes.size).toBe(0);
  expect(wakes.heapSize).toBeLessThan(100);
});

test('any mix of wakes fires like one that looks at all of them each second', () => {
  const uid = fc.constantFrom('a', 'b', 'c', 'd', 'e');
  const wake: fc.Arbitrary<Wake | undefined> = fc.oneof(
    fc.constant(undefined),
    fc.record({ every: fc.integer({ min: 1, max: 20 }) }),
    fc.integer({ min: -5, max: 60 }).map((second) => ({ at: new Date(at(second)).toISOString() })),
  );
  const change = fc.record({ second: fc.integer({ min: 0, max: 50 }), uid, wake });

  fc.assert(
    fc.property(fc.array(change, { maxLength: 30 }), (changes) => {
      const wakes = new Wakes();
      const plain = new Map<string, { wake: Wake; due: number }>();
      for (let second = 0; second <= 60; second += 1) {
        for (const { uid, wake } of changes.filter((change) => change.second === second)) {
          wakes.set({ step: 'drain-step', uid }, wake, at(second));
          const before = plain.get(uid);
          if (wake === undefined) {
            plain.delete(uid);
          } else if (JSON.stringify(before?.wake) !== JSON.stringify(wake)) {
            const due =
              'every' in wake ? second + wake.every : (Date.parse(wake.at) - start) / 1000;
            plain.set(uid, { wake, due });
          }
        }
        const expected = [...plain].filter(([, { due }]) => due <= second);
        for (const [uid, { wake }] of expected) {
          plain.set(uid, { wake, due: second + ('every' in wake ? wake.every : 300) });
        }

        const fired = wakes.fire(at(second));

        expect(fired.map(({ uid }) => uid).toSorted()).toEqual(
          expected.map(([uid]) => uid).toSorted(),
        );
      }
    }),
  );
});
