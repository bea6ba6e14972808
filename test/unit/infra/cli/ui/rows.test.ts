import { describe, expect, test } from 'vitest';
import {
  conditionText,
  countsOf,
  filtered,
  inOrder,
  listedConditions,
} from '#infra/cli/ui/page/rows.ts';
import type { TargetRow, ToldCondition } from '#infra/cli/ui/protocol.ts';

function row(id: string, change: Partial<TargetRow> = {}): TargetRow {
  return {
    id,
    standing: 'settled',
    headline: 'nothing to do',
    conditions: [],
    version: '1',
    ...change,
  };
}

function condition(type: string, status: string, reason = 'R'): ToldCondition {
  return { type, status, reason, message: '', since: '2026-01-01T00:00:00Z' };
}

describe('the list of targets', () => {
  test('who needs a person comes first, longest waiting first, and the settled by name', () => {
    const rows = [
      row('shd/db/b', { since: '2026-01-01T00:00:00Z' }),
      row('shd/db/a', { since: '2026-01-02T00:00:00Z' }),
      row('shd/db/new', { standing: 'stuck', since: '2026-01-02T00:00:00Z' }),
      row('shd/db/moves', { standing: 'working' }),
      row('shd/db/old', { standing: 'stuck', since: '2026-01-01T00:00:00Z' }),
    ];

    expect(inOrder(rows).map(({ id }) => id.slice(7))).toEqual(['old', 'new', 'moves', 'a', 'b']);
  });

  test('every word has to occur somewhere, whatever its case', () => {
    const rows = [
      row('shd/db/orders', { conditions: [condition('Ready', 'False', 'QuorumTooSmall')] }),
      row('shd/db/carts', { waitsFor: 'its pod to stop' }),
    ];
    const find = (words: string) => filtered(rows, { words, standing: 'all' }).map(({ id }) => id);

    expect(find('quorum DB')).toEqual(['shd/db/orders']);
    expect(find('stop')).toEqual(['shd/db/carts']);
    expect(find('quorum stop')).toEqual([]);
    expect(find('')).toHaveLength(2);
  });

  test('a state is chosen besides the words', () => {
    const rows = [row('shd/db/a'), row('shd/db/b', { standing: 'paused' })];

    expect(filtered(rows, { words: 'db', standing: 'paused' }).map(({ id }) => id)).toEqual([
      'shd/db/b',
    ]);
    expect(Object.fromEntries(countsOf(rows))).toEqual({ settled: 1, paused: 1 });
  });

  test.each([
    [condition('Ready', 'True'), 'Ready', false],
    [condition('Ready', 'False', 'MembersNotReady'), 'not Ready: MembersNotReady', true],
    [condition('Stalled', 'True', 'DrainStuck'), 'Stalled: DrainStuck', true],
    [condition('Stalled', 'False'), 'not Stalled', false],
    [
      condition('TopologyClean', 'Unknown', 'TopologyUnknown'),
      'TopologyClean unknown: TopologyUnknown',
      true,
    ],
  ])('a condition is said so that what is odd shows', (given, text, isOdd) => {
    expect(conditionText(given)).toEqual({ text, isOdd });
  });

  test('that nothing is stalled is no news', () => {
    const conditions = [
      condition('Ready', 'True'),
      condition('Stalled', 'False'),
      condition('Reconciling', 'True'),
    ];

    expect(listedConditions(conditions).map(({ type }) => type)).toEqual(['Ready', 'Reconciling']);
  });
});
