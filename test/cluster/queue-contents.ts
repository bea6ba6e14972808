import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  DeleteMessageCommand,
  GetQueueAttributesCommand,
  type Message,
  ReceiveMessageCommand,
  SQSClient,
} from '@aws-sdk/client-sqs';
import { afterAll, beforeAll } from 'vitest';
import { queueName } from '#events/hint.ts';
import { queueUrl } from '#infra/local/queue/queue.ts';
import { startQueue } from '#infra/local/queue/start.ts';
import { stepNames } from '#shared/api/steps.ts';

const region = 'us-east-1';

export interface OpenQueue extends AsyncDisposable {
  /** `http://127.0.0.1:<port>` */
  readonly url: string;
}

/**
 * The real queue server as a process of its own, with every step's queue of one stage.
 *
 * @param visibilitySeconds how long a received message stays hidden
 */
export async function openQueueProcess(
  stage: string,
  visibilitySeconds: number,
): Promise<OpenQueue> {
  const dataDir = await mkdtemp(join(tmpdir(), 'millrace-queue-'));
  const queue = await startQueue({ dataDir, port: 0, stage, region, visibilitySeconds });
  return {
    url: queue.announced.url,
    async [Symbol.asyncDispose]() {
      await queue.stop(5_000);
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

/** The same from before the first to after the last test of the suite it is called in. */
export function useQueueProcess(stage: string): () => OpenQueue {
  let queue: OpenQueue | undefined;
  beforeAll(async () => {
    queue = await openQueueProcess(stage, 30);
  });
  afterAll(async () => {
    await queue?.[Symbol.asyncDispose]();
  });
  return () => {
    if (queue === undefined) {
      throw new Error('the queue runs only during tests');
    }
    return queue;
  };
}

/** A client of an embedded queue server. Up to the caller to destroy. */
export function openQueueClient(endpoint: string): SQSClient {
  return new SQSClient({
    endpoint,
    region,
    useQueueUrlAsEndpoint: false,
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
  });
}

/** How many messages one queue holds, those included that somebody has received and not deleted. */
export async function countMessages(client: SQSClient, endpoint: string, name: string) {
  const { Attributes } = await client.send(
    new GetQueueAttributesCommand({
      QueueUrl: queueUrl(endpoint, name),
      AttributeNames: ['All'],
    }),
  );
  const visible = Number(Attributes?.ApproximateNumberOfMessages);
  const hidden = Number(Attributes?.ApproximateNumberOfMessagesNotVisible);
  return visible + hidden;
}

/** How many messages the queues of all steps hold together. */
export async function messagesIn(endpoint: string, stage: string): Promise<number> {
  const client = openQueueClient(endpoint);
  try {
    const counts = await Promise.all(
      stepNames.map((step) => countMessages(client, endpoint, queueName(stage, step))),
    );
    return counts.reduce((sum, count) => sum + count, 0);
  } finally {
    client.destroy();
  }
}

/** Takes what comes into a queue within a second, ten messages at most, for good. */
export async function takeMessages(
  client: SQSClient,
  endpoint: string,
  name: string,
): Promise<Message[]> {
  const QueueUrl = queueUrl(endpoint, name);
  const { Messages = [] } = await client.send(
    new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10, WaitTimeSeconds: 1 }),
  );
  for (const { ReceiptHandle } of Messages) {
    await client.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle }));
  }
  return Messages;
}
