import { catalogue } from '#test/world/mutants/catalogue.ts';
import { mutantOf } from '#test/world/mutants/mutant.ts';
import { tryMutant } from '#test/world/mutants/try-mutant.ts';
import type { FoundViolation } from './part.ts';

/** A delete without preconditions: seen at once where anything is seen at all. */
const canary = 'kube-delete-unguarded';

/** How long it may live, in milliseconds. */
const limitMs = 120_000;

/** Takes one guard off and looks whether anybody notices: a verification that cannot fail shows nothing. */
export async function runCanary(): Promise<readonly FoundViolation[]> {
  const { verdict } = await tryMutant(mutantOf(catalogue, canary), {
    entry: new URL('../verify.ts', import.meta.url),
    words: ['--hunt', '--json', '--jobs', '1'],
    limitMs,
  });
  return verdict.kind === 'killed'
    ? []
    : [
        {
          invariant: 'defect',
          replay: '--hunt',
          message: `nobody noticed the mutant ${canary}: ${JSON.stringify(verdict)}`,
        },
      ];
}
