import { type Instant, plusSeconds } from '#shared/kernel/instant.ts';

/** When a schedule is due, as its spec says it. */
export interface ScheduleTiming {
  readonly every?: string | undefined;
  readonly cron?: string | undefined;
  readonly timeZone?: string | undefined;
}

/**
 * The slots after `from` and not after `until`, oldest first: found by looking at every second or minute there is, so that
 * nothing here is as clever as what it checks.
 */
export function slotsBetween(timing: ScheduleTiming, from: Instant, until: Instant): Instant[] {
  const stepMs = timing.every === undefined ? minuteMs : millisecondsOf(timing.every);
  const found: Instant[] = [];
  for (let at = (Math.floor(from / stepMs) + 1) * stepMs; at <= until; at += stepMs) {
    if (timing.cron === undefined || isSlot(timing.cron, timing.timeZone ?? 'UTC', at)) {
      found.push(at as Instant);
    }
  }
  return found;
}

const minuteMs = 60_000;

/** Clocks are put back by less. */
const longestRepeatSeconds = 3 * 3600;

const known = new Map<string, boolean>();

/** The clock shows a time of the expression, and has not shown the same one before in this night. */
function isSlot(cron: string, timeZone: string, at: number): boolean {
  const key = `${cron} ${timeZone} ${at}`;
  const found = known.get(key) ?? (isTimeOf(cron, timeZone, at) && isFirst(timeZone, at));
  known.set(key, found);
  return found;
}

function isTimeOf(cron: string, timeZone: string, at: number): boolean {
  const [minutes = '', hours = '', ...days] = cron.split(' ');
  if (days.some((field) => field !== '*')) {
    throw new Error(`the oracle reads minutes and hours only: ${cron}`);
  }
  const [hour = 0, minute = 0] = shownAt(timeZone, at).split(' ')[1]?.split(':').map(Number) ?? [];
  return isIn(minutes, minute) && isIn(hours, hour);
}

function isFirst(timeZone: string, at: number): boolean {
  const shown = shownAt(timeZone, at);
  for (let seconds = 60; seconds <= longestRepeatSeconds; seconds += 60) {
    if (shownAt(timeZone, plusSeconds(at as Instant, -seconds)) === shown) {
      return false;
    }
  }
  return true;
}

/** `*`, `5`, `1-3`, and several of them with commas. */
function isIn(field: string, value: number): boolean {
  return field.split(',').some((part) => {
    const [first = '', last = first] = part.split('-');
    return part === '*' || (Number(first) <= value && value <= Number(last));
  });
}

const shown = new Map<string, string>();
const formats = new Map<string, Intl.DateTimeFormat>();

/** `2026-03-29 03:00` */
function shownAt(timeZone: string, at: number): string {
  const key = `${timeZone} ${at}`;
  const format = formats.get(timeZone) ?? formatOf(timeZone);
  formats.set(timeZone, format);
  const text = shown.get(key) ?? format.format(at).replace(',', '');
  shown.set(key, text);
  return text;
}

function formatOf(timeZone: string): Intl.DateTimeFormat {
  return new Intl.DateTimeFormat('sv-SE', {
    timeZone,
    dateStyle: 'short',
    timeStyle: 'short',
  });
}

/** `90s`, `5m`, `1h`. */
export function millisecondsOf(duration: string): number {
  const [, count = '', unit = ''] = /^(\d+)([smh])$/.exec(duration) ?? [];
  const seconds = { s: 1, m: 60, h: 3600 }[unit];
  if (seconds === undefined) {
    throw new Error(`the oracle does not read the duration ${duration}`);
  }
  return Number(count) * seconds * 1000;
}
