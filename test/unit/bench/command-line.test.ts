import { describe, expect, test } from 'vitest';
import { helpText, readCommandLine } from '#test/bench/command-line.ts';
import { measureParts } from '#test/bench/measure-parts.ts';
import { figure } from '#test/bench/figure.ts';
import type { Part } from '#test/bench/part.ts';

function aPart(name: string, measure: Part['measure'] = async () => []): Part {
  return { name, title: `what ${name} is about`, measure };
}

const parts = [aPart('step'), aPart('wakes')];

describe('the command line of the benchmark', () => {
  test('without words measures every part at its full size', () => {
    expect(readCommandLine([], parts)).toEqual({
      kind: 'measure',
      parts,
      isJson: false,
      isLong: false,
      scale: 1,
    });
  });

  test('names parts and options in any order', () => {
    expect(readCommandLine(['--json', 'wakes', '--scale', '0.1', '--long'], parts)).toEqual({
      kind: 'measure',
      parts: [parts[1]],
      isJson: true,
      isLong: true,
      scale: 0.1,
    });
  });

  test.each([
    [['walks'], 'there is no part walks; there are step, wakes'],
    [['--scale', 'all'], '--scale must be a number from 0.001 to 10'],
    [['--scale', '0'], '--scale must be a number from 0.001 to 10'],
    [['--fast'], "Unknown option '--fast'"],
  ])('is wrong when it says %j', (words, problem) => {
    expect(readCommandLine(words, parts)).toEqual({
      kind: 'wrong',
      problem: expect.stringContaining(problem),
    });
  });

  test('is told with every part', () => {
    expect(readCommandLine(['--help', 'walks'], parts)).toEqual({ kind: 'help' });
    expect(helpText(parts)).toContain('  wakes    what wakes is about');
  });
});

describe('the parts of the benchmark', () => {
  test('are all measured although one breaks, and it is named', async () => {
    const lines: string[] = [];
    const broken = aPart('relay', () => Promise.reject(new Error('no API server')));
    const after = aPart('step', async ({ scale, log }) => {
      log('on its way');
      return [figure('step: shards', 100 * scale, 'shards')];
    });

    const measured = await measureParts([broken, after], { scale: 0.5, isLong: false }, (line) =>
      lines.push(line),
    );

    expect(measured.broken).toEqual(['relay']);
    expect(measured.figures.map(({ value }) => value)).toEqual([50]);
    expect(lines).toEqual(['relay: could not be measured: no API server', 'step: on its way']);
  });
});
