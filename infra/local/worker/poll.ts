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
}

/**
 * Feeds one sandbox from one queue until the signal aborts, one batch at a time, as Lambda's event source mapping does:
 * what the function did not name as failed is deleted; everything else stays hidden until its visibility ends, which
 * the function itself may have changed. Resolves when the last invocation has ended.
 */
export async function poll(options: PollOptions, signal: AbortSignal): Promise<void> {
  let failuresInARow = 0;
  while (!signal.aborted) {
    try {
      const messages = await receive(options);
      failuresInARow = 0;
      if (messages.length > 0) {
        await processBatch(messages, options);
      }
    } catch (error) {
      failuresInARow += 1;
      // An outage is one event, however often it is noticed.
      const level = failuresInARow === 1 ? 'warn' : 'debug';
      options.log[level]({ why: describeError(error), failuresInARow }, 'queue unreachable');
      await pauseAfter(failuresInARow, signal);
    }
  }
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

async function processBatch(
  messages: readonly ReceivedMessage[],
  options: PollOptions,
): Promise<void> {
  const { sandbox, log } = options;
  const event = makeEvent(messages, { arn: options.queueArn, region: options.region });
  const result = await sandbox.invoke(event);
  if (result.kind === 'failed') {
    log.error({ requestId: result.requestId, why: result.why }, 'invocation failed');
    return;
  }
  const settlement = settle(
    messages.map((message) => message.MessageId),
    result.value,
  );
  if (settlement.kind === 'refused') {
    log.error({ requestId: result.requestId, why: settlement.why }, 'answer refused');
    return;
  }
  const done = messages.filter((message) => !settlement.failedIds.has(message.MessageId));
  if (done.length > 0) {
    await acknowledge(done, options);
  }
  log.debug(
    { requestId: result.requestId, messages: messages.length, failed: settlement.failedIds.size },
    'batch processed',
  );
}

/** A message that is not deleted comes again, so a failure here is reported and no more. */
async function acknowledge(
  messages: readonly ReceivedMessage[],
  { client, queueUrl, log }: PollOptions,
): Promise<void> {
  const answer = await client.send(
    new DeleteMessageBatchCommand({
      QueueUrl: queueUrl,
      Entries: messages.map((message, position) => ({
        Id: String(position),
        ReceiptHandle: message.ReceiptHandle,
      })),
    }),
  );
  for (const failure of answer.Failed ?? []) {
    log.warn({ why: failure.Code }, 'message not deleted');
  }
}

async function pauseAfter(failuresInARow: number, signal: AbortSignal): Promise<void> {
  const limitMs = Math.min(longestPauseMs, firstPauseMs * 2 ** (failuresInARow - 1));
  try {
    await pause(limitMs * (0.5 + Math.random() / 2), undefined, { signal });
  } catch {
    // The stop ends the pause early.
  }
}
