/** One measured number beside what it should be. */
export interface Figure {
  /** Words that stay the same from release to release: `relay: first hint after start`. */
  readonly name: string;
  readonly value: number;
  /** `ms`, `MiB`, `ratio`, `requests` and so on. */
  readonly unit: string;
  /** What the value must not exceed; `null` where the number is only told. */
  readonly goal: number | null;
  /** Whether the value keeps within its goal; `null` without one. */
  readonly met: boolean | null;
  /** The same number of the peer that ran beside it, in the same unit. */
  readonly peer?: number;
}

/** A number, rounded to four digits, and whether it keeps its upper limit. */
export function figure(
  name: string,
  value: number,
  unit: string,
  more: { readonly goal?: number; readonly peer?: number } = {},
): Figure {
  const rounded = rounding(value);
  return {
    name,
    value: rounded,
    unit,
    goal: more.goal ?? null,
    met: more.goal === undefined ? null : rounded <= more.goal,
    ...(more.peer === undefined ? {} : { peer: rounding(more.peer) }),
  };
}

function rounding(value: number): number {
  return Number(value.toPrecision(4));
}
