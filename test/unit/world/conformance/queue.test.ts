import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  ChangeMessageVisibilityCommand,
  DeleteMessageCommand,
  GetQueueAttributesCommand,
  MessageNotInflight,
  ReceiveMessageCommand,
  SQSClient,
  SendMessageCommand,
} from '@aws-sdk/client-sqs';
import { describe, expect, onTestFinished, test } from 'vitest';
import { deadLetterQueueName, queueName } from '#events/hint.ts';
import { openQueue, queueUrl } from '#infra/local/queue/queue.ts';
import { type Instant, parseInstant } from '#shared/kernel/instant.ts';
import {
  type QueueUnderTest,
  maxReceiveCount,
  queueRows,
} from '#test/world/conformance/queue-rows.ts';
import { Queue, type Received } from '#test/world/model/queue.ts';

const defaultVisibilitySeconds = 30;

const start = parseInstant('2026-01-01T00:00:00Z') ?? expect.unreachable();

/** Each call takes a millisecond; waiting for a message takes as long as the message is hidden. */
function openModel(visibilitySeconds: number): QueueUnderTest {
  const queue = new Queue({ visibilitySeconds, maxReceiveCount });
  let now: Instant = start;
  const later = () => (now = (now + 1) as Instant);
  return {
    send: async (body, delaySeconds = 0) => queue.send(body, later(), { delaySeconds }),
    receive: async (max = 10) => queue.receive(later(), max),
    async receiveNext() {
      now = Math.max(later(), queue.nextVisibleAt() ?? expect.unreachable()) as Instant;
      return queue.receive(now, 10);
    },
    async delete(receiptHandle) {
      queue.delete(receiptHandle);
    },
    changeVisibility: async (receiptHandle, seconds) =>
      queue.changeVisibility(receiptHandle, seconds, later()),
    deadLetters: async () => queue.deadLetters(later()),
    depth: async () => queue.depth(later()),
    nowMs: () => now,
  };
}

/** The queue of the run on one machine, over the SDK that production uses. It ends with the test. */
async function openEmbedded(visibilitySeconds: number): Promise<QueueUnderTest> {
  const dataDir = await mkdtemp(join(tmpdir(), 'millrace-queue-rows-'));
  onTestFinished(() => rm(dataDir, { recursive: true }));
  const [stage, region, step] = ['rows', 'eu-west-1', 'drain-step'] as const;
  const server = await openQueue({ dataDir, port: 0, stage, region, visibilitySeconds });
  onTestFinished(() => server.close());
  const client = new SQSClient({
    endpoint: server.url,
    region,
    useQueueUrlAsEndpoint: false,
    credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
  });
  onTestFinished(() => client.destroy());
  const QueueUrl = queueUrl(server.url, queueName(stage, step));
  const deadLetterUrl = queueUrl(server.url, deadLetterQueueName(stage, step));
  return {
    async send(body, delaySeconds = 0) {
      const sent = await client.send(
        new SendMessageCommand({ QueueUrl, MessageBody: body, DelaySeconds: delaySeconds }),
      );
      return sent.MessageId ?? expect.unreachable();
    },
    receive: (max = 10) => receive(client, QueueUrl, max, 0),
    receiveNext: () => receive(client, QueueUrl, 10, 20),
    async delete(ReceiptHandle) {
      await client.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle }));
    },
    async changeVisibility(ReceiptHandle, VisibilityTimeout) {
      try {
        await client.send(
          new ChangeMessageVisibilityCommand({ QueueUrl, ReceiptHandle, VisibilityTimeout }),
        );
        return 'changed';
      } catch (error) {
        if (error instanceof MessageNotInflight) {
          return 'stale';
        }
        throw error;
      }
    },
    deadLetters: () => receive(client, deadLetterUrl, 10, 0),
    depth: () => depthOf(client, QueueUrl),
    nowMs: () => Date.now(),
  };
}

async function receive(
  client: SQSClient,
  QueueUrl: string,
  max: number,
  WaitTimeSeconds: number,
): Promise<readonly Received[]> {
  const { Messages = [] } = await client.send(
    new ReceiveMessageCommand({
      QueueUrl,
      MaxNumberOfMessages: max,
      WaitTimeSeconds,
      MessageSystemAttributeNames: ['All'],
    }),
  );
  return Messages.map(({ MessageId = '', ReceiptHandle = '', Body = '', Attributes = {} }) => ({
    messageId: MessageId,
    receiptHandle: ReceiptHandle,
    body: Body,
    receiveCount: Number(Attributes.ApproximateReceiveCount),
    sentAt: Number(Attributes.SentTimestamp) as Instant,
    firstReceivedAt: Number(Attributes.ApproximateFirstReceiveTimestamp) as Instant,
  }));
}

async function depthOf(client: SQSClient, QueueUrl: string) {
  const { Attributes = {} } = await client.send(
    new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['All'] }),
  );
  return {
    visible: Number(Attributes.ApproximateNumberOfMessages),
    inFlight: Number(Attributes.ApproximateNumberOfMessagesNotVisible),
    delayed: Number(Attributes.ApproximateNumberOfMessagesDelayed),
  };
}

describe.each([
  ['the model of the queue', async (seconds: number) => openModel(seconds)],
  ['the embedded queue', openEmbedded],
] as const)('%s', { timeout: 60_000 }, (_, open) => {
  test.each(queueRows)('$name', async ({ visibilitySeconds, act, sees }) => {
    const queue = await open(visibilitySeconds ?? defaultVisibilitySeconds);

    const seen = await act(queue);

    expect(seen).toEqual(sees);
  });
});
