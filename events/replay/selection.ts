import type { StepName } from '#shared/api/steps.ts';
import { type Instant, parseInstant, plusSeconds } from '#shared/kernel/instant.ts';
import { type TargetKind, shortNames } from '#shared/kube/resources.ts';

/** A target by its name: `shd/db/orders-0`. */
export interface TargetName {
  readonly kind: TargetKind;
  readonly namespace: string;
  readonly name: string;
}

/** Which hints are meant. What is empty or absent leaves none out. */
export interface Selection {
  readonly targets: readonly TargetName[];
  readonly namespaces: readonly string[];
  readonly steps: readonly StepName[];
  /** Reasons of decisions and failures. A hint without one fits only where none is asked for. */
  readonly reasons: readonly string[];
  /** The first moment that counts. */
  readonly since?: Instant;
  /** The first moment that no longer counts. */
  readonly until?: Instant;
}

export const everything: Selection = { targets: [], namespaces: [], steps: [], reasons: [] };

/** What a hint is chosen by. */
export interface HintTraits {
  readonly step: StepName;
  readonly target: { readonly kind: string; readonly namespace: string; readonly name: string };
  /** When it was sent, or decided about. */
  readonly at: Instant | undefined;
  readonly reason?: string;
}

export function isSelected(
  selection: Selection,
  { step, target, at, reason }: HintTraits,
): boolean {
  const { targets, namespaces, steps, reasons, since, until } = selection;
  return (
    (targets.length === 0 || targets.some((each) => isSame(each, target))) &&
    (namespaces.length === 0 || namespaces.includes(target.namespace)) &&
    (steps.length === 0 || steps.includes(step)) &&
    (reasons.length === 0 || (reason !== undefined && reasons.includes(reason))) &&
    (since === undefined || (at !== undefined && at >= since)) &&
    (until === undefined || (at !== undefined && at < until))
  );
}

function isSame(a: TargetName, b: HintTraits['target']): boolean {
  return a.kind === b.kind && a.namespace === b.namespace && a.name === b.name;
}

/**
 * A target as people write it: `shd/db/orders-0`, or `shd/orders-0` where one namespace goes without saying. `undefined` for
 * any other text.
 */
export function parseTargetName(
  text: string,
  namespace: string | undefined,
): TargetName | undefined {
  const parts = text.split('/');
  const [short, ...rest] = parts;
  const kind = targetKinds.find((each) => shortNames[each] === short);
  const [inNamespace, name] = rest.length === 1 ? [namespace, rest[0]] : rest;
  return kind === undefined || rest.length > 2 || !inNamespace || !name
    ? undefined
    : { kind, namespace: inNamespace, name };
}

const targetKinds: readonly TargetKind[] = ['Shard', 'Database', 'GoverseCluster'];

const secondsOf = { s: 1, m: 60, h: 3600, d: 86_400 } as const;

/** An RFC 3339 time, or how long ago: `30m`, `2h`, `3d`. `undefined` for any other text. */
export function parseMoment(text: string, now: Instant): Instant | undefined {
  const ago = /^(\d{1,6})([smhd])$/.exec(text);
  if (ago === null) {
    return parseInstant(text);
  }
  const unit = (Object.keys(secondsOf) as (keyof typeof secondsOf)[]).find(
    (each) => each === ago[2],
  );
  return unit === undefined ? undefined : plusSeconds(now, -Number(ago[1]) * secondsOf[unit]);
}

/** `shd/db/orders-0` */
export function nameOfTarget({ kind, namespace, name }: HintTraits['target']): string {
  const short = targetKinds.find((each) => each === kind);
  return `${short === undefined ? kind : shortNames[short]}/${namespace}/${name}`;
}
