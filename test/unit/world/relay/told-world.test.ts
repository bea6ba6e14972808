import { describe, expect, test } from 'vitest';
import { type ToldObject, ToldWorld } from '#test/world/relay/told-world.ts';

let version = 0;

function anObject(name: string, metadata: object = {}, rest: object = {}): ToldObject {
  version += 1;
  const own = { name, namespace: 'db', uid: `uid-${name}`, resourceVersion: String(version) };
  return { metadata: { ...own, generation: 1, ...metadata }, ...rest };
}

function aShard(name: string, metadata: object = {}, rest: object = {}): ToldObject {
  return anObject(name, metadata, { spec: { databaseRef: { name: 'orders' } }, ...rest });
}

function aPod(name: string, shard: string, metadata: object = {}): ToldObject {
  return anObject(name, { labels: { 'millrace.dev/shard': shard }, ...metadata });
}

/** Shards a and b of the Database `orders`, and a pod of a. */
function setUp(): ToldWorld {
  const world = new ToldWorld();
  world.see('Shard', aShard('a'));
  world.see('Shard', aShard('b'));
  world.see('Pod', aPod('p', 'a'));
  world.see('Database', anObject('orders'));
  return world;
}

const both = (uid: string) => [`drain-step ${uid}`, `pool-pods ${uid}`];

describe('whom a write concerns:', () => {
  test.each([
    ['its spec', { generation: 2 }, {}, both('uid-a')],
    ['its going', { deletionTimestamp: '2026-01-01T00:00:00Z' }, {}, both('uid-a')],
    ['a token of a person', annotated('millrace.dev/reconcile'), {}, both('uid-a')],
    ['drain-step’s record', annotated('step.millrace.dev/drain-step'), {}, both('uid-a')],
    ['pool-pods’ record', annotated('step.millrace.dev/pool-pods'), {}, ['pool-pods uid-a']],
    ['a forced drain', annotated('millrace.dev/force-drain'), {}, ['drain-step uid-a']],
    ['the condition Drained', {}, conditioned('Drained'), ['pool-pods uid-a']],
    ['another condition', {}, conditioned('Ready'), []],
    ['a foreign annotation', annotated('example.com/note'), {}, []],
  ])('of a Shard, %s', (_, metadata, rest, expected) => {
    const world = setUp();

    const concerned = world.see('Shard', aShard('a', metadata, rest));

    expect([...concerned].toSorted()).toEqual(expected);
  });

  test('every write to a pod concerns the Shard that its label names', () => {
    const world = setUp();

    const concerned = world.see('Pod', aPod('p', 'a'));

    expect([...concerned]).toEqual(both('uid-a'));
  });

  test('a pod that moves concerns the Shard it leaves and its new one', () => {
    const world = setUp();

    const concerned = world.see('Pod', aPod('p', 'b'));

    expect([...concerned].toSorted()).toEqual([...both('uid-a'), ...both('uid-b')].toSorted());
  });

  test('a pod of another namespace concerns nobody', () => {
    const world = setUp();

    const concerned = world.see('Pod', aPod('p', 'a', { namespace: 'other' }));

    expect([...concerned]).toEqual([]);
  });

  test('a Database that goes concerns every Shard that names it, a foreign annotation on it none', () => {
    const world = setUp();

    const noted = world.see('Database', anObject('orders', annotated('example.com/note')));
    const gone = world.lose('Database', anObject('orders'));

    expect([...noted]).toEqual([]);
    expect([...gone].toSorted()).toEqual([...both('uid-a'), ...both('uid-b')].toSorted());
  });

  test('a Shard that took another’s name concerns both', () => {
    const world = setUp();

    const concerned = world.see('Shard', aShard('a', { uid: 'uid-a2' }));

    expect([...concerned].toSorted()).toEqual([...both('uid-a'), ...both('uid-a2')].toSorted());
  });

  test('the same version told again concerns nobody', () => {
    const world = setUp();
    const pod = aPod('p', 'a');
    world.see('Pod', pod);

    const again = world.see('Pod', pod);

    expect([...again]).toEqual([]);
  });

  test('what a complete list does not name is gone, and nothing that came since it began', () => {
    const world = setUp();
    world.begin('Shard');
    world.see('Shard', aShard('c'));
    world.see('Shard', aShard('b'));

    const concerned = world.complete('Shard');

    expect([...concerned]).toEqual(both('uid-a'));
    expect(world.count('Shard')).toBe(2);
  });
});

function annotated(key: string): object {
  return { annotations: { [key]: 'x' } };
}

function conditioned(type: string): object {
  return { status: { conditions: [{ type, status: 'True', reason: 'Because', message: 'so' }] } };
}
