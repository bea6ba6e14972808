import { describe, expect, test } from 'vitest';
import type { Audience, Concern } from '#events/relay/digest.ts';
import {
  type Findings,
  KnownWorld,
  type ListScope,
  changedConcerns,
} from '#events/relay/known-world.ts';
import type { WatchedObject } from '#events/relay/watched-object.ts';
import type { Route, Routing } from '#events/routes.ts';
import { threeRoutes as routing } from '#test/builders/two-steps.ts';
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

describe('what steps wait for', () => {
  test('is told with a version that changes with the record, and is empty without one', () => {
    const world = new KnownWorld(routing);
    const shard = aShard('a');
    const versionsOf = (annotations: Record<string, string>) =>
      world.see('Shard', written(shard, { annotations })).wakes.map(({ version }) => version);

    const without = versionsOf({});
    const first = versionsOf(aRecord('drain-step', { every: 5 }));
    const again = versionsOf(aRecord('drain-step', { every: 5 }));
    const moved = versionsOf(aRecord('drain-step', { every: 5 }, 'draining'));

    expect(without).toEqual(['', '']);
    expect(again).toEqual(first);
    expect(first[0]).not.toBe('');
    expect(new Set([first[0], moved[0]]).size).toBe(2);
  });

  test('is taken back of whoever waited when the target goes', () => {
    const world = new KnownWorld(routing);
    const shard = aShard('a', { annotations: aRecord('drain-step', { every: 5 }) });
    world.see('Shard', shard);

    const lost = world.lose('Shard', shard);

    expect(lost.wakes).toEqual([
      { sleeper: { step: 'drain-step', uid: 'uid-a' }, wake: undefined, version: '' },
      { sleeper: { step: 'pool-pods', uid: 'uid-a' }, wake: undefined, version: '' },
    ]);
  });

  test('is no matter of members: a pod is no target, and its coming and going wakes nobody later', () => {
    const world = new KnownWorld(routing);
    world.see('Shard', aShard('a'));
    const pod = aPod('p-0', 'a', { annotations: aRecord('drain-step', { every: 5 }) });

    const findings = [world.see('Pod', pod), world.lose('Pod', pod)];

    expect(findings.flatMap(({ wakes }) => wakes)).toEqual([]);
    expect(world.target('uid-p-0')).toBeUndefined();
  });
});

describe('the routes', () => {
  const [drainStep, poolPods] = routing.routes;
  const narrow: Routing = {
    routes: [
      ...(drainStep === undefined ? [] : [drainStep]),
      ...(poolPods === undefined ? [] : [{ ...poolPods, members: false }]),
      { ...(poolPods as Route), step: 'pool-pods', target: 'Database' },
    ],
    memberships: routing.memberships,
    references: [
      ...routing.references,
      { kind: 'Database', target: 'Node', path: ['spec', 'other'], requests: [] },
    ],
  };

  test('keep members from steps that do not care about them, and databases from none', () => {
    const world = new KnownWorld(narrow);
    world.see('Shard', aShard('a'));

    const pod = world.see('Pod', aPod('p-0', 'a'));
    const database = world.see('Database', aDatabase('orders'));

    expect(marksOf(pod)).toEqual(['drain-step changed a uid-a']);
    expect(marksOf(database)).toEqual([
      'pool-pods changed orders uid-orders',
      'drain-step changed a uid-a',
      'pool-pods changed a uid-a',
    ]);
  });

  test('say per kind of target where a reference stands', () => {
    const world = new KnownWorld(narrow);
    const spec = { databaseRef: { name: 'users' }, other: 'orders' };
    world.see('Shard', aShard('a', {}, { spec }));

    const findings = world.see('Database', aDatabase('orders'));

    expect(marksOf(findings)).toEqual(['pool-pods changed orders uid-orders']);
  });
});

describe('what nobody has told of', () => {
  test('is counted as nothing, and its going is no news', () => {
    const world = new KnownWorld(routing);
    world.see('Shard', aShard('a'));
    world.see('Shard', aShard('o', { namespace: 'other' }));

    const lost = world.lose('Shard', aShard('b'));

    expect(lost).toEqual({ marks: [], wakes: [], differences: 0 });
    expect([world.count('Pod'), world.count('Pod', 'db'), world.count('Shard', 'no')]).toEqual([
      0, 0, 0,
    ]);
    expect([world.count('Shard'), world.count('Shard', 'db')]).toEqual([2, 1]);
  });
});

describe('two looks at an object', () => {
  const itself: Audience = { to: 'itself', step: 'drain-step' };
  const others: readonly Audience[] = [
    { to: 'itself', step: 'pool-pods' },
    { to: 'owner', kind: 'Shard', name: 'a' },
    { to: 'owner', kind: 'Shard', name: 'b' },
    { to: 'owner', kind: 'Database', name: 'a' },
    { to: 'referrers', kind: 'Shard' },
    { to: 'referrers', kind: 'Database' },
  ];
  const concernOf = (audience: Audience, digest = 'same'): Concern => ({ audience, digest });

  test('differ for those for whom something is new, gone or different, and for nobody else', () => {
    const all = [itself, ...others];
    for (const audience of all) {
      const [before, now] = [concernOf(audience, 'before'), concernOf(audience, 'now')];
      const rest = all.filter((other) => other !== audience).map((other) => concernOf(other));

      expect(changedConcerns([...rest, before], [now, ...rest])).toEqual([now]);
      expect(changedConcerns([...rest, before], rest)).toEqual([before]);
      expect(changedConcerns(rest, [now, ...rest])).toEqual([now]);
      expect(changedConcerns([...rest, now], [now, ...rest])).toEqual([]);
    }
  });

  test.each(others.map((other) => [other]))(
    'differ for both where %o takes the place of another',
    (other) => {
      const [before, now] = [concernOf(itself), concernOf(other)];

      expect(changedConcerns([before], [now])).toEqual([before, now]);
      expect(changedConcerns([now], [before])).toEqual([now, before]);
    },
  );
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
  test('wakes its own step, and every step of the shards that name it, in its namespace only', () => {
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

    const itself = 'uid-orders';
    expect(marksOf(appeared)).toEqual([
      `backup-config changed orders ${itself}`,
      ...both('changed', 'a'),
    ]);
    expect(marksOf(written1)).toEqual([]);
    expect(marksOf(gone)).toEqual([
      `backup-config deleted orders ${itself}`,
      ...both('changed', 'a'),
    ]);
  });
});

describe('pods that are told apart by labels', () => {
  const labelled = (name: string) =>
    aPod(name, 'a', { annotations: { 'release.millrace.dev/state': 'draining' } });
  const place = (name: string) => ({ namespace: 'db', name });

  test('are not gone where the list by another label is complete without them', () => {
    const world = new KnownWorld(routing);
    world.see('Pod', labelled('node-0'), 'changed', 'nodes');

    world.begin({ kind: 'Pod', label: 'members' });
    world.see('Pod', labelled('member-0'), 'changed', 'members');
    world.complete({ kind: 'Pod', label: 'members' });

    expect(world.mirrorOf('Pod', place('node-0'))).toBe('draining');
    expect(world.mirrorOf('Pod', place('member-0'))).toBe('draining');
  });

  test('are gone where the list by their own is', () => {
    const world = new KnownWorld(routing);
    world.see('Pod', labelled('node-0'), 'changed', 'nodes');

    world.begin({ kind: 'Pod', label: 'nodes' });
    world.complete({ kind: 'Pod', label: 'nodes' });

    expect(world.mirrorOf('Pod', place('node-0'))).toBeUndefined();
  });

  test('stay known by the label that they keep, whichever news comes first', () => {
    const pod = labelled('both-0');
    const [first, second] = [new KnownWorld(routing), new KnownWorld(routing)];

    first.see('Pod', pod, 'changed', 'nodes');
    first.lose('Pod', pod, 'members');
    second.see('Pod', pod, 'changed', 'members');
    second.lose('Pod', pod, 'members');
    second.see('Pod', pod, 'changed', 'nodes');

    expect(first.mirrorOf('Pod', place('both-0'))).toBe('draining');
    expect(second.mirrorOf('Pod', place('both-0'))).toBe('draining');
  });
});
