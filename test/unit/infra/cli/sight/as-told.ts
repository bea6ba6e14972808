import { recordAnnotation } from '#shared/api/annotations.ts';
import type { Condition } from '#shared/api/condition.ts';
import type { StepName } from '#shared/api/steps.ts';
import type { Decision } from '#shared/kernel/decision.ts';
import type { Effect } from '#shared/kernel/effect.ts';
import { type Instant, toText } from '#shared/kernel/instant.ts';
import { recordText } from '#shared/kernel/record.ts';

/** An object as far as explanations look at it. */
export interface ToldObject {
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly uid: string;
    readonly generation: number;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly [field: string]: unknown;
  };
  readonly spec: Readonly<Record<string, unknown>>;
  readonly status?: Readonly<Record<string, unknown>>;
}

/** The object with what the decision's effects would leave on it, as of a time. */
export function asTold(
  object: ToldObject,
  step: StepName,
  decision: Decision,
  at?: Instant,
): ToldObject {
  const effects: readonly Effect[] = decision.effects;
  const told = effects.reduce((before, effect) => applied(before, step, effect), object);
  const managedFields =
    at === undefined
      ? []
      : [{ manager: step, subresource: 'status', time: toText(at), fieldsV1: {} }];
  return { ...told, metadata: { ...told.metadata, managedFields } };
}

function applied(object: ToldObject, step: StepName, effect: Effect): ToldObject {
  if (effect.kind === 'advance') {
    const annotations = { ...object.metadata.annotations };
    delete annotations[recordAnnotation(step)];
    if (effect.record !== null) {
      annotations[recordAnnotation(step)] = recordText(effect.record);
    }
    return { ...object, metadata: { ...object.metadata, annotations } };
  }
  if (effect.kind === 'applyStatus') {
    const own = (effect.status['conditions'] ?? []) as readonly Condition[];
    const before = (object.status?.['conditions'] ?? []) as readonly Condition[];
    const others = before.filter(({ type }) => !own.some((condition) => condition.type === type));
    const conditions = [...others, ...own];
    return { ...object, status: { ...object.status, ...effect.status, conditions } };
  }
  return object;
}
