import { stripVTControlCharacters } from 'node:util';
import { describe, expect, test } from 'vitest';
import { figure } from '#test/bench/figure.ts';
import { jsonReport, tableReport } from '#test/bench/report.ts';

const figures = [
  figure('step: p50', 59.996, 'ms', { goal: 60 }),
  figure('step: p99', 251, 'ms', { goal: 250 }),
  figure('relay: CPU', 1, 's', { peer: 4 }),
];

describe('a figure', () => {
  test('has four digits, and is judged by them', () => {
    expect(figure('a', 60.004, 'ms', { goal: 60 })).toMatchObject({ value: 60, met: true });
    expect(figure('a', 60.01, 'ms', { goal: 60 })).toMatchObject({ value: 60.01, met: false });
  });

  test('without a goal is neither met nor missed', () => {
    expect(figure('a', 1, 'ms')).toEqual({
      name: 'a',
      value: 1,
      unit: 'ms',
      goal: null,
      met: null,
    });
  });

  test('that could not be computed misses its goal', () => {
    expect(figure('a', Number.NaN, 'ms', { goal: 60 }).met).toBe(false);
  });
});

describe('the report', () => {
  test('for people shows what is kept, what is missed, and how it compares', () => {
    const rows = stripVTControlCharacters(tableReport(figures)).split('\n').slice(-3);

    expect(rows).toEqual([
      '✓  step: p50   60 ms   ≤ 60 ms',
      '✗  step: p99   251 ms  ≤ 250 ms',
      '·  relay: CPU  1 s               4 s, 0.25 of it',
    ]);
  });

  test('for machines is one line with machine, versions and figures', () => {
    const text = jsonReport(figures);

    expect(text).not.toContain('\n');
    expect(JSON.parse(text)).toEqual({
      machine: expect.stringContaining('GiB'),
      versions: expect.objectContaining({ node: process.versions.node }),
      figures: figures.map((each) => ({ ...each })),
    });
  });
});
