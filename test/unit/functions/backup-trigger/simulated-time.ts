import { recordAnnotation } from '#shared/api/annotations.ts';
import type { BackupSchedule } from '#shared/api/backup.ts';
import { fromSeconds } from '#functions/backup-trigger/accounts.ts';
import { countSlots, timetableOf } from '#functions/backup-trigger/slots.ts';
import { durationSeconds } from '#shared/api/duration.ts';
import { type Instant, parseInstant, plusSeconds } from '#shared/kernel/instant.ts';
import { recordText } from '#shared/kernel/record.ts';
import { aDrainOf } from '#test/builders/drain-record.ts';
import { seeded } from '#test/unit/events/relay/seeded.ts';
import { SimulatedPlane, SimulatedShard, type Strike } from './simulated-shard.ts';

const start = Date.parse('2026-03-28T20:00:07Z') as Instant;

const common = {
  timeZone: 'Europe/London',
  engine: 'admin',
  suspend: false,
  catchUp: 'latest',
  startingDeadline: '30m',
  runDeadline: '5m',
  jitter: '2m',
  onUnknown: 'rerun',
} as const;
const often: BackupSchedule = {
  ...common,
  name: 'often',
  every: '1m',
  type: 'incremental',
  startingDeadline: '5m',
  jitter: '0s',
};
const hourly: BackupSchedule = { ...common, name: 'hourly', cron: '0 * * * *', type: 'full' };
const seldomer = {
  ...common,
  name: 'seldom',
  type: 'differential',
  catchUp: 'none',
  onUnknown: 'report',
} as const;
const seldom: BackupSchedule = { ...seldomer, cron: '30 */6 * * *' };

const own: BackupSchedule = {
  ...common,
  name: 'own',
  every: '2m',
  type: 'incremental',
  engine: 'job',
  startingDeadline: '5m',
  jitter: '0s',
};

/** What became of the slots of some simulated time. */
export interface Simulated {
  readonly shard: SimulatedShard;
  /** Slots that were due until the books were closed. */
  readonly slots: number;
  /** Where more or fewer slots have ended than were due: the schedule, and how many of each. */
  readonly unaccounted: readonly string[];
}

export const onTheWall: readonly BackupSchedule[] = [often, hourly, seldom, own];

/** The same, counted from the epoch: to compute times of a wall clock again at every look takes most of a simulated day. */
export const fromTheEpoch: readonly BackupSchedule[] = [
  often,
  { ...common, name: 'hourly', every: '1h', type: 'full' },
  { ...seldomer, every: '6h' },
  own,
];

/**
 * A shard with schedules under faults for so many minutes, and then left alone until all is settled. The same seed does the
 * same.
 */
export async function simulate(
  seed: number,
  minutes: number,
  schedules: readonly BackupSchedule[],
): Promise<Simulated> {
  const random = seeded(seed);
  const plane = new SimulatedPlane(random);
  const shard = new SimulatedShard(start, schedules, plane);
  await shard.look();

  await strike(shard, random, minutes);
  heal(shard);
  await settle(shard);

  const counts = (shard.shard.spec.backup?.schedules ?? []).map((schedule) => ({
    name: schedule.name,
    ended: endedSlots(shard, schedule.name),
    due: dueSlots(shard, schedule),
  }));
  return {
    shard,
    slots: counts.reduce((sum, { due }) => sum + due, 0),
    unaccounted: counts
      .filter(({ ended, due }) => ended !== due)
      .map(({ name, ended, due }) => `${name}: ${due} were due, ${ended} ended`),
  };
}

type Dice = () => number;

/** Looks at the moments at which somebody would, with everything that can go wrong beside them. */
async function strike(shard: SimulatedShard, random: Dice, minutes: number): Promise<void> {
  const end = plusSeconds(shard.now, minutes * 60);
  let hasWritten = false;
  while (shard.now < end) {
    shard.pass(pauseSeconds(shard, random, hasWritten));
    disturb(shard, random);
    if (random() < 0.05) {
      hasWritten = await overlap(shard, random);
    } else {
      hasWritten = await shard.look(strikeOf(random));
    }
  }
}

/** A write of its own brings the next look at once, unless the hint is lost; else the wake does, now and then far too late. */
function pauseSeconds(shard: SimulatedShard, random: Dice, hasWritten: boolean): number {
  if (hasWritten && random() < 0.9) {
    return 1;
  }
  if (random() < 0.004) {
    return random() * 1200;
  }
  const wake = shard.record?.wake;
  if (wake === undefined) {
    return 300;
  }
  const seconds =
    'every' in wake ? wake.every : ((parseInstant(wake.at) ?? shard.now) - shard.now) / 1000;
  return random() < 0.1 ? random() * 10 : Math.max(1, seconds);
}

function disturb(shard: SimulatedShard, random: Dice): void {
  const roll = random();
  const drain = recordAnnotation('drain-step');
  shard.plane.unanswered = random() < 0.05 ? 0.5 : 0.02;
  shard.plane.failing = 0.1;
  if (roll < 0.02) {
    shard.plane.restart();
  } else if (roll < 0.023) {
    shard.plane.holdLease(plusSeconds(shard.now, random() * 900));
  } else if (roll < 0.027) {
    shard.annotate(drain, recordText(aDrainOf(shard.shard, 0, 'finished')));
  } else if (roll < 0.1) {
    shard.annotate(drain, undefined);
  } else if (roll < 0.105) {
    const name = pick(shard, random);
    shard.edit((it) => (it.name === name ? { ...it, suspend: true } : it));
  } else if (roll < 0.11) {
    suspendUnseen(shard, random);
  } else if (roll < 0.13) {
    resume(shard);
  } else if (roll < 0.15) {
    shard.removeJob();
  }
}

function resume(shard: SimulatedShard): void {
  if (shard.shard.spec.backup?.schedules.some(({ suspend }) => suspend) === true) {
    shard.edit((it) => ({ ...it, suspend: false }));
  }
}

/** Suspended and in force again, and nobody looked meanwhile. */
function suspendUnseen(shard: SimulatedShard, random: Dice): void {
  const name = pick(shard, random);
  shard.edit((it) => (it.name === name ? { ...it, suspend: true } : it));
  shard.pass(random() * 600);
  shard.edit((it) => (it.name === name ? { ...it, suspend: false } : it));
}

function pick(shard: SimulatedShard, random: Dice): string {
  const schedules = shard.shard.spec.backup?.schedules ?? [];
  return schedules[Math.floor(random() * schedules.length)]?.name ?? '';
}

function strikeOf(random: Dice): Strike {
  const roll = random();
  const write = 1 + Math.floor(random() * 3);
  if (roll < 0.03) {
    return { kind: 'crashBefore', write };
  }
  if (roll < 0.06) {
    return { kind: 'crashAfter', write };
  }
  if (roll < 0.09) {
    return { kind: random() < 0.5 ? 'lostReply' : 'lostRequest' };
  }
  if (roll < 0.1) {
    return { kind: 'jobRefused' };
  }
  return roll < 0.11
    ? { kind: 'wrongClock', seconds: random() < 0.5 ? 3600 : -3600 }
    : { kind: 'none' };
}

/** Two handlers with the same view; the second writes after the first, sometimes much later. */
async function overlap(shard: SimulatedShard, random: Dice): Promise<boolean> {
  const first = await shard.prepare(strikeOf(random));
  const second = await shard.prepare();
  const wrote = await first();
  shard.pass(random() * 20);
  return (await second()) || wrote;
}

function heal(shard: SimulatedShard): void {
  shard.plane.unanswered = 0;
  shard.plane.failing = 0;
  shard.annotate(recordAnnotation('drain-step'), undefined);
  shard.edit((it) => ({ ...it, suspend: false }));
}

/** Until nothing runs or waits to be begun again, and no slot before is open. */
async function settle(shard: SimulatedShard): Promise<void> {
  const until = plusSeconds(shard.now, 2 * durationSeconds('1h'));
  const isOpen = () =>
    shard.record?.state !== 'idle' ||
    shard.record.data.leftJob !== undefined ||
    Object.values(shard.record.data.schedules).some(({ again }) => again !== undefined);
  while (isOpen() || shard.now < until) {
    const wrote = await shard.look();
    shard.pass(wrote ? 1 : 5);
  }
}

/** Slots from the first sight to where the books are closed. */
function dueSlots(shard: SimulatedShard, { name, cron, every, timeZone }: BackupSchedule): number {
  const timetable = timetableOf(
    cron === undefined
      ? { kind: 'every', seconds: durationSeconds(every ?? '') }
      : { kind: 'cron', cron, timeZone },
  );
  const entry = shard.record?.data.schedules[name];
  return timetable.kind === 'slots' && entry !== undefined
    ? countSlots(timetable.slots, start, fromSeconds(entry.at), Infinity)
    : Number.NaN;
}

function endedSlots(shard: SimulatedShard, name: string): number {
  return (shard.passedOver.get(name) ?? 0) + (shard.begun.get(name) ?? 0);
}
