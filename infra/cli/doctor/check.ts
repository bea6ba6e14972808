/** One thing doctor looked at. */
export interface Check {
  /** What was checked, for people: `permissions of drain-step`. */
  readonly name: string;
  /** `skipped`: it could not be judged, because something before it failed or nothing is there to judge. */
  readonly result: 'ok' | 'failed' | 'skipped';
  /** What was found, in one sentence or less. */
  readonly found: string;
  /** What to do about a failure. */
  readonly advice?: string;
}

export function ok(name: string, found: string): Check {
  return { name, result: 'ok', found };
}

export function failed(name: string, found: string, advice: string): Check {
  return { name, result: 'failed', found, advice };
}

export function skipped(name: string, found: string): Check {
  return { name, result: 'skipped', found };
}
