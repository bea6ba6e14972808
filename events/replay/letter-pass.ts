import { QueueRefusal } from '#shared/queue/explain.ts';
import { type Letter, type LetterQueues, maxBatchEntries } from '#shared/queue/queue.ts';
import { type Trying, isLasting, patiently } from './patience.ts';

/** A queue says that it is empty when it was asked so often in a row: one answer may come from a part of its servers. */
const emptyAnswers = 2;
const waitSeconds = 1;

/** Batches in a row of nothing but letters that were seen already: what is left is not worth going round for. */
const maxKnownBatches = 20;

/**
 * One pass over the letters of one queue. Each is handed out once and stays hidden from then on, so that the pass ends; those
 * that were kept in hand are shown again when it is over.
 *
 * A letter that comes again during the pass was in hand for longer than it was hidden. It is known by its id, and what it is
 * shown by is renewed.
 */
export class LetterPass {
  readonly queue: string;
  readonly #queues: LetterQueues;
  readonly #hiddenSeconds: number;
  readonly #trying: Trying;
  readonly #held = new Map<string, string>();
  #isOver = false;
  #isFull = false;
  #known = 0;
  #empty = 0;

  /** @param hiddenSeconds for how long a letter stays hidden at most: longer than the pass should take */
  constructor(queues: LetterQueues, queue: string, hiddenSeconds: number, trying: Trying) {
    this.#queues = queues;
    this.queue = queue;
    this.#hiddenSeconds = hiddenSeconds;
    this.#trying = trying;
  }

  /** Whether the queue let nobody have more letters in hand, so that the pass ended before its end. */
  get isFull(): boolean {
    return this.#isFull;
  }

  /** Letters of which none was seen in this pass; `undefined` when it is over. */
  async next(): Promise<readonly Letter[] | undefined> {
    while (!this.#isOver) {
      const received = await this.#receive();
      const fresh = received.filter(({ id }) => !this.#held.has(id));
      for (const { id, receipt } of received) {
        if (this.#held.has(id)) {
          this.#held.set(id, receipt);
        }
      }
      this.#empty = received.length === 0 ? this.#empty + 1 : 0;
      this.#known = received.length > 0 && fresh.length === 0 ? this.#known + 1 : 0;
      this.#isOver ||= this.#empty >= emptyAnswers || this.#known >= maxKnownBatches;
      if (fresh.length > 0) {
        return fresh;
      }
    }
    return undefined;
  }

  /** Hands out no more. */
  end(): void {
    this.#isOver = true;
  }

  /** The letter stays where it is, and is shown again at the end. */
  hold({ id, receipt }: Letter): void {
    this.#held.set(id, receipt);
  }

  /**
   * Lets everybody receive again what was kept in hand. What cannot be shown comes back by itself when its time is over.
   *
   * @returns how many those are
   */
  async release(): Promise<number> {
    let hidden = 0;
    let batch: string[] = [];
    const show = async (): Promise<void> => {
      const receipts = batch;
      batch = [];
      try {
        const ask = () => this.#queues.show(this.queue, receipts);
        hidden += (await patiently(this.#trying, ask)).length;
      } catch {
        hidden += receipts.length;
      }
    };
    for (const receipt of this.#held.values()) {
      batch.push(receipt);
      if (batch.length === maxBatchEntries) {
        await show();
      }
    }
    if (batch.length > 0) {
      await show();
    }
    this.#held.clear();
    return hidden;
  }

  async #receive(): Promise<readonly Letter[]> {
    const ask = () =>
      this.#queues.receive(this.queue, { hiddenSeconds: this.#hiddenSeconds, waitSeconds });
    try {
      return await patiently(this.#trying, ask);
    } catch (error) {
      if (isLasting(error) && error instanceof QueueRefusal && error.word === 'OverLimit') {
        this.#isFull = true;
        this.#isOver = true;
        return [];
      }
      throw error;
    }
  }
}
