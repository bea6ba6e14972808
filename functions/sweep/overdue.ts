import type { Route } from '#events/routes.ts';
import { recordAnnotation } from '#shared/api/annotations.ts';
import type { ObjectMetadata } from '#shared/api/metadata.ts';
import { type Instant, parseInstant } from '#shared/kernel/instant.ts';
import { type Wake, wakeOf } from '#shared/kernel/record.ts';

/** What is looked at of a target, whatever its kind. */
export interface SweptTarget {
  readonly metadata: ObjectMetadata;
  readonly status?: { readonly conditions?: readonly SweptCondition[] | undefined };
}

interface SweptCondition {
  readonly type: string;
  readonly observedGeneration?: number;
}

/**
 * Whether a step should have looked at a target by now, as far as the target itself tells: the step's record asks for it,
 * or a condition of the step has not observed the present generation, which includes that it was never written.
 *
 * Pure, and rather too often yes than no: a hint that was not needed costs one look, one that was not sent costs whatever
 * waits for it.
 */
export function isOverdue(route: Route, target: SweptTarget, now: Instant): boolean {
  const record = target.metadata.annotations?.[recordAnnotation(route.step)];
  const wake = record === undefined ? undefined : wakeOf(record);
  return (wake !== undefined && isDue(wake, now)) || !hasObserved(route, target);
}

/** An `every` always is: looking writes nothing, so nobody but the relay knows when its seconds began. */
function isDue(wake: Wake, now: Instant): boolean {
  // The record's schema admits only times; were it none, looking at once is the safe reading.
  return 'every' in wake || (parseInstant(wake.at) ?? now) <= now;
}

function hasObserved({ ownConditions }: Route, { metadata, status }: SweptTarget): boolean {
  return ownConditions.every((type) =>
    status?.conditions?.some(
      (condition) =>
        condition.type === type && condition.observedGeneration === metadata.generation,
    ),
  );
}
