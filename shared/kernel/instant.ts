/** A point in time: whole milliseconds since the Unix epoch. A number, so that snapshots stay plain JSON. */
export type Instant = number & { readonly brand: 'Instant' };

/** Reads the wall clock. Called once per look by the pipeline and handed down; nothing else asks for the time. */
export type Clock = () => Instant;

export const wallClock: Clock = () => Date.now() as Instant;

/** RFC 3339 in UTC, without a fraction where there is none: `2026-01-01T00:00:00Z`. */
export function toText(instant: Instant): string {
  return new Date(instant).toISOString().replace('.000Z', 'Z');
}

/** Parses an RFC 3339 time. Anything else is `undefined`: a malformed time is never read as now. */
export function parseInstant(text: string | undefined): Instant | undefined {
  if (text === undefined || !/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d/.test(text)) {
    return undefined;
  }
  const milliseconds = Date.parse(text);
  return Number.isNaN(milliseconds) ? undefined : (milliseconds as Instant);
}

export function plusSeconds(instant: Instant, seconds: number): Instant {
  return (instant + Math.round(seconds * 1000)) as Instant;
}

/** Whole and fractional seconds from `earlier` to `later`; negative when the order is the other way round. */
export function secondsBetween(earlier: Instant, later: Instant): number {
  return (later - earlier) / 1000;
}
