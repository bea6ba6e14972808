import { randomUUID } from 'node:crypto';
import type { Message, MessageAttributeValue } from '@aws-sdk/client-sqs';
import type { ScheduledEvent, SQSEvent, SQSMessageAttribute, SQSRecord } from 'aws-lambda';
import * as z from 'zod';

/** The account in every ARN here. */
const accountId = '000000000000';

/** A message as it was received: the three parts an event cannot be without are there. */
export interface ReceivedMessage extends Message {
  MessageId: string;
  ReceiptHandle: string;
  Body: string;
}

/**
 * The event that Lambda's event source mapping makes of a batch of messages
 * (AWS Lambda Developer Guide, "Using Lambda with Amazon SQS", example message event).
 */
export function makeEvent(
  messages: readonly ReceivedMessage[],
  queue: { readonly arn: string; readonly region: string },
): SQSEvent {
  return {
    Records: messages.map((message) => ({
      messageId: message.MessageId,
      receiptHandle: message.ReceiptHandle,
      body: message.Body,
      attributes: attributesOf(message),
      messageAttributes: Object.fromEntries(
        Object.entries(message.MessageAttributes ?? {}).map(([name, value]) => [
          name,
          messageAttributeOf(value),
        ]),
      ),
      md5OfBody: message.MD5OfBody ?? '',
      ...(message.MD5OfMessageAttributes === undefined
        ? {}
        : { md5OfMessageAttributes: message.MD5OfMessageAttributes }),
      eventSource: 'aws:sqs',
      eventSourceARN: queue.arn,
      awsRegion: queue.region,
    })),
  };
}

function attributesOf(message: ReceivedMessage): SQSRecord['attributes'] {
  return {
    ApproximateReceiveCount: '1',
    SentTimestamp: '0',
    SenderId: '',
    ApproximateFirstReceiveTimestamp: '0',
    ...message.Attributes,
  };
}

function messageAttributeOf(value: MessageAttributeValue): SQSMessageAttribute {
  return {
    ...(value.StringValue === undefined ? {} : { stringValue: value.StringValue }),
    ...(value.BinaryValue === undefined
      ? {}
      : { binaryValue: Buffer.from(value.BinaryValue).toString('base64') }),
    stringListValues: [],
    binaryListValues: [],
    dataType: value.DataType ?? 'String',
  };
}

/**
 * The event that EventBridge makes of a schedule's tick (Amazon EventBridge User Guide, "Creating a rule that runs on a
 * schedule", example event). Its time is in whole seconds.
 *
 * @param functionName the rule is named after the function it invokes
 */
export function makeScheduledEvent(
  now: Date,
  { functionName, region }: { readonly functionName: string; readonly region: string },
): ScheduledEvent {
  return {
    version: '0',
    id: randomUUID(),
    'detail-type': 'Scheduled Event',
    source: 'aws.events',
    account: accountId,
    time: `${now.toISOString().slice(0, 19)}Z`,
    region,
    resources: [`arn:aws:events:${region}:${accountId}:rule/${functionName}`],
    detail: {},
  };
}

/** What becomes of a batch after its function answered. */
export type Settlement =
  | { readonly kind: 'settled'; readonly failedIds: ReadonlySet<string> }
  /** Nothing of the batch is deleted: as if the function had thrown. */
  | { readonly kind: 'refused'; readonly why: string };

const responseSchema = z
  .looseObject({
    batchItemFailures: z
      .array(z.looseObject({ itemIdentifier: z.string().min(1) }))
      .nullish()
      .transform((failures) => failures ?? []),
  })
  .nullish();

/**
 * Reads a function's answer by the rules of an event source mapping with `ReportBatchItemFailures`: an empty or absent
 * list is success; an identifier that is empty, missing, under another key, or not of this batch fails all of it
 * (AWS Lambda Developer Guide, "Handling errors for an SQS event source", success and failure conditions).
 *
 * @param response the answer after its way through JSON; `undefined` where there was none
 */
export function settle(messageIds: readonly string[], response: unknown): Settlement {
  const parsed = responseSchema.safeParse(response);
  if (!parsed.success) {
    return { kind: 'refused', why: 'the answer is not of the form {batchItemFailures: […]}' };
  }
  const failedIds = new Set(
    parsed.data?.batchItemFailures.map((failure) => failure.itemIdentifier) ?? [],
  );
  if (failedIds.values().some((id) => !messageIds.includes(id))) {
    return { kind: 'refused', why: 'the answer names a message that is not of this batch' };
  }
  return { kind: 'settled', failedIds };
}
