import { type Hint, deadLetterQueueName } from '#events/hint.ts';
import type { StepName } from '#shared/api/steps.ts';
import type { Clock } from '#shared/kernel/instant.ts';
import type { LetterQueues } from '#shared/queue/queue.ts';
import type { ReplayJournal } from './journal.ts';
import { judge } from './judge.ts';
import { LetterPass } from './letter-pass.ts';
import type { Trying } from './patience.ts';
import {
  type LetterCounts,
  type LetterRemark,
  type LetterReplay,
  noCounts,
} from './replay-letters.ts';
import { nameOfTarget } from './selection.ts';

/** The dead letters of one step about one target: one look answers all of them. */
export interface LetterGroup {
  readonly step: StepName;
  readonly target: { readonly kind: string; readonly namespace: string; readonly name: string };
  readonly letters: number;
  /** The hint that was sent last. */
  readonly newest: { readonly id: string; readonly time: string; readonly type: string };
  /** When the first was sent. */
  readonly oldestTime: string;
}

export interface LetterList {
  readonly groups: readonly LetterGroup[];
  readonly counts: LetterCounts;
  readonly refused: readonly LetterRemark[];
  readonly cut: readonly StepName[];
}

/** Refused letters that are named one by one; the rest is counted. */
const maxNamed = 100;

export interface ListPorts {
  readonly letters: LetterQueues;
  readonly journal: Pick<ReplayJournal, 'stateOf'>;
  readonly trying: Trying;
  readonly clock: Clock;
  readonly onProgress?: (counts: LetterCounts) => void;
}

/**
 * What there is to replay. Every letter is received once and shown again at the end; nothing is sent or deleted. Counts `sent`
 * as what would be.
 */
export async function listLetters(
  replay: Pick<
    LetterReplay,
    'stage' | 'cluster' | 'steps' | 'selection' | 'limit' | 'hiddenSeconds'
  >,
  ports: ListPorts,
  signal: AbortSignal,
): Promise<LetterList> {
  const counts = noCounts();
  const groups = new Map<string, LetterGroup>();
  const refused: LetterRemark[] = [];
  const cut: StepName[] = [];
  const limit = replay.limit ?? Infinity;
  const startedAt = ports.clock();
  for (const step of replay.steps) {
    const queue = deadLetterQueueName(replay.stage, step);
    const pass = new LetterPass(ports.letters, queue, replay.hiddenSeconds, ports.trying);
    try {
      while (!signal.aborted && counts.sent < limit) {
        const letters = await pass.next();
        if (letters === undefined) {
          break;
        }
        for (const letter of letters) {
          pass.hold(letter);
          counts.seen += 1;
          const { cluster, selection } = replay;
          const verdict = judge(letter, ports.journal.stateOf(letter.id), {
            step,
            cluster,
            selection,
            startedAt,
            now: startedAt,
          });
          if (verdict.kind === 'send' && counts.sent < limit) {
            counts.sent += 1;
            counts.perhapsTwice += verdict.isUncertain ? 1 : 0;
            const { hint } = verdict.replayable;
            const key = `${step} ${nameOfTarget(hint.data)}`;
            groups.set(key, grown(groups.get(key), step, hint));
          } else if (verdict.kind === 'refused') {
            counts.refused += 1;
            if (refused.length < maxNamed) {
              refused.push({ kind: 'refused', step, id: letter.id, why: verdict.refusal.why });
            }
          } else {
            counts[countOf(verdict.kind)] += 1;
          }
        }
        ports.onProgress?.(counts);
      }
    } finally {
      counts.hidden += await pass.release();
    }
    if (pass.isFull) {
      cut.push(step);
    }
  }
  return { groups: [...groups.values()], counts, refused, cut };
}

function countOf(kind: 'finish' | 'later' | 'left' | 'send'): 'finished' | 'later' | 'left' {
  return kind === 'finish' ? 'finished' : kind === 'later' ? 'later' : 'left';
}

function grown(
  group: LetterGroup | undefined,
  step: StepName,
  { id, time, type, data }: Hint,
): LetterGroup {
  const { kind, namespace, name } = data;
  const newest = { id, time, type };
  if (group === undefined) {
    return { step, target: { kind, namespace, name }, letters: 1, newest, oldestTime: time };
  }
  return {
    ...group,
    letters: group.letters + 1,
    newest: group.newest.time < time ? newest : group.newest,
    oldestTime: time < group.oldestTime ? time : group.oldestTime,
  };
}
