/** How long, in the two words that matter: `40 s`, `3 min`, `2 h 5 min`, `12 d`. */
export function durationText(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 90) {
    return `${seconds} s`;
  }
  const minutes = Math.floor(seconds / 60);
  if (minutes < 90) {
    return `${minutes} min`;
  }
  const hours = Math.floor(minutes / 60);
  if (hours < 48) {
    const rest = minutes % 60;
    return rest === 0 || hours >= 12 ? `${hours} h` : `${hours} h ${rest} min`;
  }
  return `${Math.floor(hours / 24)} d`;
}

/** How long ago, or how soon. */
export function distanceText(at: number, now: number): string {
  return at > now ? `in ${durationText(at - now)}` : `${durationText(now - at)} ago`;
}

const clock = new Intl.DateTimeFormat(undefined, {
  hour: '2-digit',
  minute: '2-digit',
  hourCycle: 'h23',
});
const clockWithSeconds = new Intl.DateTimeFormat(undefined, {
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  hourCycle: 'h23',
});
const dayName = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' });

/** The time on the wall. */
export function clockText(at: number, grain: 'second' | 'minute' | 'day'): string {
  return { second: clockWithSeconds, minute: clock, day: dayName }[grain].format(at);
}

/** Day and time, to the second. */
export function instantText(at: number): string {
  return `${dayName.format(at)}, ${clockWithSeconds.format(at)}`;
}
