import type { Instant } from '#shared/kernel/instant.ts';
import type { JsonObject } from '#shared/kube/json.ts';
import { Refusal, conflict, staleUid } from './api-answers.ts';
import { freeze, isObject, listAt, objectAt, textAt, withFields } from './json-data.ts';
import { timeText } from './kind-rules.ts';
import type { StoredObject } from './object-shelf.ts';

/** A pod on the node that a Binding names, or the answer that refuses it; see `BindingREST` of pods. */
export function boundPod(
  pod: StoredObject,
  binding: JsonObject | undefined,
  now: Instant,
): StoredObject | Refusal {
  const { name, uid } = pod.metadata;
  const wanted = textAt(objectAt(binding, 'metadata'), 'uid') ?? '';
  if (wanted !== '' && wanted !== uid) {
    return new Refusal(staleUid('Pod', pod.metadata.namespace, name, wanted, uid));
  }
  const spec = objectAt(pod, 'spec');
  const why = refusal(pod, spec);
  if (why !== undefined) {
    return new Refusal(conflict('Pod', name, why, 'pods/binding'));
  }
  const status = objectAt(pod, 'status');
  const scheduled = {
    type: 'PodScheduled',
    status: 'True',
    lastProbeTime: null,
    lastTransitionTime: timeText(now),
  };
  const others = listAt(status, 'conditions').filter(
    (condition) => !isObject(condition) || condition['type'] !== scheduled.type,
  );
  return withFields(pod, {
    spec: withFields(spec, { nodeName: textAt(objectAt(binding, 'target'), 'name') ?? '' }),
    status: withFields(status, { conditions: freeze([...others, scheduled]) }),
  });
}

function refusal(pod: StoredObject, spec: JsonObject): string | undefined {
  const { name, deletionTimestamp } = pod.metadata;
  if (deletionTimestamp !== undefined) {
    return `pod ${name} is being deleted, cannot be assigned to a host`;
  }
  const node = textAt(spec, 'nodeName') ?? '';
  if (node !== '') {
    return `pod ${name} is already assigned to node "${node}"`;
  }
  return listAt(spec, 'schedulingGates').length > 0
    ? `pod ${name} has non-empty .spec.schedulingGates`
    : undefined;
}
