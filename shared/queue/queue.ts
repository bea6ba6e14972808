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
