import type { Instant } from '#shared/kernel/instant.ts';

/** One message on its way to a queue. */
export interface QueueEntry {
  /** Unique within one call; at most 80 letters, digits, `-` and `_`. */
  readonly id: string;
  readonly body: string;
  /** Messages of one group share a fair part of the queue (SQS MessageGroupId on a standard queue; no order). */
  readonly group: string;
}

export interface SendOutcome {
  /** The ids the queue has taken; nothing else may count as sent. */
  readonly acknowledged: readonly string[];
  readonly failed: readonly { readonly id: string; readonly why: string }[];
}

/** Sends to queues. Rejects where no answer came: the messages may or may not have been taken. */
export interface QueueSender {
  /**
   * @param queue the queue's name
   * @param entries at most {@link maxBatchEntries}
   */
  send(queue: string, entries: readonly QueueEntry[], signal?: AbortSignal): Promise<SendOutcome>;
}

/** The most entries of one SendMessageBatch (SQS quotas, "Batched message quota"). */
export const maxBatchEntries = 10;

/** One message as it was received. */
export interface Letter {
  /** The queue's own name for it. It keeps it when it moves to its dead-letter queue. */
  readonly id: string;
  /** What it is deleted or shown again by, until somebody receives it anew. */
  readonly receipt: string;
  readonly body: string;
  /** When it was first sent, by the queue's clock. A dead letter keeps the time of the queue that it came from. */
  readonly sentAt: Instant;
}

/** How many messages a queue holds, as far as it knows at the moment. */
export interface QueueSize {
  readonly visible: number;
  /** Received by somebody, and neither deleted nor shown again. */
  readonly hidden: number;
}

/** One receipt that nothing was done about, and why. */
export interface ReceiptFailure {
  readonly receipt: string;
  readonly why: string;
}

/**
 * Reads queues one batch at a time. Rejects with a {@link QueueRefusal} where the server refuses, and with any other Error
 * where no answer came.
 */
export interface LetterQueues {
  size(queue: string): Promise<QueueSize>;
  /**
   * At most {@link maxBatchEntries} messages, which nobody else receives for so long. None where there was none for the time
   * of waiting. It cannot be given up: the server would hide messages that nobody has.
   */
  receive(
    queue: string,
    options: { readonly hiddenSeconds: number; readonly waitSeconds: number },
  ): Promise<readonly Letter[]>;
  /** @param receipts at most {@link maxBatchEntries} */
  delete(queue: string, receipts: readonly string[]): Promise<readonly ReceiptFailure[]>;
  /**
   * Lets everybody receive them at once.
   *
   * @param receipts at most {@link maxBatchEntries}
   */
  show(queue: string, receipts: readonly string[]): Promise<readonly ReceiptFailure[]>;
  close(): void;
}
