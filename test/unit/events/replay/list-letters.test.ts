import { describe, expect, test } from 'vitest';
import { LetterWorld, aHint } from './letter-world.ts';

function hints(count: number, name = 'orders'): readonly string[] {
  return Array.from({ length: count }, (_, place) =>
    JSON.stringify(aHint('pool-pods', `${name}-${place % 2}`)),
  );
}

describe('a list of dead letters', () => {
  test('groups them by step and target, and leaves each visible', async () => {
    const world = new LetterWorld();
    world.put('pool-pods', ...hints(25), 'garbage');
    world.put('drain-step', JSON.stringify(aHint('drain-step', 'orders-0')));

    const { groups, counts, refused } = await world.list();

    expect(groups.map(({ step, target, letters }) => `${step} ${target.name} ${letters}`)).toEqual([
      'drain-step orders-0 1',
      'pool-pods orders-0 13',
      'pool-pods orders-1 12',
    ]);
    expect(counts).toMatchObject({ seen: 27, sent: 26, refused: 1, hidden: 0 });
    expect(refused).toMatchObject([{ step: 'pool-pods', why: 'the message is not JSON' }]);
    expect(world.visible('pool-pods')).toHaveLength(26);
    expect(world.delivered).toEqual([]);
  });

  test('says which an earlier replay had sent already', async () => {
    const world = new LetterWorld();
    world.put('pool-pods', ...hints(3));
    await world.replay({ lanes: 1, steps: ['pool-pods'] }, { request: 6, isDone: false });

    const { counts } = await world.list();

    expect(counts).toMatchObject({ finished: 3, sent: 0 });
  });

  test('of which one queue fails shows the letters of the others again', async () => {
    const world = new LetterWorld();
    world.put('pool-pods', ...hints(40));

    const listing = world.list('drain-step');

    await expect(listing).rejects.toThrow('the queue failed');
    expect(world.visible('pool-pods')).toHaveLength(40);
  });
});
