import { type Hint, deadLetterQueueName, makeHint } from '#events/hint.ts';
import { OpenLetters, type JournalWord, type ReplayJournal } from '#events/replay/journal.ts';
import { type LetterList, listLetters } from '#events/replay/list-letters.ts';
import { Pace, type Trying } from '#events/replay/patience.ts';
import {
  type LetterPorts,
  type LetterRemark,
  type LetterReplay,
  type LetterResult,
  replayLetters,
} from '#events/replay/replay-letters.ts';
import { everything } from '#events/replay/selection.ts';
import type { StepName } from '#shared/api/steps.ts';
import { type Instant, parseInstant, plusSeconds } from '#shared/kernel/instant.ts';
import type {
  Letter,
  LetterQueues,
  QueueEntry,
  QueueSender,
  SendOutcome,
} from '#shared/queue/queue.ts';

export const stage = 'test';
export const cluster = 'prod-eu';
export const start = parseInstant('2026-01-01T00:00:00Z') ?? (0 as Instant);

export function aHint(step: StepName, name: string, changes: Partial<Hint> = {}): Hint {
  const uid = `uid-of-${name}`;
  const target = { kind: 'Shard', plural: 'shards', namespace: 'db', name, uid };
  const hint = makeHint({
    step,
    cause: 'changed',
    source: cluster,
    target: { ...target, resourceVersion: '7' },
    token: '7',
    at: plusSeconds(start, -3600),
  });
  return { ...hint, ...changes };
}

interface StoredLetter {
  readonly queue: string;
  readonly letter: Letter;
  isHidden: boolean;
}

/** Without waiting. */
const trying: Trying = {
  pause: async () => undefined,
  random: () => 0,
  onRetry: () => undefined,
};

/** The process ends here. Nothing that it asks for afterwards has an effect. */
class Killed extends Error {}

/**
 * Queues, and what replays have written down, across processes that may be killed at any request: before it took effect, or
 * after and before its answer. What a killed process had in hand comes back, as when the time is over for which it was hidden.
 */
export class LetterWorld {
  readonly delivered: { readonly queue: string; readonly body: string }[] = [];
  readonly journal: string[] = [];
  readonly #letters: StoredLetter[] = [];
  #receipts = 0;
  #ids = 0;
  /** Answers to sends, in their order; what the model does by itself when it is empty. */
  readonly sendFaults: ((entries: readonly QueueEntry[]) => SendOutcome | Error | undefined)[] = [];

  put(step: StepName, ...bodies: readonly string[]): void {
    for (const body of bodies) {
      this.#letters.push({
        queue: deadLetterQueueName(stage, step),
        letter: {
          id: `letter-${(this.#ids += 1)}`,
          receipt: '',
          body,
          sentAt: plusSeconds(start, -60),
        },
        isHidden: false,
      });
    }
  }

  /** A letter that comes while somebody replays. */
  putLate(step: StepName, body: string): void {
    this.put(step, body);
    const last = this.#letters.at(-1);
    if (last !== undefined) {
      this.#letters[this.#letters.length - 1] = {
        ...last,
        letter: { ...last.letter, sentAt: plusSeconds(start, 1) },
      };
    }
  }

  /** What can be received from a dead-letter queue now. */
  visible(step: StepName): readonly string[] {
    return this.#letters
      .filter(({ queue, isHidden }) => queue === deadLetterQueueName(stage, step) && !isHidden)
      .map(({ letter }) => letter.body);
  }

  get left(): readonly string[] {
    return this.#letters.map(({ letter }) => letter.body);
  }

  deliveries(body: (text: string) => boolean): number {
    return this.delivered.filter((each) => body(each.body)).length;
  }

  /**
   * One process, from its start to its end.
   *
   * @param killedAt the request at which it is killed, and whether that still took effect; never when absent
   */
  async replay(
    options: Partial<LetterReplay> & { readonly rate?: number } = {},
    killedAt?: { readonly request: number; readonly isDone: boolean },
    signal: AbortSignal = new AbortController().signal,
  ): Promise<LetterResult & { readonly remarks: readonly LetterRemark[] }> {
    let requests = 0;
    let isDead = false;
    const request = async <T>(effect: () => T): Promise<T> => {
      await Promise.resolve();
      requests += 1;
      if (isDead) {
        throw new Killed('killed');
      }
      if (killedAt !== undefined && requests === killedAt.request) {
        isDead = true;
        if (killedAt.isDone) {
          effect();
        }
        throw new Killed('killed');
      }
      return effect();
    };
    for (const each of this.#letters) {
      each.isHidden = false;
    }
    const remarks: LetterRemark[] = [];
    const ports: LetterPorts = {
      letters: this.#queues(request),
      sender: this.#sender(request),
      journal: this.#journal(request),
      trying,
      clock: () => start,
      pace: new Pace(options.rate ?? 500, trying.pause, () => 0),
      onRemark: (remark) => remarks.push(remark),
    };
    const result = await replayLetters(
      {
        stage,
        cluster,
        steps: ['drain-step', 'pool-pods'],
        selection: everything,
        hiddenSeconds: 120,
        lanes: 2,
        ...options,
      },
      ports,
      signal,
    );
    return { ...result, remarks };
  }

  /** @param broken the step whose dead-letter queue does not answer */
  list(broken?: StepName): Promise<LetterList> {
    const open = new OpenLetters();
    this.journal.forEach((line) => open.read(line));
    for (const each of this.#letters) {
      each.isHidden = false;
    }
    const letters = this.#queues(async (effect) => effect());
    return listLetters(
      {
        stage,
        cluster,
        steps: ['drain-step', 'pool-pods'],
        selection: everything,
        hiddenSeconds: 120,
      },
      {
        letters: {
          ...letters,
          receive: async (queue, options) => {
            if (broken !== undefined && queue === deadLetterQueueName(stage, broken)) {
              throw new Error('the queue failed');
            }
            return letters.receive(queue, options);
          },
        },
        journal: open,
        trying,
        clock: () => start,
      },
      new AbortController().signal,
    );
  }

  #queues(request: <T>(effect: () => T) => Promise<T>): LetterQueues {
    const change = (receipts: readonly string[], effect: (place: number) => void) =>
      request(() => {
        for (const receipt of receipts) {
          const place = this.#letters.findIndex(({ letter }) => letter.receipt === receipt);
          if (place >= 0) {
            effect(place);
          }
        }
        return [];
      });
    return {
      size: (queue) =>
        request(() => ({
          visible: this.#letters.filter((each) => each.queue === queue).length,
          hidden: 0,
        })),
      receive: (queue) =>
        request(() => {
          const received: Letter[] = [];
          for (const each of this.#letters) {
            if (each.queue === queue && !each.isHidden && received.length < 10) {
              this.#receipts += 1;
              each.isHidden = true;
              const letter = { ...each.letter, receipt: `receipt-${this.#receipts}` };
              Object.assign(each, { letter });
              received.push(letter);
            }
          }
          return received;
        }),
      delete: (_, receipts) => change(receipts, (place) => void this.#letters.splice(place, 1)),
      show: (_, receipts) =>
        change(receipts, (place) => {
          const each = this.#letters[place];
          if (each !== undefined) {
            each.isHidden = false;
          }
        }),
      close: () => undefined,
    };
  }

  #sender(request: <T>(effect: () => T) => Promise<T>): QueueSender {
    return {
      send: async (queue, entries) => {
        const answer = await request(() => {
          const fault = this.sendFaults.shift()?.(entries);
          const taken =
            fault === undefined || fault instanceof Error
              ? entries.map(({ id }) => id)
              : fault.acknowledged;
          for (const { id, body } of entries) {
            // An error is an answer that was lost: the queue has taken what it was sent.
            if (taken.includes(id)) {
              this.delivered.push({ queue, body });
            }
          }
          return fault ?? { acknowledged: taken, failed: [] };
        });
        if (answer instanceof Error) {
          throw answer;
        }
        return answer;
      },
    };
  }

  #journal(request: <T>(effect: () => T) => Promise<T>): ReplayJournal {
    const open = new OpenLetters();
    this.journal.forEach((line) => open.read(line));
    return {
      stateOf: (letter) => open.stateOf(letter),
      note: (word: JournalWord, letters) =>
        request(() => {
          if (letters.length > 0) {
            open.note(word, letters);
            this.journal.push(JSON.stringify({ [word]: letters }));
          }
        }),
    };
  }
}
