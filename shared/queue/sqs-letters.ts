import type { SQSClient } from '@aws-sdk/client-sqs';
import { type Instant, wallClock } from '#shared/kernel/instant.ts';
import { QueueRefusal, type Sent, explainRefusal, explainSilence } from './explain.ts';
import {
  type Letter,
  type LetterQueues,
  type QueueSize,
  type ReceiptFailure,
  maxBatchEntries,
} from './queue.ts';

export interface SqsLettersAccess {
  readonly region: string;
  /** Another server than the region's own, such as an embedded queue. */
  readonly endpoint?: string;
  /** Who reads; found by the SDK's usual chain when absent. An embedded queue takes any. */
  readonly credentials?: { readonly accessKeyId: string; readonly secretAccessKey: string };
}

/** How long connecting and one try may take besides the time that is waited for messages, in milliseconds. */
const connectionTimeoutMs = 3_000;
const requestTimeoutMs = 30_000;

type Sdk = typeof import('@aws-sdk/client-sqs');

interface Opened {
  readonly sdk: Sdk;
  readonly client: SQSClient;
}

/**
 * Reads Amazon SQS, or a server that speaks its protocol. The SDK is loaded at the first call; each call is one request, and
 * trying again is the caller's.
 *
 * @param queueUrlPrefix put before a queue's name for its URL, `https://sqs.<region>.amazonaws.com/<account>/`
 */
export function connectSqsLetters(access: SqsLettersAccess, queueUrlPrefix: string): LetterQueues {
  return new SqsLetters(access, queueUrlPrefix);
}

class SqsLetters implements LetterQueues {
  readonly #access: SqsLettersAccess;
  readonly #urlPrefix: string;
  #opening: Promise<Opened> | undefined;

  constructor(access: SqsLettersAccess, urlPrefix: string) {
    this.#access = access;
    this.#urlPrefix = urlPrefix;
  }

  size(queue: string): Promise<QueueSize> {
    return this.#ask(queue, 'sqs:GetQueueAttributes', async ({ sdk, client }, QueueUrl) => {
      const { Attributes } = await client.send(
        new sdk.GetQueueAttributesCommand({
          QueueUrl,
          AttributeNames: ['ApproximateNumberOfMessages', 'ApproximateNumberOfMessagesNotVisible'],
        }),
      );
      return {
        visible: Number(Attributes?.ApproximateNumberOfMessages ?? 0),
        hidden: Number(Attributes?.ApproximateNumberOfMessagesNotVisible ?? 0),
      };
    });
  }

  receive(
    queue: string,
    {
      hiddenSeconds,
      waitSeconds,
    }: { readonly hiddenSeconds: number; readonly waitSeconds: number },
  ): Promise<readonly Letter[]> {
    return this.#ask(queue, 'sqs:ReceiveMessage', async ({ sdk, client }, QueueUrl) => {
      const { Messages = [] } = await client.send(
        new sdk.ReceiveMessageCommand({
          QueueUrl,
          MaxNumberOfMessages: maxBatchEntries,
          VisibilityTimeout: hiddenSeconds,
          WaitTimeSeconds: waitSeconds,
          MessageSystemAttributeNames: ['SentTimestamp'],
        }),
      );
      return Messages.map(
        ({ MessageId: id = '', ReceiptHandle: receipt = '', Body: body = '', Attributes }) => ({
          id,
          receipt,
          body,
          sentAt: sentAtOf(Attributes?.SentTimestamp),
        }),
      );
    });
  }

  delete(queue: string, receipts: readonly string[]): Promise<readonly ReceiptFailure[]> {
    return this.#ask(queue, 'sqs:DeleteMessage', async ({ sdk, client }, QueueUrl) => {
      const Entries = entriesOf(receipts);
      const { Failed = [] } = await client.send(
        new sdk.DeleteMessageBatchCommand({ QueueUrl, Entries }),
      );
      return Failed.flatMap((failure) => failureOf(receipts, failure));
    });
  }

  show(queue: string, receipts: readonly string[]): Promise<readonly ReceiptFailure[]> {
    return this.#ask(queue, 'sqs:ChangeMessageVisibility', async ({ sdk, client }, QueueUrl) => {
      const Entries = entriesOf(receipts).map((entry) => ({ ...entry, VisibilityTimeout: 0 }));
      const { Failed = [] } = await client.send(
        new sdk.ChangeMessageVisibilityBatchCommand({ QueueUrl, Entries }),
      );
      return Failed.flatMap((failure) => failureOf(receipts, failure));
    });
  }

  close(): void {
    void this.#opening?.then(({ client }) => client.destroy());
  }

  async #ask<T>(
    queue: string,
    action: string,
    question: (opened: Opened, queueUrl: string) => Promise<T>,
  ): Promise<T> {
    const queueUrl = `${this.#urlPrefix}${queue}`;
    try {
      this.#opening ??= open(this.#access);
      return await question(await this.#opening, queueUrl);
    } catch (error) {
      const { region, endpoint = this.#urlPrefix } = this.#access;
      throw told(error, { queueUrl, host: new URL(endpoint).host, region, action });
    }
  }
}

function entriesOf(receipts: readonly string[]) {
  return receipts.map((ReceiptHandle, place) => ({ Id: String(place), ReceiptHandle }));
}

async function open({ region, endpoint, credentials }: SqsLettersAccess): Promise<Opened> {
  const sdk = await import('@aws-sdk/client-sqs');
  const client = new sdk.SQSClient({
    region,
    maxAttempts: 1,
    requestHandler: {
      connectionTimeout: connectionTimeoutMs,
      requestTimeout: requestTimeoutMs,
      throwOnRequestTimeout: true,
    },
    // A queue's URL names a queue. Where requests go is configuration, and nothing else.
    useQueueUrlAsEndpoint: false,
    ...(endpoint === undefined ? {} : { endpoint }),
    ...(credentials === undefined ? {} : { credentials }),
  });
  return { sdk, client };
}

/** A message without its time counts as one that came just now. */
function sentAtOf(text: string | undefined): Instant {
  const milliseconds = Number(text);
  return Number.isSafeInteger(milliseconds) ? (milliseconds as Instant) : wallClock();
}

function failureOf(
  receipts: readonly string[],
  { Id, Code = 'unknown' }: { readonly Id: string | undefined; readonly Code?: string | undefined },
): readonly ReceiptFailure[] {
  const receipt = receipts[Number(Id)];
  return receipt === undefined ? [] : [{ receipt, why: Code }];
}

/** The SDK's error in the words of {@link explainRefusal}, where the server answered; else in those of {@link explainSilence}. */
function told(error: unknown, sent: Sent): unknown {
  if (!(error instanceof Error)) {
    return error;
  }
  const word = error.name;
  const status = statusOf(error);
  const explained = explainRefusal(word, sent);
  if (status === undefined && explained === undefined) {
    return explainSilence(error, sent);
  }
  const words = `the queue answered ${status ?? 'nothing'}: ${word}: ${error.message}`;
  return new QueueRefusal(
    explained === undefined ? words : `${explained} (${status === undefined ? word : words})`,
    word,
    status ?? 400,
  );
}

function statusOf(error: Error): number | undefined {
  if (!('$metadata' in error) || typeof error.$metadata !== 'object' || error.$metadata === null) {
    return undefined;
  }
  const { $metadata: metadata } = error;
  return 'httpStatusCode' in metadata && typeof metadata.httpStatusCode === 'number'
    ? metadata.httpStatusCode
    : undefined;
}
