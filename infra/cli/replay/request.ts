import { type Selection, parseMoment } from '#events/replay/selection.ts';
import { type StepName, stepNames } from '#shared/api/steps.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import type { OutputFlags } from '../output.ts';
import type { SettingsFlags } from '../settings.ts';
import { parseTarget } from '../target.ts';
import { UsageError } from '../usage-error.ts';

/** The options of `millrace replay` as commander hands them over. */
export interface ReplayFlags extends SettingsFlags, OutputFlags {
  /** `true` without the name of a step. */
  readonly dlq?: true | readonly string[];
  readonly archive?: string;
  readonly file?: string;
  readonly target?: readonly string[];
  readonly step?: readonly string[];
  readonly reason?: readonly string[];
  readonly since?: string;
  readonly until?: string;
  readonly limit?: string;
  readonly every?: boolean;
  readonly dryRun?: boolean;
  readonly rate?: string;
  readonly yes?: boolean;
  readonly discardInvalid?: boolean;
  readonly queueUrlPrefix?: string;
  readonly queueEndpoint?: string;
  readonly region?: string;
  /** Decisions are made again, instead of hints sent. */
  readonly decisions?: boolean;
  readonly ignoreWords?: boolean;
}

/** What is asked for, checked as far as it can be without asking anybody. */
export interface ReplayRequest {
  readonly source:
    /** With an archive that tells what was decided before, where one is given. */
    | { readonly kind: 'letters'; readonly archive?: string }
    | { readonly kind: 'archive'; readonly archive: string; readonly isEvery: boolean }
    | { readonly kind: 'file'; readonly path: string; readonly archive?: string };
  readonly steps: readonly StepName[];
  readonly selection: Selection;
  readonly limit?: number;
  readonly rate: number;
  readonly isDryRun: boolean;
  readonly isAgreed: boolean;
  readonly isDiscarding: boolean;
}

const defaultRate = 50;

/** SQS's own limit of what it moves back from a dead-letter queue (StartMessageMoveTask, MaxNumberOfMessagesPerSecond). */
export const mostRate = 500;

/** @throws UsageError naming the first thing that cannot be */
export function requestOf(flags: ReplayFlags, now: Instant): ReplayRequest {
  const source = sourceOf(flags);
  const named = [...(flags.dlq === true ? [] : (flags.dlq ?? [])), ...(flags.step ?? [])];
  const steps = named.length === 0 ? stepNames : [...new Set(named.map(stepOf))];
  if (flags.every === true && source.kind !== 'archive') {
    throw new UsageError('--every is about --archive: of letters and files every hint is sent');
  }
  const selection = selectionOf(flags, steps, now);
  const isDiscarding = flags.discardInvalid === true;
  if (isDiscarding && (source.kind !== 'letters' || isNarrow(selection))) {
    throw new UsageError(
      '--discard-invalid is about whole dead-letter queues: give it with --dlq, and without --target, -n, --since and --until',
    );
  }
  const limit = flags.limit === undefined ? undefined : countOf('--limit', flags.limit);
  return {
    source,
    steps,
    selection,
    rate: rateOf(flags.rate),
    isDryRun: flags.dryRun === true,
    isAgreed: flags.yes === true,
    isDiscarding,
    ...(limit === undefined ? {} : { limit }),
  };
}

/** Whether letters were left out by what they are about, so that what is none is nobody's concern. */
export function isNarrow(selection: Selection): boolean {
  const { targets, namespaces, reasons, since, until } = selection;
  return (
    targets.length + namespaces.length + reasons.length > 0 ||
    since !== undefined ||
    until !== undefined
  );
}

function sourceOf({ dlq, archive, file, every }: ReplayFlags): ReplayRequest['source'] {
  if (dlq !== undefined && file !== undefined) {
    throw new UsageError('give either --dlq or --file, not both');
  }
  const beside = archive === undefined ? {} : { archive };
  if (dlq !== undefined) {
    return { kind: 'letters', ...beside };
  }
  if (file !== undefined) {
    return { kind: 'file', path: file, ...beside };
  }
  if (archive === undefined) {
    throw new UsageError(
      'say what to replay: --dlq for dead letters, --archive <url>, or --file <path>',
    );
  }
  return { kind: 'archive', archive, isEvery: every === true };
}

function selectionOf(
  { target, namespace, reason, since, until }: ReplayFlags,
  steps: readonly StepName[],
  now: Instant,
): Selection {
  const namespaces = namespace ?? [];
  const only = namespaces.length === 1 ? namespaces[0] : undefined;
  const targets = (target ?? []).map((text) => parseTarget(text, only));
  const moments = {
    ...momentOf('since', since, now),
    ...momentOf('until', until, now),
  };
  return { targets, namespaces, steps, reasons: reason ?? [], ...moments };
}

function momentOf<Name extends 'since' | 'until'>(
  name: Name,
  text: string | undefined,
  now: Instant,
): { readonly [N in Name]?: Instant } {
  if (text === undefined) {
    return {};
  }
  const moment = parseMoment(text, now);
  if (moment === undefined) {
    throw new UsageError(
      `--${name} ${JSON.stringify(text)} is no time; write it as 2026-01-31T12:00:00Z, or as how long ago: 30m, 2h, 3d`,
    );
  }
  return { [name]: moment } as { readonly [N in Name]: Instant };
}

function stepOf(text: string): StepName {
  const step = stepNames.find((name) => name === text);
  if (step === undefined) {
    throw new UsageError(
      `there is no step ${JSON.stringify(text)}; there are: ${stepNames.join(', ')}`,
    );
  }
  return step;
}

function rateOf(text: string | undefined): number {
  const rate = text === undefined ? defaultRate : countOf('--rate', text);
  if (rate > mostRate) {
    throw new UsageError(
      `--rate ${rate} is more than ${mostRate} a second, which is the most that SQS’s own StartMessageMoveTask moves back`,
    );
  }
  return rate;
}

function countOf(option: string, text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) {
    throw new UsageError(`${option} ${JSON.stringify(text)} is no whole number from 1 on`);
  }
  return Number(text);
}
