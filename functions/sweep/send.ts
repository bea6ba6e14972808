import pLimit from 'p-limit';
import { type Hint, queueName } from '#events/hint.ts';
import type { StepName } from '#shared/api/steps.ts';
import { describeError } from '#shared/kernel/errors.ts';
import { type QueueSender, type SendOutcome, maxBatchEntries } from '#shared/queue/queue.ts';

/** Batches on their way to the queues at a time. */
const batchesAtOnce = 8;

/**
 * A queue that refused or did not answer so many batches is not asked again in this sweep: each may take seconds, which
 * the other queues need, and the next sweep is minutes away.
 */
const maxFailedBatches = 3;

/** What became of the hints of one step. */
export interface Sent {
  readonly sent: number;
  readonly failed: number;
  /** Why the first of those that failed did. */
  readonly why?: string;
}

interface Lane {
  sent: number;
  failed: number;
  failedBatches: number;
  why: string | undefined;
}

export interface SendingParts {
  readonly queues: QueueSender;
  readonly stage: string;
  /** Once it aborts nothing more is sent. */
  readonly signal: AbortSignal;
}

/** Sends the hints of one sweep. What a queue has not acknowledged counts as failed, and is not tried again. */
export class Sending {
  readonly #parts: SendingParts;
  readonly #limit = pLimit(batchesAtOnce);
  readonly #lanes = new Map<StepName, Lane>();

  constructor(parts: SendingParts) {
    this.#parts = parts;
  }

  /** Resolves when all of them are sent or have failed; never rejects. */
  async send(step: StepName, hints: readonly Hint[]): Promise<void> {
    const lane = this.#lanes.get(step) ?? { sent: 0, failed: 0, failedBatches: 0, why: undefined };
    this.#lanes.set(step, lane);
    const batches = Array.from({ length: Math.ceil(hints.length / maxBatchEntries) }, (_, place) =>
      hints.slice(place * maxBatchEntries, (place + 1) * maxBatchEntries),
    );
    await this.#limit.map(batches, (batch) => this.#sendBatch(step, lane, batch));
  }

  /** What became of all hints so far, by step. */
  results(): ReadonlyMap<StepName, Sent> {
    return new Map(
      [...this.#lanes].map(([step, { sent, failed, why }]) => [
        step,
        { sent, failed, ...(why === undefined ? {} : { why }) },
      ]),
    );
  }

  async #sendBatch(step: StepName, lane: Lane, batch: readonly Hint[]): Promise<void> {
    const { acknowledged, failed } = await this.#attempt(step, lane, batch);
    // What the queue did not mention is not acknowledged, so it counts with the failed.
    const owed = batch.length - new Set(acknowledged).size;
    lane.sent += batch.length - owed;
    lane.failed += owed;
    if (owed > 0) {
      lane.why ??= failed[0]?.why ?? 'not acknowledged';
    }
  }

  async #attempt(step: StepName, lane: Lane, batch: readonly Hint[]): Promise<SendOutcome> {
    const { queues, stage, signal } = this.#parts;
    if (signal.aborted) {
      return refused('no time was left');
    }
    if (lane.failedBatches >= maxFailedBatches) {
      return refused('the queue was given up');
    }
    const entries = batch.map((hint, place) => ({
      id: String(place),
      body: JSON.stringify(hint),
      group: hint.data.uid,
    }));
    try {
      return await queues.send(queueName(stage, step), entries, signal);
    } catch (error) {
      lane.failedBatches += 1;
      return refused(describeError(error));
    }
  }
}

function refused(why: string): SendOutcome {
  return { acknowledged: [], failed: [{ id: '', why }] };
}
