import type { DecisionLine } from '#infra/cli/dev/decision-line.ts';
import type { AuditedRequest } from '#infra/local/control-plane/audit-log.ts';
import type { BucketServer } from '#infra/local/bucket/start.ts';
import type { BackupJobView } from '#infra/local/data-plane/core.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import type { Backup, PoolerStatus } from '#shared/admin/admin.ts';
import type { DatabaseRecord, PoolerRecord } from '#shared/topology/topology.ts';
import type { Changes } from './changes.ts';
import type { MillraceProcess } from './millrace-process.ts';
import type { RelayReading } from './relay-metrics.ts';
import type { Row } from './screen.ts';
import type { StepQueues } from './step-queues.ts';
import type { World } from './world.ts';

/** Everything a scene acts on and reads from. */
export interface Stage {
  readonly namespace: string;
  readonly shard: string;
  readonly database: string;
  readonly connection: KubeConnection;
  readonly world: World;
  readonly millrace: MillraceProcess;
  /** What hints name as their source. */
  readonly clusterId: string;
  readonly queues: StepQueues;
  /** Every decision since the start, in the order in which they were told, and a way to wait for the next. */
  readonly decisions: { readonly all: readonly DecisionLine[]; readonly changes: Changes };
  /** Where the stand-in data plane can be found, for the Database object. */
  readonly topologyEndpoint: string;
  readonly adminUrl: string;
  /** The shard's pooler records, read from etcd now. */
  poolers(): Promise<readonly PoolerRecord[]>;
  /** What etcd holds of the database, read now. */
  databaseRecord(): Promise<DatabaseRecord>;
  /** What a pooler says of itself, asked now. */
  poolerStatus(pooler: PoolerRecord): Promise<PoolerStatus>;
  /** Every backup that the data plane was asked for, whoever asked and whatever became of it, by its own count. */
  backupJobs(): Promise<readonly BackupJobView[]>;
  /** The backups that the repository lists, asked now. */
  backups(): Promise<readonly Backup[]>;
  /** An S3 server, where a scene that is played needs one. */
  readonly bucket: BucketServer | undefined;
  /** kill -9 of all that runs in a member's pod; the pod's object vanishes with it. */
  loseMember(pod: string): Promise<void>;
  /** What the relay says of its own sending, asked now. */
  relay(): Promise<RelayReading>;
  /** Every request of Millrace that the API server has answered so far. */
  requests(): Promise<readonly AuditedRequest[]>;
  /** Says in plain words what the scene does. */
  say(text: string): void;
  /** Shows what was found, row by row. */
  table(rows: readonly Row[]): void;
}

/** One scene: what it does, and what must be true afterwards. Throws when it is not. */
export interface Scene {
  readonly name: string;
  readonly title: string;
  /** An S3 server runs beside the stage. */
  readonly needsBucket?: true;
  /** It is about something else than the Shard, which may be there or not. */
  readonly isWithoutShard?: true;
  play(stage: Stage): Promise<void>;
}
