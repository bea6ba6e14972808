import { type Hint, type HintFacts, hintCauses, makeHint } from '#events/hint.ts';
import type { StepName } from '#shared/api/steps.ts';
import { type Instant, plusSeconds } from '#shared/kernel/instant.ts';

/** The Shard that the steps look after, as the relay knows it. */
export interface WaveTarget {
  readonly clusterId: string;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
}

/** Messages for one step's queue. */
export interface Wave {
  /** In the form of a hint of this cluster: they cause a look, or find no target. */
  readonly hints: readonly string[];
  /** Never looked at: the step refuses each until its dead-letter queue keeps it. */
  readonly garbage: readonly string[];
}

const duplicates = 60;
const oldHints = 20;
const forgedEach = 5;

/** The longest message that is sent: SQS takes 256 KiB. */
const longBytes = 200_000;
const nestedDeep = 10_000;
const yearSeconds = 365 * 24 * 3600;

/**
 * What may be in a queue that should not be: one hint many times over, hints that are old and in the wrong order, forged
 * ones, and what is no hint at all. The same input gives the same wave.
 */
export function makeWave(step: StepName, target: WaveTarget, now: Instant): Wave {
  const hint = hintFor(step, target, now);
  const { data } = hint;
  const forged = [
    { ...hint, data: { ...data, uid: '00000000-0000-4000-8000-000000000000' } },
    // The subject is for people: what is looked at is what the data names.
    { ...hint, subject: `shards/${target.namespace}/somebody-else` },
    { ...hint, data: { ...data, name: 'nobody' } },
    // Of a version to come, as far as anybody can tell: such fields mean nothing.
    { ...hint, also: { kind: 'Pod' } },
    // Whoever prints this field's name as it is lets a stranger clear their screen.
    { ...hint, '\u001B[2J\u001B[1;1H': true },
  ].flatMap((each) => Array.from({ length: forgedEach }, () => each));
  const hints = [
    ...Array.from({ length: duplicates }, () => hint),
    ...outdated(step, target, now),
    ...forged,
  ];
  return { hints: hints.map((each) => JSON.stringify(each)), garbage: garbageLike(hint) };
}

/** Hints and garbage mixed evenly, so that most batches hold both. */
export function mixed({ hints, garbage }: Wave): readonly string[] {
  const stride = Math.ceil(hints.length / garbage.length);
  return [
    ...garbage.flatMap((each, place) => [
      ...hints.slice(place * stride, (place + 1) * stride),
      each,
    ]),
    ...hints.slice(garbage.length * stride),
  ];
}

function hintFor(
  step: StepName,
  { clusterId, ...target }: WaveTarget,
  at: Instant,
  facts: Partial<HintFacts> = {},
): Hint {
  return makeHint({
    step,
    cause: 'changed',
    source: clusterId,
    target: { kind: 'Shard', plural: 'shards', ...target },
    token: target.resourceVersion,
    at,
    ...facts,
  });
}

/** A year old, the newest first, each with a version from before this Shard existed; some say that it is deleted. */
function outdated(step: StepName, target: WaveTarget, now: Instant): readonly Hint[] {
  return Array.from({ length: oldHints }, (_, place) => {
    const resourceVersion = String(oldHints - place);
    const at = plusSeconds(now, -yearSeconds - place * 60);
    const cause = hintCauses[place % hintCauses.length] ?? 'changed';
    return hintFor(step, { ...target, resourceVersion }, at, { cause });
  });
}

function garbageLike(hint: Hint): readonly string[] {
  const { data } = hint;
  const named = (name: unknown) => ({ ...hint, data: { ...data, name } });
  const objects: readonly unknown[] = [
    { ...hint, source: 'another-cluster' },
    { ...hint, data: { ...data, namespace: 'kube-system' } },
    { ...hint, data: { ...data, kind: 'Secret' }, subject: `secrets/${data.namespace}/token` },
    { ...hint, type: 'dev.millrace.hint.delete-everything' },
    { ...hint, specversion: 1 },
    { ...hint, data: null },
    { ...hint, ['x'.repeat(1_000)]: true },
    named(['orders']),
    named({ $ne: null }),
    named("orders'; DROP TABLE shards; --"),
    named('../../../../api/v1/namespaces/kube-system/secrets/token'),
    named('orders/status'),
    named('orders?dryRun=All'),
    named('%2e%2e%2fsecrets'),
    named('n'.repeat(1_000)),
    null,
    42,
    [],
    [hint],
  ];
  return [
    ...objects.map((each) => JSON.stringify(each)),
    'look at orders, please',
    '{"specversion":"1.0",',
    '{"__proto__":{"source":"another-cluster"}}',
    'x'.repeat(longBytes),
    '['.repeat(nestedDeep) + ']'.repeat(nestedDeep),
  ];
}
