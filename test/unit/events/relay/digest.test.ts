import { describe, expect, test } from 'vitest';
import { concernsOf } from '#events/relay/digest.ts';
import type { WatchedObject } from '#events/relay/watched-object.ts';
import { threeRoutes as routing } from '#test/builders/two-steps.ts';
import { aDatabase, aPod, aRecord, aShard, written } from './objects.ts';

/** Of each step, the digest of a Shard. */
function digestsOf(shard: WatchedObject): Map<string, string> {
  return new Map(
    concernsOf(routing, 'Shard', shard).map(({ audience, digest }) => [
      audience.to === 'itself' ? audience.step : audience.to,
      digest,
    ]),
  );
}

/** The steps whose digest of a Shard differs between two versions of it. */
function wokenBy(before: WatchedObject, after: WatchedObject): string[] {
  const old = digestsOf(before);
  return [...digestsOf(after)]
    .flatMap(([step, digest]) => (old.get(step) === digest ? [] : [step]))
    .toSorted();
}

const condition = (type: string, status: string, more: object = {}) => ({
  status: {
    conditions: [{ type, status, reason: 'R', message: 'm', observedGeneration: 1, ...more }],
  },
});

const shard = aShard('orders-0', {}, condition('Drained', 'True', { lastTransitionTime: 'a' }));

describe('a write to a shard wakes', () => {
  test.each<[string, WatchedObject, string[]]>([
    ['its spec', written(shard, { generation: 2 }), ['drain-step', 'pool-pods']],
    [
      'its deletion',
      written(shard, { deletionTimestamp: '2026-01-01T00:00:00Z' }),
      ['drain-step', 'pool-pods'],
    ],
    [
      'drain-step’s record',
      written(shard, { annotations: aRecord('drain-step') }),
      ['drain-step', 'pool-pods'],
    ],
    ['pool-pods’ record', written(shard, { annotations: aRecord('pool-pods') }), ['pool-pods']],
    [
      'a person’s force-drain',
      written(shard, { annotations: { 'millrace.dev/force-drain': 'uid' } }),
      ['drain-step'],
    ],
    [
      'a person’s reconcile',
      written(shard, { annotations: { 'millrace.dev/reconcile': '1' } }),
      ['drain-step', 'pool-pods'],
    ],
    ['the condition Drained', written(shard, {}, condition('Drained', 'False')), ['pool-pods']],
    [
      'the condition BackupsOnSchedule',
      written(shard, {}, condition('BackupsOnSchedule', 'Unknown')),
      ['pool-pods'],
    ],
    [
      'the message of Drained',
      written(shard, {}, condition('Drained', 'True', { message: 'other' })),
      ['pool-pods'],
    ],
    [
      'only the transition time of Drained',
      written(shard, {}, condition('Drained', 'True', { lastTransitionTime: 'b' })),
      [],
    ],
    [
      'other conditions and status',
      written(
        shard,
        {},
        {
          status: {
            primary: { pod: 'p' },
            conditions: [shard.status?.conditions?.[0], { type: 'Ready' }],
          },
        },
      ),
      [],
    ],
    ['foreign annotations', written(shard, { annotations: { 'example.com/a': 'b' } }), []],
    ['a label', written(shard, { labels: { a: 'b' } }), []],
    ['nothing but its version', written(shard, {}), []],
  ])('%s', (_, after, steps) => {
    const woken = wokenBy(shard, after);

    expect(woken).toEqual(steps);
  });
});

test('taking an annotation from one key to another is a change', () => {
  const before = written(shard, { annotations: { 'millrace.dev/force-drain': 'x' } });
  const after = written(shard, { annotations: { 'millrace.dev/reconcile': 'x' } });

  expect(wokenBy(before, after)).toEqual(['drain-step', 'pool-pods']);
});

test('a pod concerns the shard its label names, with every write', () => {
  const pod = aPod('p-0', 'orders-0');

  const [first] = concernsOf(routing, 'Pod', pod);
  const [second] = concernsOf(routing, 'Pod', written(pod, {}));

  expect(first?.audience).toEqual({ to: 'owner', kind: 'Shard', name: 'orders-0' });
  expect(second?.digest).not.toBe(first?.digest);
});

test('a pod without the label concerns nobody', () => {
  const pod = aPod('p-0', 'orders-0', { labels: {} });

  expect(concernsOf(routing, 'Pod', pod)).toEqual([]);
});

test('a database concerns the shards that name it, by its spec and not by its status', () => {
  const database = aDatabase('orders');

  const digests = [
    database,
    written(database, {}, { status: {} }),
    written(database, { generation: 2 }),
  ]
    .flatMap((object) => concernsOf(routing, 'Database', object))
    .filter(({ audience }) => audience.to === 'referrers')
    .map(({ digest }) => digest);

  expect(digests[1]).toBe(digests[0]);
  expect(digests[2]).not.toBe(digests[0]);
});

test.each([
  ['its spec', { generation: 2 }, true],
  ['a confirmed repository', { annotations: { 'millrace.dev/confirm-repository': 'a1' } }, true],
  ['backup-config’s record', { annotations: aRecord('backup-config') }, true],
  ['a token of a person', { annotations: { 'millrace.dev/reconcile': '1' } }, true],
  ['its status', {}, false],
  ['a foreign annotation', { annotations: { note: 'x' } }, false],
])('a database concerns its own step by %s: %s', (_, metadata, isConcerned) => {
  const database = aDatabase('orders');

  const [before, after] = [database, written(database, metadata, { status: {} })].map((object) =>
    concernsOf(routing, 'Database', object).find(({ audience }) => audience.to === 'itself'),
  );

  expect(before?.audience).toEqual({ to: 'itself', step: 'backup-config' });
  expect(after?.digest !== before?.digest).toBe(isConcerned);
});

test('a digest is small', () => {
  const long = written(shard, {
    annotations: { 'step.millrace.dev/drain-step': 'x'.repeat(250_000) },
  });

  const lengths = concernsOf(routing, 'Shard', long).map(({ digest }) => digest.length);

  expect(lengths).toEqual([22, 22]);
});
