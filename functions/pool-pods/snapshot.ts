import type { DrainRecord } from '#shared/api/drain-record.ts';
import type { Condition, Pool, ShardStatus } from '#shared/api/shard.ts';
import type { Read } from '#shared/kernel/read.ts';
import type { RecordRead } from '#shared/kernel/record.ts';
import type { TargetView } from '#shared/kernel/target-view.ts';
import type { PoolPodsRecord } from './record.ts';
import type { RepositoryWiring } from './repository-wiring.ts';

/** Everything pool-pods knows when it decides. Plain JSON. */
export interface PoolPodsSnapshot {
  readonly shard: ShardView;
  readonly record: RecordRead<PoolPodsRecord>;
  /** drain-step's record on the same Shard: nothing is made at the index of an open drain. */
  readonly drain: RecordRead<DrainRecord>;
  /** Pods with the shard's label, and whatever else stands under a name that is about to be used. */
  readonly pods: Read<readonly PodView[]>;
  readonly service: Read<ServiceView>;
  readonly budgets: Read<readonly BudgetView[]>;
  /** Asked only while a member is missing that needs one; read before the pods. */
  readonly claims: Read<readonly ClaimView[]>;
  /** Asked at each look at a shard whose pods Millrace makes: it has a part in what a pod is to be. */
  readonly database: Read<DatabaseView>;
  /** Asked only while a member is to join those that are ready. */
  readonly backups: Read<BackupsView>;
}

export interface ShardView extends TargetView {
  readonly databaseName: string;
  readonly pools: readonly Pool[];
  /** Those of all steps: the others' are read, our own compared. What else stands in the list is nobody's we know. */
  readonly conditions: readonly Condition[];
  /** Our own part of the status, as it stands. */
  readonly observedGeneration: number | null;
  readonly poolStatuses: NonNullable<ShardStatus['pools']>;
}

/**
 * Whose an object is. `ours`: this Shard is its controller. `former`: the controller is a Shard of the same name and
 * another uid, so the garbage collector takes the object away. `foreign`: anybody else's, or nobody's.
 */
export type Owner = 'ours' | 'former' | 'foreign';

/** What is looked at in every object: who it is, whose, and in which version. */
export interface OwnedView {
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly owner: Owner;
  readonly isBeingDeleted: boolean;
}

export interface PodView extends OwnedView {
  readonly labels: { readonly [key: string]: string };
  readonly annotations: { readonly [key: string]: string };
  readonly isReady: boolean;
  /** Its phase is another than Pending: it has, or had, everything that it mounts. */
  readonly hasStarted: boolean;
}

export interface ClaimView extends OwnedView {
  readonly labels: { readonly [key: string]: string };
  /** Claims outlive their Shard, so they have no controller; one that has is somebody else's. */
  readonly hasController: boolean;
  /** The uid in its `released` mark, `null` without one. */
  readonly released: string | null;
}

export interface ServiceView extends OwnedView {
  readonly selector: { readonly [key: string]: string };
}

export interface BudgetView extends OwnedView {
  /** `null` where it is no whole number: a percentage, or `maxUnavailable` in its place. */
  readonly minAvailable: number | null;
  readonly selector: { readonly [key: string]: string };
}

export interface DatabaseView {
  readonly isPaused: boolean;
  /** What members need to reach its repository. */
  readonly wiring: RepositoryWiring;
}

export interface BackupsView {
  /** At least one is complete. One whose state nobody knows counts as complete: a mere warning hangs on it. */
  readonly isOneComplete: boolean;
}
