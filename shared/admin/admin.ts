import type { BackupType } from '#shared/api/backup.ts';
import type { Read } from '#shared/kernel/read.ts';
import type { PoolerId, RuleNumber, ShardKey } from '#shared/topology/topology.ts';

/** What the shard must have acknowledged before a write counts. `unknown` = a policy this version does not know. */
export interface DurabilityPolicy {
  readonly kind: 'at-least-n' | 'multi-cell-at-least-n' | 'unknown';
  /** Members (or, for `multi-cell-at-least-n`, distinct cells) that must acknowledge, the leader among them. */
  readonly requiredCount: number;
}

/** A consensus rule: who leads, who votes, and what durability asks for. */
export interface ShardRule {
  readonly rule: RuleNumber;
  readonly leader: PoolerId | null;
  readonly cohort: readonly PoolerId[];
  readonly policy: DurabilityPolicy;
}

/** One pooler as multiadmin sees it now. */
export interface PoolerStatus {
  readonly id: PoolerId;
  /** What the pooler claims. Two may claim `primary` for a moment; the one under the highest rule is. */
  readonly role: 'primary' | 'replica' | 'unknown';
  /** PostgreSQL answers. */
  readonly isReady: boolean;
  /** A replica that receives from its primary; always false for a primary. */
  readonly isStreaming: boolean;
  /** The last decided rule this pooler knows, `null` before the first. */
  readonly decision: ShardRule | null;
  /** A rule proposed and not yet decided. */
  readonly proposal: ShardRule | null;
}

export interface AdminReader {
  /** `absent`: the admin service knows no such pooler. An unreachable pooler is `unknown`. */
  poolerStatus(pooler: PoolerId, signal?: AbortSignal): Promise<Read<PoolerStatus>>;
  /**
   * Where a backup that was asked for stands. `absent`: this instance of the service knows no such job, which it also says
   * of one that still ran when it was restarted. A service that has forgotten the job asks a pooler, which answers only
   * when it has no backup to do itself, so a question without an answer is common and `unknown`.
   */
  backupJob(shard: ShardKey, job: string, signal?: AbortSignal): Promise<Read<BackupJob>>;
  /** Every backup of the shard in the repository, oldest first. Without an answer while a pooler backs up. */
  backups(shard: ShardKey, signal?: AbortSignal): Promise<Read<readonly Backup[]>>;
}

export interface BackupJob {
  readonly status: 'pending' | 'running' | 'completed' | 'failed' | 'unknown';
  /** The backup it made, once it is complete. */
  readonly backup: string | null;
  /** Why it failed. */
  readonly why: string | null;
}

/** One backup as the repository has it. */
export interface Backup {
  readonly id: string;
  readonly type: BackupType | 'unknown';
  readonly status: 'complete' | 'incomplete' | 'failed' | 'unknown';
  /** The job that made it, `null` where it was made without one. */
  readonly job: string | null;
  /** RFC 3339. */
  readonly startedAt: string | null;
  readonly stoppedAt: string | null;
  /** int64, as a decimal string. */
  readonly sizeBytes: string | null;
}

/** How an unfenced request ended. After `unknown` it may or may not have taken effect: look before anything else. */
export type SendResult =
  | { readonly kind: 'sent'; readonly detail: string }
  | { readonly kind: 'refused'; readonly why: string }
  | { readonly kind: 'unknown'; readonly why: string };

/** How a request for a backup ended. */
export type StartResult =
  | { readonly kind: 'started'; readonly job: string }
  | { readonly kind: 'refused'; readonly why: string }
  | { readonly kind: 'unknown'; readonly why: string };

export interface AdminWriter {
  /** Asks the leader to resign in favour of a standby. Not idempotent: a repeat moves the leader again. No retries. */
  switchPrimary(shard: ShardKey, reason: string, signal?: AbortSignal): Promise<SendResult>;
  /** Asks for a backup by a standby. Not idempotent: a repeat is another backup, or ends the first. No retries. */
  startBackup(shard: ShardKey, type: BackupType, signal?: AbortSignal): Promise<StartResult>;
}

export interface Admin extends AdminReader, AdminWriter {}
