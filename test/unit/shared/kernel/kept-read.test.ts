import { describe, expect, test } from 'vitest';
import { keepRead } from '#shared/kernel/kept-read.ts';

describe('a kept read', () => {
  test('is made once until its time is over, and then anew', async () => {
    let nowMs = 0;
    let reads = 0;
    const read = keepRead(
      async () => (reads += 1),
      1_000,
      () => nowMs,
    );

    const first = await read();
    nowMs = 999;
    const within = await read();
    nowMs = 1_000;
    const after = await read();

    expect([first, within, after]).toEqual([1, 1, 2]);
  });

  test('is shared by all who ask while it is under way', async () => {
    const answer = Promise.withResolvers<string>();
    let reads = 0;
    const read = keepRead(() => {
      reads += 1;
      return answer.promise;
    }, 1_000);

    const both = Promise.all([read(), read()]);
    answer.resolve('answer');

    expect(await both).toEqual(['answer', 'answer']);
    expect(reads).toBe(1);
  });

  test('that failed is made again by the next who asks', async () => {
    let reads = 0;
    const read = keepRead(async () => {
      reads += 1;
      if (reads === 1) {
        throw new Error('not yet');
      }
      return reads;
    }, 1_000);

    await expect(read()).rejects.toThrow('not yet');

    expect(await read()).toBe(2);
  });
});
