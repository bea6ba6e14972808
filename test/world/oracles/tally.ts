/** The invariants that are checked in the world, by the ids they have in ARCHITECTURE.md. */
export const invariantIds = [
  'X1', 'X2', 'X3', 'X4', 'X5', 'X6', 'X7', 'X8', 'X9',
  'D1', 'D2', 'D3', 'D4', 'D5', 'D6', 'D7', 'D8', 'D9', 'D10', 'D11', 'D12', 'D13',
  'S1', 'S2', 'S3', 'S4', 'S5', 'S6', 'R6',
  'G1', 'G2', 'G3', 'G4', 'G5',
  'B1', 'B2', 'B3', 'B4', 'B5', 'B6', 'B7', 'B8', 'B9',
  'C1', 'C2', 'C3', 'C4', 'C5', 'C6',
  'H1', 'H2', 'H3', 'H4', 'H5', 'H6',
  'L1', 'L2', 'L3', 'L4', 'L5', 'L6', 'L7', 'L8', 'L9',
  'P1', 'P2', 'P3', 'P4', 'P5', 'P6', 'P7',
] as const; // prettier-ignore

export type InvariantId = (typeof invariantIds)[number];

/** An invariant does not hold. */
export class Violation extends Error {
  readonly id: InvariantId;

  constructor(id: InvariantId, message: string) {
    super(`${id}: ${message}`);
    this.name = 'Violation';
    this.id = id;
  }
}

/** How often each invariant was evaluated, and in which workloads. Shared by all copies of a world. */
export class Tally {
  readonly #counts = new Map<InvariantId, Map<string, number>>();
  /** What is counted for now. */
  workload = '';

  count(id: InvariantId): void {
    const byWorkload = this.#counts.get(id) ?? new Map<string, number>();
    this.#counts.set(id, byWorkload);
    byWorkload.set(this.workload, (byWorkload.get(this.workload) ?? 0) + 1);
  }

  /** Counts the evaluation and throws where it does not hold. The message is made only then. */
  check(id: InvariantId, holds: boolean, message: () => string): void {
    this.count(id);
    if (!holds) {
      throw new Violation(id, message());
    }
  }

  toJson(): { readonly [id: string]: { readonly [workload: string]: number } } {
    return Object.fromEntries(
      [...this.#counts].map(([id, byWorkload]) => [id, Object.fromEntries(byWorkload)]),
    );
  }
}
