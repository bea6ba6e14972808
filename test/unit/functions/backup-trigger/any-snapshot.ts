import fc from 'fast-check';
import { type BackupRecord, backupStates } from '#functions/backup-trigger/record.ts';
import type { BackupSnapshot, ScheduleView } from '#functions/backup-trigger/snapshot.ts';
import { backupEngines, backupTypes, slotResults } from '#shared/api/backup.ts';
import { type Read, absent, present, unknown } from '#shared/kernel/read.ts';
import { aShardWith, aSchedule, anEntry, at, shardKey, text } from './a-backup.ts';

/** From {@link at}'s zero. */
export const seconds = fc.integer({ min: -90_000, max: 90_000 });

const instantText = seconds.map(text);

function read<T>(value: fc.Arbitrary<T>): fc.Arbitrary<Read<T>> {
  return fc.oneof(
    { weight: 3, arbitrary: value.map(present) },
    fc.constant(absent),
    fc.constant(unknown('no answer')),
  );
}

const schedule = (name: string): fc.Arbitrary<ScheduleView> =>
  fc.record({
    name: fc.constant(name),
    timing: fc.oneof(
      fc
        .constantFrom(10, 60, 3600, 86_400)
        .map((every) => ({ kind: 'every' as const, seconds: every })),
      fc.record({
        kind: fc.constant('cron' as const),
        cron: fc.constantFrom('0 * * * *', '30 1 * * *', '*/5 * * * *', '0 0 30 2 *', '99 * * * *'),
        timeZone: fc.constantFrom('UTC', 'Europe/London', 'Mars/Base'),
      }),
    ),
    type: fc.constantFrom(...backupTypes),
    engine: fc.constantFrom(...backupEngines),
    isSuspended: fc.boolean(),
    catchUp: fc.constantFrom('latest', 'none'),
    startingDeadlineSeconds: fc.constantFrom(300, 3600),
    runDeadlineSeconds: fc.constantFrom(60, 21_600),
    jitterSeconds: fc.constantFrom(0, 4, 600),
    onUnknown: fc.constantFrom('report', 'rerun'),
  });

const run = fc.record(
  {
    schedule: fc.constantFrom('one', 'two', 'gone', '@now'),
    slot: fc.oneof(instantText, fc.constant('token')),
    type: fc.constantFrom(...backupTypes),
    attempt: fc.integer({ min: 0, max: 3 }),
    at: instantText,
    until: instantText,
    seen: fc.constantFrom('a', 'c'),
    job: fc.constantFrom('job-1', 'job-2'),
    engine: fc.constant('job' as const),
    refused: fc.constant('answers 400'),
    lost: instantText,
  },
  { requiredKeys: ['schedule', 'slot', 'type', 'attempt', 'at', 'until'] },
);

const entry = (view: ScheduleView) =>
  fc
    .record(
      {
        at: seconds.map((it) => at(it) / 1000),
        from: seconds.map((it) => at(it) / 1000),
        good: fc.constant(true as const),
        off: fc.constant(true as const),
        again: fc.integer({ min: 1, max: 3 }),
        slot: seconds.map((it) => at(it) / 1000),
        end: fc.constantFrom(...slotResults),
      },
      { requiredKeys: ['at', 'from'] },
    )
    .chain((changes) =>
      fc.constantFrom('abcdef', undefined).map((timing) => ({
        ...anEntry(view, 0, changes),
        ...(timing === undefined ? {} : { timing }),
      })),
    );

export const anySnapshot: fc.Arbitrary<BackupSnapshot> = fc
  .tuple(schedule('one'), schedule('two'))
  .chain(([one, two]) =>
    fc
      .record({
        count: fc.integer({ min: 0, max: 2 }),
        entries: fc.record({ one: entry(one), two: entry(two) }, { requiredKeys: [] }),
        run: fc.option(run, { nil: undefined }),
        state: fc.constantFrom(...backupStates.filter((state) => state !== 'idle')),
        left: fc.option(fc.constant('job-0'), { nil: undefined }),
        leftJob: fc.option(fc.constant('a-job'), { nil: undefined }),
        generation: fc.integer({ min: 1, max: 4 }),
        hasRecord: fc.boolean(),
        isPaused: fc.constantFrom(false, false, false, true),
        request: fc.constantFrom(
          { kind: 'none' as const },
          { kind: 'invalid' as const },
          { kind: 'valid' as const, text: 'full/one', type: 'full' as const, token: 'one' },
        ),
        specChangedAt: fc.option(instantText),
        drain: fc.constantFrom(
          { kind: 'clear' as const },
          { kind: 'going' as const, pod: 'orders-0' },
          { kind: 'unknown' as const, why: 'it is not JSON' },
        ),
        lease: read(fc.constant({ holder: 'a pooler' })),
        database: read(
          fc.constant({
            shard: shardKey,
            ref: { namespace: 'db', name: 'main', uid: 'u' },
            isPaused: false,
          }),
        ),
        backups: read(
          fc.array(
            fc.record({
              id: fc.constantFrom('a', 'b'),
              type: fc.constantFrom(...backupTypes, 'unknown' as const),
              status: fc.constantFrom('complete', 'incomplete', 'failed', 'unknown'),
              job: fc.constantFrom('job-1', 'job-2', null),
              startedAt: fc.option(instantText),
              stoppedAt: fc.option(instantText),
              sizeBytes: fc.constantFrom('10', null),
            }),
            { maxLength: 3 },
          ),
        ),
        job: read(
          fc.record(
            {
              status: fc.constantFrom('pending', 'running', 'completed', 'failed', 'unknown'),
              backup: fc.constantFrom('a', null),
              why: fc.constantFrom('exit status 63', null),
              object: fc.record({
                ref: fc.constant({ kind: 'Job' as const, namespace: 'db', name: 'a-job' }),
                uid: fc.constant('job-uid'),
                resourceVersion: fc.constant('20'),
                isReleased: fc.boolean(),
              }),
            },
            { requiredKeys: ['status', 'backup', 'why'] },
          ),
        ),
      })
      .map((given) => {
        const schedules = [one, two].slice(0, given.count);
        const builder = aShardWith(aSchedule()).shard({
          schedules,
          generation: given.generation,
          isPaused: given.isPaused,
          request: given.request,
          specChangedAt: given.specChangedAt,
        });
        const data = {
          schedules: given.entries,
          ...(given.left === undefined ? {} : { left: given.left }),
          ...(given.leftJob === undefined ? {} : { leftJob: given.leftJob }),
          ...(given.run === undefined ? {} : { run: given.run }),
        };
        const changes: Partial<BackupRecord> = {
          generation: 1,
          ...(given.run === undefined ? {} : { state: given.state, wake: { every: 5 } }),
        };
        const { drain, lease, database, backups, job } = given;
        return (given.hasRecord ? builder.recorded(data, changes) : builder.withoutRecord())
          .with({ drain, lease, database, backups, job })
          .build();
      }),
  );
