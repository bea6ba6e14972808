import { describe, expect, test } from 'vitest';
import {
  type Timing,
  countSlots,
  isJitterTooLong,
  jitterSeconds,
  nextSlots,
  timetableOf,
} from '#functions/backup-trigger/slots.ts';
import { type Instant, parseInstant, toText } from '#shared/kernel/instant.ts';

function instant(text: string): Instant {
  const parsed = parseInstant(text);
  if (parsed === undefined) {
    throw new Error(`${text} is no instant`);
  }
  return parsed;
}

function slotsOf(timing: Timing) {
  const timetable = timetableOf(timing);
  if (timetable.kind === 'invalid') {
    throw new Error(timetable.why);
  }
  return timetable.slots;
}

function cron(expression: string, timeZone = 'UTC'): Timing {
  return { kind: 'cron', cron: expression, timeZone };
}

function next(timing: Timing, after: string, count: number): string[] {
  return nextSlots(slotsOf(timing), instant(after), count).map(toText);
}

const nights: readonly (readonly [
  what: string,
  expression: string,
  zone: string,
  after: string,
  slots: readonly string[],
])[] = [
  [
    'Europe/London leaves 01:30 out in spring',
    '30 1 * * *',
    'Europe/London',
    '2026-03-28T00:00:00Z',
    ['2026-03-28T01:30:00Z', '2026-03-30T00:30:00Z'],
  ],
  [
    'Europe/London shows 01:30 twice in autumn, and the first counts',
    '30 1 * * *',
    'Europe/London',
    '2026-10-24T00:00:00Z',
    ['2026-10-24T00:30:00Z', '2026-10-25T00:30:00Z', '2026-10-26T01:30:00Z'],
  ],
  [
    'in Europe/London each half hour of the repeated hour counts once',
    '*/30 * * * *',
    'Europe/London',
    '2026-10-24T23:40:00Z',
    ['2026-10-25T00:00:00Z', '2026-10-25T00:30:00Z', '2026-10-25T02:00:00Z'],
  ],
  [
    'in Europe/London each quarter of an hour beside the gap counts',
    '*/15 * * * *',
    'Europe/London',
    '2026-03-29T00:40:00Z',
    ['2026-03-29T00:45:00Z', '2026-03-29T01:00:00Z', '2026-03-29T01:15:00Z'],
  ],
  [
    'America/New_York leaves 02:30 out in spring',
    '30 2 * * *',
    'America/New_York',
    '2026-03-07T00:00:00Z',
    ['2026-03-07T07:30:00Z', '2026-03-09T06:30:00Z'],
  ],
  [
    'America/New_York shows 01:30 twice in autumn, and the first counts',
    '30 1 * * *',
    'America/New_York',
    '2026-10-31T00:00:00Z',
    ['2026-10-31T05:30:00Z', '2026-11-01T05:30:00Z', '2026-11-02T06:30:00Z'],
  ],
  [
    'Australia/Lord_Howe leaves half an hour out in spring',
    '15 2 * * *',
    'Australia/Lord_Howe',
    '2026-10-02T00:00:00Z',
    ['2026-10-02T15:45:00Z', '2026-10-04T15:15:00Z'],
  ],
  [
    'Australia/Lord_Howe keeps what is beside that half hour',
    '45 2 * * *',
    'Australia/Lord_Howe',
    '2026-10-02T17:00:00Z',
    ['2026-10-03T15:45:00Z', '2026-10-04T15:45:00Z'],
  ],
  [
    'Australia/Lord_Howe shows 01:45 twice in autumn, and the first counts',
    '45 1 * * *',
    'Australia/Lord_Howe',
    '2026-04-03T00:00:00Z',
    ['2026-04-03T14:45:00Z', '2026-04-04T14:45:00Z', '2026-04-05T15:15:00Z'],
  ],
  [
    'Pacific/Apia left a whole day out',
    '0 12 * * *',
    'Pacific/Apia',
    '2011-12-29T00:00:00Z',
    ['2011-12-29T22:00:00Z', '2011-12-30T22:00:00Z', '2011-12-31T22:00:00Z'],
  ],
];

describe('slots', () => {
  test.each(nights)('%s', (_, expression, zone, after, slots) => {
    expect(next(cron(expression, zone), after, slots.length)).toEqual(slots);
  });

  test('are the same ones from wherever they are asked for, also within a repeated hour', () => {
    for (const [, expression, zone, after, slots] of nights) {
      const { after: nextAfter } = slotsOf(cron(expression, zone));
      const last = instant(slots.at(-1) ?? '');
      for (let from = instant(after); from < last; from = (from + 420_000) as Instant) {
        const expected = slots.find((slot) => instant(slot) > from);

        expect(toText(nextAfter(from) ?? (0 as Instant)), `${zone} after ${toText(from)}`).toBe(
          expected,
        );
      }
    }
  });

  test('of every are counted from the epoch', () => {
    expect(next({ kind: 'every', seconds: 10 }, '2026-01-01T00:00:05Z', 2)).toEqual([
      '2026-01-01T00:00:10Z',
      '2026-01-01T00:00:20Z',
    ]);
    expect(next({ kind: 'every', seconds: 7 * 3600 }, '1970-01-01T00:00:00Z', 1)).toEqual([
      '1970-01-01T07:00:00Z',
    ]);
  });

  test('a slot is after the instant, never at it', () => {
    expect(next(cron('0 2 * * *'), '2026-01-01T02:00:00Z', 1)).toEqual(['2026-01-02T02:00:00Z']);
    expect(next({ kind: 'every', seconds: 10 }, '2026-01-01T00:00:10Z', 1)).toEqual([
      '2026-01-01T00:00:20Z',
    ]);
  });

  test.each([
    ['every minute', '* * * * *', '2026-01-01T11:59:00Z'],
    ['every day', '0 2 * * *', '2026-01-01T02:00:00Z'],
    ['every week', '0 2 * * 0', '2025-12-28T02:00:00Z'],
    ['every leap day', '0 0 29 2 *', '2024-02-29T00:00:00Z'],
  ])('the latest of %s is found however long nobody looked', (_, expression, latest) => {
    const { latest: latestOf } = slotsOf(cron(expression));

    const found = latestOf(instant('2019-01-01T00:00:00Z'), instant('2026-01-01T11:59:30Z'));

    expect(found === undefined ? undefined : toText(found)).toBe(latest);
  });

  test('the latest is after the first instant and may be at the second', () => {
    for (const timing of [cron('0 * * * *'), { kind: 'every', seconds: 3600 } as const]) {
      const { latest } = slotsOf(timing);
      const hour = instant('2026-01-01T10:00:00Z');

      expect(latest((hour - 1000) as Instant, hour)).toBe(hour);
      expect(latest(hour, (hour + 1000) as Instant)).toBeUndefined();
    }
  });

  test('counting ends at its limit', () => {
    const slots = slotsOf({ kind: 'every', seconds: 10 });
    const from = instant('2026-01-01T00:00:00Z');

    expect(countSlots(slots, from, instant('2026-01-01T00:01:00Z'), 100)).toBe(6);
    expect(countSlots(slots, from, instant('2026-12-01T00:00:00Z'), 100)).toBe(100);
  });

  test.each([
    ['no day of February', cron('0 0 30 2 *'), /no day that there is/],
    ['a minute that there is not', cron('61 * * * *'), /cannot be read/],
    ['six fields', cron('0 0 2 * * *'), /cannot be read/],
    ['a zone that there is not', cron('0 2 * * *', 'Mars/Olympus'), /IANA/],
  ])('%s is no timetable, and what to change is said', (_, timing, why) => {
    const timetable = timetableOf(timing);

    expect(timetable).toEqual({ kind: 'invalid', why: expect.stringMatching(why) });
  });

  test('a jitter is the same at every look, and spread among shards and schedules', () => {
    const names = Array.from({ length: 1000 }, (_, place) => `schedule-${place}`);

    const offsets = names.map((name) => jitterSeconds('uid', name, 600));

    expect(offsets).toEqual(names.map((name) => jitterSeconds('uid', name, 600)));
    expect(offsets.every((offset) => offset >= 0 && offset < 600)).toBe(true);
    expect(new Set(offsets).size).toBeGreaterThan(400);
    expect(jitterSeconds('uid', 'nightly', 0)).toBe(0);
  });

  test.each([
    ['0 * * * *', 1799, false],
    ['0 * * * *', 1800, true],
    ['0,5 2 * * *', 149, false],
    ['0,5 2 * * *', 150, true],
  ])('of %s a jitter of %i s is too long: %s', (expression, jitter, isTooLong) => {
    expect(isJitterTooLong(cron(expression), jitter)).toBe(isTooLong);
  });

  test.each([
    [29, false],
    [30, true],
  ])('of every minute a jitter of %i s is too long: %s', (jitter, isTooLong) => {
    expect(isJitterTooLong({ kind: 'every', seconds: 60 }, jitter)).toBe(isTooLong);
  });
});
