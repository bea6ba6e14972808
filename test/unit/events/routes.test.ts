import { expect, test } from 'vitest';
import * as z from 'zod';
import { KnownWorld } from '#events/relay/known-world.ts';
import { routing, watchedKinds } from '#events/routes.ts';
import { stepNames } from '#shared/api/steps.ts';
import { decide as decideBackups } from '#functions/backup-trigger/decide.ts';
import { decide as decideDrain } from '#functions/drain-step/decide.ts';
import { decide as decidePods } from '#functions/pool-pods/decide.ts';
import { aDatabase, aShard, written } from '#test/unit/events/relay/objects.ts';
import { aLook } from '#test/unit/functions/backup-config/a-look.ts';
import { aSchedule, aShardWith } from '#test/unit/functions/backup-trigger/a-backup.ts';
import { aShardOf } from '#test/unit/functions/drain-step/a-drain.ts';
import { aShardOfThree } from '#test/unit/functions/etcd-cleanup/a-cleanup.ts';
import { aSnapshotOf, now } from '#test/unit/functions/pool-pods/a-snapshot.ts';
import { aReleaseOf } from '#test/unit/functions/shard-release/a-release.ts';

const appliedSchema = z.object({
  kind: z.literal('applyStatus'),
  status: z.object({ conditions: z.array(z.object({ type: z.string() })) }),
});

test('every step has exactly one route', () => {
  const routed = routing.routes.map((route) => route.step);

  expect(routed.toSorted()).toEqual(stepNames.toSorted());
});

test('a step’s own conditions are those that it writes, and each has one step', () => {
  const written = {
    'backup-config': aLook().decide(),
    'backup-trigger': decideBackups(aShardWith(aSchedule()).build(), now),
    'etcd-cleanup': aShardOfThree().decide(),
    'drain-step': decideDrain(aShardOf(3).build(), now),
    'pool-pods': decidePods(aSnapshotOf(3).snapshot, now),
    'shard-release': aReleaseOf('a', 'b').decide(),
  };
  const declared = routing.routes.flatMap(({ target, ownConditions }) =>
    ownConditions.map((type) => `${type} of ${target}`),
  );

  for (const { step, ownConditions } of routing.routes) {
    expect(conditionsIn(written[step]).toSorted(), step).toEqual([...ownConditions].toSorted());
  }
  expect(new Set(declared).size).toBe(declared.length);
});

/** The types of the conditions that a decision writes. */
function conditionsIn({ effects }: { readonly effects: readonly unknown[] }): readonly string[] {
  return effects.flatMap((effect) => {
    const applied = appliedSchema.safeParse(effect);
    return applied.success ? applied.data.status.conditions.map(({ type }) => type) : [];
  });
}

test('a Database whose repository is another one wakes pool-pods of the shards that name it, and of no other', () => {
  const world = new KnownWorld(routing);
  const database = aDatabase('orders');
  const spec = (name: string) => ({ spec: { databaseRef: { name } } });
  world.see('Shard', aShard('named', {}, spec('orders')));
  world.see('Shard', aShard('other', {}, spec('users')));
  world.see('Database', database);

  const changed = world.see('Database', written(database, { generation: 2 }));
  const told = world.see('Database', written(database, { generation: 2 }, { status: { a: 1 } }));

  const woken = ({ marks }: typeof changed) =>
    marks.filter(({ step }) => step === 'pool-pods').map(({ target }) => target.name);
  expect(woken(changed)).toEqual(['named']);
  expect(woken(told)).toEqual([]);
});

test('targets, their pods and their databases are watched, each once', () => {
  expect(watchedKinds(routing).toSorted()).toEqual(['Database', 'GoverseCluster', 'Pod', 'Shard']);
});
