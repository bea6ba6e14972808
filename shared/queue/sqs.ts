import type { SQSClient } from '@aws-sdk/client-sqs';
import type { QueueSender } from './queue.ts';

export interface SqsAccess {
  readonly region: string;
  /** Another server than the region's own, such as an embedded queue. */
  readonly endpoint?: string;
  /** How often the SDK tries one call; 1 leaves retries to the caller. Default 3. */
  readonly tries?: number;
  /** How long one try may take, in milliseconds; then it counts as not answered. Default 10 000. */
  readonly requestTimeoutMs?: number;
}

export interface SqsQueues extends QueueSender {
  /** Makes a received message visible again after so many seconds (0 to 43,200). */
  changeVisibility(queueUrl: string, receiptHandle: string, seconds: number): Promise<void>;
  /** Closes the connections. */
  close(): void;
}

/** How long connecting and one try may take, in milliseconds. A hanging queue must not look like a slow one for long. */
const connectionTimeoutMs = 3_000;
const defaultRequestTimeoutMs = 10_000;

/** The account in the queue URLs of an embedded queue. */
const embeddedAccount = '000000000000';

/** Where queues are that the environment names by their server alone: `<endpoint>/000000000000/`. */
export function embeddedQueueUrlPrefix(endpoint: string): string {
  return `${endpoint.replace(/\/+$/, '')}/${embeddedAccount}/`;
}

/**
 * Speaks to Amazon SQS, or to a server that speaks its protocol. The SDK is loaded at the first call.
 *
 * @param queueUrlPrefix put before a queue's name for its URL, `https://sqs.<region>.amazonaws.com/<account>/`
 */
export function connectSqs(access: SqsAccess, queueUrlPrefix: string): SqsQueues {
  let connecting: Promise<SQSClient> | undefined;
  const client = (): Promise<SQSClient> => (connecting ??= openClient(access));
  return {
    async send(queue, entries, signal) {
      const { SendMessageBatchCommand } = await import('@aws-sdk/client-sqs');
      const answer = await (
        await client()
      ).send(
        new SendMessageBatchCommand({
          QueueUrl: `${queueUrlPrefix}${queue}`,
          Entries: entries.map(({ id, body, group }) => ({
            Id: id,
            MessageBody: body,
            MessageGroupId: group,
          })),
        }),
        signal === undefined ? {} : { abortSignal: signal },
      );
      return {
        acknowledged: (answer.Successful ?? []).flatMap(({ Id }) => Id ?? []),
        failed: (answer.Failed ?? []).flatMap(({ Id, Code }) =>
          Id === undefined ? [] : [{ id: Id, why: Code ?? 'unknown' }],
        ),
      };
    },
    async changeVisibility(queueUrl, receiptHandle, seconds) {
      const { ChangeMessageVisibilityCommand } = await import('@aws-sdk/client-sqs');
      await (
        await client()
      ).send(
        new ChangeMessageVisibilityCommand({
          QueueUrl: queueUrl,
          ReceiptHandle: receiptHandle,
          VisibilityTimeout: seconds,
        }),
      );
    },
    close() {
      void connecting?.then((opened) => opened.destroy());
    },
  };
}

async function openClient({
  region,
  endpoint,
  tries = 3,
  requestTimeoutMs = defaultRequestTimeoutMs,
}: SqsAccess): Promise<SQSClient> {
  const { SQSClient } = await import('@aws-sdk/client-sqs');
  return new SQSClient({
    region,
    maxAttempts: tries,
    requestHandler: {
      connectionTimeout: connectionTimeoutMs,
      requestTimeout: requestTimeoutMs,
      // Without it a call that takes longer is only warned of, and one that hangs, hangs for ever.
      throwOnRequestTimeout: true,
    },
    // A queue's URL names a queue. Where requests go is configuration, and nothing else.
    useQueueUrlAsEndpoint: false,
    ...(endpoint === undefined ? {} : { endpoint }),
  });
}
