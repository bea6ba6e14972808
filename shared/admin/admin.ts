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
}

/** How an unfenced request ended. After `unknown` it may or may not have taken effect: look before anything else. */
export type SendResult =
  | { readonly kind: 'sent'; readonly detail: string }
  | { readonly kind: 'refused'; readonly why: string }
  | { readonly kind: 'unknown'; readonly why: string };

export interface AdminWriter {
  /** Asks the leader to resign in favour of a standby. Not idempotent: a repeat moves the leader again. No retries. */
  switchPrimary(shard: ShardKey, reason: string, signal?: AbortSignal): Promise<SendResult>;
}

export interface Admin extends AdminReader, AdminWriter {}
