import { parseCron } from '#shared/api/cron.ts';
import { fnv1a32 } from '#shared/api/names.ts';
import type { Instant } from '#shared/kernel/instant.ts';

/** When a schedule is due: at the times of a clock on the wall, or every so many seconds since the epoch. */
export type Timing =
  | { readonly kind: 'cron'; readonly cron: string; readonly timeZone: string }
  | { readonly kind: 'every'; readonly seconds: number };

/** The slots of one schedule: whole seconds, and the same ones from wherever they are asked for. */
export interface Slots {
  /** The first slot after the instant; `undefined` where there is none any more. */
  readonly after: (instant: Instant) => Instant | undefined;
  /** The last slot that is after `from` and not after `until`. */
  readonly latest: (from: Instant, until: Instant) => Instant | undefined;
}

export type Timetable =
  | { readonly kind: 'slots'; readonly slots: Slots }
  /** `why` also says what to change. */
  | { readonly kind: 'invalid'; readonly why: string };

/** As many times of the wall clock are passed over at most, because the zone's clock leaves them out or has shown them. */
const mostPassedOver = 3_000;

const daySeconds = 86_400;

/** How far back a latest slot is looked for, step by step, in seconds: each window holds few slots if the one before had none. */
const windowsSeconds = [3_600, daySeconds, 8 * daySeconds, 32 * daySeconds, 366 * daySeconds];

/** Times whose distances are looked at before a jitter is found short enough. */
const timesForDistance = 60;

export function timetableOf(timing: Timing): Timetable {
  return timing.kind === 'every'
    ? { kind: 'slots', slots: everySlots(timing.seconds) }
    : cronTimetable(timing.cron, timing.timeZone);
}

function everySlots(seconds: number): Slots {
  const step = seconds * 1000;
  return {
    after: (instant) => ((Math.floor(instant / step) + 1) * step) as Instant,
    latest(from, until) {
      const slot = Math.floor(until / step) * step;
      return slot > from ? (slot as Instant) : undefined;
    },
  };
}

/**
 * A slot of a cron schedule is the first instant at which the zone's clock shows one of the expression's times. So a time
 * that is left out in spring has no slot, and one that comes twice in autumn has one.
 */
function cronTimetable(cron: string, timeZone: string): Timetable {
  const times = parseCron(cron);
  if (times.kind === 'invalid') {
    return {
      kind: 'invalid',
      why: `its cron ${JSON.stringify(cron)} cannot be read (${times.why}): correct it`,
    };
  }
  const offsetAt = clockOf(timeZone);
  if (offsetAt === undefined) {
    return {
      kind: 'invalid',
      why: `its timeZone ${JSON.stringify(timeZone)} is not known: give a name of the IANA database, for example Europe/London`,
    };
  }
  const after = (instant: Instant): Instant | undefined => {
    let wall: number | undefined = instant + offsetAt(instant);
    for (let passedOver = 0; passedOver <= mostPassedOver; passedOver += 1) {
      wall = times.next(wall);
      if (wall === undefined) {
        return undefined;
      }
      const slot = firstInstantOf(wall, offsetAt);
      if (slot !== undefined && slot > instant) {
        return slot as Instant;
      }
    }
    return undefined;
  };
  if (after(0 as Instant) === undefined) {
    return {
      kind: 'invalid',
      why: `its cron ${JSON.stringify(cron)} names no day that there is: correct it`,
    };
  }
  return { kind: 'slots', slots: { after, latest: latestOf(after) } };
}

/** The first instant at which a clock shows the time; `undefined` where it never does. */
function firstInstantOf(wall: number, offsetAt: (instant: number) => number): number | undefined {
  // A day before and after it the clock has its offsets from before and after a change.
  const offsets = [offsetAt(wall - daySeconds * 1000), offsetAt(wall + daySeconds * 1000)];
  return offsets
    .map((offset) => wall - offset)
    .filter((instant) => instant + offsetAt(instant) === wall)
    .toSorted((one, other) => one - other)[0];
}

/** What has to be added to an instant for what the zone's clock shows then, in milliseconds; `undefined`: no such zone. */
function clockOf(timeZone: string): ((instant: number) => number) | undefined {
  let format: Intl.DateTimeFormat;
  try {
    format = new Intl.DateTimeFormat('en-US', {
      timeZone,
      calendar: 'iso8601',
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    });
  } catch {
    return undefined;
  }
  return (instant) => {
    const seconds = Math.floor(instant / 1000) * 1000;
    const shown: { [part: string]: number } = {};
    for (const { type, value } of format.formatToParts(seconds)) {
      shown[type] = Number(value);
    }
    const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = shown;
    return Date.UTC(year, month - 1, day, hour, minute, second) - seconds;
  };
}

/** Looks back in growing windows, so that neither many slots nor long years between two cost much. */
function latestOf(after: Slots['after']): Slots['latest'] {
  return (from, until) => {
    for (const seconds of [...windowsSeconds, Infinity]) {
      const start = Math.max(from, until - seconds * 1000) as Instant;
      let latest: Instant | undefined;
      for (let slot = after(start); slot !== undefined && slot <= until; slot = after(slot)) {
        latest = slot;
      }
      if (latest !== undefined || start === from) {
        return latest;
      }
    }
    return undefined;
  };
}

/** The next slots after the instant, at most so many. */
export function nextSlots(slots: Slots, after: Instant, count: number): Instant[] {
  const found: Instant[] = [];
  for (
    let slot = slots.after(after);
    slot !== undefined && found.length < count;
    slot = slots.after(slot)
  ) {
    found.push(slot);
  }
  return found;
}

/** How many slots are after `from` and not after `until`; counted no further than `most`. */
export function countSlots(slots: Slots, from: Instant, until: Instant, most: number): number {
  let count = 0;
  for (
    let slot = slots.after(from);
    slot !== undefined && slot <= until && count < most;
    slot = slots.after(slot)
  ) {
    count += 1;
  }
  return count;
}

/**
 * The seconds by which every slot of a schedule starts later: always the same for the same shard and schedule, and spread
 * over [0, jitter) among many.
 */
export function jitterSeconds(shardUid: string, schedule: string, jitter: number): number {
  return jitter === 0 ? 0 : Number.parseInt(fnv1a32(shardUid, schedule), 16) % jitter;
}

/**
 * Whether two slots are so close that the jitter is not shorter than half the time between them. Of a cron expression the
 * first of the year that begins after the epoch are looked at, on the wall's clock; jitter moves all slots of a schedule by
 * the same time, so one that is found too late to be too long puts none before another.
 */
export function isJitterTooLong(timing: Timing, jitter: number): boolean {
  if (jitter === 0) {
    return false;
  }
  if (timing.kind === 'every') {
    return 2 * jitter >= timing.seconds;
  }
  const times = parseCron(timing.cron);
  let time = times.kind === 'times' ? times.next(0) : undefined;
  for (let seen = 0; time !== undefined && seen < timesForDistance; seen += 1) {
    const next: number | undefined = times.kind === 'times' ? times.next(time) : undefined;
    if (next !== undefined && next - time <= 2 * jitter * 1000) {
      return true;
    }
    time = next;
  }
  return false;
}
