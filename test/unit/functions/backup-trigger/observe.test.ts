import { describe, expect, test } from 'vitest';
import { observe } from '#functions/backup-trigger/observe.ts';
import { backupNow } from '#shared/api/annotations.ts';
import type { BackupSchedule } from '#shared/api/backup.ts';
import type { Ports } from '#shared/kernel/ports.ts';
import { absent, present, unknown } from '#shared/kernel/read.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import { aDrainOf } from '#test/builders/drain-record.ts';
import { KubeModel } from '#test/builders/kube-model.ts';
import { type ShardBuilder, aDatabase, aShard } from '#test/builders/shard.ts';
import { aJob, aRun, aSchedule, anEntry, shardKey } from './a-backup.ts';
import type { BackupRecord } from '#functions/backup-trigger/record.ts';
import { noGoverse } from '#test/builders/no-goverse.ts';

const nightly: BackupSchedule = {
  name: 'nightly',
  cron: '0 2 * * *',
  timeZone: 'Europe/London',
  type: 'full',
  engine: 'admin',
  suspend: false,
  catchUp: 'latest',
  startingDeadline: '1h',
  runDeadline: '6h',
  jitter: '90s',
  onUnknown: 'report',
};

/** A shard with its schedule and its Database on a model API server, and ports that write down what they are asked. */
function aWorld(
  builder: ShardBuilder = aShard(),
  database: KubeObject<'Database'> = aDatabase(),
  schedules: readonly BackupSchedule[] = [nightly],
  managedFields: KubeObject<'Shard'>['metadata']['managedFields'] = [],
) {
  const built = builder.build();
  const shard: KubeObject<'Shard'> = {
    ...built,
    metadata: { ...built.metadata, managedFields },
    spec: { ...built.spec, backup: { schedules: [...schedules] } },
  };
  const kube = new KubeModel().put('Shard', shard).put('Database', database);
  const ports: Ports = {
    clusterId: 'test',
    kube,
    goverse: noGoverse,
    topology: () => ({
      poolers: async () => unknown('this step does not ask'),
      database: async () => unknown('this step does not ask'),
      backupLease: async (key) => {
        kube.calls.push(`lease ${Object.values(key).join('/')}`);
        return absent;
      },
    }),
    repository: () => ({
      survey: () => Promise.reject(new Error('this step does not ask for it')),
    }),
    admin: () => ({
      poolerStatus: async () => unknown('this step does not ask'),
      backupJob: async (_key, job) => {
        kube.calls.push(`job ${job}`);
        return present(aJob('running'));
      },
      backups: async () => {
        kube.calls.push('backups');
        return present([]);
      },
    }),
  };
  return { kube, look: () => observe(present(shard), ports, new AbortController().signal) };
}

function aRecord(change: Partial<BackupRecord> = {}): BackupRecord {
  const { uid } = aShard().build().metadata;
  return {
    v: 1,
    uid,
    key: `backup-trigger/${uid}/1`,
    state: 'idle',
    generation: 1,
    attempt: 0,
    since: '2026-01-01T00:00:00Z',
    reason: 'AwaitingSlot',
    data: { schedules: { nightly: anEntry(aSchedule(), 0) } },
    ...change,
  };
}

const jobName = 'orders-hourly-2026-01-01t12-00-00z-0-01174642';

function aJobNamed(name: string): KubeObject<'Job'> {
  const { uid } = aShard().build().metadata;
  return {
    metadata: {
      name,
      uid: 'job-uid',
      resourceVersion: '20',
      labels: {
        'millrace.dev/shard': 'orders',
        'millrace.dev/schedule': 'hourly',
        'millrace.dev/slot': '2026-01-01T12.00.00Z',
        'millrace.dev/attempt': '0',
      },
      ownerReferences: [{ apiVersion: 'v1', kind: 'Shard', name: 'orders', uid, controller: true }],
    },
  };
}

describe('observing', () => {
  test('reads the Database, then lease and list, and no job where there is none', async () => {
    const { kube, look } = aWorld();

    const snapshot = await look();

    expect(kube.calls).toEqual(['get Database', 'lease postgres/default/0-inf', 'backups']);
    expect(snapshot).toMatchObject({
      shard: {
        schedules: [
          {
            name: 'nightly',
            timing: { kind: 'cron', cron: '0 2 * * *', timeZone: 'Europe/London' },
            startingDeadlineSeconds: 3600,
            runDeadlineSeconds: 21_600,
            jitterSeconds: 90,
          },
        ],
      },
      database: { kind: 'present', value: { shard: shardKey } },
      lease: { kind: 'absent' },
      job: { kind: 'unknown' },
    });
  });

  test.each([
    [
      'of the run',
      aRecord({ state: 'running', data: { schedules: {}, run: aRun({ job: 'job-1' }) } }),
      'job job-1',
    ],
    ['of an earlier one', aRecord({ data: { schedules: {}, left: 'job-0' } }), 'job job-0'],
  ])('asks for the job %s', async (_, record, call) => {
    const { kube, look } = aWorld(aShard().withRecord('backup-trigger', record));

    await look();

    expect(kube.calls).toContain(call);
  });

  test.each([
    ['of the run', { schedules: {}, run: aRun({ engine: 'job' }) }, 'asked'],
    ['of an earlier run', { schedules: {}, leftJob: jobName }, 'idle'],
  ] as const)(
    'reads the Job %s by its name, and asks the data plane for none',
    async (_, data, state) => {
      const { kube, look } = aWorld(
        aShard().withRecord('backup-trigger', aRecord({ state, data })),
      );
      kube.put('Job', aJobNamed(jobName));

      const { job } = await look();

      expect(kube.calls.filter((call) => /job/i.test(call))).toEqual(['get Job']);
      expect(job).toMatchObject({ kind: 'present', value: { status: 'running' } });
    },
  );

  test('a Job under the name of the run’s that is of somebody else, or of another slot, is not the run’s', async () => {
    for (const changes of [{ ownerReferences: [] }, { labels: {} }]) {
      const record = aRecord({
        state: 'asked',
        data: { schedules: {}, run: aRun({ engine: 'job' }) },
      });
      const { kube, look } = aWorld(aShard().withRecord('backup-trigger', record));
      const job = aJobNamed(jobName);
      kube.put('Job', { ...job, metadata: { ...job.metadata, ...changes } });

      expect((await look()).job.kind).toBe('absent');
    }
  });

  test('a Job that cannot be read is unknown, one that is not there is absent', async () => {
    const record = aRecord({
      state: 'asked',
      data: { schedules: {}, run: aRun({ engine: 'job' }) },
    });
    const gone = aWorld(aShard().withRecord('backup-trigger', record));
    const unread = aWorld(aShard().withRecord('backup-trigger', record));
    unread.kube.makeUnknown('get Job');

    expect((await gone.look()).job.kind).toBe('absent');
    expect((await unread.look()).job.kind).toBe('unknown');
  });

  test.each([
    ['nothing is scheduled, asked for or recorded', aWorld(aShard(), aDatabase(), [])],
    ['the shard is paused', aWorld(aShard().paused())],
    ['the shard is being deleted', aWorld(aShard().beingDeleted())],
    [
      'its record cannot be read',
      aWorld(aShard().withAnnotation('step.millrace.dev/backup-trigger', '{')),
    ],
  ])('reads nothing where %s', async (_, { kube, look }) => {
    await look();

    expect(kube.calls).toEqual([]);
  });

  test('asks nobody else where the database is paused, or cannot be read', async () => {
    const paused = aWorld(aShard(), aDatabase({ paused: true }));
    const unread = aWorld();
    unread.kube.makeUnknown('get Database');

    await paused.look();
    const snapshot = await unread.look();

    expect(paused.kube.calls).toEqual(['get Database']);
    expect(unread.kube.calls).toEqual(['get Database']);
    expect(snapshot).toMatchObject({ database: { kind: 'unknown' }, lease: { kind: 'unknown' } });
  });

  test.each([
    ['full/2026-01-01', { kind: 'valid', type: 'full', token: '2026-01-01' }],
    ['incremental/a.b_c:d', { kind: 'valid', type: 'incremental', token: 'a.b_c:d' }],
    ['full', { kind: 'invalid' }],
    ['full/', { kind: 'invalid' }],
    ['whole/one', { kind: 'invalid' }],
    ['full/a b', { kind: 'invalid' }],
    [`full/${'a'.repeat(41)}`, { kind: 'invalid' }],
    ['full/one/two', { kind: 'invalid' }],
  ])('reads the request %s', async (value, request) => {
    const { look } = aWorld(aShard().withAnnotation(backupNow, value));

    expect((await look()).shard.request).toMatchObject(request);
  });

  test.each([
    ['finished', { kind: 'going', pod: expect.any(String) }],
    ['acknowledged', { kind: 'clear' }],
  ] as const)('a drain that is %s is %o', async (state, drain) => {
    const builder = aShard().withPool(3);
    const { look } = aWorld(builder.withRecord('drain-step', aDrainOf(builder.build(), 0, state)));

    expect((await look()).drain).toEqual(drain);
  });

  test('a drain whose record cannot be read is unknown', async () => {
    const { look } = aWorld(aShard().withAnnotation('step.millrace.dev/drain-step', '{'));

    expect((await look()).drain.kind).toBe('unknown');
  });

  test('the spec’s last change is that of whoever last changed it; a status or a record is none', async () => {
    const { look } = aWorld(
      aShard(),
      aDatabase(),
      [nightly],
      [
        { time: '2026-01-01T00:00:00Z', fieldsV1: { 'f:spec': {} } },
        { time: '2026-01-02T00:00:00Z', fieldsV1: { 'f:metadata': {}, 'f:spec': {} } },
        { time: '2026-01-03T00:00:00Z', fieldsV1: { 'f:metadata': {} } },
        { time: '2026-01-04T00:00:00Z', fieldsV1: { 'f:spec': {} }, subresource: 'scale' },
      ],
    );

    expect((await look()).shard.specChangedAt).toBe('2026-01-02T00:00:00Z');
    expect((await aWorld().look()).shard.specChangedAt).toBeNull();
  });
});
