import * as z from 'zod';
import { type Instant, toText } from '#shared/kernel/instant.ts';

/** A standard Kubernetes condition. Each type is written by one step. */
export const conditionSchema = z.object({
  type: z.string().min(1).max(316).meta({ description: 'What it is about.' }),
  status: z.enum(['True', 'False', 'Unknown']).meta({ description: 'Whether it holds.' }),
  observedGeneration: z
    .int()
    .min(0)
    .meta({ description: 'The `metadata.generation` it was found under.', format: 'int64' }),
  lastTransitionTime: z
    .string()
    .meta({ description: 'When `status` last changed.', format: 'date-time' }),
  reason: z.string().min(1).max(1024).meta({ description: 'Why, as one CamelCase word.' }),
  message: z.string().max(32_768).meta({ description: 'Why, as a sentence for people.' }),
});

/** Every type that a step writes. */
const conditionTypes: readonly string[] = [
  'Ready',
  'Reconciling',
  'Stalled',
  'PodsUpToDate',
  'Drained',
  'TopologyClean',
  'BackupsOnSchedule',
  'BackupConfigured',
  'Released',
];

export type Condition = z.output<typeof conditionSchema>;

/** Whether a step wrote it: only then it is known where its words come from. */
export function isOfStep({ type }: Pick<Condition, 'type'>): boolean {
  return conditionTypes.includes(type);
}

/** What a step says; the rest of a condition follows from it and from what stood before. */
export type ConditionFacts = Pick<Condition, 'type' | 'status' | 'reason' | 'message'>;

/**
 * A step's own conditions as it applies them, and nobody else's: its field manager owns these items of the list alone.
 * `lastTransitionTime` is kept while `status` is the same.
 *
 * @param existing every condition on the object, whoever wrote it
 * @param generation the target's `metadata.generation` that the step looked at
 */
export function applyConditions(
  existing: readonly Condition[],
  own: readonly ConditionFacts[],
  generation: number,
  now: Instant,
): Condition[] {
  return own.map(({ type, status, reason, message }) => {
    const before = existing.find((condition) => condition.type === type);
    const lastTransitionTime = before?.status === status ? before.lastTransitionTime : toText(now);
    return { type, status, observedGeneration: generation, lastTransitionTime, reason, message };
  });
}

/** Whether every condition of `own` already stands like that, since whenever: then nothing is to be written. */
export function hasConditions(existing: readonly Condition[], own: readonly Condition[]): boolean {
  return own.every((condition) => {
    const before = existing.find(({ type }) => type === condition.type);
    return (
      before !== undefined &&
      before.status === condition.status &&
      before.reason === condition.reason &&
      before.message === condition.message &&
      before.observedGeneration === condition.observedGeneration
    );
  });
}
