import { type Hint, hintSchema, maxHintBytes } from '#events/hint.ts';
import { targetOf } from '#events/routes.ts';
import type { DecisionEntry } from '#shared/archive/entry.ts';
import { type Instant, toText } from '#shared/kernel/instant.ts';
import { otherCluster, readHint } from '#shared/kernel/read-hint.ts';
import { resourceTypes, shortNames, type TargetKind } from '#shared/kube/resources.ts';
import { type StepName, stepNames } from '#shared/api/steps.ts';

/** A hint that can be sent again, to the queue of its step. */
export interface Replayable {
  readonly step: StepName;
  /** As it was sent the first time, without fields that this release does not know. */
  readonly hint: Hint;
}

/** Why something is not sent again. `foreign`: it may be a good hint of another cluster. */
export interface Refusal {
  readonly kind: 'noHint' | 'foreign';
  readonly why: string;
}

/**
 * The hint in a message of a step's queue, if the step's function would accept it.
 *
 * @param cluster the cluster id
 */
export function replayableOf(body: string, step: StepName, cluster: string): Replayable | Refusal {
  const read = readHint(body, targetOf(step), {
    MILLRACE_CLUSTER_ID: cluster,
    MILLRACE_NAMESPACES: [],
  });
  return typeof read === 'string'
    ? { kind: read === otherCluster ? 'foreign' : 'noHint', why: read }
    : { step, hint: read };
}

/** The step that a hint was made for, as its id says; `undefined` where that is none. */
export function stepInHint(body: unknown): StepName | undefined {
  const parsed = hintSchema.safeParse(body);
  const last = parsed.success ? parsed.data.id.split('/').at(-1) : undefined;
  return stepNames.find((name) => name === last);
}

/** The hint that a recorded look was made for: what the entry says of it is all that a look needs. */
export function hintOfEntry({ target, hint, cluster }: DecisionEntry): Hint {
  const { kind, namespace, name, uid } = target;
  const known = (Object.keys(shortNames) as TargetKind[]).find((each) => each === kind);
  return {
    specversion: '1.0',
    id: hint.id,
    source: cluster,
    type: hint.type,
    subject: `${known === undefined ? kind : resourceTypes[known].plural}/${namespace}/${name}`,
    time: hint.time,
    datacontenttype: 'application/json',
    data: { kind, namespace, name, uid },
  };
}

/**
 * The message that is sent in place of an old one: the same id, as a replay of now. A trace of then says nothing about it.
 *
 * @throws RangeError where it would be longer than a hint may be
 */
export function messageAgain({ hint }: Replayable, now: Instant): string {
  const { traceparent: _, ...data } = hint.data;
  const text = JSON.stringify({
    ...hint,
    type: 'dev.millrace.hint.replay',
    time: toText(now),
    data,
  });
  const bytes = Buffer.byteLength(text);
  if (bytes > maxHintBytes) {
    throw new RangeError(`the hint would have ${bytes} bytes, and ${maxHintBytes} is its limit`);
  }
  return text;
}
