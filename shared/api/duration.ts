const unitSeconds: { readonly [unit: string]: number } = { h: 3600, m: 60, s: 1, ms: 0.001 };

/**
 * Durations as Go writes them, of hours, minutes, seconds and milliseconds: `5m`, `1h30m`, `2.5s`. Short enough that
 * each fits the 64 bits of nanoseconds in which the API server computes.
 */
export const durationPattern = '^([0-9]{1,6}([.][0-9]{1,3})?(h|ms|m|s))+$';

/** The longest text of a duration, in characters. */
export const maxDurationLength = 16;

/**
 * The seconds in a duration.
 *
 * @throws RangeError for any other text: the API server admits none, and a malformed time is never read as none
 */
export function durationSeconds(duration: string): number {
  if (duration.length > maxDurationLength || !new RegExp(durationPattern).test(duration)) {
    throw new RangeError(`${JSON.stringify(duration)} is no duration such as 5m or 1h30m`);
  }
  const parts = [...duration.matchAll(/([0-9.]+)(h|ms|m|s)/g)];
  const milliseconds = parts.reduce(
    (sum, [, amount, unit]) => sum + Number(amount) * (unitSeconds[unit ?? ''] ?? 0) * 1000,
    0,
  );
  return Math.round(milliseconds) / 1000;
}
