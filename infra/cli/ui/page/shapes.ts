import type { Standing, Outcome } from '../protocol.ts';

/**
 * One shape for each outcome, so that nothing is told by colour alone. The loud ones are filled, the quiet ones are outlines.
 * Each is a path around (x, y), about 9 pixels high.
 */
const shapes: Readonly<Record<Outcome, (x: number, y: number) => string>> = {
  // A square: it stands in the way.
  blocked: (x, y) => `M${x - 4} ${y - 4}h8v8h-8z`,
  // A cross.
  failed: (x, y) => `M${x - 4} ${y - 4}l8 8M${x - 4} ${y + 4}l8 -8`,
  // A triangle that points on.
  acting: (x, y) => `M${x - 3.5} ${y - 4.5}l8 4.5l-8 4.5z`,
  // A diamond, empty.
  waiting: (x, y) => `M${x} ${y - 4.5}l4.5 4.5l-4.5 4.5l-4.5 -4.5z`,
  // A small circle, empty.
  settled: (x, y) => `M${x - 2.5} ${y}a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0 -5 0z`,
  // Two strokes that miss one another.
  lostRace: (x, y) => `M${x - 3} ${y - 4}v5M${x + 3} ${y - 1}v5`,
  // A triangle with its point upwards.
  warning: (x, y) => `M${x} ${y - 4.5}l4.5 8.5h-9z`,
  // A plus.
  event: (x, y) => `M${x} ${y - 3}v6M${x - 3} ${y}h6`,
};

/**
 * Where shapes would lie upon one another there is a stroke for each, at a height of its own: what stands in the way above,
 * what is done in the middle, what is quiet below. Top and length, in pixels from the middle of the lane.
 */
const strokes: Readonly<Record<Outcome, readonly [number, number]>> = {
  blocked: [-11, 7],
  failed: [-11, 3],
  acting: [-3, 6],
  warning: [-3, 3],
  waiting: [4, 6],
  settled: [6.5, 3.5],
  lostRace: [8, 2],
  event: [8, 2],
};

/** The path of one mark. Numbers are cut to tenths of a pixel: paths of thousands of marks stay short. */
export function shapeAt(outcome: Outcome, x: number, y: number): string {
  return shapes[outcome](Math.round(x * 10) / 10, Math.round(y * 10) / 10);
}

/** The stroke of one mark in a crowd. */
export function strokeAt(outcome: Outcome, x: number, y: number): string {
  const [top, length] = strokes[outcome];
  return `M${Math.round(x * 10) / 10} ${y + top}v${length}`;
}

/** How an outcome is called. */
export const outcomeWords: Readonly<Record<Outcome, string>> = {
  blocked: 'blocked',
  failed: 'failed',
  acting: 'acting',
  waiting: 'waiting',
  settled: 'settled',
  lostRace: 'lost race',
  warning: 'warning',
  event: 'event',
};

/** Where a target stands, in a word and a shape; the outcome lends its colour. */
export const standingWords: Readonly<
  Record<Standing, { readonly word: string; readonly like: Outcome; readonly path: string }>
> = {
  stuck: { word: 'needs you', like: 'blocked', path: shapeAt('blocked', 6, 6) },
  leaving: { word: 'being deleted', like: 'event', path: 'M2 3h8l-4 7z' },
  paused: { word: 'paused', like: 'waiting', path: 'M3.5 2v8M8.5 2v8' },
  working: { word: 'working', like: 'acting', path: shapeAt('acting', 6, 6) },
  settled: { word: 'settled', like: 'settled', path: shapeAt('settled', 6, 6) },
};
