import { describe, expect, test } from 'vitest';
import { scenesOf } from '#infra/cli/sight/read.ts';
import { type SeenTarget, seenTarget } from '#infra/cli/sight/seen.ts';
import { Targets } from '#infra/cli/sight/watch.ts';
import type { Instant } from '#shared/kernel/instant.ts';

const now = Date.parse('2026-01-01T00:00:00Z') as Instant;

function aShard(name: string, generation = 1, changes: object = {}): SeenTarget {
  return seenTarget('Shard', {
    metadata: { name, namespace: 'db', uid: `uid-${name}`, generation, ...changes },
    spec: { databaseRef: { name: 'main' } },
  });
}

const lastChanged = {
  managedFields: [{ time: '2025-12-31T00:00:00Z', fieldsV1: { 'f:spec': {} } }],
};

describe('the targets of a watch', () => {
  test('keep when their spec was changed, which a watch leaves out', () => {
    const first = aShard('orders', 1, lastChanged);
    const targets = new Targets([first]);

    targets.put(aShard('orders'), now);

    expect(targets.all().map(({ changedAt }) => changedAt)).toEqual([first.changedAt]);
  });

  test('take the moment at which a new generation was seen for that of its change', () => {
    const targets = new Targets([aShard('orders', 1, lastChanged)]);

    targets.put(aShard('orders', 2), now);

    expect(targets.all().map(({ changedAt }) => changedAt)).toEqual([now]);
  });

  test('that a complete list does not name are gone, and those of other lists stay', () => {
    const targets = new Targets([
      aShard('a'),
      aShard('b'),
      seenTarget('Database', { metadata: { name: 'main', namespace: 'db', uid: 'd' } }),
    ]);

    targets.keepOnly(({ kind }) => kind === 'Shard', new Set(['Shard/db/b']));

    expect(targets.all().map(({ name }) => name)).toEqual(['b', 'main']);
  });

  test('are explained with the Database that each names, or without one that is not there', () => {
    const database = seenTarget('Database', { metadata: { name: 'main', namespace: 'db' } });

    expect(scenesOf([aShard('orders'), database], now)[0]).toMatchObject({ database });
    expect(scenesOf([aShard('orders')], now)[0]).toMatchObject({ database: null });
    expect(scenesOf([database], now)[0]).not.toHaveProperty('database');
  });
});
