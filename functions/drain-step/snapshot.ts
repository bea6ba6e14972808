import type { PoolerStatus } from '#shared/admin/admin.ts';
import type { DrainRecord } from '#shared/api/drain-record.ts';
import type { Condition, ShardStatus } from '#shared/api/shard.ts';
import type { Read } from '#shared/kernel/read.ts';
import type { DatabaseView } from '#shared/kernel/shard-database.ts';
import type { RecordRead } from '#shared/kernel/record.ts';
import type { TargetView } from '#shared/kernel/target-view.ts';
import type { PoolerId, PoolerListing } from '#shared/topology/topology.ts';

/** Everything drain-step knows when it decides. Plain JSON. */
export interface DrainSnapshot {
  readonly shard: ShardView;
  readonly record: RecordRead<DrainRecord>;
  readonly database: Read<DatabaseView>;
  /** The shard's pooler records, read before everything they are compared with. */
  readonly topology: Read<PoolerListing>;
  readonly members: Read<readonly Member[]>;
  /** What each registered pooler says of itself. Asked only while somebody leaves or has to. */
  readonly statuses: readonly { readonly id: PoolerId; readonly status: Read<PoolerStatus> }[];
  /** The nodes of members that are not ready, and the leaver's. */
  readonly nodes: { readonly [name: string]: Read<NodeView> };
  /** The shard's claims. Asked while somebody leaves or has to, and where surplus claims are to be deleted. */
  readonly claims: Read<readonly ClaimView[]>;
  /** Names of the claims that any pod of the namespace mounts. Asked only where a claim may have to be deleted. */
  readonly claimsInUse: Read<readonly string[]>;
}

export interface ShardView extends TargetView {
  /** The pod uid in the people's `force-drain` annotation. */
  readonly forcedPodUid: string | null;
  readonly databaseName: string;
  readonly deadlineSeconds: number;
  readonly pools: readonly PoolView[];
  /** drain-step's own part of the status, as it stands. */
  readonly drained: Condition | null;
  readonly primary: ShardStatus['primary'] | null;
  readonly drain: ShardStatus['drain'] | null;
}

export interface PoolView {
  readonly name: string;
  readonly cells: readonly string[];
  readonly replicasPerCell: number;
  /** Pods are made by someone else: only requests are obeyed, counts never. */
  readonly isAttached: boolean;
  readonly whenScaled: 'Retain' | 'Delete';
}

/** One pod that carries the shard's labels. */
export interface Member {
  readonly pod: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly pool: string;
  readonly cell: string;
  readonly index: number;
  /** Empty until bound. */
  readonly node: string;
  /** `Succeeded` or `Failed`: its containers have ended for good. */
  readonly hasEnded: boolean;
  readonly isReady: boolean;
  readonly isBeingDeleted: boolean;
  /** `ours`: this Shard is its controller. `attached`: of a pool in attach mode. `foreign`: somebody else's, hands off. */
  readonly control: 'ours' | 'attached' | 'foreign';
  /** Another operator's drain marks are on it. */
  readonly isMarkedByOthers: boolean;
  /** The people's drain request: its reason, `null` without one. */
  readonly request: string | null;
  /** Our mirror annotation as it stands. */
  readonly mirror: string | null;
  /** Name of the claim mounted as `data`, empty without one. */
  readonly claim: string;
}

export interface NodeView {
  readonly isReady: boolean;
}

export interface ClaimView {
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly isBeingDeleted: boolean;
  /** The uid in its `released` mark, `null` without one. */
  readonly released: string | null;
  /** The member whose data it holds, `null` where it is not one of the claims that pool-pods makes. */
  readonly member: ClaimMember | null;
}

/** A member as the name of its claim and all the labels of it say. */
export interface ClaimMember {
  readonly pod: string;
  readonly pool: string;
  readonly cell: string;
  readonly index: number;
}
