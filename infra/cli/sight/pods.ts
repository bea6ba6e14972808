import type { Instant } from '#shared/kernel/instant.ts';
import { pods as podReasons } from './catalogue/pods.ts';
import { ownRecord } from './records.ts';
import type { Finding, Scene } from './scene.ts';
import { conditionOf } from './seen.ts';
import { isOverdue } from './words.ts';

/**
 * What pool-pods is at. `Reconciling` and `Stalled` tell what other steps are at as well, so only reasons that are its own
 * count there, or the one that its record gives.
 */
export function poolPodsFinding({ target, now }: Scene): Finding {
  const ready = conditionOf(target, 'Ready');
  const lookedAt = ready?.observedGeneration;
  const record = ownRecord('pool-pods', target);
  const told = [conditionOf(target, 'Stalled'), conditionOf(target, 'Reconciling')];
  if (record.kind === 'ours') {
    const { reason, since } = record.record;
    const message = told.find((condition) => condition?.reason === reason)?.message;
    return { reason, message, since, isSettled: false, lookedAt };
  }
  const own = told.find(
    (condition) => condition?.status === 'True' && condition.reason in podReasons,
  );
  if (own !== undefined) {
    const { reason, message, lastTransitionTime: since } = own;
    const overdue = neverFollowed(reason, target.toldAt['pool-pods'], now);
    const overdueBrief = 'what it began does not come to an end';
    return { reason, message, since, isSettled: false, lookedAt, overdue, overdueBrief };
  }
  const upToDate = conditionOf(target, 'PodsUpToDate');
  const isBehind = ready?.status === 'True' && upToDate?.status === 'False';
  const shown = isBehind ? upToDate : ready;
  return {
    reason: shown?.reason ?? '',
    message: shown?.message,
    since: shown?.lastTransitionTime,
    isSettled: ready?.status === 'True' && shown?.reason !== 'SurplusMembers',
    lookedAt,
  };
}

/**
 * The status is written before the objects: where it stays, what was begun has failed, and looks at it fail again. Since when it
 * stands is what its writer's own time says: the condition's would be that of a longer story.
 */
function neverFollowed(
  reason: string,
  begun: Instant | undefined,
  now: Instant,
): string | undefined {
  return (reason === 'ObjectsMade' || reason === 'ObjectsUpdated') &&
    begun !== undefined &&
    isOverdue(begun, now)
    ? 'it began something that takes seconds, and has not told of an end: the writes may be refused, which Events of the Shard say'
    : undefined;
}
