import { describe, expect, test } from 'vitest';
import { timetableOf } from '#functions/backup-trigger/slots.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import { slotsBetween } from '#test/world/oracles/timetable.ts';

const at = (text: string) => Date.parse(text) as Instant;

const between = (cron: string, timeZone: string, from: string, until: string) =>
  slotsBetween({ cron, timeZone }, at(from), at(until)).map((slot) =>
    new Date(slot).toISOString().slice(0, 16),
  );

describe('the slots between two instants', () => {
  test('are those after the first and up to the second', () => {
    const slots = slotsBetween(
      { every: '30s' },
      at('2026-01-01T00:00:00Z'),
      at('2026-01-01T00:01:00Z'),
    );

    expect(slots).toEqual([at('2026-01-01T00:00:30Z'), at('2026-01-01T00:01:00Z')]);
  });

  test('leave out what the clock leaves out in spring', () => {
    const slots = between(
      '0,30 1-3 * * *',
      'Europe/Berlin',
      '2026-03-29T00:15Z',
      '2026-03-29T02:00Z',
    );

    expect(slots).toEqual(['2026-03-29T00:30', '2026-03-29T01:00', '2026-03-29T01:30']);
  });

  test('have what the clock shows twice in autumn once, the first time', () => {
    const slots = between('30 2 * * *', 'Europe/Berlin', '2026-10-24T12:00Z', '2026-10-25T12:00Z');

    expect(slots).toEqual(['2026-10-25T00:30']);
  });

  test('of what the oracle does not read are not guessed', () => {
    expect(() => between('0 0 1 * *', 'UTC', '2026-01-01T00:00Z', '2026-02-01T00:00Z')).toThrow(
      'minutes and hours only',
    );
  });
});

test.each([
  ['Europe/Berlin', '2026-03-28T12:00Z'],
  ['Europe/Berlin', '2026-10-24T12:00Z'],
  ['America/New_York', '2026-03-07T12:00Z'],
  ['Australia/Lord_Howe', '2026-04-04T06:00Z'],
  ['UTC', '2026-01-01T00:00Z'],
])('the step finds the same slots in another way: %s after %s', (timeZone, text) => {
  for (const cron of ['0,30 * * * *', '15 1-3 * * *', '* 2 * * *', '45 23 * * *']) {
    const [from, until] = [at(text), (at(text) + 36 * 3_600_000) as Instant];
    const timetable = timetableOf({ kind: 'cron', cron, timeZone });
    const found: Instant[] = [];
    let slot = timetable.kind === 'slots' ? timetable.slots.after(from) : undefined;
    for (; slot !== undefined && slot <= until;) {
      found.push(slot);
      slot = timetable.kind === 'slots' ? timetable.slots.after(slot) : undefined;
    }

    expect(slotsBetween({ cron, timeZone }, from, until)).toEqual(found);
  }
});
