import { describe, expect, test } from 'vitest';
import { absent, present, unknown } from '#shared/kernel/read.ts';
import { decide } from '#functions/pool-pods/decide.ts';
import { aShard } from '#test/builders/shard.ts';
import { Run, aBackup } from './a-run.ts';
import { aSnapshotOf, conditionIn, effectOf, now, writesOf } from './a-snapshot.ts';

const advice =
  'the shard has no complete backup, and a new member restores from one: annotate shd/orders with millrace.dev/backup-now=full/<token>';

/** A shard of so many members of which one more is wanted. */
function aGrowingShardOf(count: number) {
  return aSnapshotOf(count, aShard().withPool(count + 1)).withMembers(...Array(count).keys());
}

async function aRunThatGrows(): Promise<Run> {
  const run = new Run(aShard().withPool(2));
  await run.settle();
  await run.look();
  run.scaleTo(3);
  return run;
}

function reconcilingOf(run: Run): string {
  const found = run.shard.status?.conditions?.find(({ type }) => type === 'Reconciling');
  return `${found?.status} ${found?.reason}: ${found?.message}`;
}

describe('a new member without a complete backup', () => {
  test('is made all the same, with a warning and what to do about it', () => {
    const builder = aGrowingShardOf(2).withBackups(false);

    const decision = decide(builder.snapshot, now);

    expect(decision).toMatchObject({ outcome: 'acting', reason: 'ObjectsMade' });
    expect(writesOf(decision)).toEqual([
      expect.stringMatching(/^create PersistentVolumeClaim /),
      `create Pod ${builder.pod(2)}`,
      'emitEvent',
    ]);
    expect(effectOf(decision, 'emitEvent')).toEqual({
      kind: 'emitEvent',
      type: 'Warning',
      reason: 'NoCompleteBackup',
      message: `made Pod ${builder.pod(2)}: ${advice}`,
    });
    expect(conditionIn(decision, 'Reconciling')).toBe('True NoCompleteBackup');
    expect(conditionIn(decision, 'Stalled')).toBe('False NothingStalled');
  });

  test('is warned of while it starts, in the condition alone', () => {
    const { snapshot } = aSnapshotOf(3).withPod(2, { isReady: false }).withBackups(false);

    const decision = decide(snapshot, now);

    expect(decision).toMatchObject({
      outcome: 'settled',
      reason: 'NoCompleteBackup',
      message: `waiting for members of main/zone-a to become ready; ${advice}`,
    });
    expect(writesOf(decision)).toEqual([]);
    expect(conditionIn(decision, 'Reconciling')).toBe('True NoCompleteBackup');
  });

  test('is not warned of where there is one, or the list cannot be read', () => {
    const builder = aGrowingShardOf(2);
    const decisions = [builder.withBackups(true), builder].map(({ snapshot }) =>
      decide(snapshot, now),
    );

    for (const decision of decisions) {
      expect(writesOf(decision)).not.toContain('emitEvent');
      expect(conditionIn(decision, 'Reconciling')).toBe('True ObjectsMade');
    }
  });

  test('is no matter for what else is made or stands in the way', () => {
    const shard = aSnapshotOf(3).withBackups(false);
    const waiting = shard.withoutPod(1).withClaim(1, { isBeingDeleted: true });
    const service = shard.with({ service: { kind: 'absent' } });

    expect(decide(waiting.snapshot, now).reason).toBe('NameBeingFreed');
    expect(writesOf(decide(service.snapshot, now))).not.toContain('emitEvent');
    expect(conditionIn(decide(service.snapshot, now), 'Reconciling')).toBe('False NothingToDo');
  });
});

describe('the data plane', () => {
  test('is asked while members join others, and the warning goes with their readiness', async () => {
    const run = await aRunThatGrows();
    run.backups = present([aBackup('incomplete'), aBackup('failed')]);

    await run.look();
    const whileItStarts = reconcilingOf(run);
    await run.settle();

    expect(whileItStarts).toMatch(
      /^True NoCompleteBackup: making Pod .*; the shard has no complete/,
    );
    expect(run.kube.all('Event')).toHaveLength(1);
    expect(run.kube.all('Event')[0]).toMatchObject({ type: 'Warning', reason: 'NoCompleteBackup' });
    expect(reconcilingOf(run)).toMatch(/^False NothingToDo/);
  });

  test.each([
    ['one that is complete', present([aBackup('incomplete'), aBackup('complete')])],
    ['one whose state nobody knows', present([aBackup('unknown')])],
    ['no answer', unknown('the list of backups: 500')],
    ['no such shard', absent],
  ])('that has %s causes no warning', async (_what, backups) => {
    const run = await aRunThatGrows();
    run.backups = backups;

    await run.settle();

    expect(run.questions).toBeGreaterThan(0);
    expect(run.kube.all('Event')).toEqual([]);
  });

  test('is not asked when a shard begins, nor when it has all its members', async () => {
    const run = new Run(aShard().withPool(3));
    run.backups = present([]);

    await run.look();
    run.makePodsReady();
    await run.look();
    await run.look();

    expect(run.indices).toEqual([0, 1, 2]);
    expect(run.questions).toBe(0);
    expect(run.kube.all('Event')).toEqual([]);
  });

  test('is not asked while a person holds the shard or its database', async () => {
    const run = await aRunThatGrows();
    run.editDatabase({ paused: true });
    await run.look();
    run.editDatabase({ paused: false });
    run.kube.change('Shard', 'orders', (shard) => ({
      ...shard,
      spec: { ...shard.spec, paused: true },
    }));

    await run.look();

    expect(run.questions).toBe(0);
  });

  test('that still has none is no reason to write a status again', async () => {
    const run = await aRunThatGrows();
    run.backups = present([]);
    await run.look();
    await run.look();
    run.kube.calls.length = 0;

    await run.look();

    expect(run.questions).toBe(3);
    expect(run.kube.calls.filter((call) => !/^(get|list) /.test(call))).toEqual([]);
  });
});
