import { dataPlaneMutants } from './data-plane-mutants.ts';
import { drainMutants } from './drain-mutants.ts';
import { kernelMutants } from './kernel-mutants.ts';
import { kubeMutants } from './kube-mutants.ts';
import type { Mutant } from './mutant.ts';
import { poolPodsMutants } from './pool-pods-mutants.ts';
import { relayMutants } from './relay-mutants.ts';

/**
 * Every guard of the product taken off one at a time, and the defects that others had put back. The simulation must
 * find a violation in each: what it lets pass, it does not check.
 *
 * The executor's own refusals are not here: no step of the product ever asks for what they refuse, so only a step made
 * for the purpose shows them, as the executor's unit tests do. Nor is what keeps reads from hanging, defects from being
 * acknowledged, what the data plane of the world never says from being believed: no request takes time here, the product has
 * no defect that throws, and the stand-in has one durability policy, healthy databases, and no leader elected twice. Unit
 * tests hold these.
 */
export const catalogue: readonly Mutant[] = [
  ...kernelMutants,
  ...kubeMutants,
  ...dataPlaneMutants,
  ...drainMutants,
  ...poolPodsMutants,
  ...relayMutants,
];
