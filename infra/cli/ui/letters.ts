import type { LetterGroup as FoundGroup } from '#events/replay/list-letters.ts';
import { nameOfTarget } from '#events/replay/selection.ts';
import type { StepName } from '#shared/api/steps.ts';
import { stepNames } from '#shared/api/steps.ts';
import { describeError } from '#shared/kernel/errors.ts';
import type { DeadLetters as Desk, History } from '../replay/dead-letters.ts';
import type { LookBefore, Preview } from '../replay/preview.ts';
import { letterSummary, listRemarks } from '../replay/told.ts';
import { parseTarget } from '../target.ts';
import type { LetterPorts, StepOrder } from './ports.ts';
import type {
  DeadLetterQueue,
  DeadLetters,
  LetterGroup,
  LetterPreview,
  ReplayOutcome,
} from './protocol.ts';

/** The most letters of one step that are looked at for the page. More are a matter for `millrace replay`. */
const mostLetters = 5_000;

/** As `millrace replay` does when it is not told otherwise, hints a second. */
const rate = 50;

export interface LetterDesk {
  readonly desk: Pick<Desk, 'list' | 'preview' | 'replay'>;
  /** Absent where there is no archive. */
  readonly history?: History;
  readonly canWrite: boolean;
}

/** The dead-letter queues as the page knows them; the same as `millrace replay` does it, under the same journal. */
export function letterPorts({ desk, history, canWrite }: LetterDesk): LetterPorts {
  /** What the last list found, so that a preview looks at what the page shows. */
  const found = new Map<StepName, readonly FoundGroup[]>();
  let listing: Promise<DeadLetters> | undefined;

  async function listAll(): Promise<DeadLetters> {
    const signal = new AbortController().signal;
    const queues = await Promise.all(
      stepNames.map(async (step): Promise<DeadLetterQueue> => {
        const list = await desk.list(
          { steps: [step], selection: selectionOf(step, []), limit: mostLetters },
          signal,
        );
        found.set(step, list.groups);
        const before = (await history?.(list.groups, signal)) ?? (() => undefined);
        return {
          step,
          groups: list.groups.map((group) => toldGroup(group, before(group))),
          refused: listRemarks(list),
          seen: list.counts.seen,
          isCut: list.cut.length > 0 || list.counts.seen >= mostLetters,
        };
      }),
    );
    return { kind: 'read', queues };
  }

  return {
    // A pass has the letters in hand for as long as it takes, and a second one beside it would find none. So it goes on to its
    // end when a browser goes away, and whoever asks meanwhile is told the same.
    list() {
      listing ??= listAll().finally(() => {
        listing = undefined;
      });
      return listing;
    },
    async preview({ step, targets }, signal) {
      const groups = (found.get(step) ?? []).filter(({ target }) =>
        targets.includes(nameOfTarget(target)),
      );
      return (await desk.preview(groups, signal)).map(toldPreview);
    },
    ...(canWrite ? { replay: (order, signal) => replayed(desk, order, signal) } : {}),
  };
}

async function replayed(
  desk: LetterDesk['desk'],
  { step, targets }: StepOrder,
  signal: AbortSignal,
): Promise<ReplayOutcome> {
  const remarks: string[] = [];
  const { counts, cut, error } = await desk.replay(
    {
      steps: [step],
      selection: selectionOf(step, targets),
      rate,
      onRemark: ({ kind, why }) => {
        if (kind === 'failed' || kind === 'undeleted') {
          remarks.push(why);
        }
      },
    },
    signal,
  );
  // Letters of other targets were not asked for, so that they stay is no news.
  const told = letterSummary({ ...counts, left: 0, refused: 0 }, cut);
  const failure = error === undefined ? [] : [`it ended before its end: ${describeError(error)}`];
  return { sent: counts.sent, says: [...told, ...failure, ...new Set(remarks)] };
}

/** @throws UsageError where what the page sent is no target */
function selectionOf(step: StepName, targets: readonly string[]) {
  return {
    targets: targets.map((text) => parseTarget(text, undefined)),
    namespaces: [],
    steps: [step],
    reasons: [],
  };
}

function toldGroup(
  { target, letters, newest, oldestTime }: FoundGroup,
  before: LookBefore | undefined,
): LetterGroup {
  return {
    target: nameOfTarget(target),
    letters,
    cause: newest.type.split('.').at(-1) ?? newest.type,
    newest: newest.time,
    oldest: oldestTime,
    ...(before === undefined
      ? {}
      : { failure: `${before.outcome} ${before.reason} at ${before.at}` }),
  };
}

function toldPreview({ target, now }: Preview): LetterPreview {
  const name = nameOfTarget(target);
  switch (now.kind) {
    case 'gone':
      return { target: name, message: 'the target is gone: nothing would be done', effects: [] };
    case 'failed':
      return { target: name, outcome: 'failed', reason: now.reason, message: now.why, effects: [] };
    case 'decided': {
      const unknown = now.unknown.map((why) => `; not read here: ${why}`).join('');
      const { outcome, reason, message, effects } = now;
      return { target: name, outcome, reason, message: `${message}${unknown}`, effects };
    }
  }
}
