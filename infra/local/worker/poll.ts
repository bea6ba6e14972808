import { setTimeout as pause } from 'node:timers/promises';
import {
  DeleteMessageBatchCommand,
  type Message,
  ReceiveMessageCommand,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import { describeError } from '#shared/kernel/errors.ts';
import type { Logger } from '#shared/kernel/logger.ts';
import { type ReceivedMessage, makeEvent, settle } from './event.ts';
import type { InvocationEnd } from './metrics.ts';
import type { Sandbox } from './sandbox.ts';

/** The event source mapping's batch size, and SQS's limit for one receive. */
const batchSize = 10;

/** How long a receive waits. A stop lets it end, because an aborted one may already have taken messages. */
const waitSeconds = 1;

/** The wait after a receive that failed: doubles from the one to the other, with jitter. */
const firstPauseMs = 100;
const longestPauseMs = 5_000;

export interface PollOptions {
  readonly client: SQSClient;
  readonly queueUrl: string;
  readonly queueArn: string;
  readonly region: string;
  readonly sandbox: Sandbox;
  readonly log: Logger;
  /** Told how each invocation ended. */
  readonly onEnd?: (end: InvocationEnd) => void;
}

/**
 * Feeds one sandbox from one queue until the signal aborts, one batch at a time, as Lambda's event source mapping does:
 * what the function did not name as failed is deleted; everything else stays hidden until its visibility ends, which
 * the function itself may have changed. Resolves when the last invocation has ended and its messages are deleted.
 */
export async function poll(options: PollOptions, signal: AbortSignal): Promise<void> {
  let failuresInARow = 0;
  let deleting = Promise.resolve();
  while (!signal.aborted) {
    try {
      const messages = await receive(options);
      failuresInARow = 0;
      if (messages.length > 0) {
        const batch = await processBatch(messages, options);
        // Deleting is no concern of the next batch: the sandbox goes on meanwhile, one deletion behind at most.
        await deleting;
        deleting = deleteDone(batch, options);
      }
    } catch (error) {
      failuresInARow += 1;
      // An outage is one event, however often it is noticed.
      const level = failuresInARow === 1 ? 'warn' : 'debug';
      options.log[level]({ why: describeError(error), failuresInARow }, 'queue unreachable');
      await pauseAfter(failuresInARow, signal);
    }
  }
  await deleting;
}

async function receive({ client, queueUrl }: PollOptions): Promise<ReceivedMessage[]> {
  const answer = await client.send(
    new ReceiveMessageCommand({
      QueueUrl: queueUrl,
      MaxNumberOfMessages: batchSize,
      WaitTimeSeconds: waitSeconds,
      MessageSystemAttributeNames: ['All'],
      MessageAttributeNames: ['All'],
    }),
  );
  return (answer.Messages ?? []).filter(isComplete);
}

function isComplete(message: Message): message is ReceivedMessage {
  return (
    message.MessageId !== undefined &&
    message.ReceiptHandle !== undefined &&
    message.Body !== undefined
  );
}

interface ProcessedBatch {
  readonly requestId: string;
  readonly messages: readonly ReceivedMessage[];
  /** Those to delete; `undefined` where the invocation failed, or its answer was none, and all come again. */
  readonly done: readonly ReceivedMessage[] | undefined;
}

async function processBatch(
  messages: readonly ReceivedMessage[],
  { sandbox, log, queueArn: arn, region, onEnd }: PollOptions,
): Promise<ProcessedBatch> {
  const result = await sandbox.invoke(makeEvent(messages, { arn, region }));
  const { requestId } = result;
  if (result.kind === 'failed') {
    onEnd?.('failed');
    log.error({ requestId, why: result.why }, 'invocation failed');
    return { requestId, messages, done: undefined };
  }
  const settlement = settle(
    messages.map((message) => message.MessageId),
    result.value,
  );
  onEnd?.(settlement.kind === 'refused' ? 'refused' : 'returned');
  if (settlement.kind === 'refused') {
    log.error({ requestId, why: settlement.why }, 'answer refused');
    return { requestId, messages, done: undefined };
  }
  const done = messages.filter((message) => !settlement.failedIds.has(message.MessageId));
  return { requestId, messages, done };
}

/** Never rejects: a message that is not deleted comes again, so a failure here is reported and no more. */
async function deleteDone(
  { requestId, messages, done }: ProcessedBatch,
  { client, queueUrl, log }: PollOptions,
): Promise<void> {
  if (done === undefined) {
    return;
  }
  try {
    const failures = done.length === 0 ? [] : await deleteMessages(client, queueUrl, done);
    for (const why of failures) {
      log.warn({ requestId, why }, 'message not deleted');
    }
    const failed = messages.length - done.length;
    log.debug({ requestId, messages: messages.length, failed }, 'batch processed');
  } catch (error) {
    log.warn({ requestId, why: describeError(error) }, 'messages not deleted');
  }
}

/** @returns why each of those that were not deleted was not */
async function deleteMessages(
  client: SQSClient,
  queueUrl: string,
  messages: readonly ReceivedMessage[],
): Promise<readonly string[]> {
  const answer = await client.send(
    new DeleteMessageBatchCommand({
      QueueUrl: queueUrl,
      Entries: messages.map((message, position) => ({
        Id: String(position),
        ReceiptHandle: message.ReceiptHandle,
      })),
    }),
  );
  return (answer.Failed ?? []).map(({ Code = 'unknown' }) => Code);
}

async function pauseAfter(failuresInARow: number, signal: AbortSignal): Promise<void> {
  const limitMs = Math.min(longestPauseMs, firstPauseMs * 2 ** (failuresInARow - 1));
  try {
    await pause(limitMs * (0.5 + Math.random() / 2), undefined, { signal });
  } catch {
    // The stop ends the pause early.
  }
}
