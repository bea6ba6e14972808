/** How one slot of a schedule ended. */
export interface Ending {
  /** RFC 3339. */
  readonly slot: string;
  /** `succeeded`, or with its reason: `skipped (Superseded)`. */
  readonly how: string;
}

/**
 * The slots that one of backup-trigger's Events says have ended: `nightly 2026-01-01T02:00:00Z succeeded: …` tells of one,
 * `nightly: 3 slots up to 2026-01-01T02:00:00Z skipped (Superseded)` of those before it as well. Nothing for any other
 * schedule's.
 *
 * @param slotMs from one slot of the schedule to the next
 */
export function endingsIn(message: string, schedule: string, slotMs: number): readonly Ending[] {
  // What is passed over in one look is told in one message, and in Events of its own.
  const [, ran, result] = /^\S+ (\S+) (succeeded|failed|adopted|unknown): /.exec(message) ?? [];
  if (ran !== undefined && result !== undefined) {
    return message.startsWith(`${schedule} `)
      ? [{ slot: textOf(Date.parse(ran)), how: result }]
      : [];
  }
  const [, count = '1', last, how] =
    /^\S+: (?:slot|(\d+) slots up to) (\S+) (\w+ \(\w+\))$/.exec(message) ?? [];
  return last === undefined || how === undefined || !message.startsWith(`${schedule}: `)
    ? []
    : Array.from({ length: Number(count) }, (_, place) => ({
        slot: textOf(Date.parse(last) - (Number(count) - 1 - place) * slotMs),
        how,
      }));
}

function textOf(ms: number): string {
  return new Date(ms).toISOString();
}
