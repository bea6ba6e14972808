import { describe, expect, test } from 'vitest';
import { type Findings, KnownWorld, type ListScope } from '#events/relay/known-world.ts';
import type { WatchedObject } from '#events/relay/watched-object.ts';
import { routing } from '#events/routes.ts';
import { aDatabase, aPod, aRecord, aShard, written } from './objects.ts';

function marksOf({ marks }: Findings): string[] {
  return marks.map(({ step, cause, target }) => `${step} ${cause} ${target.name} ${target.uid}`);
}

/** All that follows from a complete list. */
function listIn(
  world: KnownWorld,
  scope: ListScope,
  objects: readonly WatchedObject[],
  cause: 'changed' | 'resync',
): Findings {
  world.begin(scope);
  const found = objects.map((object) => world.see(scope.kind, object, cause));
  const all = [...found, world.complete(scope)];
  return {
    marks: all.flatMap(({ marks }) => marks),
    wakes: all.flatMap(({ wakes }) => wakes),
    differences: all.reduce((sum, { differences }) => sum + differences, 0),
  };
}

const shards: ListScope = { kind: 'Shard' };

const both = (cause: string, name: string, uid = `uid-${name}`) => [
  `drain-step ${cause} ${name} ${uid}`,
  `pool-pods ${cause} ${name} ${uid}`,
];

describe('a target', () => {
  test('is hinted at to every step when it is first listed, as part of a resync', () => {
    const world = new KnownWorld(routing);

    const findings = listIn(world, shards, [aShard('a')], 'resync');

    expect(marksOf(findings)).toEqual(both('resync', 'a'));
  });

  test('that did not change concerns nobody, however often it is seen', () => {
    const world = new KnownWorld(routing);
    const shard = aShard('a');
    world.see('Shard', shard);

    const findings = world.see('Shard', written(shard, {}));

    expect(findings.marks).toEqual([]);
    expect(findings.differences).toBe(0);
    expect(world.target('uid-a')?.resourceVersion).not.toBe(shard.metadata.resourceVersion);
  });

  test('L3: that is missing from a new list is deleted, with its last uid', () => {
    const world = new KnownWorld(routing);
    const shard = aShard('a');
    listIn(world, shards, [shard, aShard('b')], 'resync');

    const findings = listIn(world, shards, [aShard('b')], 'changed');

    expect(marksOf(findings)).toEqual(both('deleted', 'a'));
    expect(findings.marks[0]?.token).toBe(shard.metadata.resourceVersion);
    expect(findings.differences).toBe(1);
    expect(world.target('uid-a')).toBeUndefined();
  });

  test('L3, F17: of the same name and another uid is a deletion and an appearance', () => {
    const world = new KnownWorld(routing);
    world.see('Shard', aShard('a'));

    const findings = listIn(world, shards, [aShard('a', { uid: 'second' })], 'changed');

    expect(marksOf(findings)).toEqual([...both('deleted', 'a'), ...both('changed', 'a', 'second')]);
  });

  test('keeps living when news of its predecessor’s deletion comes late', () => {
    const world = new KnownWorld(routing);
    const first = aShard('a');
    world.see('Shard', first);
    world.see('Shard', aShard('a', { uid: 'second' }));

    const findings = world.lose('Shard', first);

    expect(findings.marks).toEqual([]);
    expect(world.target('second')).toBeDefined();
  });

  test('in another namespace is untouched by the list of one namespace', () => {
    const world = new KnownWorld(routing);
    world.see('Shard', aShard('a', { namespace: 'other' }));

    const findings = listIn(world, { kind: 'Shard', namespace: 'db' }, [], 'changed');

    expect(findings.marks).toEqual([]);
  });

  test('tells what its records ask for, and takes it back when it goes', () => {
    const world = new KnownWorld(routing);
    const shard = aShard('a', { annotations: aRecord('drain-step', { every: 5 }) });

    const seen = world.see('Shard', shard);
    const lost = world.lose('Shard', shard);

    expect(seen.wakes).toMatchObject([
      { sleeper: { step: 'drain-step', uid: 'uid-a' }, wake: { every: 5 } },
      { sleeper: { step: 'pool-pods', uid: 'uid-a' }, wake: undefined },
    ]);
    expect(lost.wakes.map(({ wake }) => wake)).toEqual([undefined, undefined]);
  });
});

describe('a list', () => {
  test('yields each object’s hints as it comes, and deletions only when it is complete', () => {
    const world = new KnownWorld(routing);
    world.see('Shard', aShard('gone'));
    world.begin(shards);

    const first = world.see('Shard', aShard('a'), 'resync');
    const end = world.complete(shards);

    expect(marksOf(first)).toEqual(both('resync', 'a'));
    expect(marksOf(end)).toEqual(both('deleted', 'gone'));
  });

  test('F8: that breaks off deletes nothing, and what it did not reach is deleted by the next one', () => {
    const world = new KnownWorld(routing);
    listIn(world, shards, [aShard('a'), aShard('b'), aShard('c')], 'resync');
    world.begin(shards);
    world.see('Shard', aShard('a'));

    const second = listIn(world, shards, [aShard('b')], 'changed');

    expect(marksOf(second)).toEqual([...both('deleted', 'a'), ...both('deleted', 'c')]);
  });

  test('keeps what only an event has told of since it began', () => {
    const world = new KnownWorld(routing);
    world.see('Shard', aShard('old'));
    world.begin(shards);
    world.see('Shard', aShard('new'));
    world.see('Shard', written(aShard('old'), {}));

    const end = world.complete(shards);

    expect(end.marks).toEqual([]);
  });

  test('does not bring back what an event has deleted since it began', () => {
    const world = new KnownWorld(routing);
    world.begin(shards);
    world.see('Shard', aShard('a'));
    const gone = world.lose('Shard', aShard('a'));

    const end = world.complete(shards);

    expect(marksOf(gone)).toEqual(both('deleted', 'a'));
    expect(end.marks).toEqual([]);
    expect(world.count('Shard')).toBe(0);
  });

  test('F17: keeps an object that was deleted and made anew while it came', () => {
    const world = new KnownWorld(routing);
    world.see('Shard', aShard('a'));
    world.begin(shards);
    world.see('Shard', aShard('a'));
    world.lose('Shard', aShard('a'));

    const again = world.see('Shard', aShard('a', { uid: 'second' }));
    const end = world.complete(shards);

    expect(marksOf(again)).toEqual(both('changed', 'a', 'second'));
    expect(end.marks).toEqual([]);
    expect(world.target('second')).toBeDefined();
  });

  test('of one namespace knows nothing of another one’s, complete or not', () => {
    const world = new KnownWorld(routing);
    const other: ListScope = { kind: 'Shard', namespace: 'other' };
    const db: ListScope = { kind: 'Shard', namespace: 'db' };
    world.see('Shard', aShard('a'));
    world.see('Shard', aShard('o', { namespace: 'other' }));
    world.begin(db);
    world.begin(other);
    world.see('Shard', aShard('a'));

    const endOfDb = world.complete(db);
    const endOfOther = world.complete(other);

    expect(endOfDb.marks).toEqual([]);
    expect(marksOf(endOfOther)).toEqual(both('deleted', 'o'));
    expect([world.count('Shard'), world.count('Shard', 'db')]).toEqual([1, 1]);
  });

  test('that never began deletes nothing', () => {
    const world = new KnownWorld(routing);
    listIn(world, shards, [aShard('a')], 'resync');

    const end = world.complete(shards);

    expect(end.marks).toEqual([]);
  });

  test('L8: leaves nothing behind of what has gone', () => {
    const world = new KnownWorld(routing);
    listIn(world, shards, [aShard('a'), aShard('b')], 'resync');

    listIn(world, shards, [], 'changed');

    expect(world.count('Shard')).toBe(0);
    expect(world.duties()).toEqual([]);
    expect(world.target('uid-a')).toBeUndefined();
  });
});

describe('a pod', () => {
  test('wakes its shard when it appears, is written and goes, and no other shard', () => {
    const world = new KnownWorld(routing);
    listIn(world, shards, [aShard('a'), aShard('b')], 'resync');
    const pod = aPod('p-0', 'a');

    const appeared = world.see('Pod', pod);
    const changed = world.see('Pod', written(pod, {}));
    const gone = world.lose('Pod', pod);

    for (const findings of [appeared, changed, gone]) {
      expect(marksOf(findings)).toEqual(both('changed', 'a'));
    }
  });

  test('that moves to another shard wakes both', () => {
    const world = new KnownWorld(routing);
    listIn(world, shards, [aShard('a'), aShard('b')], 'resync');
    const pod = aPod('p-0', 'a');
    world.see('Pod', pod);

    const findings = world.see('Pod', written(pod, { labels: { 'millrace.dev/shard': 'b' } }));

    expect(marksOf(findings)).toEqual([...both('changed', 'a'), ...both('changed', 'b')]);
  });

  test('of a shard in another namespace wakes nobody', () => {
    const world = new KnownWorld(routing);
    world.see('Shard', aShard('a'));

    const findings = world.see('Pod', aPod('p-0', 'a', { namespace: 'other' }));

    expect(findings.marks).toEqual([]);
  });

  test('has the state of its mirror annotation, is null without one and unknown when never seen', () => {
    const world = new KnownWorld(routing);
    world.see('Pod', aPod('p-0', 'a', { annotations: { 'drain.millrace.dev/state': 'finished' } }));
    world.see('Pod', aPod('p-1', 'a'));
    world.see(
      'Pod',
      aPod('p-2', 'a', { annotations: { 'release.millrace.dev/state': 'released' } }),
    );

    const states = ['p-0', 'p-1', 'p-2', 'p-3'].map((name) =>
      world.mirrorOf('Pod', { namespace: 'db', name }),
    );

    expect(states).toEqual(['finished', null, 'released', undefined]);
  });
});

describe('a database', () => {
  test('wakes every step of the shards that name it, in its namespace only', () => {
    const world = new KnownWorld(routing);
    const other = { spec: { databaseRef: { name: 'users' } } };
    listIn(
      world,
      shards,
      [aShard('a'), aShard('b', {}, other), aShard('c', { namespace: 'elsewhere' })],
      'resync',
    );
    const database = aDatabase('orders');

    const appeared = world.see('Database', database);
    const written1 = world.see('Database', written(database, {}, { status: { a: 1 } }));
    const gone = world.lose('Database', database);

    expect(marksOf(appeared)).toEqual(both('changed', 'a'));
    expect(marksOf(written1)).toEqual([]);
    expect(marksOf(gone)).toEqual(both('changed', 'a'));
  });
});
