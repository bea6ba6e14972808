/**
 * The value below which so many of the values are: the smallest that at least that share does not exceed, so it is
 * always one that was measured. `NaN` without values.
 *
 * @param share 0 to 1: 0.5 for the median
 */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN;
}

export function median(values: readonly number[]): number {
  return percentile(values, 0.5);
}

export function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/**
 * How many values lie in each interval between two bounds, for people: `≤ 10 ms: 3, ≤ 20 ms: 1, more: 0`.
 *
 * @param bounds ascending upper bounds, in `unit`
 */
export function histogram(
  values: readonly number[],
  bounds: readonly number[],
  unit: string,
): string {
  const counts = bounds.map((bound, place) => {
    const above = bounds[place - 1] ?? Number.NEGATIVE_INFINITY;
    return values.filter((value) => value > above && value <= bound).length;
  });
  const more = values.length - counts.reduce((sum, count) => sum + count, 0);
  const parts = bounds.map((bound, place) => `≤ ${bound} ${unit}: ${counts[place]}`);
  return [...parts, `more: ${more}`].join(', ');
}
