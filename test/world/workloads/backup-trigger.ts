import { backupNow } from '#shared/api/annotations.ts';
import type { BackupSchedule } from '#shared/api/backup.ts';
import type { StepName } from '#shared/api/steps.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import { readBackupRecord } from '#functions/backup-trigger/record.ts';
import { BackupOracles } from '#test/world/oracles/backup-oracles.ts';
import { slotsBetween } from '#test/world/oracles/timetable.ts';
import type { Workload } from '#test/world/run/workload.ts';
import type { World } from '#test/world/run/world.ts';
import {
  type ClusterOptions,
  aWorld,
  databasePausedForAWhile,
  drainState,
  editShard,
  missingMembers,
  scale,
  theShard,
} from './cluster.ts';

/** As people write it: the API server adds what is not said. */
type Schedule = {
  readonly [field in keyof BackupSchedule]?: BackupSchedule[field] | undefined;
} & Pick<BackupSchedule, 'name' | 'type'>;

const alone: readonly StepName[] = ['backup-trigger'];
const allThree: readonly StepName[] = ['drain-step', 'pool-pods', 'backup-trigger'];

/** Each of these runs for minutes, and their faults are much alike: CI draws some. */
const common = { bound: { deliveries: 200, perFault: 200 }, firstFaultsInCi: 160 };

function aShard(options: Partial<ClusterOptions> = {}): Workload['create'] {
  return (tally) =>
    aWorld(tally, { replicas: 3, steps: allThree, tellsSpecTimes: true, ...options });
}

/** People say when backups are made. */
function schedule(world: World, schedules: readonly Schedule[]): void {
  editShard(world, { spec: { backup: { schedules } } });
}

/** People want none any more, after so many seconds: what runs goes on to its end. */
function suspendAll(world: World, seconds: number): void {
  world.later(suspending, seconds, (at) => setSuspended(at, true));
}

const suspending = 'people suspend every schedule';

/** Until they suspend every schedule for good. */
export function areBackupsWanted(world: World): boolean {
  return world.planned.some(({ name }) => name === suspending);
}

export function setSuspended(world: World, suspend: boolean): void {
  const schedules = theShard(world)?.spec.backup?.schedules ?? [];
  schedule(
    world,
    schedules.map((each) => ({ ...each, suspend })),
  );
}

function request(world: World, text: string): void {
  editShard(world, { metadata: { annotations: { [backupNow]: text } } });
}

/** Every slot has ended, and no books are behind. */
function missingSlots(world: World): string[] {
  const shard = theShard(world);
  const read = shard === undefined ? undefined : readBackupRecord(shard.metadata);
  if (shard === undefined || read?.kind !== 'ours') {
    return [`the record is ${read?.kind}`];
  }
  const { run, schedules } = read.record.data;
  const specs = shard.spec.backup?.schedules ?? [];
  return [
    ...(run === undefined ? [] : [`${run.schedule} ${run.slot} runs`]),
    ...specs.flatMap((spec) => {
      const entry = schedules[spec.name];
      if (entry === undefined) {
        return [`there are no books of ${spec.name}`];
      }
      const at = (entry.at * 1000) as Instant;
      const due = spec.suspend ? [] : slotsBetween(spec, at, world.now);
      return due.map((slot) => `${spec.name} ${slot} is due`);
    }),
  ];
}

/** How the slots of each schedule must end where nothing goes wrong. */
function endsAs(expected: {
  readonly [schedule: string]: readonly string[];
}): Pick<Workload, 'missingUndisturbed' | 'witnesses'> {
  return {
    witnesses: [(tally) => new BackupOracles(tally)],
    missingUndisturbed: (world) =>
      Object.entries(expected).flatMap(([name, ends]) => {
        const found = world.witnesses.find((witness) => witness instanceof BackupOracles);
        const results = found?.resultsOf(name) ?? [];
        return results.join(' ') === ends.join(' ')
          ? []
          : [`${name} ended as ${results.join(' ')}, not as ${ends.join(' ')}`];
      }),
  };
}

/** The shard stands at 00:00:36.863 of the clock that is set for it, or at that time after another start. */
const everyHalfMinute: Schedule = {
  name: 'often',
  type: 'full',
  every: '30s',
  startingDeadline: '5m',
  runDeadline: '1m',
};

/** Once, 23 s after all stands, and then in an hour. */
const hourly: Schedule = {
  ...everyHalfMinute,
  name: 'hourly',
  every: undefined,
  cron: '1 * * * *',
};

/** One slot, and nothing after it: small enough for every order in which handlers can go about it. */
export function oneSlot(
  options: Partial<ClusterOptions>,
  change: Partial<Schedule> = {},
): Omit<Workload, 'name'> {
  return {
    steps: alone,
    create: aShard(options),
    begin: (world) => {
      schedule(world, [{ ...everyHalfMinute, ...change }]);
      suspendAll(world, 40);
    },
    missing: missingSlots,
    witnesses: [(tally) => new BackupOracles(tally)],
    bound: { deliveries: 300, perFault: 0 },
  };
}

/** backup-trigger alone, and with the steps that move members. Each ends when people suspend what they scheduled. */
export const workloads: readonly Workload[] = [
  {
    name: 'a backup every half minute',
    steps: alone,
    create: aShard(),
    begin: (world) => {
      schedule(world, [everyHalfMinute]);
      suspendAll(world, 80);
    },
    edits: [
      databasePausedForAWhile,
      {
        name: 'suspended for 10 s',
        act: (world) => {
          setSuspended(world, true);
          world.later('people want backups again', 10, (at) =>
            setSuspended(at, !areBackupsWanted(at)),
          );
        },
      },
      {
        name: 'every 20 s',
        act: (world) => {
          const suspend = !areBackupsWanted(world);
          schedule(world, [{ ...everyHalfMinute, every: '20s', suspend }]);
        },
      },
    ],
    missing: missingSlots,
    ...endsAs({ often: ['succeeded', 'succeeded'] }),
    ...common,
  },
  {
    name: 'a backup outlives the next slots',
    steps: alone,
    create: aShard({ backupMs: { full: 45_000, differential: 45_000, incremental: 45_000 } }),
    begin: (world) => {
      schedule(world, [{ ...everyHalfMinute, every: '20s' }]);
      suspendAll(world, 93);
    },
    missing: missingSlots,
    ...endsAs({ often: ['succeeded', 'skipped', 'succeeded', 'skipped', 'skipped'] }),
    ...common,
  },
  {
    name: 'three schedules',
    steps: alone,
    create: aShard(),
    begin: (world) => {
      schedule(world, [
        { ...everyHalfMinute, name: 'a-incremental', type: 'incremental' },
        { ...everyHalfMinute, name: 'b-differential', type: 'differential' },
        { ...everyHalfMinute, name: 'c-full', every: '1m' },
      ]);
      suspendAll(world, 75);
    },
    missing: missingSlots,
    ...endsAs({
      'a-incremental': ['succeeded', 'succeeded'],
      'b-differential': ['succeeded', 'succeeded'],
      'c-full': ['succeeded'],
    }),
    ...common,
  },
  {
    name: 'suspended and in force again',
    steps: alone,
    create: aShard(),
    begin: (world) => {
      schedule(world, [everyHalfMinute]);
      const flip = (seconds: number, suspend: boolean): void =>
        world.later(suspend ? 'people suspend it' : 'people want it again', seconds, (at) =>
          setSuspended(at, suspend),
        );
      // Over the first slot; while the second runs; and over the third while nobody hears of it.
      flip(15, true);
      flip(30, false);
      flip(54, true);
      flip(56, false);
      world.later('the relay is away', 70, (at) => at.silenceRelay(30));
      flip(72, true);
      flip(90, false);
      suspendAll(world, 130);
    },
    missing: missingSlots,
    ...endsAs({ often: ['skipped', 'succeeded', 'skipped', 'succeeded'] }),
    ...common,
  },
  {
    name: 'a night in autumn',
    steps: alone,
    create: aShard({ start: Date.UTC(2026, 9, 25, 0, 57, 30) as Instant }),
    begin: (world) => {
      const timing = { every: undefined, cron: '* 2 * * *', timeZone: 'Europe/Berlin' };
      schedule(world, [{ ...everyHalfMinute, name: 'nightly', ...timing }]);
      suspendAll(world, 200);
    },
    missing: missingSlots,
    ...endsAs({ nightly: ['succeeded'] }),
    ...common,
  },
  {
    name: 'a night in spring',
    steps: alone,
    create: aShard({ start: Date.UTC(2026, 2, 29, 0, 57, 50) as Instant }),
    begin: (world) => {
      const timing = { every: undefined, timeZone: 'Europe/Berlin' };
      schedule(world, [
        { ...everyHalfMinute, name: 'nightly', ...timing, cron: '0-59 1-3 * * *' },
        { ...everyHalfMinute, name: 'never', ...timing, cron: '0,30 2 * * *' },
      ]);
      suspendAll(world, 165);
    },
    missing: missingSlots,
    ...endsAs({ nightly: ['succeeded', 'succeeded', 'succeeded'], never: [] }),
    ...common,
  },
  {
    name: 'asked for besides',
    steps: alone,
    create: aShard(),
    begin: (world) => {
      schedule(world, [everyHalfMinute]);
      request(world, 'full/one');
      world.later('a person asks for another', 22, (at) => request(at, 'incremental/two'));
      suspendAll(world, 50);
    },
    missing: missingSlots,
    ...endsAs({ '@now': ['succeeded', 'succeeded'], often: ['succeeded'] }),
    ...common,
  },
  {
    name: 'once more where nobody knows',
    steps: alone,
    create: aShard(),
    begin: (world) => {
      schedule(world, [
        { ...hourly, startingDeadline: '1h', runDeadline: '10m', onUnknown: 'rerun' },
      ]);
      for (const attempt of [0, 1]) {
        world.plan({
          name: 'multiadmin restarts',
          when: (at) => isRunning(at, attempt),
          act: (at) => at.fault({ kind: 'adminRestart' }),
        });
      }
      suspendAll(world, 560);
    },
    missing: missingSlots,
    ...endsAs({ hourly: ['succeeded'] }),
    ...common,
  },
  {
    name: 'somebody else backs up',
    steps: alone,
    create: aShard(),
    begin: (world) => {
      schedule(world, [everyHalfMinute]);
      const holdLease = (at: World, seconds: number): void => {
        at.fault({ kind: 'leaseHeld' });
        at.later('the lease is free again', seconds, (later) => later.lift('leaseHeld'));
      };
      world.later('somebody has the lease', 10, (at) => holdLease(at, 56));
      world.later('somebody takes the lease', 85, (at) => holdLease(at, 20));
      suspendAll(world, 110);
    },
    missing: missingSlots,
    ...endsAs({ often: ['skipped', 'succeeded', 'failed'] }),
    ...common,
  },
  {
    name: 'the relay is away over slots',
    steps: alone,
    create: aShard(),
    begin: (world) => {
      schedule(world, [
        { ...everyHalfMinute, name: 'newest', every: '2m' },
        {
          ...everyHalfMinute,
          name: 'strict',
          every: '10m',
          catchUp: 'none',
          startingDeadline: '1h',
        },
        { ...hourly, name: 'patient', startingDeadline: '1h', type: 'incremental' },
        { ...hourly, name: 'late' },
      ]);
      world.later('the relay is away', 5, (at) => at.silenceRelay(880));
      suspendAll(world, 960);
    },
    missing: missingSlots,
    ...endsAs({
      newest: [...Array.from({ length: 6 }, () => 'skipped'), 'succeeded', 'succeeded'],
      strict: ['skipped'],
      patient: ['succeeded'],
      late: ['skipped'],
    }),
    ...common,
  },
  {
    name: 'another timing',
    steps: alone,
    create: aShard(),
    begin: (world) => {
      schedule(world, [{ ...everyHalfMinute, jitter: '10s' }]);
      // One of the new slots would have been due by then.
      world.later('people want it more often', 50, (at) =>
        schedule(at, [{ ...everyHalfMinute, every: '20s' }]),
      );
      world.later('people want another one', 66, (at) =>
        schedule(at, [{ ...everyHalfMinute, name: 'other', every: '15s', type: 'incremental' }]),
      );
      suspendAll(world, 90);
    },
    missing: missingSlots,
    ...endsAs({ often: ['succeeded', 'succeeded'], other: ['succeeded'] }),
    ...common,
  },
  {
    name: 'a backup hangs',
    steps: alone,
    create: aShard(),
    begin: (world) => {
      schedule(world, [everyHalfMinute]);
      world.fault({ kind: 'backupHangs' });
      world.later('backups go on', 125, (at) => at.lift('backupHangs'));
      suspendAll(world, 150);
    },
    missing: missingSlots,
    ...endsAs({ often: ['failed', 'skipped', 'skipped', 'succeeded', 'succeeded'] }),
    ...common,
  },
  {
    name: 'a drain in the middle of a slot',
    steps: allThree,
    choicesDependOnTime: 'who goes',
    create: aShard(),
    begin: (world) => {
      schedule(world, [everyHalfMinute]);
      world.later('a person scales to 2', 17, (at) => scale(at, 2));
      suspendAll(world, 70);
    },
    missing: (world) => [...missingMembers(world), ...missingSlots(world)],
    ...endsAs({ often: ['succeeded', 'succeeded'] }),
    ...common,
  },
  {
    name: 'a drain that does not end',
    steps: allThree,
    losesMember: true,
    choicesDependOnTime: 'who goes',
    create: aShard(),
    begin: (world) => {
      schedule(world, [
        hourly,
        { ...everyHalfMinute, name: 'patient', every: '2m', startingDeadline: '1h' },
      ]);
      scale(world, 2);
      world.plan({
        name: 'the node is not heard of',
        when: (at) => drainState(at) === 'finished',
        act: (at) => {
          at.fault({ kind: 'nodeNotReady' });
          at.later('the node is back', 335, (later) => later.lift('nodeNotReady'));
        },
      });
      suspendAll(world, 370);
    },
    missing: (world) => [...missingMembers(world), ...missingSlots(world)],
    ...endsAs({ hourly: ['skipped'], patient: ['skipped', 'skipped', 'succeeded'] }),
    ...common,
  },
];

function isRunning(world: World, attempt: number): boolean {
  const shard = theShard(world);
  const read = shard === undefined ? undefined : readBackupRecord(shard.metadata);
  return (
    read?.kind === 'ours' && read.record.state === 'running' && read.record.attempt === attempt
  );
}
