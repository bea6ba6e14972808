import type { StepName } from '#shared/api/steps.ts';
import type { Tally } from '#test/world/oracles/tally.ts';
import type { Witness, World } from './world.ts';

/** Something a person may do to a workload's target at any moment. */
export interface Edit {
  readonly name: string;
  /** Whether the workload's goal is still the goal after it. */
  readonly act: (world: World) => void;
}

/**
 * One story that steps have to bring to its goal: a cluster, what people do to it, and how it must end, whatever goes
 * wrong in between. A file of test/world/workloads exports as many as it likes as `workloads`.
 */
export interface Workload {
  /** A short name, unique among all: `3 to 2`. */
  readonly name: string;
  /** The steps that run. */
  readonly steps: readonly StepName[];
  /** An empty world in which the cluster, its data plane and its objects are made. */
  create(tally: Tally): World;
  /** What people do once all stands: acts that happen at once, or as soon as something holds. */
  begin(world: World): void;
  /** Edits of the target that may strike at any moment (F18); the last state of the spec is what counts. */
  readonly edits?: readonly Edit[];
  /** What is still missing to the goal; none: reached. Asked when nothing moves any more. */
  missing(world: World): readonly string[];
  /** What is missing besides where nothing at all went wrong: how it must end then and then only. */
  missingUndisturbed?(world: World): readonly string[];
  /**
   * People act in the middle, so when something happens decides which member it concerns: then creates and deletes are
   * compared by kind; or how many it concerns, and they are not compared at all.
   */
  readonly choicesDependOnTime?: 'who goes' | 'how many go';
  /** It loses a member in any case, and cannot bear that another leaves the cohort before. */
  readonly losesMember?: true;
  /** What it waits for is no object of the shard, so that only the half-hourly resync shows that it has come. */
  readonly needsResync?: true;
  /** The person on duty forces a leaver out also where it runs: a quorum is given up on purpose. */
  readonly givesUpQuorum?: true;
  /** Further checks of this workload's step, beside those that hold for all. */
  readonly witnesses?: readonly ((tally: Tally) => Witness)[];
  /** So many first faults are tried in CI, drawn by seed; all that are left after pruning when not given. */
  readonly firstFaultsInCi?: number;
  /** At most so many deliveries without faults, and so many more for each fault: the published bound of convergence. */
  readonly bound: { readonly deliveries: number; readonly perFault: number };
}
