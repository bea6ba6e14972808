import { expect, test } from 'vitest';
import { type Instant, parseInstant, plusSeconds } from '#shared/kernel/instant.ts';
import { KeptClients } from '#shared/outside/kept-clients.ts';

const start = parseInstant('2026-01-01T00:00:00Z') ?? expect.unreachable();

/** Clients that are numbered in the order in which they were opened, and the numbers of those that were closed. */
function aKeeper() {
  let now = start;
  let opened = 0;
  const closed: number[] = [];
  const kept = new KeptClients<{ number: number; close(): Promise<void> }>(() => now);
  return {
    kept,
    closed,
    at: (instant: Instant) => {
      now = instant;
    },
    open: (key: string, usesSecret = true) =>
      kept.get(key, usesSecret, async () => {
        opened += 1;
        const number = opened;
        return {
          number,
          close: async () => {
            closed.push(number);
          },
        };
      }),
  };
}

test('a client that is made anew stays open as long as somebody may be using it', async () => {
  const { open, closed, at } = aKeeper();
  await open('a');

  at(plusSeconds(start, 300));
  const second = await open('a');
  const closedAtOnce = [...closed];
  at(plusSeconds(start, 300 + 120));
  await open('a');

  expect(second.number).toBe(2);
  expect(closedAtOnce).toEqual([]);
  expect(closed).toEqual([1]);
});

test('one that failed is made anew where it was made with a Secret, and kept where it was not', async () => {
  const { open, kept } = aKeeper();
  const withSecret = open('a');
  const without = open('b', false);

  kept.failed('a', withSecret);
  kept.failed('b', without);

  expect((await open('a')).number).toBe(3);
  expect((await open('b', false)).number).toBe(2);
});

test('a failure of an older client leaves the one that took its place', async () => {
  const { open, kept } = aKeeper();
  const first = open('a');
  kept.failed('a', first);
  await open('a');

  kept.failed('a', first);

  expect((await open('a')).number).toBe(2);
});

test('a client that could not be opened is not kept', async () => {
  const { open, kept } = aKeeper();
  const failing = kept.get('a', true, () => Promise.reject(new Error('there is no Secret')));

  await expect(failing).rejects.toThrow('there is no Secret');

  expect((await open('a')).number).toBe(1);
});

test('of more than sixteen the one that was opened first goes', async () => {
  const { open, closed, at } = aKeeper();
  for (let place = 0; place < 17; place += 1) {
    await open(`key-${place}`);
  }

  at(plusSeconds(start, 120));
  const again = await open('key-0');

  expect(again.number).toBe(18);
  expect(closed).toEqual([1]);
});
