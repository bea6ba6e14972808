import type { GoverseClusterStatus } from '#shared/api/goverse-cluster.ts';
import type { GoverseView } from '#shared/goverse/goverse.ts';
import type { Read } from '#shared/kernel/read.ts';
import type { RecordRead } from '#shared/kernel/record.ts';
import type { TargetView } from '#shared/kernel/target-view.ts';
import type { ReleaseRecord } from './record.ts';

/** Everything shard-release knows when it decides. Plain JSON. */
export interface ReleaseSnapshot {
  readonly cluster: ClusterView;
  readonly record: RecordRead<ReleaseRecord>;
  /** All keys at one revision, read before the pods: their mod revisions are compared when shards are written. */
  readonly view: Read<GoverseView>;
  readonly pods: Read<readonly PodView[]>;
}

export interface ClusterView extends TargetView {
  readonly shardCount: number;
  readonly mode: 'quick' | 'clean';
  readonly timeoutSeconds: number;
  readonly rebalance: 'inside' | 'outside';
  /** The mark in every pin of this cluster's: the same for a GoverseCluster that is made anew under the name. */
  readonly mark: string;
  readonly status: GoverseClusterStatus | null;
}

/** A pod with the cluster's label whose containers have not all ended. */
export interface PodView {
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  /** Its addresses, without a port; and the one that a person gave, with it. */
  readonly ips: readonly string[];
  readonly address: string | null;
  readonly isBeingDeleted: boolean;
  readonly isAskedToLeave: boolean;
  /** What the pod itself says of its shutdown. */
  readonly mode: 'quick' | 'clean' | null;
  readonly graceSeconds: number;
  /** Our mirror annotation as it stands. */
  readonly mirror: string | null;
}
