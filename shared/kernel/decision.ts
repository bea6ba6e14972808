import type { DestructiveKind, Effect, EffectKind, Effects, SafeKind } from './effect.ts';
import type { Wake } from './record.ts';
import type { Instant } from './instant.ts';
import type { LabelsOf, NameOf, StepMetrics } from '#shared/api/metrics.ts';
import type { Reason } from '#shared/api/reasons.ts';

/**
 * What a step concluded from one look. Pure data.
 *
 * `reason` becomes log field, Event reason, condition reason and metric label; `message` is one sentence for people.
 */
export type Decision<K extends EffectKind = EffectKind> =
  /** Nothing to do. `effects` may only tidy: clear the record, mirror the state. */
  | (Conclusion<'settled'> & Tidying<K>)
  /** Nothing to do yet. The record in force after `effects` carries `wake`, so that the relay looks again. */
  | (Conclusion<'waiting'> & { readonly wake: Wake } & Tidying<K>)
  /** Do this, in this order. */
  | (Conclusion<'acting'> & { readonly effects: Effects<K> })
  /** A person or a spec change is needed; `needs` says which. The wake is slow: a repaired permission emits no event. */
  | (Conclusion<'blocked'> & { readonly needs: string; readonly wake: Wake } & Tidying<K>);

interface Conclusion<Outcome extends string> {
  readonly outcome: Outcome;
  readonly reason: Reason;
  readonly message: string;
  /** What is to be counted once the record that accounts for it is written. */
  readonly counts?: readonly Count[];
  /** What stands at this look. */
  readonly gauges?: readonly Gauge[];
}

/** So many more of something. */
export type Count = {
  [Name in NameOf<StepMetrics, 'counter'>]: {
    readonly metric: Name;
    readonly labels: LabelsOf<StepMetrics[Name]>;
    readonly count: number;
  };
}[NameOf<StepMetrics, 'counter'>];

/** How much of something there is, or how long it took. */
export type Gauge = {
  [Name in NameOf<StepMetrics, 'gauge' | 'histogram'>]: {
    readonly metric: Name;
    readonly labels: LabelsOf<StepMetrics[Name]>;
    readonly value: number;
  };
}[NameOf<StepMetrics, 'gauge' | 'histogram'>];

/** Only an acting decision may do what cannot be taken back. */
interface Tidying<K extends EffectKind> {
  readonly effects: readonly Effect<Exclude<K, DestructiveKind>>[];
}

/** One row of a step's table: looks at the snapshot and either decides or passes. Pure. */
export type Check<Snapshot, K extends EffectKind = EffectKind> = (
  snapshot: Snapshot,
  now: Instant,
) => Decision<K> | undefined;

/** Runs the checks in order; the first that decides wins. */
export function firstHit<Snapshot, K extends EffectKind>(
  checks: readonly Check<Snapshot, K>[],
  snapshot: Snapshot,
  now: Instant,
): Decision<K> | undefined {
  for (const check of checks) {
    const decision = check(snapshot, now);
    if (decision !== undefined) {
      return decision;
    }
  }
  return undefined;
}

export function settled<E extends Effect<SafeKind> = never>(
  reason: Reason,
  message: string,
  effects: readonly E[] = [],
) {
  return { outcome: 'settled' as const, reason, message, effects };
}

export function waiting<E extends Effect<SafeKind> = never>(
  reason: Reason,
  message: string,
  wake: Wake,
  effects: readonly E[] = [],
) {
  return { outcome: 'waiting' as const, reason, message, wake, effects };
}

/** @param last the one effect that cannot be taken back, done after the others */
export function acting<
  E extends Effect<SafeKind> = never,
  D extends Effect<DestructiveKind> = never,
>(reason: Reason, message: string, effects: readonly E[], last?: D) {
  const inOrder: readonly E[] | readonly [...E[], D] =
    last === undefined ? effects : [...effects, last];
  return { outcome: 'acting' as const, reason, message, effects: inOrder };
}

export function blocked<E extends Effect<SafeKind> = never>(
  reason: Reason,
  message: string,
  needs: string,
  wake: Wake,
  effects: readonly E[] = [],
) {
  return { outcome: 'blocked' as const, reason, message, needs, wake, effects };
}
