import { describe, expect, test } from 'vitest';
import { decide as decideDrain } from '#functions/drain-step/decide.ts';
import { decide as decideBackup } from '#functions/backup-trigger/decide.ts';
import { heldBy } from '#infra/cli/sight/drain.ts';
import { seenPod, seenTarget } from '#infra/cli/sight/seen.ts';
import { explanationOf } from '#infra/cli/sight/sight.ts';
import type { Explanation, StepSight } from '#infra/cli/sight/model.ts';
import { explanationText, statusText } from '#infra/cli/sight/tell.ts';
import { recordAnnotation } from '#shared/api/annotations.ts';
import type { Reason } from '#shared/api/reasons.ts';
import type { StepName } from '#shared/api/steps.ts';
import { type Instant, plusSeconds, toText } from '#shared/kernel/instant.ts';
import { absent, present, unknown } from '#shared/kernel/read.ts';
import {
  type DrainBuilder,
  aShardOf,
  now,
  shardUid,
  uidOf,
} from '../../../functions/drain-step/a-drain.ts';
import * as backup from '../../../functions/backup-trigger/a-backup.ts';
import { type ToldObject, asTold } from './as-told.ts';

const names = { name: 'orders', namespace: 'db', uid: shardUid };

/** A Shard that every step has looked at and found in order, at the generation of the drain's builder. */
function aSettledShard(changes: Partial<ToldObject['metadata']> = {}): ToldObject {
  const condition = (type: string, status: string, reason: string) => ({
    type,
    status,
    reason,
    message: `${type} is ${status}`,
    observedGeneration: 4,
    lastTransitionTime: '2026-01-01T00:00:00Z',
  });
  return {
    metadata: {
      ...names,
      generation: 4,
      creationTimestamp: '2025-12-01T00:00:00Z',
      ...changes,
    },
    spec: { databaseRef: { name: 'main' }, drain: { deadline: '5m' }, pools: [] },
    status: {
      conditions: [
        condition('Ready', 'True', 'MembersReady'),
        condition('Reconciling', 'False', 'NothingToDo'),
        condition('Stalled', 'False', 'NothingStalled'),
        condition('PodsUpToDate', 'True', 'PodsUpToDate'),
        condition('Drained', 'True', 'NobodyLeaves'),
        condition('BackupsOnSchedule', 'True', 'NothingScheduled'),
        condition('TopologyClean', 'True', 'TopologyClean'),
      ],
    },
  };
}

function aDatabase(changes: Partial<ToldObject> = {}): ToldObject {
  return {
    metadata: { name: 'main', namespace: 'db', uid: 'database-uid', generation: 1 },
    spec: {},
    status: {
      conditions: ['Ready', 'Reconciling', 'Stalled', 'BackupConfigured'].map((type) => ({
        type,
        status: type === 'Stalled' || type === 'Reconciling' ? 'False' : 'True',
        reason: type === 'BackupConfigured' ? 'NoRepository' : 'NothingToDo',
        message: '',
        observedGeneration: 1,
      })),
    },
    ...changes,
  };
}

function explain(
  object: ToldObject,
  {
    at = now,
    database = aDatabase(),
    pods,
  }: {
    readonly at?: Instant;
    readonly database?: ToldObject | null;
    readonly pods?: readonly object[];
  } = {},
): Explanation {
  return explanationOf({
    target: seenTarget('Shard', object),
    database: database === null ? null : seenTarget('Database', database),
    now: at,
    ...(pods === undefined ? {} : { pods: pods.map(seenPod) }),
  });
}

/** The Shard as a look of drain-step leaves it. */
function afterDrainLook(drain: DrainBuilder): ToldObject {
  const before = drain.build();
  const shard = aSettledShard({
    annotations:
      before.record.text === null ? {} : { [recordAnnotation('drain-step')]: before.record.text },
  });
  return asTold(shard, 'drain-step', decideDrain(before, now));
}

function stepOf({ steps }: Explanation, step: StepName): StepSight {
  const found = steps.find((sight) => sight.step === step);
  if (found === undefined) {
    throw new Error(`there is no ${step}`);
  }
  return found;
}

const commands = ({ todo }: Pick<Explanation, 'todo'>) =>
  todo.flatMap(({ command }) => command ?? []);

describe('a member that leaves', () => {
  test('while it goes on by itself, its checks and its deadline are told, and nothing is to be done', () => {
    const explanation = explain(afterDrainLook(aShardOf(4).wanting(3)));

    expect(explanation.sight).toMatchObject({ standing: 'working', step: 'drain-step' });
    expect(explanation.todo).toEqual([]);
    expect(stepOf(explanation, 'drain-step')).toMatchObject({ reason: 'MemberChosen' });
    expect(stepOf(explanation, 'drain-step').meaning).toContain(
      'The pod orders-3 is to leave because its pool has more members than wanted.',
    );
    expect(stepOf(explanation, 'drain-step').next).toContain('2026-01-01T00:15:00Z (in 5m)');
  });

  test('without the quorum it names what is missing, how to keep the member, and the last resort', () => {
    const drain = aShardOf(3)
      .requested('orders-2')
      .withStatus('orders-1', null)
      .draining('orders-2', 'requested', 6, { cause: 'requested' });

    const explanation = explain(afterDrainLook(drain));

    expect(explanation.sight).toMatchObject({ standing: 'stuck', reason: 'QuorumTooSmall' });
    expect(explanation.summary).toContain('only 1 healthy');
    expect(commands(explanation)).toEqual([
      'kubectl get pods -n db -l millrace.dev/shard=orders',
      'kubectl annotate -n db pod/orders-2 millrace.dev/drain-',
      `kubectl annotate -n db shd/orders --overwrite millrace.dev/force-drain=${uidOf('orders-2')}`,
    ]);
  });

  test.each<[string, DrainBuilder, Reason]>([
    [
      'nobody leads',
      aShardOf(4).wanting(3).ledBy('nobody').draining('orders-3', 'requested', 400),
      'NoAgreedPrimary',
    ],
    [
      'the topology cannot be read',
      aShardOf(4)
        .with({ topology: unknown('refused') })
        .draining('orders-3', 'requested', 400),
      'TopologyUnknown',
    ],
    [
      'the pods cannot be listed',
      aShardOf(4)
        .with({ members: unknown('403') })
        .draining('orders-3', 'requested', 400),
      'MembersUnknown',
    ],
    [
      'the Database is gone',
      aShardOf(4).with({ database: absent }).draining('orders-3', 'requested', 400),
      'DatabaseMissing',
    ],
    [
      'the Database cannot be read',
      aShardOf(4)
        .with({ database: unknown('403') })
        .draining('orders-3', 'requested', 400),
      'DatabaseUnknown',
    ],
    [
      'too few would remain',
      aShardOf(3).wanting(2).withStatus('orders-1', null).draining('orders-2', 'requested', 400),
      'QuorumTooSmall',
    ],
    [
      'its pod does not end',
      aShardOf(4)
        .wanting(3)
        .draining('orders-3', 'finished', 400)
        .withMember('orders-3', { isBeingDeleted: true }),
      'AwaitingPodGone',
    ],
    [
      'its node is not heard from',
      aShardOf(4)
        .wanting(3)
        .draining('orders-3', 'finished', 400)
        .withoutPod('orders-3')
        .with({ nodes: { 'node-1': present({ isReady: false }) } }),
      'NodeUnproven',
    ],
    [
      'it is still in the cohort',
      aShardOf(4).wanting(3).draining('orders-3', 'finished', 400).gone('orders-3'),
      'AwaitingCohortExit',
    ],
    [
      'its pod is in other hands',
      aShardOf(4)
        .wanting(3)
        .draining('orders-3', 'finished', 400)
        .withMember('orders-3', { control: 'foreign' }),
      'MemberOfOthers',
    ],
  ])('stuck past its deadline because %s, that is what is told', (_what, drain, reason) => {
    const decision = decideDrain(drain.build(), now);
    const explanation = explain(afterDrainLook(drain));

    expect(heldBy(decision.message)).toBe(reason);
    expect(explanation.sight).toMatchObject({ standing: 'stuck', reason: 'DrainStuck' });
    expect(explanation.sight.waitsFor).not.toBe('what it could not get in time');
    expect(explanation.todo.length).toBeGreaterThan(0);
  });

  test('whose pod is held by a finalizer, that is said instead of how to force it', () => {
    const drain = aShardOf(4)
      .wanting(3)
      .draining('orders-3', 'finished', 400)
      .withMember('orders-3', { isBeingDeleted: true });
    const pod = {
      metadata: {
        name: 'orders-3',
        uid: uidOf('orders-3'),
        deletionTimestamp: '2026-01-01T00:05:00Z',
        finalizers: ['example.com/held'],
      },
    };

    const explanation = explain(afterDrainLook(drain), { pods: [pod] });

    expect(explanation.sight.waitsFor).toBe(
      'its pod to be gone, which the finalizer example.com/held holds',
    );
    expect(commands(explanation)).toEqual(['kubectl describe pod -n db orders-3']);
    expect(explanation.members).toEqual([
      {
        pod: 'orders-3',
        says: 'was deleted and is to be gone by 2026-01-01T00:05:00Z',
        since: '2026-01-01T00:03:20Z',
      },
    ]);
  });

  test('that is held up no more is not called blocked by what the condition said before', () => {
    const record = aShardOf(3).draining('orders-2', 'requested', 6).build().record;
    const object = aSettledShard({
      annotations: { [recordAnnotation('drain-step')]: record.text ?? '' },
    });
    const blocked = {
      type: 'Drained',
      status: 'False',
      reason: 'QuorumTooSmall',
      message: 'too few; to go on: wait',
      observedGeneration: 4,
    };

    const explanation = explain({ ...object, status: { conditions: [blocked] } });

    expect(stepOf(explanation, 'drain-step')).toMatchObject({
      reason: 'GatesHold',
      standing: 'working',
    });
  });

  test('whose leaving ended otherwise than by leaving needs nobody any more', () => {
    const drain = aShardOf(4)
      .wanting(3)
      .draining('orders-3', 'requested')
      .withMember('orders-3', { control: 'foreign' });

    const step = stepOf(explain(afterDrainLook(drain)), 'drain-step');

    expect(step).toMatchObject({
      reason: 'MemberOfOthers',
      standing: 'settled',
      attention: 'none',
      brief: 'nobody has to leave',
      notes: ['How the last one ended: orders-3 is in somebody else’s hands now.'],
    });
  });

  test('past its deadline without a word of it, somebody has to see whether anybody looks', () => {
    const record = aShardOf(4).draining('orders-3', 'requested', 900).build().record;
    const object = aSettledShard({
      annotations: { [recordAnnotation('drain-step')]: record.text ?? '' },
    });

    const explanation = explain(object);

    expect(explanation.sight).toMatchObject({
      standing: 'stuck',
      brief: 'its next look is overdue',
    });
    expect(commands(explanation)).toContain('millrace doctor -n db');
  });
});

describe('a backup', () => {
  function afterBackupLook(snapshot: backup.SnapshotBuilder, at: Instant): ToldObject {
    const before = snapshot.build();
    const object = aSettledShard({
      uid: before.shard.uid,
      generation: 1,
      annotations:
        before.record.text === null
          ? {}
          : { [recordAnnotation('backup-trigger')]: before.record.text },
    });
    return asTold(object, 'backup-trigger', decideBackup(before, at));
  }

  test('that is due and waits for the lease is told as that', () => {
    const entry = backup.anEntry(backup.aSchedule(), -1800, { from: backup.at(-1800) / 1000 });
    const snapshot = backup
      .aShardWith()
      .recorded({ schedules: { hourly: entry } })
      .with({ lease: present({ holder: 'somebody' }) });

    const step = stepOf(
      explain(afterBackupLook(snapshot, backup.now), { at: backup.now }),
      'backup-trigger',
    );

    expect(step).toMatchObject({ reason: 'BackupLeaseHeld', standing: 'working' });
    expect(step.look?.text).toBe('every 15s');
  });

  test('that runs is told with its schedule and until when it is watched', () => {
    const snapshot = backup
      .aShardWith()
      .recorded({ schedules: {}, run: backup.aRun({ job: 'job-1' }) }, { state: 'running' })
      .with({ job: present(backup.aJob('running')) });

    const step = stepOf(
      explain(afterBackupLook(snapshot, backup.at(30)), { at: backup.at(30) }),
      'backup-trigger',
    );

    expect(step).toMatchObject({ standing: 'working', told: 'its job is job-1' });
    expect(step.waitsFor).toBe(
      'the full backup of hourly to end, watched until 2026-01-01T14:00:00Z (in 119m)',
    );
  });

  test('between two slots the next one is what it waits for, and nothing has to be done', () => {
    const snapshot = backup.aShardWith();
    const at = backup.at(-60);

    const explanation = explain(afterBackupLook(snapshot, at), { at });

    expect(explanation.sight).toMatchObject({ standing: 'settled', nextBackup: backup.text(0) });
    expect(stepOf(explanation, 'backup-trigger').waitsFor).toBe(
      'the next slot, 2026-01-01T12:00:00Z (in 60s)',
    );
    expect(statusText([explanation.sight], 'table', at)).toContain('backup in 60s');
  });

  test('whose slot has come and nobody looked is overdue', () => {
    const object = afterBackupLook(backup.aShardWith(), backup.at(-60));

    const explanation = explain(object, { at: backup.at(600) });

    expect(explanation.sight).toMatchObject({
      standing: 'stuck',
      step: 'backup-trigger',
      brief: 'its next look is overdue',
    });
    expect(stepOf(explanation, 'backup-trigger').notes[0]).toContain('10m ago');
  });

  test('that was missed says how the last slot ended, and in which type to have one now', () => {
    const schedule = backup.aSchedule({ type: 'incremental' });
    const snapshot = backup.aShardWith(schedule).recorded({
      schedules: {
        hourly: backup.anEntry(schedule, 0, {
          from: backup.at(-10_800) / 1000,
          good: true,
          slot: backup.at(0) / 1000,
          end: 'failed',
          why: 'Failed',
        }),
      },
    });
    const told = afterBackupLook(snapshot, backup.at(60));
    const schedules = [{ name: 'hourly', type: 'incremental' }];

    const explanation = explain(
      { ...told, spec: { ...told.spec, backup: { schedules } } },
      { at: backup.at(60) },
    );

    expect(explanation.sight).toMatchObject({ standing: 'stuck', reason: 'BackupsMissed' });
    expect(stepOf(explanation, 'backup-trigger').notes).toEqual([
      'Schedule hourly: its last slot, 2026-01-01T12:00:00Z, ended as failed, since the data plane said that the backup failed; its last good backup was 3h ago.',
    ]);
    expect(commands(explanation).at(-1)).toBe(
      'kubectl annotate -n db shd/orders --overwrite millrace.dev/backup-now=incremental/2026-01-01-12:01',
    );
  });
});

describe('what stands besides the reasons', () => {
  test('a record that cannot be read is told with the way to clear it', () => {
    const object = aSettledShard({ annotations: { [recordAnnotation('pool-pods')]: '{"v":2}' } });

    const explanation = explain(object);

    expect(explanation.sight).toMatchObject({ standing: 'stuck', reason: 'RecordUnreadable' });
    expect(commands(explanation)).toEqual(['millrace reset shd/orders pool-pods -n db']);
  });

  test('a record of another object is told, and needs nobody', () => {
    const record = aShardOf(3).draining('orders-2', 'requested').build().record.text ?? '';
    const object = aSettledShard({
      uid: 'the-copy',
      annotations: { [recordAnnotation('drain-step')]: record },
    });

    const step = stepOf(explain(object), 'drain-step');

    expect(step).toMatchObject({ reason: 'RecordForeign', attention: 'none' });
    expect(step.told).toContain(shardUid);
  });

  test('a step that has never looked needs a person only where that lasts', () => {
    const object = (ageSeconds: number): ToldObject => ({
      metadata: {
        ...names,
        generation: 1,
        creationTimestamp: toText(plusSeconds(now, -ageSeconds)),
      },
      spec: {},
    });

    expect(explain(object(30)).sight).toMatchObject({ standing: 'working', attention: 'none' });
    expect(explain(object(600)).sight).toMatchObject({
      standing: 'stuck',
      brief: 'nobody has ever looked at it',
    });
  });

  test('a generation that was not looked at needs a person only where that lasts', () => {
    const object = (ageSeconds: number) =>
      aSettledShard({
        generation: 5,
        managedFields: [
          { time: toText(plusSeconds(now, -ageSeconds)), fieldsV1: { 'f:spec': {} } },
          { time: toText(now), fieldsV1: { 'f:metadata': {} } },
        ],
      });

    expect(explain(object(30)).sight).toMatchObject({
      standing: 'working',
      brief: 'a change of the spec is about to be looked at',
    });
    expect(explain(object(600)).sight).toMatchObject({
      standing: 'stuck',
      brief: 'the last change of the spec was not looked at',
    });
  });

  test('a drain that goes on under an older generation is not taken for one that nobody looks at', () => {
    const record = aShardOf(4).draining('orders-3', 'draining').build().record.text ?? '';
    const object = aSettledShard({
      generation: 5,
      annotations: { [recordAnnotation('drain-step')]: record },
      managedFields: [{ time: toText(plusSeconds(now, -600)), fieldsV1: { 'f:spec': {} } }],
    });

    expect(stepOf(explain(object), 'drain-step').standing).toBe('working');
  });

  test('a paused Database holds its shards, and the way out names it', () => {
    const explanation = explain(aSettledShard(), {
      database: aDatabase({ spec: { paused: true } }),
    });

    expect(explanation.sight).toMatchObject({
      standing: 'paused',
      brief: 'mdb/main is paused by a person',
    });
    expect(commands(explanation)).toEqual([
      `kubectl patch -n db mdb/main --type merge -p '{"spec":{"paused":false}}'`,
    ]);
  });

  test('a target that is being deleted names whose finalizers it waits for', () => {
    const explanation = explain(
      aSettledShard({
        deletionTimestamp: '2026-01-01T00:09:00Z',
        finalizers: ['example.com/held'],
      }),
    );

    expect(explanation.sight.standing).toBe('leaving');
    expect(explanation.notes).toContain(
      'It stays until others have taken off their finalizers: example.com/held.',
    );
  });

  test('a Database that needs a person is named to whoever asks about its shard', () => {
    const conditions = [
      {
        type: 'BackupConfigured',
        status: 'False',
        reason: 'BucketMissing',
        message: 'there is no bucket x; to go on: create the bucket',
        observedGeneration: 1,
      },
    ];

    const explanation = explain(aSettledShard(), {
      database: aDatabase({ status: { conditions } }),
    });

    expect(explanation.sight.standing).toBe('settled');
    expect(explanation.database).toMatchObject({ standing: 'stuck', reason: 'BucketMissing' });
    expect(commands(explanation)).toEqual(['millrace explain mdb/main -n db']);
  });

  test('a Database that does not exist is said', () => {
    expect(explain(aSettledShard(), { database: null }).notes).toContain(
      'Its Database mdb/main does not exist.',
    );
  });

  test('a reason that only a newer version knows is shown with what the step says', () => {
    const condition = {
      type: 'Drained',
      status: 'False',
      reason: 'SomethingNew',
      message: 'it is new',
      observedGeneration: 4,
    };

    const step = stepOf(
      explain({ ...aSettledShard(), status: { conditions: [condition] } }),
      'drain-step',
    );

    expect(step).toMatchObject({ reason: 'SomethingNew', told: 'it is new' });
  });

  test('the text for people fits its width, but for what is to be typed', () => {
    const drain = aShardOf(3)
      .requested('orders-2')
      .withStatus('orders-1', null)
      .draining('orders-2', 'requested', 6, { cause: 'requested' });

    const lines = explanationText(explain(afterDrainLook(drain)), 80).split('\n');

    expect(lines.filter((line) => line.length > 80 && !line.trim().startsWith('$'))).toEqual([]);
  });
});
