import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  GetQueueAttributesCommand,
  ReceiveMessageCommand,
  SQSClient,
  SendMessageBatchCommand,
} from '@aws-sdk/client-sqs';
import { deadLetterQueueName, queueName } from '#events/hint.ts';
import { type EmbeddedQueue, openQueue, queueUrl } from '#infra/local/queue/queue.ts';

/** The real embedded queue in a temporary folder, and the few calls a test makes to drain-step's queues. */
export class QueueUnderTest {
  readonly #queue: EmbeddedQueue;
  readonly #folder: string;
  readonly #client: SQSClient;

  private constructor(queue: EmbeddedQueue, folder: string) {
    this.#queue = queue;
    this.#folder = folder;
    this.#client = new SQSClient({
      endpoint: queue.url,
      region: 'eu-west-1',
      useQueueUrlAsEndpoint: false,
      credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
    });
  }

  static async open(visibilitySeconds: number): Promise<QueueUnderTest> {
    const folder = await mkdtemp(join(tmpdir(), 'millrace-queue-'));
    const queue = await openQueue({
      dataDir: folder,
      port: 0,
      stage: 'test',
      region: 'eu-west-1',
      visibilitySeconds,
    });
    return new QueueUnderTest(queue, folder);
  }

  get url(): string {
    return this.#queue.url;
  }

  /** Sends all at once, so that one receive takes all of them. At most ten. */
  async send(...bodies: string[]): Promise<string[]> {
    const answer = await this.#client.send(
      new SendMessageBatchCommand({
        QueueUrl: queueUrl(this.url, queueName('test', 'drain-step')),
        Entries: bodies.map((body, position) => ({
          Id: String(position),
          MessageBody: body,
          MessageAttributes: { origin: { DataType: 'String', StringValue: 'test' } },
        })),
      }),
    );
    return (answer.Successful ?? []).map((entry) => entry.MessageId ?? '');
  }

  /** How many messages the queue holds, in the order visible, hidden. */
  async counts(): Promise<{ visible: number; hidden: number }> {
    const answer = await this.#client.send(
      new GetQueueAttributesCommand({
        QueueUrl: queueUrl(this.url, queueName('test', 'drain-step')),
        AttributeNames: ['All'],
      }),
    );
    return {
      visible: Number(answer.Attributes?.ApproximateNumberOfMessages),
      hidden: Number(answer.Attributes?.ApproximateNumberOfMessagesNotVisible),
    };
  }

  /** Waits for the first message in the dead-letter queue, at most 20 s. */
  async deadLetter(): Promise<string | undefined> {
    const answer = await this.#client.send(
      new ReceiveMessageCommand({
        QueueUrl: queueUrl(this.url, deadLetterQueueName('test', 'drain-step')),
        WaitTimeSeconds: 20,
      }),
    );
    return answer.Messages?.[0]?.Body;
  }

  async close(): Promise<void> {
    this.#client.destroy();
    await this.#queue.close();
    await rm(this.#folder, { recursive: true });
  }
}
