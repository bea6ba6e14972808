import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { deadLetterQueueName, queueName } from '#events/hint.ts';
import { aHint } from '../../../events/replay/letter-world.ts';
import { QueueOfLetters, stage, step } from './queue-of-letters.ts';

const hintCount = 60;
const words = ['--dlq', step, '--yes', '--json', '--rate', '500'];

const resultSchema = z.looseObject({ counts: z.looseObject({ sent: z.number() }) });
const hintSchema = z.looseObject({ id: z.string() });
const lineSchema = z.looseObject({ sending: z.array(z.string()).default([]) });

describe('replays killed with SIGKILL, one after another', { timeout: 240_000 }, () => {
  test('lose no letter, and what arrives more than once was begun by two of them', async () => {
    const letters = await QueueOfLetters.open();
    const hints = Array.from({ length: hintCount }, (_, place) => aHint(step, `orders-${place}`));
    await letters.put(hints.map((hint) => JSON.stringify(hint)));

    for (const lines of [2, 3, 4, 5, 6, 7, 9, 12]) {
      await letters.killAfter(lines, ...words);
      await letters.letTimePass();
    }
    const last = await letters.run(...words);

    const arrived = (await letters.take(queueName(stage, step))).map(
      (body) => hintSchema.parse(JSON.parse(body)).id,
    );
    const begun = letters.lines().flatMap((line) => lineSchema.parse(JSON.parse(line)).sending);
    expect(last.exitCode, last.stderr).toBe(0);
    expect(resultSchema.parse(JSON.parse(last.stdout)).counts.sent).toBeLessThan(hintCount);
    expect(await letters.take(deadLetterQueueName(stage, step))).toEqual([]);
    expect(new Set(arrived)).toEqual(new Set(hints.map(({ id }) => id)));
    expect(arrived.length - hintCount).toBeLessThanOrEqual(begun.length - new Set(begun).size);
  });
});
