import { type Instant, parseInstant, plusSeconds } from '#shared/kernel/instant.ts';
import type { JsonObject } from '#shared/kube/json.ts';
import type { ResourceKind } from '#shared/kube/resources.ts';
import { Refusal, conflict } from './api-answers.ts';
import { numberAt, objectAt, textAt, withFields } from './json-data.ts';
import { kindRules, timeText } from './kind-rules.ts';
import type { StoredObject } from './object-shelf.ts';

/** Keeps an object until those it owns are gone, and until they were told to forget it. */
export const foregroundDeletion = 'foregroundDeletion';
export const orphanDependents = 'orphan';

const finalizersByPolicy: { readonly [policy: string]: readonly string[] } = {
  Foreground: [foregroundDeletion],
  Orphan: [orphanDependents],
  Background: [],
};

export interface DeletionOptions {
  readonly gracePeriodSeconds: number | undefined;
  readonly propagationPolicy: string | undefined;
}

/** How an object goes; see `Store.Delete` in apiserver. */
export type Departure =
  /** It is gone with this request. */
  | { readonly kind: 'atOnce' }
  /** It is marked, and stays for others to finish. */
  | { readonly kind: 'marked'; readonly object: StoredObject }
  /** It is marked, and gone right after: two writes. */
  | { readonly kind: 'markedAndGone'; readonly object: StoredObject }
  /** It is going already, and this request changes nothing. */
  | { readonly kind: 'unchanged' };

export function refusePreconditions(
  kind: ResourceKind,
  { metadata }: StoredObject,
  preconditions: JsonObject,
): Refusal | undefined {
  const refused = (why: string) => new Refusal(conflict(kind, metadata.name, why, kind));
  const uid = textAt(preconditions, 'uid');
  if (uid !== undefined && uid !== metadata.uid) {
    return refused(
      `the UID in the precondition (${uid}) does not match the UID in record (${metadata.uid}). The object might have been deleted and then recreated`,
    );
  }
  const version = textAt(preconditions, 'resourceVersion');
  return version === undefined || version === metadata.resourceVersion
    ? undefined
    : refused(
        `the ResourceVersion in the precondition (${version}) does not match the ResourceVersion in record (${metadata.resourceVersion}). The object might have been modified`,
      );
}

export function departureOf(
  kind: ResourceKind,
  object: StoredObject,
  options: DeletionOptions,
  now: Instant,
): Departure {
  if (kind === 'Namespace') {
    return { kind: 'marked', object: terminating(object, now) };
  }
  const grace =
    kindRules[kind].isGraceful === true
      ? gracePeriod(object, options.gracePeriodSeconds, now)
      : ({ kind: 'none' } as const);
  if (grace.kind === 'pending') {
    return { kind: 'unchanged' };
  }
  const graced = grace.kind === 'graceful' ? grace.object : object;
  const finalizers = finalizersFor(object, options.propagationPolicy);
  const kept = withFields(graced, {
    metadata: withFields(graced.metadata, {
      finalizers: finalizers.length === 0 ? undefined : finalizers,
    }),
  });
  if (grace.kind === 'none') {
    return finalizers.length === 0
      ? { kind: 'atOnce' }
      : { kind: 'marked', object: markedAsDeleting(kept, now) };
  }
  return finalizers.length > 0 || grace.seconds > 0
    ? { kind: 'marked', object: kept }
    : { kind: 'markedAndGone', object: kept };
}

/** A namespace goes when it is empty, which its controller sees to. */
function terminating(namespace: StoredObject, now: Instant): StoredObject {
  const deletionTimestamp = namespace.metadata.deletionTimestamp ?? timeText(now);
  return withFields(namespace, {
    metadata: withFields(namespace.metadata, { deletionTimestamp }),
    status: withFields(objectAt(namespace, 'status'), { phase: 'Terminating' }),
  });
}

/** The finalizers of garbage collection follow from this request alone; all others stay. */
function finalizersFor(
  { metadata: { finalizers = [] } }: StoredObject,
  policy: string | undefined,
): readonly string[] {
  const isOfCollection = (name: string) => name === foregroundDeletion || name === orphanDependents;
  const others = finalizers.filter((name) => !isOfCollection(name));
  const wanted = policy === undefined ? undefined : finalizersByPolicy[policy];
  return wanted === undefined ? finalizers : [...others, ...wanted];
}

function markedAsDeleting(object: StoredObject, now: Instant): StoredObject {
  const { deletionTimestamp, generation } = object.metadata;
  return withFields(object, {
    metadata: withFields(object.metadata, {
      deletionTimestamp: deletionTimestamp ?? timeText(now),
      deletionGracePeriodSeconds: 0,
      ...(deletionTimestamp === undefined && generation !== undefined
        ? { generation: generation + 1 }
        : {}),
    }),
  });
}

type GracePeriod =
  /** None is kept: the object is not of a kind that has one, or its time is over. */
  | { readonly kind: 'none' }
  /** It runs already, and is no shorter for this request. */
  | { readonly kind: 'pending' }
  | { readonly kind: 'graceful'; readonly seconds: number; readonly object: StoredObject };

/**
 * The time a pod gets; see `BeforeDelete` in apiserver and `CheckGracefulDelete` of pods.
 *
 * @param asked seconds, by whoever deletes; `undefined` leaves it to the pod
 */
function gracePeriod(pod: StoredObject, asked: number | undefined, now: Instant): GracePeriod {
  const { deletionTimestamp, deletionGracePeriodSeconds = 0 } = pod.metadata;
  const wanted = asked !== undefined && asked < 0 ? 1 : asked;
  if (deletionTimestamp === undefined) {
    return begun(pod, wanted, now);
  }
  if (deletionGracePeriodSeconds === 0) {
    return { kind: 'none' };
  }
  return wanted === undefined || wanted >= deletionGracePeriodSeconds
    ? { kind: 'pending' }
    : shortened(pod, wanted, now);
}

/** A pod that no node has, or that has ended, needs no time. */
function begun(pod: StoredObject, asked: number | undefined, now: Instant): GracePeriod {
  const spec = objectAt(pod, 'spec');
  const phase = textAt(objectAt(pod, 'status'), 'phase');
  const isUnbound = (textAt(spec, 'nodeName') ?? '') === '';
  const hasEnded = phase === 'Failed' || phase === 'Succeeded';
  const seconds =
    isUnbound || hasEnded ? 0 : (asked ?? numberAt(spec, 'terminationGracePeriodSeconds') ?? 0);
  return {
    kind: 'graceful',
    seconds,
    object: withFields(pod, {
      metadata: withFields(pod.metadata, {
        deletionTimestamp: timeText(plusSeconds(now, seconds)),
        deletionGracePeriodSeconds: seconds,
        generation: (pod.metadata.generation ?? 0) + 1,
      }),
    }),
  };
}

/** The time may only become shorter, and never ends in the past. */
function shortened(pod: StoredObject, asked: number, now: Instant): GracePeriod {
  const { deletionTimestamp, deletionGracePeriodSeconds = 0 } = pod.metadata;
  const end = parseInstant(deletionTimestamp) ?? now;
  const wanted = plusSeconds(end, asked - deletionGracePeriodSeconds);
  const isPast = wanted < now;
  const seconds = isPast && asked !== 0 ? 1 : asked;
  return {
    kind: 'graceful',
    seconds,
    object: withFields(pod, {
      metadata: withFields(pod.metadata, {
        deletionTimestamp: timeText(isPast ? now : wanted),
        deletionGracePeriodSeconds: seconds,
      }),
    }),
  };
}
