import * as z from 'zod';
import { type Instant, toText } from '#shared/kernel/instant.ts';
import type { StepName } from '#shared/api/steps.ts';

/** Why a hint was sent. For people and metrics only: no decision depends on it. */
export const hintCauses = ['changed', 'deleted', 'wake', 'resync', 'replay'] as const;
export type HintCause = (typeof hintCauses)[number];

const dnsLabel = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;
const dnsName = /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/;

/**
 * A CloudEvents 1.0 structured JSON message: "look at this target"; never a fact.
 *
 * Fields that are not named here and other causes are read as well, and mean nothing: a newer relay may write them while
 * older functions still run, and all that a hint can bring about is an early look.
 */
export const hintSchema = z
  .object({
    specversion: z.literal('1.0'),
    /** `<target uid>/<resourceVersion or tick>/<step>` */
    id: z.string().min(1).max(200),
    /** The cluster id. */
    source: z.string().min(1).max(100),
    type: z.string().regex(/^dev\.millrace\.hint\.[a-z]{1,20}$/),
    /** `<plural>/<namespace>/<name>` */
    subject: z.string().max(400),
    time: z.iso.datetime(),
    datacontenttype: z.literal('application/json'),
    data: z.object({
      kind: z.string().regex(/^[A-Z][A-Za-z]{0,62}$/),
      namespace: z.string().regex(dnsLabel),
      name: z.string().regex(dnsName),
      uid: z.string().min(1).max(64),
      resourceVersion: z.string().max(64).optional(),
      traceparent: z.string().max(64).optional(),
    }),
  })
  .readonly();

export type Hint = z.infer<typeof hintSchema>;

/** The longest message ever sent, in bytes. */
export const maxHintBytes = 1024;

/** The object a hint is about. `plural` is its resource's plural name: `shards`. */
interface HintTarget {
  readonly kind: string;
  readonly plural: string;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** The last version the sender saw; absent where it saw none. */
  readonly resourceVersion?: string;
}

export interface HintFacts {
  readonly step: StepName;
  readonly cause: HintCause;
  /** The cluster id. */
  readonly source: string;
  readonly target: HintTarget;
  /** What moved: a resourceVersion, or the tick of a timer in milliseconds since the epoch. */
  readonly token: string;
  /** When the sender learned of it. */
  readonly at: Instant;
  /** W3C trace context, where there is one. */
  readonly traceparent?: string;
}

/**
 * Builds the hint of a step about a target. The same facts give the same id. Where there is no room for a trace context it
 * goes without: a hint is worth more than a trace.
 *
 * Throws a RangeError when it would be longer than {@link maxHintBytes}: only names far beyond those that the API
 * admits can do that.
 */
export function makeHint({ traceparent, ...facts }: HintFacts): Hint {
  const hint = hintOf(facts);
  const bytes = bytesOf(hint);
  if (bytes > maxHintBytes) {
    const { kind, namespace, name } = facts.target;
    throw new RangeError(`a hint about ${kind} ${namespace}/${name} would have ${bytes} bytes`);
  }
  if (traceparent === undefined) {
    return hint;
  }
  const traced = { ...hint, data: { ...hint.data, traceparent } };
  return bytesOf(traced) > maxHintBytes ? hint : traced;
}

function bytesOf(hint: Hint): number {
  return Buffer.byteLength(JSON.stringify(hint));
}

function hintOf(facts: Omit<HintFacts, 'traceparent'>): Hint {
  const { kind, plural, namespace, name, uid, resourceVersion } = facts.target;
  return {
    specversion: '1.0',
    id: `${uid}/${facts.token}/${facts.step}`,
    source: facts.source,
    type: `dev.millrace.hint.${facts.cause}`,
    subject: `${plural}/${namespace}/${name}`,
    time: toText(facts.at),
    datacontenttype: 'application/json',
    data: {
      kind,
      namespace,
      name,
      uid,
      ...(resourceVersion === undefined ? {} : { resourceVersion }),
    },
  };
}

/** `millrace-<stage>-<step>`, and its dead-letter queue. */
export function queueName(stage: string, step: StepName): string {
  return `millrace-${stage}-${step}`;
}

export function deadLetterQueueName(stage: string, step: StepName): string {
  return `${queueName(stage, step)}-dlq`;
}
