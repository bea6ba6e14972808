import { describe, expect, test } from 'vitest';
import { columnsOf, layOutSentences, layOutTable, wrap } from '#infra/cli/layout.ts';

const red = (text: string) => `\u001B[31m${text}\u001B[39m`;

describe('a table', () => {
  const rows = [
    ['NAME', 'VALUE', 'FROM'],
    ['stage', 'a value that is long', 'default'],
  ];

  test('has its columns aligned, and no spaces at the end', () => {
    expect(layOutTable([...rows, ['x', '', '']], Infinity)).toBe(
      ['NAME   VALUE                 FROM', 'stage  a value that is long  default', 'x'].join('\n'),
    );
  });

  test('loses of its widest column where the terminal is narrower', () => {
    expect(layOutTable(rows, 31)).toBe(
      ['NAME   VALUE            FROM', 'stage  a value that i…  default'].join('\n'),
    );
  });

  test('is not cut where it fits exactly', () => {
    expect(layOutTable(rows, 36)).toBe(layOutTable(rows, Infinity));
  });

  test('keeps of each cell what tells it, however narrow the terminal is', () => {
    expect(layOutTable(rows, 1)).toBe(
      ['NAME   VALUE     FROM', 'stage  a value…  default'].join('\n'),
    );
  });

  test('counts no colour and two columns for a wide character, also where it is cut', () => {
    expect(
      layOutTable(
        [
          [red('ab'), 'x'],
          ['東京', 'y'],
        ],
        Infinity,
      ),
    ).toBe(`${red('ab')}    x\n東京  y`);
    expect(layOutTable([[red('0123456789')], ['東京東京東京']], 8)).toBe(
      `${red('0123456')}…\n東京東…`,
    );
  });
});

describe('sentences', () => {
  test('are told in full, each below its begin', () => {
    expect(
      layOutSentences(
        [
          ['✓', 'clock', 'one two three'],
          ['', '', '→ four five'],
        ],
        17,
      ),
    ).toBe(
      ['✓  clock  one two', '          three', '          → four', '          five'].join('\n'),
    );
  });
});

describe('the width of a line', () => {
  test('is the terminal’s, and of no bound elsewhere', () => {
    expect(columnsOf({ isTTY: true, columns: 100 })).toBe(100);
    expect(columnsOf({ isTTY: false, columns: 100 })).toBe(Infinity);
    expect(columnsOf({})).toBe(Infinity);
  });

  test('is 40 where a terminal does not know its own', () => {
    expect(columnsOf({ isTTY: true, columns: 0 })).toBe(40);
    expect(columnsOf({ isTTY: true })).toBe(40);
  });
});

describe('a line on a terminal', () => {
  test('is broken at spaces and goes on below its text', () => {
    expect(wrap('  ▸ one two three four', 12, 4)).toBe('  ▸ one two\n    three\n    four');
  });

  test('that fits is left as it is, double spaces and all', () => {
    expect(wrap('  a  b', 6, 4)).toBe('  a  b');
  });

  test('is measured without its colours', () => {
    const coloured = '\u001B[32msettled\u001B[39m one';

    expect(wrap(coloured, 11, 2)).toBe(coloured);
    expect(wrap(coloured, 10, 2)).toBe('\u001B[32msettled\u001B[39m\n  one');
  });

  test('keeps a word that is wider than the terminal whole', () => {
    expect(wrap('  ▸ aaaaaaaaaaaaaaaa b', 8, 4)).toBe('  ▸\n    aaaaaaaaaaaaaaaa\n    b');
  });
});
