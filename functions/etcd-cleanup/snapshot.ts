import type { PoolerStatus } from '#shared/admin/admin.ts';
import type { Condition, ShardStatus } from '#shared/api/shard.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import type { Read } from '#shared/kernel/read.ts';
import type { DatabaseView } from '#shared/kernel/shard-database.ts';
import type { RecordRead } from '#shared/kernel/record.ts';
import type { TargetView } from '#shared/kernel/target-view.ts';
import type { PoolerId, PoolerListing } from '#shared/topology/topology.ts';
import type { CleanupRecord } from './record.ts';

/** Everything etcd-cleanup knows when it decides. Plain JSON. */
export interface CleanupSnapshot {
  readonly shard: ShardView;
  readonly record: RecordRead<CleanupRecord>;
  /** The member that is leaving, which drain-step brings out. */
  readonly drain: DrainView;
  /** When reading began: nothing of what follows is older. */
  readonly readAt: Instant;
  readonly database: Read<DatabaseView>;
  /** The shard's pooler records, read before everything they are compared with. */
  readonly topology: Read<PoolerListing>;
  /** Names of the pods with the shard's label. */
  readonly members: Read<readonly string[]>;
  /** Names of all pods of the namespace: labels can be lost. Asked only where a record is none of the members'. */
  readonly pods: Read<readonly string[]>;
  /** What poolers say of themselves: the primary, and those that may be removed. Asked only where one may be. */
  readonly statuses: readonly { readonly id: PoolerId; readonly status: Read<PoolerStatus> }[];
}

export interface ShardView extends TargetView {
  readonly databaseName: string;
  readonly isEnabled: boolean;
  readonly quietSeconds: number;
  readonly deleteAfterSeconds: number;
  readonly maxPerPass: number;
  /** The members that pool-pods makes: none of a pool in attach mode. */
  readonly groups: readonly GroupView[];
  /** etcd-cleanup's own part of the status, as it stands. */
  readonly condition: Condition | null;
  readonly cleanup: NonNullable<ShardStatus['cleanup']> | null;
}

/** The members of one pool in one cell. */
export interface GroupView {
  /** What the names of its pods begin with, an index follows. */
  readonly base: string;
  readonly replicas: number;
}

export type DrainView =
  | { readonly kind: 'none' }
  | { readonly kind: 'open'; readonly pod: string; readonly pooler: PoolerId }
  | { readonly kind: 'unknown'; readonly why: string };
