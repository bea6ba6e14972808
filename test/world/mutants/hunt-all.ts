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
  /** Whether the product as it is is verified first. */
  readonly isBaseFirst: boolean;
  /** Looks for what a mutant breaks; everywhere where there is none. */
  readonly verificationOf: (mutant: Mutant | undefined) => Verification;
  /** Called as each one ends, in whatever order. */
  readonly onOutcome: (outcome: Outcome, count: Count) => void;
}

/** Tries every mutant in a process of its own. The outcomes are in the mutants' order. */
export async function huntAll(
  mutants: readonly Mutant[],
  { jobs, isBaseFirst, verificationOf, onOutcome }: HuntParts,
): Promise<Hunt> {
  const unmutated = isBaseFirst ? await tryMutant(undefined, verificationOf(undefined)) : undefined;
  if (unmutated !== undefined && unmutated.verdict.kind !== 'survived') {
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
