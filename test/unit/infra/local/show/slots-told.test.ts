import { describe, expect, test } from 'vitest';
import { endingsIn } from '#infra/local/show/slots-told.ts';

const hourMs = 3_600_000;

describe('what an Event tells of a schedule’s slots', () => {
  test('is the end of the one that ran', () => {
    const message = 'nightly 2026-01-01T02:00:00Z succeeded: backup 20260101-020000F is complete';

    expect(endingsIn(message, 'nightly', hourMs)).toEqual([
      { slot: '2026-01-01T02:00:00.000Z', how: 'succeeded' },
    ]);
  });

  test('is the reason of one that was passed over', () => {
    const message = 'nightly: slot 2026-01-01T02:00:00Z skipped (Superseded)';

    expect(endingsIn(message, 'nightly', hourMs)).toEqual([
      { slot: '2026-01-01T02:00:00.000Z', how: 'skipped (Superseded)' },
    ]);
  });

  test('names the last of several, which stands for those before it too', () => {
    const message = 'nightly: 3 slots up to 2026-01-01T02:00:00Z skipped (Suspended)';

    expect(endingsIn(message, 'nightly', hourMs).map(({ slot }) => slot)).toEqual([
      '2026-01-01T00:00:00.000Z',
      '2026-01-01T01:00:00.000Z',
      '2026-01-01T02:00:00.000Z',
    ]);
  });

  test.each([
    'hourly 2026-01-01T02:00:00Z succeeded: backup 20260101-020000F is complete',
    'hourly: slot 2026-01-01T02:00:00Z skipped (Late)',
    '@now by-hand succeeded: backup 20260101-020000F is complete',
    'orders-0 is to leave: its pool has more members than wanted',
  ])('is nothing where it is about something else: %s', (message) => {
    expect(endingsIn(message, 'nightly', hourMs)).toEqual([]);
  });
});
