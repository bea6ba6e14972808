import { performance } from 'node:perf_hooks';
import * as z from 'zod';
import type { ProxiedAnswer, ProxiedRequest } from './faulty-proxy.ts';

/** What became of one message, seen from between the queue and those who use it. Times are in monotonic milliseconds. */
export interface JournaledMessage {
  readonly id: string;
  /** The queue's name. */
  readonly queue: string;
  /** When the queue had taken it; absent where it came another way. */
  sentAtMs: number | undefined;
  receives: number;
  /** When the queue had deleted it. */
  deletedAtMs: number | undefined;
}

const queueSchema = z.object({ QueueUrl: z.string() });

const sentSchema = z.object({
  Successful: z.array(z.object({ MessageId: z.string() })).optional(),
});

const receivedSchema = z.object({
  Messages: z.array(z.object({ MessageId: z.string(), ReceiptHandle: z.string() })).optional(),
});

const deletionSchema = z.object({
  Entries: z.array(z.object({ Id: z.string(), ReceiptHandle: z.string() })),
});

const deletedSchema = z.object({ Successful: z.array(z.object({ Id: z.string() })).optional() });

/** Follows every message through a queue by what the queue answers: sent, received so many times, deleted. */
export class MessageJournal {
  /** What each receive that was not empty handed out: a worker's batches, in order. */
  readonly batches: (readonly JournaledMessage[])[] = [];
  readonly #messages = new Map<string, JournaledMessage>();
  /** Which message a receipt handle stands for. */
  readonly #receipts = new Map<string, JournaledMessage>();

  get messages(): readonly JournaledMessage[] {
    return [...this.#messages.values()];
  }

  readonly observe = (request: ProxiedRequest, answer: ProxiedAnswer): void => {
    const action = String(request.headers['x-amz-target']).replace('AmazonSQS.', '');
    if (
      answer.status !== 200 ||
      !['SendMessageBatch', 'ReceiveMessage', 'DeleteMessageBatch'].includes(action)
    ) {
      return;
    }
    const asked: unknown = JSON.parse(request.body);
    const answered: unknown = JSON.parse(answer.body);
    const queue = queueSchema.parse(asked).QueueUrl.split('/').at(-1) ?? '';
    switch (action) {
      case 'SendMessageBatch':
        for (const { MessageId } of sentSchema.parse(answered).Successful ?? []) {
          this.#message(MessageId, queue).sentAtMs = performance.now();
        }
        return;
      case 'ReceiveMessage':
        return this.#receive(queue, receivedSchema.parse(answered).Messages ?? []);
      default: {
        const { Entries } = deletionSchema.parse(asked);
        for (const { Id } of deletedSchema.parse(answered).Successful ?? []) {
          this.#delete(Entries.find((entry) => entry.Id === Id)?.ReceiptHandle ?? '');
        }
      }
    }
  };

  #receive(queue: string, received: readonly { MessageId: string; ReceiptHandle: string }[]): void {
    const batch = received.map(({ MessageId, ReceiptHandle }) => {
      const message = this.#message(MessageId, queue);
      message.receives += 1;
      this.#receipts.set(ReceiptHandle, message);
      return message;
    });
    if (batch.length > 0) {
      this.batches.push(batch);
    }
  }

  #delete(receiptHandle: string): void {
    const message = this.#receipts.get(receiptHandle);
    if (message !== undefined) {
      message.deletedAtMs ??= performance.now();
    }
  }

  #message(id: string, queue: string): JournaledMessage {
    const known = this.#messages.get(id);
    if (known !== undefined) {
      return known;
    }
    const message = { id, queue, sentAtMs: undefined, receives: 0, deletedAtMs: undefined };
    this.#messages.set(id, message);
    return message;
  }
}
