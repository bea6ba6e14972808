import { type Instant, parseInstant, toText } from '#shared/kernel/instant.ts';
import type { Wake } from '#shared/kernel/record.ts';
import type { NextLook } from './model.ts';

const units = [
  [86_400, 'd'],
  [3_600, 'h'],
  [60, 'm'],
] as const;

/** `45s`, `12m`, `5h`, `3d`: as long as it takes to be told apart, and no longer. */
export function spanText(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  const unit = units.find(([size]) => whole >= 2 * size);
  return unit === undefined ? `${whole}s` : `${Math.floor(whole / unit[0])}${unit[1]}`;
}

/** `12m`; `-` where no time is known. */
export function ageText(since: string | null | undefined, now: Instant): string {
  const instant = parseInstant(since ?? undefined);
  return instant === undefined ? '-' : spanText((now - instant) / 1000);
}

/** `in 5h`, `3m ago`. */
export function distanceText(at: Instant, now: Instant): string {
  return at >= now ? `in ${spanText((at - now) / 1000)}` : `${spanText((now - at) / 1000)} ago`;
}

/** So long after a look was due it counts as missed, in seconds: hints are sent within a second, and a look takes at most 30. */
export const patienceSeconds = 120;

export function isOverdue(due: Instant, now: Instant): boolean {
  return now > due + patienceSeconds * 1000;
}

export function lookOf(wake: Wake | undefined, now: Instant): NextLook | null {
  if (wake === undefined) {
    return null;
  }
  if ('every' in wake) {
    return { wake, text: `every ${spanText(wake.every)}`, isOverdue: false };
  }
  const at = parseInstant(wake.at);
  return at === undefined
    ? null
    : { wake, text: `at ${toText(at)} (${distanceText(at, now)})`, isOverdue: isOverdue(at, now) };
}

/** What a step wrote, and the advice that it put behind it. */
export function withoutAdvice(message: string): {
  readonly told: string;
  readonly advice: string | null;
} {
  const mark = '; to go on: ';
  const place = message.indexOf(mark);
  return place === -1
    ? { told: message, advice: null }
    : { told: message.slice(0, place), advice: message.slice(place + mark.length) };
}

/** A sentence of its own, with a capital letter in front, unless a name is there, and a full stop behind. */
export function sentence(text: string): string {
  const trimmed = text.trim();
  const [first = ''] = trimmed.split(' ', 1);
  const start = /^[a-z]+,?$/.test(first) ? trimmed.charAt(0).toUpperCase() : trimmed.charAt(0);
  return trimmed === '' ? '' : `${start}${trimmed.slice(1)}${/[.!?]$/.test(trimmed) ? '' : '.'}`;
}
