import type { Condition } from '#shared/api/condition.ts';
import type { DatabaseStatus } from '#shared/api/database.ts';
import type { WantedRepository } from '#shared/api/repository.ts';
import type { Read } from '#shared/kernel/read.ts';
import type { RecordRead } from '#shared/kernel/record.ts';
import type { TargetView } from '#shared/kernel/target-view.ts';
import type { RepositorySurvey } from '#shared/repository/repository.ts';
import type { DatabaseRecord } from '#shared/topology/topology.ts';
import type { BackupConfigRecord } from './record.ts';

/** Everything backup-config knows when it decides. Plain JSON, without a value of any Secret. */
export interface BackupConfigSnapshot {
  readonly database: DatabaseView;
  readonly record: RecordRead<BackupConfigRecord>;
  /** The data plane's own record, read before everything it is compared with. */
  readonly topology: Read<DatabaseRecord>;
  /** Asked only of a bucket. */
  readonly survey: RepositorySurvey;
  /** How many share it. Asked only of a file system that one node at a time can mount. */
  readonly shards: Read<readonly ShardView[]>;
}

export interface DatabaseView extends TargetView {
  /** The id of the cluster it is in. */
  readonly cluster: string;
  /** Its name in the data plane. */
  readonly dataPlaneName: string;
  readonly wanted: WantedRepository;
  /** The hash in the people's `confirm-repository` annotation, `null` without one. */
  readonly confirmed: string | null;
  /** The status as it stands. */
  readonly conditions: readonly Condition[];
  readonly observedGeneration: number | null;
  readonly repository: NonNullable<DatabaseStatus['repository']> | null;
}

/** A shard of the database: what of it mounts the same file system. */
export interface ShardView {
  readonly name: string;
  readonly members: number;
  readonly cells: number;
}
