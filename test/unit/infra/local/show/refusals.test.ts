import { describe, expect, test } from 'vitest';
import { firstOfEachRefusal } from '#infra/local/show/refusals.ts';

function refusal(messageId: string, why: string): string {
  return `worker: hint refused step=pool-pods messageId=${messageId} reason=HintRefused (${why})`;
}

describe('what dev says on stderr', () => {
  test('is shown as it is, however often it comes', () => {
    const said: string[] = [];
    const hear = firstOfEachRefusal((line) => said.push(line));

    hear('the relay ended with signal SIGKILL; it is started again in 0.1 s');
    hear('the relay ended with signal SIGKILL; it is started again in 0.1 s');

    expect(said).toHaveLength(2);
  });

  test('is cut down to one line for each reason to refuse a hint', () => {
    const said: string[] = [];
    const hear = firstOfEachRefusal((line) => said.push(line));

    hear(refusal('1', 'the message is not JSON'));
    hear(refusal('2', 'the message is not JSON'));
    hear(refusal('2', 'the message is no hint: data.name must match /^(a|b)$/'));

    expect(said).toEqual([
      'refused: the message is not JSON',
      'refused: the message is no hint: data.name must match /^(a|b)$/',
    ]);
  });

  test('is one short line even where a refused message is quoted', () => {
    const said: string[] = [];
    const hear = firstOfEachRefusal((line) => said.push(line));

    hear(refusal('1', `unknown field ${'x'.repeat(1_000)}`));
    hear(refusal('2', `unknown field ${'x'.repeat(2_000)}`).slice(0, 500));

    expect(said).toHaveLength(1);
    expect(said[0]).toHaveLength('refused: '.length + 60);
  });
});
