import type { Condition } from '#shared/api/condition.ts';
import type { DrainRecord } from '#shared/api/drain-record.ts';
import type { Effect } from '#shared/kernel/effect.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import { decide } from '#functions/drain-step/decide.ts';
import type { DrainDecision } from '#functions/drain-step/moves.ts';
import { type DrainBuilder, now } from './a-drain.ts';

export function look(drain: DrainBuilder, at: Instant = now): DrainDecision {
  return decide(drain.build(), at);
}

export function effectsOf(decision: DrainDecision): readonly Effect[] {
  return decision.effects;
}

/** The record the decision leaves: `null` when it clears it, `undefined` when it does not touch it. */
export function nextRecord(decision: DrainDecision): DrainRecord | null | undefined {
  const advance = effectsOf(decision).findLast((effect) => effect.kind === 'advance');
  return advance === undefined ? undefined : (advance.record as DrainRecord | null);
}

export function conditionIn(decision: DrainDecision): Condition | undefined {
  const apply = effectsOf(decision).find((effect) => effect.kind === 'applyStatus');
  return (apply?.status['conditions'] as Condition[] | undefined)?.[0];
}
