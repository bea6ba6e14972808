import pLimit from 'p-limit';
import type { Mutant } from './mutant.ts';
import { type Trial, type Verification, tryMutant } from './try-mutant.ts';

export interface Outcome {
  readonly mutant: Mutant;
  readonly trial: Trial;
}

export interface Count {
  readonly done: number;
  readonly of: number;
}

export type Hunt =
  | { readonly kind: 'hunted'; readonly outcomes: readonly Outcome[] }
  /** The verification does not pass on the product as it is: no mutant's death would show anything. */
  | { readonly kind: 'unfounded'; readonly trial: Trial };

export interface HuntParts {
  /** Processes at a time. */
  readonly jobs: number;
  /** Looks for what a mutant breaks; everywhere where there is none. */
  readonly verificationOf: (mutant: Mutant | undefined) => Verification;
  /** Called as each one ends, in whatever order. */
  readonly onOutcome: (outcome: Outcome, count: Count) => void;
}

/** Tries every mutant in a process of its own, after the product as it is. The outcomes are in the mutants' order. */
export async function huntAll(
  mutants: readonly Mutant[],
  { jobs, verificationOf, onOutcome }: HuntParts,
): Promise<Hunt> {
  const unmutated = await tryMutant(undefined, verificationOf(undefined));
  if (unmutated.verdict.kind !== 'survived') {
    return { kind: 'unfounded', trial: unmutated };
  }
  const limit = pLimit(jobs);
  let done = 0;
  const outcomes = await Promise.all(
    mutants.map((mutant) =>
      limit(async () => {
        const outcome = { mutant, trial: await tryMutant(mutant, verificationOf(mutant)) };
        done += 1;
        onOutcome(outcome, { done, of: mutants.length });
        return outcome;
      }),
    ),
  );
  return { kind: 'hunted', outcomes };
}
