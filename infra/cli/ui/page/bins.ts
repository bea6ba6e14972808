import type { Mark, Outcome } from '../protocol.ts';
import { type TimeWindow, placeOf } from './window.ts';

/** Marks that would be drawn over one another: drawn once, and counted. */
export interface Bin {
  readonly x: number;
  readonly lane: number;
  readonly outcome: Outcome;
  readonly count: number;
  /** The place of its newest mark in the list of marks. */
  readonly last: number;
}

/** Marks closer than this are one to the eye, in pixels. */
const resolution = 3;

/**
 * What is to be drawn of so many marks. There are never more bins than places for them in the picture, however many marks there
 * are.
 *
 * @param marks in the order of time
 * @param isShown which outcomes are wanted
 */
export function binsOf(
  marks: readonly Mark[],
  window: TimeWindow,
  width: number,
  isShown: (outcome: Outcome) => boolean,
): readonly Bin[] {
  const bins = new Map<string, { -readonly [Key in keyof Bin]: Bin[Key] }>();
  const add = (mark: Mark, lane: number, place: number): void => {
    const column = Math.floor(placeOf(mark.at, window, width) / resolution);
    const key = `${lane} ${mark.outcome} ${column}`;
    const known = bins.get(key);
    if (known === undefined) {
      const x = placeOf(mark.at, window, width);
      bins.set(key, { x, lane, outcome: mark.outcome, count: 1, last: place });
    } else {
      known.count += 1;
      known.last = place;
    }
  };
  for (let place = firstFrom(marks, window.from); place < marks.length; place += 1) {
    const mark = marks[place];
    if (mark === undefined || mark.at > window.to) {
      break;
    }
    if (isShown(mark.outcome)) {
      add(mark, mark.lane, place);
      if (mark.member !== undefined) {
        add(mark, mark.member, place);
      }
    }
  }
  return [...bins.values()];
}

/** Room that a shape needs, in pixels. */
const shapeRoom = 11;

/** The lanes in which shapes would lie upon one another. */
export function crowdedLanes(bins: readonly Bin[], width: number): ReadonlySet<number> {
  const counts = new Map<number, number>();
  for (const { lane } of bins) {
    counts.set(lane, (counts.get(lane) ?? 0) + 1);
  }
  return new Set([...counts].flatMap(([lane, count]) => (count > width / shapeRoom ? [lane] : [])));
}

/** The place of the first mark at or after an instant. */
export function firstFrom(marks: readonly Mark[], at: number): number {
  let low = 0;
  let high = marks.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((marks[middle]?.at ?? Number.POSITIVE_INFINITY) < at) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/** The bin of a lane that is nearest to a place, if one is near enough to be meant. */
export function binNear(
  bins: readonly Bin[],
  lane: number,
  x: number,
  reach: number,
): Bin | undefined {
  let nearest: Bin | undefined;
  for (const bin of bins) {
    const distance = Math.abs(bin.x - x);
    if (bin.lane === lane && distance <= reach) {
      nearest = nearest === undefined || distance < Math.abs(nearest.x - x) ? bin : nearest;
    }
  }
  return nearest;
}

/**
 * The next mark in a direction that is on the lane and shown: from `place`, or from the end that the direction comes from.
 *
 * @param lane any lane where absent
 */
export function nextMark(
  marks: readonly Mark[],
  place: number | undefined,
  direction: 1 | -1,
  isShown: (outcome: Outcome) => boolean,
  lane?: number,
): number | undefined {
  let at = place ?? (direction === 1 ? -1 : marks.length);
  for (;;) {
    at += direction;
    const mark = marks[at];
    if (mark === undefined) {
      return undefined;
    }
    const isOnLane = lane === undefined || mark.lane === lane || mark.member === lane;
    if (isOnLane && isShown(mark.outcome)) {
      return at;
    }
  }
}
