import type { SQSClient } from '@aws-sdk/client-sqs';

export interface SqsReceiverAccess {
  readonly region: string;
  /** Another server than the region's own, such as an embedded queue. */
  readonly endpoint?: string;
}

export interface SqsReceiver {
  /** Makes a received message visible again after so many seconds (0 to 43,200). */
  changeVisibility(queueUrl: string, receiptHandle: string, seconds: number): Promise<void>;
  /** Closes the connections. */
  close(): void;
}

/** How long connecting and one try may take, in milliseconds. A hanging queue must not look like a slow one for long. */
const connectionTimeoutMs = 3_000;
const requestTimeoutMs = 10_000;

/** The receiving side of Amazon SQS, or of a server that speaks its protocol. The SDK is loaded at the first call. */
export function connectSqsReceiver(access: SqsReceiverAccess): SqsReceiver {
  let connecting: Promise<SQSClient> | undefined;
  const client = (): Promise<SQSClient> => (connecting ??= openClient(access));
  return {
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

async function openClient({ region, endpoint }: SqsReceiverAccess): Promise<SQSClient> {
  const { SQSClient } = await import('@aws-sdk/client-sqs');
  return new SQSClient({
    region,
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
