import { deadLetterQueueName } from '#events/hint.ts';
import type { StepName } from '#shared/api/steps.ts';
import type { Clock, Instant } from '#shared/kernel/instant.ts';
import { describeError } from '#shared/kernel/errors.ts';
import type { Letter, LetterQueues } from '#shared/queue/queue.ts';
import { type Verdict, judge } from './judge.ts';
import type { ReasonOf } from './failures.ts';
import type { KeptLetter } from './journal-file.ts';
import { LetterPass } from './letter-pass.ts';
import { type Pace, patiently } from './patience.ts';
import type { Selection } from './selection.ts';
import { type SendingPorts, sendBatch } from './send-batch.ts';

export interface LetterReplay {
  readonly stage: string;
  /** The cluster id. */
  readonly cluster: string;
  /** Whose dead-letter queues are gone through. */
  readonly steps: readonly StepName[];
  readonly selection: Selection;
  /** Why letters are dead, where reasons are selected. */
  readonly reasonOf?: ReasonOf | undefined;
  /** The most hints that are sent; all when absent. */
  readonly limit?: number;
  /** How long a letter stays hidden at most, in seconds: longer than the replay should take. */
  readonly hiddenSeconds: number;
  /** Batches of one step that are in work at a time. */
  readonly lanes: number;
  /** Deletes what is no hint, once it is copied; left where it is when absent. */
  readonly discard?: (letters: readonly KeptLetter[]) => Promise<unknown>;
}

export interface LetterPorts extends SendingPorts {
  readonly letters: LetterQueues;
  readonly clock: Clock;
  readonly pace: Pace;
  /** Told after each batch. */
  readonly onProgress?: (counts: LetterCounts) => void;
  /** Told of each letter that something is to be said about. */
  readonly onRemark?: (remark: LetterRemark) => void;
}

/** What became of letters, counted. */
export interface LetterCounts {
  /** Letters that were received, each once. */
  seen: number;
  /** Hints that their queues have taken. */
  sent: number;
  /** Of those, how many may have been taken more than once: by a try without an answer, or by an earlier replay that was cut off. */
  perhapsTwice: number;
  /** Letters that an earlier replay had sent, and that are deleted now. */
  finished: number;
  /** Letters whose hint was sent and that could not be deleted: the next replay does. */
  undeleted: number;
  /** Letters that are no hint for their step. They stay. */
  refused: number;
  /** Letters that were no hint, copied and deleted. */
  discarded: number;
  /** Letters that were not asked for. */
  left: number;
  /** Letters that came after the replay had begun. */
  later: number;
  /** Letters whose hint could not be sent. They stay. */
  failed: number;
  /** Letters that could not be shown again: they come back by themselves. */
  hidden: number;
}

export interface LetterRemark {
  readonly kind: 'refused' | 'discarded' | 'failed' | 'undeleted' | 'finished' | 'uncertain';
  readonly step: StepName;
  readonly id: string;
  readonly why: string;
}

export interface LetterResult {
  readonly counts: LetterCounts;
  /** What ended it before its end, besides the signal. */
  readonly error?: unknown;
  /** Steps of whose letters SQS let nobody have more in hand: run it again for the rest. */
  readonly cut: readonly StepName[];
}

export function noCounts(): LetterCounts {
  return {
    seen: 0,
    sent: 0,
    perhapsTwice: 0,
    finished: 0,
    undeleted: 0,
    refused: 0,
    discarded: 0,
    left: 0,
    later: 0,
    failed: 0,
    hidden: 0,
  };
}

/**
 * Sends the hints of dead letters to their steps' queues again. A letter is deleted only once its step's queue has
 * acknowledged its hint, and the journal says before what is about to be done: whatever ends this process, no letter is lost,
 * and the next replay knows which need only be deleted.
 *
 * Resolves also where the queues refuse or the signal aborts: what was begun is finished, and what was kept in hand is shown
 * to everybody again.
 */
export async function replayLetters(
  replay: LetterReplay,
  ports: LetterPorts,
  signal: AbortSignal,
): Promise<LetterResult> {
  const run = new LetterRun(replay, ports, signal);
  // Side by side: that a queue is empty takes seconds to be sure of.
  const full = await Promise.all(replay.steps.map((step) => run.goThrough(step)));
  return {
    counts: run.counts,
    cut: replay.steps.filter((_, place) => full[place] === true),
    ...(run.error === undefined ? {} : { error: run.error }),
  };
}

type Sending = Extract<Verdict, { kind: 'send' }> & { readonly letter: Letter };

class LetterRun {
  readonly counts = noCounts();
  error: unknown;
  readonly #replay: LetterReplay;
  readonly #ports: LetterPorts;
  readonly #signal: AbortSignal;
  readonly #startedAt: Instant;
  #remaining: number;

  constructor(replay: LetterReplay, ports: LetterPorts, signal: AbortSignal) {
    this.#replay = replay;
    this.#ports = ports;
    this.#signal = signal;
    this.#startedAt = ports.clock();
    this.#remaining = replay.limit ?? Infinity;
  }

  get isOver(): boolean {
    return this.#signal.aborted || this.error !== undefined || this.#remaining <= 0;
  }

  /** @returns whether the queue let nobody have more letters in hand */
  async goThrough(step: StepName): Promise<boolean> {
    const { stage, hiddenSeconds, lanes } = this.#replay;
    const { letters, trying } = this.#ports;
    const queue = deadLetterQueueName(stage, step);
    const pass = new LetterPass(letters, queue, hiddenSeconds, trying);
    await Promise.all(Array.from({ length: lanes }, () => this.#lane(step, pass)));
    this.counts.hidden += await pass.release();
    return pass.isFull;
  }

  async #lane(step: StepName, pass: LetterPass): Promise<void> {
    try {
      while (!this.isOver) {
        const received = await pass.next();
        if (received === undefined) {
          return;
        }
        this.counts.seen += received.length;
        await this.#work(step, pass, received);
        this.#ports.onProgress?.(this.counts);
      }
    } catch (error) {
      this.error ??= error;
    } finally {
      if (this.isOver) {
        pass.end();
      }
    }
  }

  async #work(step: StepName, pass: LetterPass, received: readonly Letter[]): Promise<void> {
    const sending: Sending[] = [];
    const finishing: Letter[] = [];
    const discarding: (Letter & { readonly why: string })[] = [];
    for (const letter of received) {
      const verdict = this.#judge(step, letter);
      if (verdict.kind === 'send' && this.#remaining > 0) {
        this.#remaining -= 1;
        sending.push({ ...verdict, letter });
      } else if (verdict.kind === 'finish') {
        finishing.push(letter);
      } else if (verdict.kind === 'refused' && this.#mayDiscard(verdict)) {
        discarding.push({ ...letter, why: verdict.refusal.why });
      } else {
        this.#leave(step, letter, verdict);
        pass.hold(letter);
      }
    }
    await this.#discard(step, pass, discarding);
    await this.#finish(step, pass, finishing);
    await this.#send(step, pass, sending);
  }

  #judge(step: StepName, letter: Letter): Verdict {
    const { cluster, selection, reasonOf } = this.#replay;
    const { journal, clock } = this.#ports;
    return judge(letter, journal.stateOf(letter.id), {
      step,
      cluster,
      selection,
      reasonOf,
      startedAt: this.#startedAt,
      now: clock(),
    });
  }

  /** What may be a good hint of another cluster is never deleted: one wrong option would be enough. */
  #mayDiscard({ refusal }: Extract<Verdict, { kind: 'refused' }>): boolean {
    return this.#replay.discard !== undefined && refusal.kind === 'noHint';
  }

  #leave(step: StepName, { id }: Letter, verdict: Verdict): void {
    if (verdict.kind === 'refused') {
      this.counts.refused += 1;
      this.#remark({ kind: 'refused', step, id, why: verdict.refusal.why });
    } else if (verdict.kind === 'later') {
      this.counts.later += 1;
    } else {
      this.counts.left += 1;
    }
  }

  async #discard(
    step: StepName,
    pass: LetterPass,
    letters: readonly (Letter & { readonly why: string })[],
  ): Promise<void> {
    if (letters.length === 0) {
      return;
    }
    await this.#replay.discard?.(
      letters.map(({ id, why, body }) => ({ queue: pass.queue, id, why, body })),
    );
    const kept = await this.#delete(pass, letters);
    for (const letter of letters) {
      const failure = kept.get(letter.id);
      this.counts[failure === undefined ? 'discarded' : 'refused'] += 1;
      const kind = failure === undefined ? 'discarded' : 'refused';
      this.#remark({ kind, step, id: letter.id, why: failure ?? letter.why });
    }
  }

  async #finish(step: StepName, pass: LetterPass, letters: readonly Letter[]): Promise<void> {
    const kept = await this.#deleteSent(step, pass, letters);
    for (const { id } of letters.filter((letter) => !kept.has(letter.id))) {
      this.counts.finished += 1;
      const why = 'an earlier replay had sent it: it was only deleted now';
      this.#remark({ kind: 'finished', step, id, why });
    }
  }

  async #send(step: StepName, pass: LetterPass, sending: readonly Sending[]): Promise<void> {
    if (sending.length === 0) {
      return;
    }
    const letters = sending.map(({ letter }) => letter);
    await this.#ports.pace.take(sending.length, this.#signal);
    if (this.#signal.aborted || this.error !== undefined) {
      this.counts.left += letters.length;
      letters.forEach((letter) => pass.hold(letter));
      return;
    }
    for (const { letter } of sending.filter(({ isUncertain }) => isUncertain)) {
      // Said before it is true, because this process may be killed as well.
      const why = 'an earlier replay was cut off while it sent this: it may be sent more than once';
      this.#remark({ kind: 'uncertain', step, id: letter.id, why });
    }
    const parcels = sending.map(({ letter, message, replayable }) => ({
      key: letter.id,
      message,
      group: replayable.hint.data.uid,
    }));
    const outcome = await sendBatch(this.#replay.stage, step, parcels, this.#ports);
    this.error ??= outcome.refusal;
    this.counts.sent += outcome.sent.size;
    this.counts.perhapsTwice += outcome.perhapsTwice;
    for (const { letter, isUncertain } of sending) {
      const failure = outcome.failed.get(letter.id);
      if (failure !== undefined) {
        this.counts.failed += 1;
        this.#remark({ kind: 'failed', step, id: letter.id, why: failure.why });
        pass.hold(letter);
      } else if (isUncertain) {
        this.counts.perhapsTwice += 1;
      }
    }
    await this.#deleteSent(
      step,
      pass,
      letters.filter(({ id }) => outcome.sent.has(id)),
    );
  }

  /** @returns the ids of those that are still there */
  async #deleteSent(
    step: StepName,
    pass: LetterPass,
    letters: readonly Letter[],
  ): Promise<ReadonlyMap<string, string>> {
    const kept = await this.#delete(pass, letters);
    await this.#ports.journal.note(
      'deleted',
      letters.flatMap(({ id }) => (kept.has(id) ? [] : [id])),
    );
    for (const [id, why] of kept) {
      this.counts.undeleted += 1;
      this.#remark({ kind: 'undeleted', step, id, why });
    }
    return kept;
  }

  /** @returns why, by the ids of those that are still there, as far as anybody knows */
  async #delete(
    pass: LetterPass,
    letters: readonly Letter[],
  ): Promise<ReadonlyMap<string, string>> {
    if (letters.length === 0) {
      return new Map();
    }
    const { letters: queues, trying } = this.#ports;
    const receipts = letters.map(({ receipt }) => receipt);
    const whys = await patiently(trying, () => queues.delete(pass.queue, receipts)).then(
      (failures) => new Map(failures.map(({ receipt, why }) => [receipt, why])),
      (error: unknown) => {
        this.error ??= error;
        return new Map(receipts.map((receipt) => [receipt, describeError(error)]));
      },
    );
    const kept = new Map<string, string>();
    for (const letter of letters) {
      const why = whys.get(letter.receipt);
      if (why !== undefined) {
        kept.set(letter.id, why);
        pass.hold(letter);
      }
    }
    return kept;
  }

  #remark(remark: LetterRemark): void {
    this.#ports.onRemark?.(remark);
  }
}
