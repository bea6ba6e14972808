/** A stretch of time that is shown, in milliseconds since the epoch. */
export interface TimeWindow {
  readonly from: number;
  readonly to: number;
}

/** Nothing happens faster: closer than this there is nothing to see, in milliseconds. */
const narrowestMs = 1_000;

/** The window that shows all of `whole`, with a little room at both ends. */
export function around(whole: TimeWindow): TimeWindow {
  const room = Math.max(narrowestMs, (whole.to - whole.from) * 0.02);
  return { from: whole.from - room, to: whole.to + room };
}

/** Makes it longer or shorter around a place in it, and never longer than `limit`. */
export function zoomed(
  { from, to }: TimeWindow,
  factor: number,
  place: number,
  limit: TimeWindow,
): TimeWindow {
  const span = to - from;
  const wanted = Math.max(narrowestMs, Math.min(span * factor, limit.to - limit.from));
  const share = (place - from) / span;
  const start = place - share * wanted;
  return within({ from: start, to: start + wanted }, limit);
}

/** Moves it by a share of its own length, as far as `limit` goes. */
export function panned(window: TimeWindow, share: number, limit: TimeWindow): TimeWindow {
  const by = (window.to - window.from) * share;
  return within({ from: window.from + by, to: window.to + by }, limit);
}

/** Moves it so that the instant is in it, if it is not, and keeps its length. */
export function showing(window: TimeWindow, at: number, limit: TimeWindow): TimeWindow {
  if (at >= window.from && at <= window.to) {
    return window;
  }
  const half = (window.to - window.from) / 2;
  return within({ from: at - half, to: at + half }, limit);
}

function within({ from, to }: TimeWindow, limit: TimeWindow): TimeWindow {
  const span = to - from;
  if (from < limit.from) {
    return { from: limit.from, to: limit.from + span };
  }
  return to > limit.to ? { from: limit.to - span, to: limit.to } : { from, to };
}

/** Where an instant is, in pixels from the left. */
export function placeOf(at: number, { from, to }: TimeWindow, width: number): number {
  return ((at - from) / (to - from)) * width;
}

/** The instant at a place. */
export function instantAt(x: number, { from, to }: TimeWindow, width: number): number {
  return from + (x / width) * (to - from);
}

const second = 1_000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

/** Distances that people count in. */
const distances = [
  ...[1, 2, 5, 10, 15, 30].map((count) => count * second),
  ...[1, 2, 5, 10, 15, 30].map((count) => count * minute),
  ...[1, 2, 3, 6, 12].map((count) => count * hour),
  ...[1, 2, 7, 14, 28].map((count) => count * day),
];

export interface Tick {
  readonly at: number;
  /** How much of the time a label has to say. */
  readonly grain: 'second' | 'minute' | 'day';
}

/**
 * Round instants in the window, no more than fit.
 *
 * @param offsetMinutes how much the clock on the wall is ahead of UTC: days begin there
 */
export function ticksIn({ from, to }: TimeWindow, atMost: number, offsetMinutes: number): Tick[] {
  const wanted = (to - from) / Math.max(1, atMost);
  const distance = distances.find((each) => each >= wanted) ?? Math.ceil(wanted / day) * day;
  const shift = offsetMinutes * minute;
  const first = Math.ceil((from + shift) / distance) * distance - shift;
  const count = Math.max(0, Math.floor((to - first) / distance) + 1);
  return Array.from({ length: count }, (_, place) => {
    const at = first + place * distance;
    const isMidnight = (at + shift) % day === 0;
    return { at, grain: isMidnight ? 'day' : distance < minute ? 'second' : 'minute' };
  });
}
