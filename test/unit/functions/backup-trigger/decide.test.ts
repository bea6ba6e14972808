import { describe, expect, test } from 'vitest';
import { beforeAnything, betweenRuns, whileRunning } from '#functions/backup-trigger/decide.ts';
import { holdUps } from '#functions/backup-trigger/hold-ups.ts';
import { backupRecordBytes, maxSeenLength } from '#functions/backup-trigger/record.ts';
import { jitterSeconds } from '#functions/backup-trigger/slots.ts';
import { answerPlace, maxAnswerLength } from '#shared/kernel/effect.ts';
import { absent, present, unknown } from '#shared/kernel/read.ts';
import { recordText } from '#shared/kernel/record.ts';
import { shardUid } from '#test/builders/shard.ts';
import {
  type SnapshotBuilder,
  aBackup,
  aJob,
  aRun,
  aSchedule,
  aShardWith,
  anEntry,
  at,
  conditionAfter,
  kindsOf,
  recordAfter,
  sendOf,
  shardKey,
  statusAfter,
  text,
} from './a-backup.ts';

const noAnswer = unknown('no answer within 3 s');
const request = { kind: 'valid', text: 'full/one', type: 'full', token: 'one' } as const;

test('the rows stand in this order', () => {
  const namesOf = (rows: readonly { readonly name: string }[]) => rows.map(({ name }) => name);

  expect(namesOf(beforeAnything)).toEqual([
    'targetBeingDeleted',
    'pausedByUser',
    'recordUnreadable',
    'foreignRecord',
    'nothingScheduled',
    'pausedByDatabase',
  ]);
  expect(namesOf(betweenRuns)).toEqual(['passOver', 'nothingDue', 'waitToStart', 'start']);
  expect(namesOf(holdUps)).toEqual([
    'runInProgress',
    'databaseMissing',
    'databaseUnknown',
    'leaseUnknown',
    'backupsUnknown',
    'drainUnknown',
    'drainGoing',
    'leaseHeld',
    'earlierRuns',
  ]);
  expect(namesOf(whileRunning)).toEqual([
    'passOver',
    'startRefused',
    'backupListed',
    'backupFailed',
    'stillRunsAtDeadline',
    'runOverdue',
    'jobRuns',
    'leaseStillHeld',
    'outcomeNotTold',
    'answerAwaited',
    'outcomeUnknown',
  ]);
});

describe('before anything', () => {
  test.each([
    ['is being deleted', { isBeingDeleted: true }, 'TargetBeingDeleted'],
    ['is paused', { isPaused: true }, 'Paused'],
  ])('a shard that %s is left alone', (_, shard, reason) => {
    expect(aShardWith().shard(shard).decide()).toMatchObject({
      outcome: 'settled',
      reason,
      effects: [],
    });
  });

  test('a paused database begins nothing, and a run under way is not judged', () => {
    const database = present({
      shard: shardKey,
      ref: { namespace: 'db', name: 'main', uid: 'u' },
      isPaused: true,
    });

    for (const shard of [aShardWith(), aShardWith().running()]) {
      expect(shard.with({ database }).decide(86_400)).toMatchObject({
        outcome: 'settled',
        reason: 'Paused',
        effects: [],
      });
    }
  });

  test('an unreadable record is left to a person, and said', () => {
    const decision = aShardWith()
      .with({ record: { kind: 'unreadable', text: '{', why: 'it is not JSON' } })
      .decide();

    expect(decision).toMatchObject({ outcome: 'blocked', reason: 'RecordUnreadable' });
    expect(kindsOf(decision)).toEqual(['applyStatus']);
    expect(conditionAfter(decision)).toMatchObject({ status: 'Unknown' });
  });

  test('a record of another object is cleared and never obeyed', () => {
    const decision = aShardWith()
      .with({ record: { kind: 'foreign', text: '{}', uid: 'other' } })
      .decide();

    expect(decision.reason).toBe('RecordForeign');
    expect(recordAfter(decision)).toBeNull();
  });

  test('without schedules the record and what was told of them go, and then nothing is written', () => {
    const bare = aShardWith().shard({ schedules: [] });
    const decision = bare
      .condition({ status: 'False', reason: 'BackupsMissed', message: 'none' })
      .decide();

    expect(decision).toMatchObject({ outcome: 'settled', reason: 'NothingScheduled' });
    expect(recordAfter(decision)).toBeNull();
    const condition = {
      status: 'True' as const,
      reason: 'NothingScheduled',
      message: 'no backups are scheduled',
    };
    expect(statusAfter(decision)).toEqual({ conditions: [expect.objectContaining(condition)] });
    const after = bare.withoutRecord().condition(condition);
    expect(after.decide()).toMatchObject({ outcome: 'settled', effects: [] });
  });

  test('the condition of a shard without schedules follows its generation, so that the sweep knows of the look', () => {
    const decision = aShardWith()
      .shard({ schedules: [], generation: 7 })
      .withoutRecord()
      .condition({
        status: 'True',
        reason: 'NothingScheduled',
        message: 'no backups are scheduled',
      })
      .decide();

    expect(statusAfter(decision)).toMatchObject({ conditions: [{ observedGeneration: 7 }] });
  });
});

describe('what is due', () => {
  test('a schedule that is seen for the first time fires nothing old', () => {
    const decision = aShardWith().withoutRecord().decide(10);

    expect(decision).toMatchObject({ reason: 'AwaitingSlot', wake: { at: text(3600) } });
    expect(recordAfter(decision)?.data.schedules['hourly']).toMatchObject({
      at: at(10) / 1000,
      from: at(10) / 1000,
    });
  });

  test('while nothing is due the record wakes at the next slot, jitter included, and a second look writes nothing', () => {
    const schedule = aSchedule({ jitterSeconds: 600 });
    const offset = jitterSeconds(shardUid, 'hourly', 600);
    const shard = aShardWith(schedule);

    const decision = shard.decide(-900);
    const record = recordAfter(decision);
    const { conditions, ...fields } = statusAfter(decision) ?? {};
    const again = shard
      .recorded(record?.data ?? { schedules: {} }, { wake: { at: text(offset) } })
      .shard({
        schedules: [schedule],
        status: { condition: conditionAfter(decision) ?? null, fields },
      })
      .decide(-800);

    expect(decision).toMatchObject({ outcome: 'waiting', wake: { at: text(offset) } });
    expect(fields).toMatchObject({ nextBackup: text(offset), lastBackup: {} });
    expect(conditions).toHaveLength(1);
    expect(again).toMatchObject({ reason: 'AwaitingSlot', effects: [] });
  });

  test('shortly before a slot the looks go on by themselves, since a clock may be behind', () => {
    expect(aShardWith().decide(-3)).toMatchObject({ outcome: 'waiting', wake: { every: 5 } });
  });

  test('a slot that is due is written down and asked for, in this order and with nothing in between', () => {
    const decision = aShardWith().decide(1);

    expect(decision).toMatchObject({ outcome: 'acting', reason: 'BackupAsked' });
    expect(kindsOf(decision)).toEqual(['advance', 'startBackup']);
    const record = recordAfter(decision);
    expect(record).toMatchObject({
      key: `backup-trigger/${shardUid}/hourly/${text(0)}/0`,
      state: 'asked',
      wake: { every: 5 },
      data: {
        schedules: { hourly: { at: at(0) / 1000 } },
        run: { at: text(1), until: text(7201) },
      },
    });
    expect(sendOf(decision)).toMatchObject({
      type: 'full',
      shard: shardKey,
      guard: { recordKey: record?.key, sendBy: at(11) },
      answered: {
        started: { state: 'running', data: { run: { job: answerPlace } } },
        refused: { state: 'refused', data: { run: { refused: answerPlace } } },
      },
    });
  });

  test('the intent names the newest backup there is, if a record can keep its name', () => {
    const seenIn = (id: string) =>
      recordAfter(aShardWith().listing(aBackup('a', -60), aBackup(id, -90)).decide(1))?.data.run
        ?.seen;

    expect(seenIn('20260101-100000F_20260101-113000I')).toBe('20260101-100000F_20260101-113000I');
    expect(seenIn('x'.repeat(maxSeenLength + 1))).toBeUndefined();
  });

  test('older slots are superseded first, in one write, and then the newest begins', () => {
    const schedule = aSchedule();
    const shard = aShardWith(schedule).recorded({
      schedules: { hourly: anEntry(schedule, -3 * 3600 - 1800) },
    });

    const decision = shard.decide(1);

    expect(decision.reason).toBe('SlotsSkipped');
    expect(decision.counts).toEqual([
      {
        metric: 'backup_skipped_total',
        labels: { schedule: 'hourly', reason: 'Superseded' },
        count: 3,
      },
    ]);
    expect(recordAfter(decision)?.data.schedules['hourly']).toMatchObject({
      at: at(-3600) / 1000,
      end: 'skipped',
      why: 'Superseded',
    });
    expect(shard.recorded(recordAfter(decision)?.data ?? { schedules: {} }).decide(2).reason).toBe(
      'BackupAsked',
    );
  });

  test.each([
    ['latest', 1800, 'BackupAsked'],
    ['latest', 1801, 'SlotsSkipped'],
    ['none', 300, 'BackupAsked'],
    ['none', 301, 'SlotsSkipped'],
  ] as const)('with catchUp %s a slot that is %i s late ends in %s', (catchUp, seconds, reason) => {
    expect(aShardWith(aSchedule({ catchUp })).decide(seconds).reason).toBe(reason);
  });

  test('who was due first comes first, then the fuller one', () => {
    const full = aSchedule({ name: 'full' });
    const differential = aSchedule({ name: 'b-diff', type: 'differential' });
    const incremental = aSchedule({
      name: 'a-incr',
      type: 'incremental',
      timing: { kind: 'every', seconds: 600 },
    });
    const shard = aShardWith(incremental, differential, full);

    const first = shard.recorded({
      schedules: {
        'a-incr': anEntry(incremental, 0),
        'b-diff': anEntry(differential, -1800),
        full: anEntry(full, -1800),
      },
    });

    // The incremental's slot is ten minutes younger than the others'.
    expect(recordAfter(first.decide(601))?.data.run?.schedule).toBe('full');
    expect(
      recordAfter(
        first
          .recorded({
            schedules: {
              'a-incr': anEntry(incremental, 0),
              'b-diff': anEntry(differential, -1800),
              full: anEntry(full, 0),
            },
          })
          .decide(601),
      )?.data.run?.schedule,
    ).toBe('b-diff');
  });

  test.each([
    ['its cron names no day', { timing: { kind: 'cron', cron: '0 0 30 2 *', timeZone: 'UTC' } }],
    ['its zone is unknown', { timing: { kind: 'cron', cron: '0 0 * * *', timeZone: 'Mars/Base' } }],
    ['its jitter is too long', { jitterSeconds: 1800 }],
  ] as const)('a schedule is not in force where %s, and the others go on', (_, changes) => {
    const wrong = aSchedule({ name: 'wrong', ...changes });
    const decision = aShardWith(wrong, aSchedule()).decide(-900);

    expect(decision).toMatchObject({ outcome: 'waiting', wake: { at: text(0) } });
    expect(conditionAfter(decision)).toMatchObject({
      status: 'False',
      reason: 'ScheduleInvalid',
      message: expect.stringMatching(/schedule wrong is not in force: .+: (correct it|give|make)/),
    });
    expect(recordAfter(aShardWith(wrong, aSchedule()).decide(1))?.data.run?.schedule).toBe(
      'hourly',
    );
  });
});

describe('suspended', () => {
  const off = aSchedule({ isSuspended: true });

  test('what is due is passed over once, and then nothing is written', () => {
    const decision = aShardWith(off).decide(1);
    const after = recordAfter(decision);

    expect(decision.reason).toBe('SlotsSkipped');
    expect(after?.data.schedules['hourly']).toMatchObject({ off: true, at: at(1) / 1000 });
    expect(after?.wake).toBeUndefined();
    const later = aShardWith(off)
      .recorded(after?.data ?? { schedules: {} }, {})
      .decide(86_400);
    expect(later.reason).toBe('AwaitingSlot');
    expect(kindsOf(later)).not.toContain('startBackup');
  });

  test('in force again nothing of before fires', () => {
    const known = { hourly: anEntry(off, -1800, { off: true }) };
    const decision = aShardWith(aSchedule())
      .recorded({ schedules: known })
      .decide(4 * 3600 + 1);

    expect(decision.counts).toEqual([
      {
        metric: 'backup_skipped_total',
        labels: { schedule: 'hourly', reason: 'Suspended' },
        count: 5,
      },
    ]);
    expect(recordAfter(decision)?.data.schedules['hourly']).toEqual({
      ...anEntry(off, -1800),
      at: at(4 * 3600 + 1) / 1000,
      from: at(4 * 3600 + 1) / 1000,
      slot: at(4 * 3600) / 1000,
      end: 'skipped',
      why: 'Suspended',
    });
  });

  test('a suspension that nobody saw may be behind two changes of the spec, so nothing from before the last one fires', () => {
    const shard = aShardWith().shard({ generation: 3, specChangedAt: text(60) });

    expect(shard.decide(61)).toMatchObject({
      reason: 'SlotsSkipped',
      counts: [{ labels: { reason: 'SpecChanged' }, count: 1 }],
    });
    expect(
      aShardWith()
        .shard({ generation: 2, specChangedAt: text(60) })
        .decide(61).reason,
    ).toBe('BackupAsked');
    expect(
      aShardWith()
        .shard({ generation: 3, specChangedAt: text(-1) })
        .decide(61).reason,
    ).toBe('BackupAsked');
    expect(aShardWith().shard({ generation: 3, specChangedAt: null }).decide(61).reason).toBe(
      'SlotsSkipped',
    );
  });

  test('the record of a run keeps the generation of its intent, so that what happened meanwhile still shows', () => {
    const decision = aShardWith()
      .running(aRun({ lost: text(5) }), 'asked')
      .shard({ generation: 3, specChangedAt: text(-7200) })
      .job(absent)
      .with({ lease: present({ holder: '' }) })
      .decide(61);

    expect(recordAfter(decision)?.generation).toBe(1);
  });

  test('a handler whose clock is behind closes the books up to the change all the same', () => {
    const known = { hourly: anEntry(off, -7000, { off: true }) };
    const decision = aShardWith(aSchedule())
      .shard({ specChangedAt: text(60) })
      .recorded({ schedules: known })
      .decide(-3600);

    expect(recordAfter(decision)?.data.schedules['hourly']?.at).toBe(at(60) / 1000);
  });

  test('slots that a new timing would have had before it was written never fire', () => {
    const before = aSchedule({ timing: { kind: 'cron', cron: '0 3 * * *', timeZone: 'UTC' } });
    const decision = aShardWith(aSchedule())
      .shard({ generation: 2, specChangedAt: text(60) })
      .recorded({ schedules: { hourly: anEntry(before, -1800) } }, { generation: 1 })
      .decide(61);

    expect(decision).toMatchObject({ reason: 'AwaitingSlot', wake: { at: text(3600) } });
  });
});

describe('nothing begins', () => {
  const cases: readonly (readonly [
    what: string,
    shard: SnapshotBuilder,
    reason: string,
    why: string,
  ])[] = [
    [
      'without its Database',
      aShardWith().with({ database: absent }),
      'DatabaseMissing',
      'DatabaseMissing',
    ],
    [
      'while its Database cannot be read',
      aShardWith().with({ database: noAnswer }),
      'DatabaseUnknown',
      'DatabaseUnknown',
    ],
    [
      'while the lease cannot be read',
      aShardWith().with({ lease: noAnswer }),
      'TopologyUnknown',
      'LeaseUnknown',
    ],
    [
      'while the list does not come',
      aShardWith().with({ backups: noAnswer }),
      'BackupsUnknown',
      'BackupsUnknown',
    ],
    [
      'while the drain’s record cannot be read',
      aShardWith().with({ drain: { kind: 'unknown', why: 'it is not JSON' } }),
      'DrainUnknown',
      'DrainUnknown',
    ],
    [
      'while a member is past the point of no return',
      aShardWith().with({ drain: { kind: 'going', pod: 'orders-0' } }),
      'AwaitingDrain',
      'AwaitingDrain',
    ],
    [
      'while somebody holds the lease',
      aShardWith().with({ lease: present({ holder: 'backup by p-1' }) }),
      'BackupLeaseHeld',
      'LeaseHeld',
    ],
    ...(['pending', 'running', 'unknown'] as const).map(
      (status) =>
        [
          `while an earlier run is ${status}`,
          aShardWith()
            .recorded({ schedules: { hourly: anEntry(aSchedule(), -1800) }, left: 'job-1' })
            .job(present(aJob(status))),
          'EarlierBackupRuns',
          'EarlierRuns',
        ] as const,
    ),
    [
      'while it cannot be told whether an earlier run goes on',
      aShardWith()
        .recorded({ schedules: { hourly: anEntry(aSchedule(), -1800) }, left: 'job-1' })
        .job(noAnswer),
      'EarlierBackupRuns',
      'EarlierRuns',
    ],
  ];

  test.each(cases)('%s; the slot waits, and ends once it is too late', (_, shard, reason, why) => {
    const waits = shard.decide(1);
    const ends = shard.decide(1801);

    expect(waits).toMatchObject({ reason, wake: { every: 15 } });
    expect(kindsOf(waits)).not.toContain('startBackup');
    expect(ends).toMatchObject({ reason: 'SlotsSkipped', counts: [{ labels: { reason: why } }] });
    expect(kindsOf(ends)).not.toContain('startBackup');
  });

  test.each([
    ['has ended', present(aJob('completed'))],
    ['has failed', present(aJob('failed'))],
    ['is not known any more', absent],
  ])('an earlier run that %s holds nothing up', (_, job) => {
    const decision = aShardWith()
      .recorded({ schedules: { hourly: anEntry(aSchedule(), -1800) }, left: 'job-1' })
      .job(job)
      .decide(1);

    expect(decision.reason).toBe('BackupAsked');
    expect(recordAfter(decision)?.data.left).toBeUndefined();
  });

  test('a long wait writes once, until a slot is too late', () => {
    const often = aSchedule({ timing: { kind: 'every', seconds: 10 } });
    const shard = aShardWith(often)
      .recorded({ schedules: { hourly: anEntry(often, -10) } }, { wake: { every: 15 } })
      .with({ lease: present({ holder: '' }) });

    expect(kindsOf(shard.decide(100))).not.toContain('advance');
    expect(shard.decide(1801)).toMatchObject({
      reason: 'SlotsSkipped',
      counts: [{ labels: { reason: 'Superseded' }, count: 180 }],
    });
  });
});

describe('a run', () => {
  const asked = aShardWith().running(aRun(), 'asked');
  const known = aShardWith().running(aRun({ job: 'job-1' }));

  test('that was refused has failed', () => {
    const decision = aShardWith()
      .running(aRun({ refused: 'answers 400' }), 'refused')
      .decide(1);

    expect(decision).toMatchObject({
      reason: 'BackupRefused',
      counts: [{ metric: 'backup_runs_total', labels: { result: 'failed' } }],
    });
    expect(recordAfter(decision)).toMatchObject({ state: 'idle', wake: { at: text(3600) } });
  });

  test('has succeeded when the list shows its backup complete, whatever else is known', () => {
    for (const job of [present(aJob('running')), absent, noAnswer]) {
      const decision = known
        .listing(aBackup('b', 1, { job: 'job-1' }))
        .job(job)
        .decide(1700);

      expect(decision.reason).toBe('BackupSucceeded');
      expect(recordAfter(decision)?.data.schedules['hourly']).toMatchObject({
        end: 'succeeded',
        from: at(61) / 1000,
        good: true,
      });
      expect(statusAfter(decision)).toMatchObject({
        backups: [
          {
            lastResult: 'succeeded',
            lastSuccess: text(61),
            lastDurationSeconds: 60,
            lastSizeBytes: 1000,
          },
        ],
        lastBackup: { any: text(61), full: text(61) },
      });
    }
  });

  test('whose job names a backup that is not complete yet has not succeeded', () => {
    const job = present(aJob('completed', { backup: 'b' }));

    expect(known.job(job).decide(1).reason).toBe('BackupOutcomeAwaited');
    expect(
      known
        .job(job)
        .listing(aBackup('b', 1, { status: 'incomplete' }))
        .decide(1).reason,
    ).toBe('BackupOutcomeAwaited');
    expect(known.job(job).listing(aBackup('b', 1)).decide(1).reason).toBe('BackupSucceeded');
  });

  test('without a known job adopts a backup that was begun since, and no other', () => {
    const seen = aShardWith().running(aRun({ seen: 'a' }), 'asked');

    expect(seen.listing(aBackup('a', 3), aBackup('b', 3)).decide(70)).toMatchObject({
      reason: 'BackupAdopted',
      message: expect.stringContaining('backup b'),
      counts: [{ labels: { result: 'adopted' } }],
    });
    expect(seen.listing(aBackup('b', 3), aBackup('a', 3)).decide(70).reason).toBe(
      'BackupOutcomeAwaited',
    );
    expect(seen.listing(aBackup('b', 3)).decide(70).reason).toBe('BackupAdopted');
    expect(asked.listing(aBackup('b', -61)).decide(70).reason).toBe('BackupOutcomeAwaited');
    expect(known.job(absent).listing(aBackup('b', 3)).decide(70).reason).toBe(
      'BackupOutcomeAwaited',
    );
  });

  test('has failed when the data plane says so, and is not tried again', () => {
    const decision = known.job(present(aJob('failed', { why: 'exit status 63' }))).decide(1);

    expect(decision).toMatchObject({ reason: 'BackupFailed' });
    expect(decision.message).toContain('exit status 63');
    expect(recordAfter(decision)?.data.schedules['hourly']?.again).toBeUndefined();
    expect(
      known
        .listing(aBackup('b', 1, { job: 'job-1', status: 'failed' }))
        .job(absent)
        .decide(1).reason,
    ).toBe('BackupFailed');
  });

  test.each(['pending', 'running'] as const)('whose job is %s is watched', (status) => {
    const young = known.job(present(aJob(status)));

    expect(young.decide(1)).toMatchObject({ reason: 'BackupRunning', wake: { every: 5 } });
    expect(kindsOf(young.decide(1))).not.toContain('advance');
    expect(young.decide(61)).toMatchObject({ wake: { every: 30 } });
    expect(kindsOf(young.decide(61))).toContain('advance');
  });

  test('past its deadline has failed if it still runs, is unknown else, and holds the next one up', () => {
    const short = aShardWith().running(aRun({ job: 'job-1', until: text(600) }));
    const runs = short.job(present(aJob('running'))).decide(601);
    const lost = short.job(noAnswer).decide(601);

    expect(runs).toMatchObject({ counts: [{ labels: { result: 'failed' } }] });
    expect(lost).toMatchObject({ counts: [{ labels: { result: 'unknown' } }] });
    for (const decision of [runs, lost]) {
      expect(recordAfter(decision)?.data.left).toBe('job-1');
    }
  });

  test.each([
    ['the job', { job: noAnswer }],
    ['the lease', { job: absent, lease: noAnswer }],
    ['the list', { job: absent, backups: noAnswer }],
    ['what the job’s word means', { job: present(aJob('unknown')) }],
  ] as const)('stays as it is while %s is not known', (_, changes) => {
    const decision = known.with(changes).decide(50);

    expect(decision).toMatchObject({ reason: 'BackupOutcomeAwaited' });
    expect(kindsOf(decision)).not.toContain('advance');
  });

  test('may be who holds the lease', () => {
    for (const shard of [asked, known.job(absent)]) {
      const decision = shard.with({ lease: present({ holder: 'backup by p-1' }) }).decide(600);

      expect(decision.reason).toBe('BackupOutcomeAwaited');
      expect(recordAfter(decision)?.data.run?.lost).toBeUndefined();
    }
  });

  test('that nothing shows is unknown only two minutes later', () => {
    const first = asked.decide(10);
    expect(recordAfter(first)?.data.run).toMatchObject({ lost: text(10) });

    const lost = aShardWith().running(aRun({ lost: text(10) }), 'asked');
    expect(lost.decide(129).reason).toBe('BackupOutcomeAwaited');
    expect(lost.decide(130)).toMatchObject({
      reason: 'BackupOutcomeUnknown',
      counts: [{ labels: { result: 'unknown' } }],
    });
  });

  test('a moment of loss by a wrong clock shortens nothing', () => {
    const early = aShardWith().running(aRun({ lost: text(-3600) }), 'asked');
    const late = aShardWith().running(aRun({ lost: text(3600) }), 'asked');

    expect(early.decide(100).reason).toBe('BackupOutcomeAwaited');
    expect(recordAfter(late.decide(100))?.data.run).toMatchObject({ lost: text(100) });
  });

  test('an intent by a clock that was an hour ahead is not waited for', () => {
    const lost = aShardWith().running(aRun({ at: text(3600), lost: text(10) }), 'asked');
    const young = aShardWith().running(aRun({ at: text(3600), job: 'job-1' }));

    expect(lost.decide(129).reason).toBe('BackupOutcomeAwaited');
    expect(lost.decide(130).reason).toBe('BackupOutcomeUnknown');
    expect(young.job(present(aJob('running'))).decide(1)).toMatchObject({ wake: { every: 30 } });
  });

  test('that shows again is not lost any more', () => {
    const found = aShardWith()
      .running(aRun({ job: 'job-1', lost: text(10) }))
      .job(present(aJob('running')))
      .decide(200);

    expect(found.reason).toBe('BackupRunning');
    expect(recordAfter(found)?.data.run?.lost).toBeUndefined();
  });

  test('meanwhile other slots end that it outlasts', () => {
    const other = aSchedule({ name: 'other', type: 'incremental' });
    const shard = aShardWith(aSchedule(), other)
      .running(aRun({ job: 'job-1' }))
      .job(present(aJob('running')));

    expect(shard.decide(1800).reason).toBe('BackupRunning');
    const decision = shard.decide(1801);
    expect(decision).toMatchObject({
      reason: 'SlotsSkipped',
      counts: [{ labels: { schedule: 'other', reason: 'RunInProgress' }, count: 1 }],
    });
    expect(recordAfter(decision)).toMatchObject({
      state: 'running',
      data: { run: { job: 'job-1' } },
    });
  });
});

describe('a rerun', () => {
  const rerun = aSchedule({ onUnknown: 'rerun' });
  const lost = (attempt: number) =>
    aShardWith(rerun).running(aRun({ attempt, lost: text(10) }), 'asked');

  test('is the same slot with the next attempt, and waits for what every start waits for', () => {
    const ended = lost(0).decide(130);
    const after = recordAfter(ended)?.data ?? { schedules: {} };

    expect(ended.reason).toBe('BackupToRepeat');
    expect(after.schedules['hourly']).toMatchObject({ at: at(0) / 1000, again: 1 });
    const next = aShardWith(rerun).recorded(after);
    expect(next.with({ lease: present({ holder: '' }) }).decide(131).reason).toBe(
      'BackupLeaseHeld',
    );
    expect(recordAfter(next.decide(131))).toMatchObject({
      key: `backup-trigger/${shardUid}/hourly/${text(0)}/1`,
      data: { run: { attempt: 1 } },
    });
  });

  test('that is lost as well is followed by the next attempt', () => {
    expect(recordAfter(lost(1).decide(130))?.data.schedules['hourly']?.again).toBe(2);
  });

  test.each([
    ['after the second', lost(2), 130],
    [
      'where the schedule only reports',
      aShardWith().running(aRun({ lost: text(10) }), 'asked'),
      130,
    ],
    ['when it is too late', lost(0), 1801],
    ['when a newer slot is due', lost(0), 3601],
    [
      'when a suspension may have been',
      lost(0).shard({ generation: 3, specChangedAt: text(60) }),
      130,
    ],
  ] as const)('there is none %s', (_, shard, seconds) => {
    const decision = shard.decide(seconds);

    expect(recordAfter(decision)?.data.schedules['hourly']?.again).toBeUndefined();
    expect(kindsOf(decision)).not.toContain('startBackup');
  });

  test('that comes too late leaves its slot unknown, not skipped', () => {
    const decision = aShardWith(rerun)
      .recorded({ schedules: { hourly: anEntry(rerun, 0, { again: 1 }) } })
      .decide(1801);

    expect(decision.reason).toBe('SlotsSkipped');
    expect(decision.counts).toEqual([]);
    expect(recordAfter(decision)?.data.schedules['hourly']).toMatchObject({ end: 'unknown' });
  });
});

describe('a request of a person', () => {
  const shard = aShardWith().shard({ request });

  test('is begun before every slot, once for its token', () => {
    const decision = shard.decide(1);

    expect(recordAfter(decision)).toMatchObject({
      key: `backup-trigger/${shardUid}/@now/one/0`,
      data: { now: { request: 'full/one' }, run: { schedule: '@now', slot: 'one' } },
    });
    const obeyed = { schedules: { hourly: anEntry(aSchedule(), 0) }, now: { request: 'full/one' } };
    expect(shard.recorded(obeyed).decide(1).reason).toBe('AwaitingSlot');
  });

  test('is not obeyed again after the record was reset', () => {
    const told = { backupRequest: { request: 'full/one', result: 'succeeded' as const } };

    const decision = shard
      .withoutRecord()
      .shard({ request, status: { condition: null, fields: told } })
      .decide(1);

    expect(decision.reason).toBe('AwaitingSlot');
    expect(statusAfter(decision)).toMatchObject(told);
  });

  test('needs no schedules', () => {
    const decision = aShardWith().withoutRecord().shard({ schedules: [], request }).decide();

    expect(decision.reason).toBe('BackupAsked');
  });

  test('ends in the status', () => {
    const run = aRun({ schedule: '@now', slot: 'one', job: 'job-1' });
    const decision = aShardWith()
      .running(run, 'running', { now: { request: 'full/one' } })
      .listing(aBackup('b', 1, { job: 'job-1' }))
      .decide(70);

    expect(recordAfter(decision)?.data.now).toEqual({ request: 'full/one', end: 'succeeded' });
    expect(statusAfter(decision)).toMatchObject({
      backupRequest: { request: 'full/one', result: 'succeeded' },
    });
  });

  test('that cannot be read is told to the person', () => {
    const decision = aShardWith()
      .shard({ request: { kind: 'invalid' } })
      .decide(-900);

    expect(conditionAfter(decision)).toMatchObject({ status: 'False', reason: 'RequestInvalid' });
  });
});

describe('the condition', () => {
  const entryWith = (changes: object) =>
    aShardWith().recorded({ schedules: { hourly: anEntry(aSchedule(), 3 * 3600, changes) } });

  test('is False after two slots and the usual length of a run without a good backup', () => {
    const shard = entryWith({
      from: at(60) / 1000,
      good: true,
      end: 'failed',
      why: 'Failed',
      slot: at(7200) / 1000,
    }).listing(aBackup('b', 0));

    const before = shard.decide(2 * 3600 + 59);
    const after = shard.decide(2 * 3600 + 60);

    expect(conditionAfter(before)).toMatchObject({ status: 'True', reason: 'OnSchedule' });
    expect(conditionAfter(after)).toMatchObject({
      status: 'False',
      reason: 'BackupsMissed',
      message: `schedule hourly has had no good backup since ${text(60)}; its slot ${text(7200)} ended failed (Failed)`,
    });
  });

  test('counts a schedule that never had one from when it came to be in force', () => {
    const shard = entryWith({ from: at(0) / 1000 });

    expect(conditionAfter(shard.decide(7199))).toMatchObject({ status: 'True' });
    expect(conditionAfter(shard.decide(7200))).toMatchObject({ status: 'False' });
  });

  test('tells ages by times, full ones apart, by when they stopped', () => {
    const decision = aShardWith()
      .listing(
        aBackup('20260101-100000F', -7200),
        aBackup('20260101-100000F_20260101-113000I', -1800, { type: 'incremental' }),
        aBackup('20260101-115000F', -600, { status: 'failed' }),
      )
      .decide(-900);

    expect(statusAfter(decision)).toMatchObject({
      lastBackup: { any: text(-1740), full: text(-7140) },
    });
    const metric = 'backup_last_success_age_seconds';
    expect(decision.gauges).toEqual([
      { metric, labels: { backup: 'any' }, value: 840 },
      { metric, labels: { backup: 'full' }, value: 6240 },
    ]);
  });

  test('measures no age where there is no list, or no good backup in it', () => {
    expect(aShardWith().with({ backups: noAnswer }).decide(-900).gauges).toEqual([]);
    expect(aShardWith().listing().decide(-900).gauges).toEqual([]);
  });

  test('keeps the last ages while the list does not come', () => {
    const lastBackup = { any: text(-60), full: text(-3600) };
    const decision = aShardWith()
      .shard({ status: { condition: null, fields: { lastBackup } } })
      .with({ backups: noAnswer })
      .decide(-900);

    expect(statusAfter(decision)).toMatchObject({ lastBackup });
  });
});

test('the longest record fits, with eight schedules and the longest job', () => {
  const schedules = Array.from({ length: 8 }, (_, place) =>
    aSchedule({ name: `${place}`.padEnd(20, 'x') }),
  );
  const name = schedules[0]?.name ?? '';
  const entries = Object.fromEntries(
    schedules.map((schedule) => [
      schedule.name,
      anEntry(schedule, 0, {
        good: true,
        off: true,
        slot: at(0) / 1000,
        end: 'skipped',
        why: 'DatabaseUnknown',
      }),
    ]),
  );
  const shard = aShardWith(...schedules).running(
    aRun({
      schedule: name,
      type: 'differential',
      attempt: 2,
      seen: 's'.repeat(maxSeenLength),
      lost: text(0),
      job: 'j'.repeat(maxAnswerLength),
    }),
    'running',
    { schedules: entries, now: { request: `differential/${'t'.repeat(40)}`, end: 'succeeded' } },
  );
  const { record } = shard.build();

  expect(record.kind).toBe('ours');
  const length = record.kind === 'ours' ? recordText(record.record).length : Infinity;
  // The executor leaves room for the longest answer beside the place where it goes.
  expect(length + answerPlace.length).toBeLessThanOrEqual(backupRecordBytes);
});
