import { recordAnnotation } from '#shared/api/annotations.ts';
import type { Shard } from '#shared/api/shard.ts';
import type { DecisionEntry } from '#shared/archive/entry.ts';
import { parseInstant } from '#shared/kernel/instant.ts';
import { wakeOf } from '#shared/kernel/record.ts';
import { stepsOf } from '#events/routes.ts';
import type { KubeObject, TargetKind } from '#shared/kube/resources.ts';
import * as z from 'zod';
import type { Bar, Due, Lane, Mark, Outcome, Timeline } from './protocol.ts';

/** Everything that is known of a target's past. */
export interface Past {
  readonly target: KubeObject<TargetKind> & { readonly kind: string };
  readonly kind: TargetKind;
  /** In any order. */
  readonly entries: readonly DecisionEntry[];
  readonly events: readonly ToldEvent[];
  /** The pods that are there now. */
  readonly members: readonly string[];
  readonly from: number;
  readonly now: number;
  /** What could not be read, and why. */
  readonly gaps: readonly string[];
}

/** A Kubernetes Event about the target, as far as it is shown. */
export interface ToldEvent {
  readonly at: number;
  /** Whoever told it; the steps tell their own names. */
  readonly by: string;
  readonly isWarning: boolean;
  readonly reason: string;
  readonly message: string;
}

/** The most marks that are handed to a browser, the newest. */
export const maxMarks = 10_000;

/** An Event that comes so soon after a decision of the same words is that decision told once more, in milliseconds. */
const sameMs = 10_000;

const backupsLane = 'backups';

/** What became of a target, as a picture shows it. Pure. */
export function timelineOf(past: Past): Timeline {
  const steps: readonly string[] = stepsOf(past.kind);
  const decisions = past.entries.map(markOf);
  const told = pastEvents(past, decisions);
  const all = [...decisions, ...told]
    .filter(({ at }) => at >= past.from && at <= past.now)
    .toSorted((one, other) => one.at - other.at);
  const drafts = all.slice(-maxMarks);
  const members = membersOf(past);
  const nameIn = finder(members);
  const bars = [...stateBars(past, steps), ...backupBars(past, drafts)];
  const due = [...dueLooks(past, steps), ...dueBackups(past)];
  const hasBackups = [...bars, ...due].some(({ lane }) => lane === backupsLane);
  const extra = [...new Set(drafts.map(({ step }) => step))].filter((id) => !steps.includes(id));
  const lanes: Lane[] = [
    ...steps.map((id) => ({ id, kind: 'step' as const })),
    ...extra.map((id) => ({ id, kind: 'step' as const })),
    ...(hasBackups ? [{ id: backupsLane, kind: 'backups' as const }] : []),
    ...members.map((id) => ({ id, kind: 'member' as const })),
  ];
  const laneOf = new Map(lanes.map(({ id }, place) => [id, place]));
  const placed = <T extends { readonly lane: string }>({ lane, ...rest }: T) => ({
    ...rest,
    lane: laneOf.get(lane) ?? 0,
  });
  return {
    from: past.from,
    to: past.now,
    lanes,
    marks: drafts.map(({ step, ...mark }) => {
      const member = laneOf.get(nameIn([mark.message, ...mark.effects].join('\n')) ?? '');
      return { ...mark, lane: laneOf.get(step) ?? 0, ...(member === undefined ? {} : { member }) };
    }),
    bars: bars.map(placed),
    due: due.map(placed),
    gaps: [
      ...past.gaps,
      ...(all.length > maxMarks
        ? [
            `only the newest ${maxMarks.toLocaleString('en')} of ${all.length.toLocaleString('en')} are shown`,
          ]
        : []),
    ],
  };
}

type Draft = Omit<Mark, 'lane' | 'member'> & { readonly step: string };

function markOf({ at, step, decision, result }: DecisionEntry): Draft {
  const outcome: Outcome = result.kind === 'done' ? (decision?.outcome ?? 'settled') : result.kind;
  const failure = result.kind === 'failed' ? result : undefined;
  return {
    at: Date.parse(at),
    step,
    outcome,
    reason: failure?.reason ?? decision?.reason ?? 'unknown',
    message: [failure === undefined ? '' : endings[failure.ending], decision?.message ?? '']
      .filter(Boolean)
      .join('; '),
    // In their order; a race is lost at the first that was not performed.
    effects:
      result.kind === 'failed'
        ? []
        : (decision?.effects ?? []).slice(0, result.effects.length).map(effectText),
  };
}

const endings: Readonly<Record<'ended' | 'returned' | 'unexpected', string>> = {
  ended: 'the look failed, and is not made again for this hint',
  returned: 'the look failed, and is made again',
  unexpected: 'the look failed in a way that nobody foresaw, and is made again',
};

type ToldEffect = NonNullable<DecisionEntry['decision']>['effects'][number];

/** A write in a few words: `deleteObject Pod orders-0`, `advance to draining`. */
function effectText(effect: ToldEffect): string {
  const object = objectOf(effect);
  if (object !== undefined) {
    return `${effect.kind} ${object.kind} ${object.name}`;
  }
  const { record } = effect;
  if (record === null) {
    return 'record cleared';
  }
  return isFields(record) && typeof record['state'] === 'string'
    ? `${effect.kind} to ${record['state']}`
    : effect.kind;
}

/** What an effect writes to. Looked at by hand: there are tens of thousands of them, and a schema takes ten times as long. */
function objectOf({
  object,
}: ToldEffect): { readonly kind: string; readonly name: string } | undefined {
  return isFields(object) &&
    typeof object['kind'] === 'string' &&
    typeof object['name'] === 'string'
    ? { kind: object['kind'], name: object['name'] }
    : undefined;
}

function isFields(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}

/** Events that say something else than a decision of the same time does. */
function pastEvents({ events, kind }: Past, decisions: readonly Draft[]): Draft[] {
  const steps: readonly string[] = stepsOf(kind);
  const known = new Map<string, number[]>();
  for (const { step, reason, at } of decisions) {
    const key = `${step} ${reason}`;
    const times = known.get(key) ?? [];
    times.push(at);
    known.set(key, times);
  }
  return events
    .filter(
      ({ by, reason, at }) =>
        !(known.get(`${by} ${reason}`) ?? []).some((other) => Math.abs(other - at) < sameMs),
    )
    .map(({ at, by, isWarning, reason, message }) => ({
      at,
      step: steps.includes(by) ? by : 'others',
      outcome: isWarning ? 'warning' : 'event',
      reason,
      message,
      effects: [],
    }));
}

/** Pods that are there, and those that decisions wrote. */
function membersOf({ members, entries }: Past): string[] {
  const written = entries.flatMap(({ decision }) =>
    (decision?.effects ?? []).flatMap((effect) => {
      const object = objectOf(effect);
      return object?.kind === 'Pod' ? [object.name] : [];
    }),
  );
  return [...new Set([...members, ...written])].toSorted();
}

/** Finds the first of some names that stands in a text, and not as a part of another name. */
function finder(names: readonly string[]): (text: string) => string | undefined {
  if (names.length === 0) {
    return () => undefined;
  }
  const longestFirst = names.toSorted((one, other) => other.length - one.length);
  const pattern = new RegExp(
    `(?<![a-z0-9-])(?:${longestFirst.map((name) => RegExp.escape(name)).join('|')})(?![a-z0-9-])`,
  );
  return (text) => pattern.exec(text)?.[0];
}

type Placed<T> = Omit<T, 'lane'> & { readonly lane: string };

const recordFields = z.looseObject({ uid: z.string(), state: z.string(), since: z.string() });

/** The state that each record is in, since it is in it. */
function stateBars({ target, now }: Past, steps: readonly string[]): Placed<Bar>[] {
  return steps.flatMap((step) => {
    const record = recordFields.safeParse(parseJson(recordOf(target, step)));
    const since = record.success ? parseInstant(record.data.since) : undefined;
    return record.success &&
      record.data.uid === target.metadata.uid &&
      since !== undefined &&
      since <= now
      ? [{ lane: step, kind: 'state' as const, from: since, title: record.data.state }]
      : [];
  });
}

/** What each record asks to be woken for. */
function dueLooks({ target, now }: Past, steps: readonly string[]): Placed<Due>[] {
  return steps.flatMap((step) => {
    const wake = wakeOf(recordOf(target, step) ?? '');
    const at = wake !== undefined && 'at' in wake ? parseInstant(wake.at) : undefined;
    return at !== undefined && at > now ? [{ lane: step, at, title: 'looks again' }] : [];
  });
}

function recordOf({ metadata }: Past['target'], step: string): string | undefined {
  return Object.entries(metadata.annotations ?? {}).find(
    ([key]) => key === recordAnnotation(step as Parameters<typeof recordAnnotation>[0]),
  )?.[1];
}

const startReason = 'BackupAsked';
const goodEnds: readonly string[] = ['BackupSucceeded', 'BackupAdopted'];
const badEnds: readonly string[] = [
  'BackupFailed',
  'BackupRefused',
  'BackupOverdue',
  'BackupOutcomeUnknown',
  'BackupToRepeat',
];

/**
 * Backups from start to end: those that decisions tell of, those that the status knows besides, and the one that runs. A Shard
 * makes one at a time, so the first end after a start is its own.
 */
function backupBars(past: Past, marks: readonly Draft[]): Placed<Bar>[] {
  const shard = shardOf(past);
  if (shard === undefined) {
    return [];
  }
  const told = toldBackups(marks);
  const known = (shard.status?.backups ?? []).flatMap(
    ({ schedule, lastSuccess, lastDurationSeconds = 0 }): Placed<Bar>[] => {
      const to = parseInstant(lastSuccess);
      const from = (to ?? 0) - lastDurationSeconds * 1000;
      return to === undefined || told.some((bar) => overlaps(bar, from, to))
        ? []
        : [{ lane: backupsLane, kind: 'succeeded', from, to, title: schedule }];
    },
  );
  const run = shard.status?.backupRun;
  const since = parseInstant(run?.since);
  const running: Placed<Bar>[] =
    run === undefined || since === undefined
      ? []
      : [
          {
            lane: backupsLane,
            kind: 'running',
            from: since,
            title: `${run.schedule}, ${run.type}`,
          },
        ];
  return [...told, ...known, ...running].toSorted((one, other) => one.from - other.from);
}

function toldBackups(marks: readonly Draft[]): Placed<Bar>[] {
  const bars: Placed<Bar>[] = [];
  let start: Draft | undefined;
  for (const mark of marks) {
    if (mark.step === 'backup-trigger' && mark.reason === startReason) {
      start ??= mark;
    }
    const isGood = goodEnds.includes(mark.reason);
    if (start !== undefined && (isGood || badEnds.includes(mark.reason))) {
      const kind = isGood ? 'succeeded' : 'failed';
      bars.push({ lane: backupsLane, kind, from: start.at, to: mark.at, title: mark.message });
      start = undefined;
    }
  }
  return bars;
}

function overlaps(bar: Pick<Bar, 'from' | 'to'>, from: number, to: number): boolean {
  return bar.from <= to && (bar.to ?? to) >= from;
}

function dueBackups(past: Past): Placed<Due>[] {
  return (shardOf(past)?.status?.backups ?? []).flatMap(({ schedule, next }) =>
    next.flatMap((text) => {
      const at = parseInstant(text);
      return at === undefined || at <= past.now ? [] : [{ lane: backupsLane, at, title: schedule }];
    }),
  );
}

function shardOf({ target }: Past): Shard | undefined {
  return target.kind === 'Shard' ? target : undefined;
}

function parseJson(text: string | undefined): unknown {
  try {
    return text === undefined ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}
