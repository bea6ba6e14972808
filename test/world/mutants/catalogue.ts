import { backupMutants } from './backup-mutants.ts';
import { cleanupMutants } from './cleanup-mutants.ts';
import { dataPlaneMutants } from './data-plane-mutants.ts';
import { drainMutants } from './drain-mutants.ts';
import { goverseMutants } from './goverse-mutants.ts';
import { kernelMutants } from './kernel-mutants.ts';
import { kubeMutants } from './kube-mutants.ts';
import type { Mutant } from './mutant.ts';
import { poolPodsMutants } from './pool-pods-mutants.ts';
import { relayMutants } from './relay-mutants.ts';
import { repositoryMutants } from './repository-mutants.ts';

/**
 * Every guard of the product taken off one at a time, and the defects that others had put back. The simulation must
 * find a violation in each: what it lets pass, it does not check.
 *
 * Left to unit tests, each seen to fail there, is what cannot be seen here: the executor's own refusals, for which no step
 * asks; guards behind which others stand (a newer rule that others know, the uid of a leaver's claim, the successor of an
 * object whose end is heard of late, the job of a backup that outlasted its deadline); reads that hang, since no request takes time; and what nothing here ever says or is:
 * another durability policy, a database that is not ready, a leader elected twice, an answer about another pooler, a second
 * shard's pods.
 */
export const catalogue: readonly Mutant[] = [
  ...kernelMutants,
  ...kubeMutants,
  ...dataPlaneMutants,
  ...drainMutants,
  ...poolPodsMutants,
  ...backupMutants,
  ...repositoryMutants,
  ...goverseMutants,
  ...cleanupMutants,
  ...relayMutants,
];
