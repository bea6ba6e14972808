import { type Hint, hintSchema } from '#events/hint.ts';
import type { QueueEntry, QueueSender, SendOutcome } from '#shared/queue/queue.ts';

export interface Taken {
  readonly queue: string;
  readonly hint: Hint;
  readonly group: string;
  /** What {@link RecordingQueue.turn} was when it was asked to take it. */
  readonly turn: number;
}

/** An SQS in memory that can be down, refuse entries, take them and lose the answer, or keep its answer back. */
export class RecordingQueue implements QueueSender {
  /** In the order in which they were taken; every body is a valid hint. */
  readonly taken: Taken[] = [];
  /** Sizes of the batches that were asked for, failed ones included. */
  readonly batches: number[] = [];
  isDown = false;
  /** Takes everything and then breaks the connection. */
  losesAnswers = false;
  refuses: (hint: Hint) => boolean = () => false;
  isHeld = false;
  #held: (() => void)[] = [];
  /** Set by a test that has to know what was asked before and after something. */
  turn = 0;
  /** Passes between a request and its answer. */
  latency: (() => Promise<void>) | undefined;
  busy = 0;
  busiest = 0;

  async send(
    queue: string,
    entries: readonly QueueEntry[],
    signal?: AbortSignal,
  ): Promise<SendOutcome> {
    const turn = this.turn;
    this.busy += 1;
    this.busiest = Math.max(this.busiest, this.busy);
    this.batches.push(entries.length);
    try {
      if (this.isHeld) {
        await this.#hold(signal);
      }
      const outcome = this.#take(queue, entries, turn);
      await this.latency?.();
      return outcome;
    } finally {
      this.busy -= 1;
    }
  }

  release(): void {
    this.isHeld = false;
    for (const go of this.#held.splice(0)) {
      go();
    }
  }

  /** `<step> <why> <name>` of each taken hint. */
  get words(): string[] {
    return this.taken.map(({ queue, hint }) => {
      const step = queue.replace('millrace-test-', '');
      return `${step} ${hint.type.replace('dev.millrace.hint.', '')} ${hint.data.name}`;
    });
  }

  #hold(signal: AbortSignal | undefined): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#held.push(resolve);
    signal?.addEventListener('abort', () => reject(new Error('aborted')));
    return promise;
  }

  #take(queue: string, entries: readonly QueueEntry[], turn: number): SendOutcome {
    if (this.isDown) {
      throw new Error('connection refused');
    }
    const read = entries.map((entry) => ({
      entry,
      hint: hintSchema.parse(JSON.parse(entry.body)),
    }));
    const good = read.filter(({ hint }) => !this.refuses(hint));
    this.taken.push(...good.map(({ entry, hint }) => ({ queue, hint, group: entry.group, turn })));
    if (this.losesAnswers) {
      throw new Error('socket hang up');
    }
    return {
      acknowledged: good.map(({ entry }) => entry.id),
      failed: read
        .filter(({ hint }) => this.refuses(hint))
        .map(({ entry }) => ({ id: entry.id, why: 'InternalError' })),
    };
  }
}
