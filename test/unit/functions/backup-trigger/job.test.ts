import { describe, expect, test } from 'vitest';
import { isJobOf, jobView } from '#functions/backup-trigger/job.ts';
import type { JobView } from '#functions/backup-trigger/snapshot.ts';
import { absent, present, unknown } from '#shared/kernel/read.ts';
import type { JobTemplate } from '#shared/api/job-template.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import { answerPlace } from '#shared/kernel/effect.ts';
import { shardUid } from '#test/builders/shard.ts';
import {
  aBackup,
  aRun,
  aSchedule,
  aShardWith,
  anEntry,
  at,
  conditionAfter,
  jobOf,
  kindsOf,
  recordAfter,
  statusAfter,
  text,
} from './a-backup.ts';

const byJob = aSchedule({ engine: 'job' });
const noAnswer = unknown('no answer within 3 s');
const name = 'orders-hourly-2026-01-01t12-00-00z-0-01174642';
const jobRun = (changes: Parameters<typeof aRun>[0] = {}) => aRun({ engine: 'job', ...changes });

function aJobThat(status: JobView['status'], isReleased = false): JobView {
  return {
    status,
    backup: null,
    why: status === 'failed' ? 'BackoffLimitExceeded' : null,
    object: {
      ref: { kind: 'Job', namespace: 'db', name },
      uid: 'job-uid',
      resourceVersion: '20',
      isReleased,
    },
  };
}

describe('a slot with engine job', () => {
  const template: JobTemplate = {
    metadata: { labels: { team: 'data', 'millrace.dev/shard': 'x' }, annotations: { note: 'n' } },
    spec: {
      initContainers: [{ name: 'before' }],
      containers: [
        {
          name: 'backup',
          image: 'backup:1',
          env: [
            { name: 'MILLRACE_SHARD', value: 'mine' },
            { name: 'TARGET', value: 's3://$(MILLRACE_DATABASE)' },
          ],
        },
      ],
      serviceAccountName: 'backup',
    },
  };
  const decision = aShardWith(byJob).shard({ jobTemplate: template }).decide(1);
  const ours = [
    { name: 'MILLRACE_DATABASE', value: 'postgres' },
    { name: 'MILLRACE_TABLE_GROUP', value: 'default' },
    { name: 'MILLRACE_SHARD', value: '0-inf' },
    { name: 'MILLRACE_BACKUP_TYPE', value: 'full' },
    { name: 'MILLRACE_BACKUP_SLOT', value: text(0) },
    { name: 'MILLRACE_BACKUP_SCHEDULE', value: 'hourly' },
  ];

  test('is written down, its books closed in the same write, and then its Job is made, once (B2, X9)', () => {
    expect(kindsOf(decision)).toEqual(['advance', 'startJob']);
    expect(recordAfter(decision)).toMatchObject({
      key: `backup-trigger/${shardUid}/hourly/${text(0)}/0`,
      state: 'asked',
      data: { schedules: { hourly: { at: at(0) / 1000 } }, run: { engine: 'job' } },
    });
    expect(jobOf(decision)).toMatchObject({
      object: { kind: 'Job', namespace: 'db', name },
      guard: { recordKey: recordAfter(decision)?.key, sendBy: at(11) },
      answered: {
        started: { state: 'running', data: { run: { job: answerPlace } } },
        refused: { state: 'refused', data: { run: { refused: answerPlace } } },
      },
    });
  });

  test('has a Job that runs one pod once, without a deadline, and belongs to the Shard', () => {
    const { metadata, spec } = jobOf(decision)?.manifest ?? {};

    expect(metadata).toEqual({
      name,
      namespace: 'db',
      labels: {
        team: 'data',
        'millrace.dev/shard': 'orders',
        'millrace.dev/schedule': 'hourly',
        'millrace.dev/slot': '2026-01-01T12.00.00Z',
        'millrace.dev/attempt': '0',
      },
      annotations: { note: 'n' },
      ownerReferences: [
        expect.objectContaining({ kind: 'Shard', uid: shardUid, controller: true }),
      ],
    });
    expect(spec).toMatchObject({ completions: 1, parallelism: 1, backoffLimit: 0 });
    expect(spec).not.toHaveProperty('activeDeadlineSeconds');
    expect(spec).not.toHaveProperty('ttlSecondsAfterFinished');
  });

  test('has a pod with none of the labels that members are found by', () => {
    expect(jobOf(decision)?.manifest['spec']).toHaveProperty('template.metadata', {
      labels: { team: 'data' },
      annotations: { note: 'n' },
    });
  });

  test('tells each container what it is about, and leaves what that sets itself', () => {
    expect(jobOf(decision)?.manifest).toMatchObject({
      spec: {
        template: {
          spec: {
            restartPolicy: 'Never',
            serviceAccountName: 'backup',
            initContainers: [{ name: 'before', env: ours }],
            containers: [
              {
                name: 'backup',
                image: 'backup:1',
                env: [
                  ...ours.filter((variable) => variable.name !== 'MILLRACE_SHARD'),
                  { name: 'MILLRACE_SHARD', value: 'mine' },
                  { name: 'TARGET', value: 's3://$(MILLRACE_DATABASE)' },
                ],
              },
            ],
          },
        },
      },
    });
  });

  test('is not in force without a template, and the others go on', () => {
    const decided = aShardWith(byJob, aSchedule({ name: 'other' }))
      .shard({ jobTemplate: null })
      .decide(1);

    expect(recordAfter(decided)?.data.run?.schedule).toBe('other');
    expect(conditionAfter(aShardWith(byJob).shard({ jobTemplate: null }).decide(1))).toMatchObject({
      reason: 'ScheduleInvalid',
      message: expect.stringContaining('there is no jobTemplate'),
    });
  });

  test('does not change who makes what a person asks for', () => {
    const request = { kind: 'valid', text: 'full/one', type: 'full', token: 'one' } as const;

    expect(kindsOf(aShardWith(byJob).shard({ request }).decide(1))).toContain('startBackup');
  });
});

describe('a run with engine job', () => {
  const asked = aShardWith(byJob).running(jobRun(), 'asked');
  const made = aShardWith(byJob).running(jobRun({ job: name, seen: 'a' }));

  test('has failed with what the API server has against its Job', () => {
    const decision = aShardWith(byJob)
      .running(
        jobRun({ refused: '422 Invalid (spec.template.spec: FieldValueInvalid)' }),
        'refused',
      )
      .job(absent)
      .decide(1);

    expect(decision).toMatchObject({ reason: 'BackupRefused' });
    expect(decision.message).toContain('422 Invalid');
    expect(recordAfter(decision)?.data.leftJob).toBeUndefined();
  });

  test('whose answer was lost is known by its Job', () => {
    const decision = asked.job(present(aJobThat('running'))).decide(5);

    expect(decision.reason).toBe('BackupRunning');
    expect(recordAfter(decision)).toMatchObject({
      state: 'running',
      data: { run: { job: name, engine: 'job' } },
    });
    expect(statusAfter(decision)).toMatchObject({ backupRun: { job: name } });
  });

  test('has succeeded when its Job is complete and the list shows a new backup complete (B6)', () => {
    const decision = made
      .job(present(aJobThat('completed')))
      .listing(aBackup('a', -90), aBackup('b', 1))
      .decide(70);

    expect(decision.reason).toBe('BackupSucceeded');
    expect(recordAfter(decision)?.data).toMatchObject({
      leftJob: name,
      schedules: { hourly: { end: 'succeeded', good: true } },
    });
  });

  test('has not succeeded while its Job runs, is unknown or has failed, whatever the list shows', () => {
    const listed = made.listing(aBackup('a', -90), aBackup('b', 1));

    expect(listed.job(present(aJobThat('running'))).decide(200).reason).toBe('BackupRunning');
    expect(listed.job(noAnswer).decide(200).reason).toBe('BackupOutcomeAwaited');
    expect(listed.job(present(aJobThat('failed'))).decide(200).reason).toBe('BackupFailed');
  });

  test('whose Job is complete and made no backup has failed two minutes later, and is not tried again', () => {
    const complete = present(aJobThat('completed'));
    const first = made.job(complete).listing(aBackup('a', -90)).decide(60);
    const lost = aShardWith(aSchedule({ engine: 'job', onUnknown: 'rerun' })).running(
      jobRun({ job: name, seen: 'a', lost: text(60) }),
    );

    expect(first.reason).toBe('BackupOutcomeAwaited');
    expect(recordAfter(first)?.data.run).toMatchObject({ lost: text(60) });
    const before = lost.job(complete).listing(aBackup('a', -90)).decide(179);
    const ended = lost
      .job(complete)
      .listing(aBackup('a', -90), aBackup('b', 1, { status: 'incomplete' }))
      .decide(180);
    expect(before.reason).toBe('BackupOutcomeAwaited');
    expect(ended).toMatchObject({
      reason: 'BackupFailed',
      counts: [{ labels: { result: 'failed' } }],
    });
    expect(recordAfter(ended)?.data).toMatchObject({
      schedules: { hourly: { why: 'NotListed' } },
      leftJob: name,
    });
    expect(recordAfter(ended)?.data.schedules['hourly']?.again).toBeUndefined();
  });

  test('whose Job is gone is unknown two minutes later, or adopted where the list shows a backup', () => {
    const lost = aShardWith(byJob)
      .running(jobRun({ job: name, seen: 'a', lost: text(60) }))
      .job(absent);

    expect(lost.listing(aBackup('a', -90)).decide(179).reason).toBe('BackupOutcomeAwaited');
    const ended = lost.listing(aBackup('a', -90)).decide(180);
    expect(ended.reason).toBe('BackupOutcomeUnknown');
    expect(recordAfter(ended)?.data.leftJob).toBeUndefined();
    expect(lost.listing(aBackup('a', -90), aBackup('b', 1)).decide(180).reason).toBe(
      'BackupAdopted',
    );
  });

  test('without its Job adopts nothing as long as whoever asked for it may still make it', () => {
    const listed = asked.job(absent).listing(aBackup('b', 1));

    expect(listed.decide(119).reason).toBe('BackupOutcomeAwaited');
    expect(listed.decide(120).reason).toBe('BackupAdopted');
  });

  test('is not judged while its Job cannot be read, not even where its answer was lost', () => {
    const unread = aShardWith(byJob)
      .running(jobRun({ lost: text(1) }), 'asked')
      .job(noAnswer);
    const decision = unread.decide(50);

    expect(decision.reason).toBe('BackupOutcomeAwaited');
    expect(kindsOf(decision)).not.toContain('advance');
    expect(unread.decide(600).reason).toBe('BackupOutcomeAwaited');
  });

  test.each([
    ['runs on', present(aJobThat('running')), 'failed', name],
    ['cannot be read', noAnswer, 'unknown', name],
    ['is gone', absent, 'unknown', undefined],
  ] as const)(
    'past its deadline whose Job %s ends, and leaves it alone',
    (_, job, result, left) => {
      const decision = aShardWith(byJob)
        .running(jobRun({ job: name, until: text(600) }))
        .job(job)
        .decide(601);

      expect(decision).toMatchObject({ counts: [{ labels: { result } }] });
      expect(recordAfter(decision)?.data.leftJob).toBe(left);
      expect(kindsOf(decision)).not.toContain('patchObject');
    },
  );
});

describe('the Job of an earlier run', () => {
  const left = aShardWith(byJob).recorded(
    { schedules: { hourly: anEntry(byJob, -1800) }, leftJob: name },
    { generation: 1 },
  );

  test.each(['completed', 'failed'] as const)(
    'that is %s may be removed from now on, and is forgotten only then',
    (status) => {
      const decision = left.job(present(aJobThat(status))).decide(1);

      expect(kindsOf(decision)).toEqual(['patchObject', 'advance']);
      expect(decision.effects[0]).toMatchObject({
        object: { kind: 'Job', name },
        patch: { spec: { ttlSecondsAfterFinished: 86_400 } },
        guard: { uid: 'job-uid', resourceVersion: '20' },
      });
      expect(recordAfter(decision)?.data.leftJob).toBeUndefined();
    },
  );

  test('that Kubernetes removes already, or that is gone, is only forgotten', () => {
    for (const job of [present(aJobThat('completed', true)), absent]) {
      const decision = left.job(job).decide(1);

      expect(decision.reason).toBe('JobReleased');
      expect(kindsOf(decision)).toEqual(['advance']);
    }
  });

  test('is released also where nothing is scheduled any more', () => {
    const decision = left
      .shard({ schedules: [] })
      .job(present(aJobThat('completed')))
      .decide(1);

    expect(kindsOf(decision)).toEqual(['patchObject', 'advance']);
    expect(
      recordAfter(
        left
          .shard({ schedules: [] })
          .job(present(aJobThat('running')))
          .decide(1),
      )?.data,
    ).toEqual({ schedules: {}, leftJob: name });
  });

  test('leaves what the record tells of changes of the spec', () => {
    const decision = left
      .shard({ generation: 3 })
      .job(present(aJobThat('completed')))
      .decide(1);

    expect(recordAfter(decision)?.generation).toBe(1);
  });

  test('that still runs holds slots up, and says to a person what to do', () => {
    const waits = left.job(present(aJobThat('running'))).decide(1);

    expect(waits).toMatchObject({
      outcome: 'blocked',
      reason: 'EarlierBackupRuns',
      needs: expect.stringContaining(`the Job ${name}`),
    });
    expect(conditionAfter(waits)).toMatchObject({ status: 'False', reason: 'EarlierBackupRuns' });
    expect(left.job(present(aJobThat('running'))).decide(1801)).toMatchObject({
      counts: [{ labels: { reason: 'EarlierRuns' } }],
    });
    expect(left.job(noAnswer).decide(1).reason).toBe('EarlierBackupRuns');
  });

  test('is not touched while another run is on', () => {
    const decision = aShardWith(byJob)
      .running(jobRun({ job: name }), 'running', { leftJob: name })
      .job(present(aJobThat('completed')))
      .decide(1);

    expect(kindsOf(decision)).not.toContain('patchObject');
  });
});

describe('a Job', () => {
  const metadata = {
    name,
    namespace: 'db',
    uid: 'job-uid',
    resourceVersion: '20',
    labels: {
      'millrace.dev/shard': 'orders',
      'millrace.dev/schedule': 'hourly',
      'millrace.dev/slot': '2026-01-01T12.00.00Z',
      'millrace.dev/attempt': '0',
    },
    ownerReferences: [
      { apiVersion: 'v1', kind: 'Shard', name: 'orders', uid: shardUid, controller: true },
    ],
  };
  const aJob = (changes: Partial<KubeObject<'Job'>> = {}): KubeObject<'Job'> => ({
    metadata,
    ...changes,
  });
  const condition = (type: string, status = 'True') => ({
    conditions: [{ type, status, reason: 'BackoffLimitExceeded', message: 'it failed' }],
  });
  const shard = { name: 'orders', uid: shardUid };

  test.each([
    ['nothing', undefined, 'running', null],
    ['that it is suspended', condition('Suspended'), 'running', null],
    ['that it will have failed', condition('FailureTarget'), 'running', null],
    ['that it is not complete', condition('Complete', 'False'), 'running', null],
    ['that it is complete', condition('Complete'), 'completed', expect.any(String)],
    ['that it failed', condition('Failed'), 'failed', 'BackoffLimitExceeded: it failed'],
  ])('that says %s is told so', (_, status, expected, why) => {
    expect(jobView(aJob(status === undefined ? {} : { status }))).toMatchObject({
      status: expected,
      why,
      object: { ref: { kind: 'Job', name }, uid: 'job-uid', isReleased: false },
    });
  });

  test('that Kubernetes removes is released', () => {
    const job = aJob({ spec: { ttlSecondsAfterFinished: 60, template: {} } });

    expect(jobView(job).object?.isReleased).toBe(true);
  });

  test('is the run’s only with its controller and for its slot', () => {
    const run = jobRun();

    expect(isJobOf(shard, aJob(), run)).toBe(true);
    expect(isJobOf(shard, aJob(), { ...run, attempt: 1 })).toBe(false);
    expect(isJobOf({ ...shard, uid: 'another' }, aJob(), run)).toBe(false);
    expect(isJobOf(shard, aJob({ metadata: { ...metadata, labels: {} } }), run)).toBe(false);
    expect(isJobOf(shard, aJob({ metadata: { ...metadata, labels: {} } }), undefined)).toBe(true);
  });
});
