import { realNowMs } from '#test/world/run/poison.ts';
import type { InvariantId } from '#test/world/oracles/tally.ts';

/** What a part is told. */
export interface PartOptions {
  readonly seed: number;
  /** `short` is what CI runs; `long` takes up to 80 minutes on two cores. */
  readonly scale: 'short' | 'long';
  /** This worker's share of the work; `taken` counts what any worker has taken so far. */
  readonly share: {
    readonly index: number;
    readonly of: number;
    readonly taken: SharedArrayBuffer;
  };
  /** Stop at the first violation. */
  readonly isHunt: boolean;
  /** Nothing new is begun after so many minutes; what was not reached is said. */
  readonly minutes: number;
}

export interface FoundViolation {
  readonly invariant: InvariantId | 'defect';
  /** What reproduces it: the arguments of a replay. */
  readonly replay: string;
  readonly message: string;
}

/** Plain data: it comes from another thread. Sums over workers, but `most…` figures, which are the largest. */
export interface PartReport {
  readonly figures: { readonly [name: string]: number };
  readonly violations: readonly FoundViolation[];
  /** By invariant, then by workload. */
  readonly evaluated: { readonly [id: string]: { readonly [workload: string]: number } };
  /** `<record's state> × <fault>`. */
  readonly covered: readonly string[];
}

/** Says when a part's time is up. Taken when the part begins. */
export function timeLimit({ minutes }: PartOptions): () => boolean {
  const endMs = realNowMs() + minutes * 60_000;
  return () => realNowMs() >= endMs;
}

/** Pieces of work that no worker has taken, one after the other: for pieces that take very different times. */
export function* untaken<Piece>(
  pieces: readonly Piece[],
  { share }: PartOptions,
): Generator<Piece, void> {
  const taken = new Int32Array(share.taken);
  for (;;) {
    const piece = pieces[Atomics.add(taken, 0, 1)];
    if (piece === undefined) {
      return;
    }
    yield piece;
  }
}

/** One way of looking for violations. */
export interface Part {
  readonly name: string;
  run(options: PartOptions, onProgress: (text: string) => void): Promise<PartReport>;
}
