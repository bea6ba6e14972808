/**
 * When a ticker with this period is due next: by its own start, or by a phase of the clock that many share.
 *
 * Like Go's, it does not drift, keeps one tick that came due while the last one still ran, and drops any more.
 */
export function nextTickMs(
  lastDueMs: number,
  { periodMs, nowMs }: { readonly periodMs: number; readonly nowMs: number },
): number {
  const next = lastDueMs + periodMs;
  const latestDue = next + Math.floor(Math.max(0, nowMs - next) / periodMs) * periodMs;
  return latestDue;
}

/** The instant that the first tick is counted from, so that it comes one period later, or at the shared phase after that. */
export function firstDueMs({
  startMs,
  periodMs,
  phase,
}: {
  readonly startMs: number;
  readonly periodMs: number;
  /** A part of the period, 0 up to 1; absent: counted from the start. */
  readonly phase?: number | undefined;
}): number {
  if (phase === undefined) {
    return startMs;
  }
  const offsetMs = phase * periodMs;
  return Math.ceil((startMs - offsetMs) / periodMs) * periodMs + offsetMs;
}
