import type * as z from 'zod';
import type { Decision } from './decision.ts';
import type { EffectKind, Permission, WritePermission } from './effect.ts';
import type { Clock, Instant } from './instant.ts';
import type { Present } from './read.ts';
import type { StepName } from '#shared/api/steps.ts';
import type { KubeObject, TargetKind } from '#shared/kube/resources.ts';
import type { Ports } from './ports.ts';

/** What a step says of itself: the source of its RBAC, of its README's table, and of what the executor lets it do. */
export interface StepDeclaration<
  T extends TargetKind = TargetKind,
  Writes extends EffectKind = EffectKind,
> {
  /** Folder, queue suffix, log field, metric dimension, annotation key and field manager. */
  readonly name: StepName;
  readonly target: T;
  readonly reads: readonly Permission[];
  readonly writes: readonly WritePermission<Writes>[];
  /** The longest record it may write, in bytes of its JSON; 1 KiB when absent. */
  readonly recordBytes?: number;
}

/** What of a step's snapshots may be archived. A decision over the archived form is that over the snapshot itself. */
export interface ArchivedForm<Snapshot> {
  /** Names every field that may be kept, and leaves out whatever else is there. Reads what was archived as well. */
  readonly schema: z.ZodType<Snapshot>;
  /**
   * Done before, where a step sees what must not be kept: replaces it so that what was equal stays equal. Changes nothing of
   * what was archived.
   */
  readonly hide?: (snapshot: Snapshot) => Snapshot;
  /** How it is written where the snapshot itself would be too long; the schema reads both. */
  readonly packed?: (snapshot: Snapshot) => unknown;
}

/**
 * One kind of reconcile work: read the world, decide purely, and let the executor write.
 *
 * `Writes` ties the decisions to the declaration: a decision with an effect that `writes` does not list is a type error.
 */
export interface Step<
  T extends TargetKind,
  Snapshot,
  Writes extends EffectKind = EffectKind,
> extends StepDeclaration<T, Writes> {
  /**
   * Reads everything the decision needs, tokens before evidence. Throws only for what no decision can be made from.
   *
   * @param clock for a wait between two reads: reading may take half a minute, and `decide` is told when it was over
   */
  observe(
    target: Present<KubeObject<T>>,
    ports: Ports,
    signal: AbortSignal,
    clock: Clock,
  ): Promise<Snapshot>;
  /** Total, synchronous, deterministic; sees no clock, randomness, environment or logger. */
  decide(snapshot: Snapshot, now: Instant): Decision<Writes>;
  /** Loaded where something is archived only: who looks without an archive does not wait for it. */
  archived(): Promise<ArchivedForm<Snapshot>>;
}
