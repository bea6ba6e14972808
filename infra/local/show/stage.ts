import type { DecisionLine } from '#infra/cli/dev/decision-line.ts';
import type { AuditedRequest } from '#infra/local/control-plane/audit-log.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import type { PoolerStatus } from '#shared/admin/admin.ts';
import type { PoolerRecord } from '#shared/topology/topology.ts';
import type { Changes } from './changes.ts';
import type { MillraceProcess } from './millrace-process.ts';
import type { RelayReading } from './relay-metrics.ts';
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
  /** What a pooler says of itself, asked now. */
  poolerStatus(pooler: PoolerRecord): Promise<PoolerStatus>;
  /** What the relay says of its own sending, asked now. */
  relay(): Promise<RelayReading>;
  /** Every request of Millrace that the API server has answered so far. */
  requests(): Promise<readonly AuditedRequest[]>;
  /** Says in plain words what the scene does. */
  say(text: string): void;
}

/** One scene: what it does, and what must be true afterwards. Throws when it is not. */
export interface Scene {
  readonly name: string;
  readonly title: string;
  play(stage: Stage): Promise<void>;
}
