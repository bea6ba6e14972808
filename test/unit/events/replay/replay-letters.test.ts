import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { hintSchema } from '#events/hint.ts';
import { everything } from '#events/replay/selection.ts';
import { QueueRefusal } from '#shared/queue/explain.ts';
import { LetterWorld, aHint } from './letter-world.ts';

function hints(count: number): readonly string[] {
  return Array.from({ length: count }, (_, place) =>
    JSON.stringify(aHint('pool-pods', `orders-${place}`)),
  );
}

const garbage = [
  'not JSON',
  '{}',
  JSON.stringify(aHint('pool-pods', 'x', { source: 'elsewhere' })),
];

describe('a replay of dead letters', () => {
  test('sends every hint to the queue of its step, as a replay of now with the same id, and deletes its letter', async () => {
    const world = new LetterWorld();
    world.put('pool-pods', ...hints(25));
    world.put('drain-step', JSON.stringify(aHint('drain-step', 'orders-0')));

    const { counts } = await world.replay();

    const [first] = world.delivered;
    const sent = hintSchema.parse(JSON.parse(first?.body ?? ''));
    expect(first?.queue).toBe('millrace-test-drain-step');
    expect(sent).toMatchObject({
      id: 'uid-of-orders-0/7/drain-step',
      type: 'dev.millrace.hint.replay',
      time: '2026-01-01T00:00:00Z',
    });
    expect(world.delivered).toHaveLength(26);
    expect(world.left).toEqual([]);
    expect(counts).toMatchObject({ seen: 26, sent: 26, failed: 0, refused: 0 });
  });

  test('leaves what is no hint for its step where it is, visible, and says why of each', async () => {
    const world = new LetterWorld();
    world.put('pool-pods', ...garbage, ...hints(1));
    world.put(
      'drain-step',
      JSON.stringify(aHint('drain-step', 'x', { subject: 'databases/db/x' })),
    );

    const { counts, remarks } = await world.replay();

    expect(world.visible('pool-pods')).toEqual(garbage);
    expect(world.visible('drain-step')).toHaveLength(1);
    expect(counts).toMatchObject({ seen: 5, sent: 1, refused: 4 });
    expect(remarks.map(({ why }) => why)).toEqual([
      'the hint is not about a Shard',
      'the message is not JSON',
      expect.stringMatching(/^the message is no hint: /),
      'the hint is of another cluster',
    ]);
  });

  test('discards what is no hint only when told to, after it was copied, and never the hints of another cluster', async () => {
    const world = new LetterWorld();
    world.put('pool-pods', ...garbage);
    const copies: string[] = [];

    const { counts } = await world.replay({
      discard: async (letters) => {
        expect(world.left).toHaveLength(3);
        copies.push(...letters.map(({ body }) => body));
      },
    });

    expect(copies).toEqual(garbage.slice(0, 2));
    expect(world.left).toEqual(garbage.slice(2));
    expect(counts).toMatchObject({ discarded: 2, refused: 1 });
  });

  test('ends although every hint that it sends dies again while it goes on', async () => {
    const world = new LetterWorld();
    world.put('pool-pods', ...hints(30));
    world.sendFaults.push(
      ...Array.from({ length: 200 }, () => (entries: readonly { readonly body: string }[]) => {
        entries.forEach(({ body }) => world.putLate('pool-pods', body));
        return undefined;
      }),
    );

    const { counts } = await world.replay();

    expect(counts).toMatchObject({ sent: 30, left: 0 });
    expect(world.visible('pool-pods')).toHaveLength(30);
  });

  test('leaves what was not asked for visible, each seen once', async () => {
    const world = new LetterWorld();
    world.put('pool-pods', ...hints(45));
    const target = { kind: 'Shard', namespace: 'db', name: 'orders-44' } as const;

    const { counts } = await world.replay({ selection: { ...everything, targets: [target] } });

    expect(counts).toMatchObject({ seen: 45, sent: 1, left: 44, hidden: 0 });
    expect(world.visible('pool-pods')).toHaveLength(44);
  });

  test('sends no more than its limit', async () => {
    const world = new LetterWorld();
    world.put('pool-pods', ...hints(45));

    const { counts } = await world.replay({ limit: 7 });

    expect(counts.sent).toBe(7);
    expect(world.delivered).toHaveLength(7);
    expect(world.visible('pool-pods')).toHaveLength(38);
  });

  test('keeps the letter of a hint that the queue refuses, and names it', async () => {
    const world = new LetterWorld();
    world.put('pool-pods', ...hints(3));
    const refuseFirst = (entries: readonly { readonly id: string; readonly body: string }[]) => ({
      acknowledged: entries.filter(({ body }) => !body.includes('orders-1')).map(({ id }) => id),
      failed: entries
        .filter(({ body }) => body.includes('orders-1'))
        .map(({ id }) => ({ id, why: 'InternalError' })),
    });
    world.sendFaults.push(...Array.from({ length: 20 }, () => refuseFirst));

    const { counts, remarks } = await world.replay();

    expect(counts).toMatchObject({ sent: 2, failed: 1 });
    expect(world.visible('pool-pods')).toEqual(hints(2).slice(1));
    expect(remarks).toMatchObject([{ kind: 'failed', why: 'InternalError' }]);
  });

  test('sends again what got no answer, and counts what may have arrived twice', async () => {
    const world = new LetterWorld();
    world.put('pool-pods', ...hints(3));
    world.sendFaults.push(() => new Error('the queue did not answer within 10 s'));

    const { counts } = await world.replay();

    expect(counts).toMatchObject({ sent: 3, perhapsTwice: 3 });
    expect(world.delivered).toHaveLength(6);
  });

  test('stops at a refusal that will stay the same, and shows every letter again', async () => {
    const world = new LetterWorld();
    world.put('pool-pods', ...hints(60));
    const refusal = new QueueRefusal('there is no queue', 'QueueDoesNotExist', 400);
    let asked = 0;
    world.sendFaults.push(
      ...Array.from({ length: 99 }, () => () => {
        asked += 1;
        throw refusal;
      }),
    );

    const { counts, error } = await world.replay();

    expect(error).toBe(refusal);
    expect(asked).toBeLessThanOrEqual(2);
    expect(counts.sent).toBe(0);
    expect(world.visible('pool-pods')).toHaveLength(60);
  });

  test('a Ctrl-C lets what was begun end, and shows the rest again', async () => {
    const world = new LetterWorld();
    world.put('pool-pods', ...hints(60));
    const stopping = new AbortController();
    world.sendFaults.push(() => {
      stopping.abort();
      return undefined;
    });

    const { counts } = await world.replay({}, undefined, stopping.signal);

    expect(counts.sent).toBeGreaterThan(0);
    expect(counts.sent).toBeLessThanOrEqual(20);
    expect(world.delivered).toHaveLength(counts.sent);
    expect(world.visible('pool-pods')).toHaveLength(60 - counts.sent);
  });
});

test('after a kill between sending and deleting, the next replay deletes without sending again, and says so', async () => {
  const world = new LetterWorld();
  world.put('pool-pods', ...hints(3));
  // receive, sending, send, sent, and the delete has no effect any more
  await world.replay({ lanes: 1, steps: ['pool-pods'] }, { request: 6, isDone: false });
  expect(world.left).toHaveLength(3);
  expect(world.delivered).toHaveLength(3);

  const { counts, remarks } = await world.replay();

  expect(world.delivered).toHaveLength(3);
  expect(world.left).toEqual([]);
  expect(counts).toMatchObject({ finished: 3, sent: 0 });
  expect(remarks.map(({ kind }) => kind)).toEqual(['finished', 'finished', 'finished']);
});

test('whenever replays are killed, no letter is lost, and each hint that arrives more than once was announced', async () => {
  const kill = fc.record({ request: fc.integer({ min: 1, max: 40 }), isDone: fc.boolean() });
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 0, max: 35 }),
      fc.array(kill, { maxLength: 6 }),
      fc.integer({ min: 1, max: 4 }),
      async (count, kills, lanes) => {
        const world = new LetterWorld();
        world.put('pool-pods', ...hints(count), ...garbage);
        const announced = new Set<string>();

        for (const killedAt of [...kills, undefined]) {
          const { remarks } = await world.replay({ lanes }, killedAt);
          for (const { id } of remarks.filter((remark) => remark.kind === 'uncertain')) {
            announced.add(id);
          }
        }

        const copies = hints(count).map((hint) => {
          const { id } = hintSchema.parse(JSON.parse(hint));
          return world.deliveries((body) => body.includes(`"${id}"`));
        });
        expect(copies.filter((times) => times === 0)).toEqual([]);
        expect(world.left.toSorted()).toEqual(garbage.toSorted());
        expect(copies.filter((times) => times > 1).length).toBeLessThanOrEqual(announced.size);
      },
    ),
    { numRuns: 300 },
  );
});
