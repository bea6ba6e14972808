import { type Hint, deadLetterQueueName } from '#events/hint.ts';
import type { StepName } from '#shared/api/steps.ts';
import type { Clock, Instant } from '#shared/kernel/instant.ts';
import type { Letter, LetterQueues } from '#shared/queue/queue.ts';
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

type ListQuery = Pick<
  LetterReplay,
  'stage' | 'cluster' | 'steps' | 'selection' | 'reasonOf' | 'limit' | 'hiddenSeconds'
>;

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
  replay: ListQuery,
  ports: ListPorts,
  signal: AbortSignal,
): Promise<LetterList> {
  const list = new Listing(replay, ports, signal);
  // Where one queue fails, the letters of the others are shown again before that is told.
  const ends = await Promise.allSettled(replay.steps.map((step) => list.goThrough(step)));
  const full = ends.map((end) => {
    if (end.status === 'rejected') {
      throw end.reason;
    }
    return end.value;
  });
  return {
    groups: [...list.groups.values()],
    counts: list.counts,
    refused: list.refused,
    cut: replay.steps.filter((_, place) => full[place] === true),
  };
}

class Listing {
  readonly counts = noCounts();
  readonly groups = new Map<string, LetterGroup>();
  readonly refused: LetterRemark[] = [];
  readonly #query: ListQuery;
  readonly #ports: ListPorts;
  readonly #signal: AbortSignal;
  readonly #startedAt: Instant;
  readonly #limit: number;

  constructor(query: ListQuery, ports: ListPorts, signal: AbortSignal) {
    this.#query = query;
    this.#ports = ports;
    this.#signal = signal;
    this.#startedAt = ports.clock();
    this.#limit = query.limit ?? Infinity;
  }

  /** @returns whether the queue let nobody have more letters in hand */
  async goThrough(step: StepName): Promise<boolean> {
    const { stage, hiddenSeconds } = this.#query;
    const { letters: queues, trying, onProgress } = this.#ports;
    const queue = deadLetterQueueName(stage, step);
    const pass = new LetterPass(queues, queue, hiddenSeconds, trying);
    try {
      while (!this.#signal.aborted && this.counts.sent < this.#limit) {
        const letters = await pass.next();
        if (letters === undefined) {
          break;
        }
        for (const letter of letters) {
          pass.hold(letter);
          this.#count(step, letter);
        }
        onProgress?.(this.counts);
      }
    } finally {
      this.counts.hidden += await pass.release();
    }
    return pass.isFull;
  }

  #count(step: StepName, letter: Letter): void {
    const { cluster, selection, reasonOf } = this.#query;
    const verdict = judge(letter, this.#ports.journal.stateOf(letter.id), {
      step,
      cluster,
      selection,
      reasonOf,
      startedAt: this.#startedAt,
      now: this.#startedAt,
    });
    this.counts.seen += 1;
    if (verdict.kind === 'send' && this.counts.sent < this.#limit) {
      this.counts.sent += 1;
      this.counts.perhapsTwice += verdict.isUncertain ? 1 : 0;
      addTo(this.groups, step, verdict.replayable.hint);
    } else if (verdict.kind === 'refused') {
      this.counts.refused += 1;
      if (this.refused.length < maxNamed) {
        const { why } = verdict.refusal;
        this.refused.push({ kind: 'refused', step, id: letter.id, why });
      }
    } else {
      this.counts[countOf(verdict.kind)] += 1;
    }
  }
}

/** Counts one more hint to the group of its step and target. */
export function addTo(groups: Map<string, LetterGroup>, step: StepName, hint: Hint): void {
  const key = `${step} ${nameOfTarget(hint.data)}`;
  groups.set(key, grown(groups.get(key), step, hint));
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
