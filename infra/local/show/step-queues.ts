import {
  DeleteMessageCommand,
  GetQueueAttributesCommand,
  ReceiveMessageCommand,
  SQSClient,
  SendMessageCommand,
} from '@aws-sdk/client-sqs';
import pLimit from 'p-limit';
import { deadLetterQueueName, queueName } from '#events/hint.ts';
import { queueUrl } from '#infra/local/queue/queue.ts';
import { type StepName, stepNames } from '#shared/api/steps.ts';

/** Messages that are on their way to the queue at a time. */
const sendsAtOnce = 16;

/** The queues of the steps, from the side of somebody who can reach them: anybody on this machine, locally. */
export interface StepQueues {
  /** Puts messages into a step's queue, many at a time, so in no exact order. */
  send(step: StepName, bodies: readonly string[]): Promise<void>;
  /** Messages in the queues of all steps, those in work included. */
  waiting(): Promise<number>;
  /** Messages in a step's dead-letter queue. */
  deadLetters(step: StepName): Promise<number>;
  /** Takes every message out of a step's dead-letter queue. */
  takeDeadLetters(step: StepName): Promise<readonly string[]>;
  /** Whether the server answers a question before the signal aborts. */
  hasAnswered(signal: AbortSignal): Promise<boolean>;
  close(): void;
}

/**
 * Opens the embedded queue's server.
 *
 * @param stage part of the queues' names
 */
export function openStepQueues(endpoint: string, stage: string): StepQueues {
  const client = new SQSClient({
    endpoint,
    region: 'us-east-1',
    useQueueUrlAsEndpoint: false,
    credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
    // One try, so that a message that was sent is in the queue once, and an outage shows as what it is.
    maxAttempts: 1,
  });
  const sourceUrl = (step: StepName) => queueUrl(endpoint, queueName(stage, step));
  const deadLetterUrl = (step: StepName) => queueUrl(endpoint, deadLetterQueueName(stage, step));
  return {
    async send(step, bodies) {
      const QueueUrl = sourceUrl(step);
      await pLimit(sendsAtOnce).map(bodies, (MessageBody) =>
        client.send(new SendMessageCommand({ QueueUrl, MessageBody })),
      );
    },
    async waiting() {
      const counts = await Promise.all(stepNames.map((step) => count(client, sourceUrl(step))));
      return counts.reduce((total, each) => total + each, 0);
    },
    deadLetters: (step) => count(client, deadLetterUrl(step)),
    takeDeadLetters: (step) => takeAll(client, deadLetterUrl(step)),
    async hasAnswered(signal) {
      const question = new GetQueueAttributesCommand({
        QueueUrl: sourceUrl('drain-step'),
        AttributeNames: ['ApproximateNumberOfMessages'],
      });
      return client.send(question, { abortSignal: signal }).then(
        () => true,
        (error: unknown) => {
          if (!signal.aborted) {
            throw error;
          }
          return false;
        },
      );
    },
    close: () => client.destroy(),
  };
}

async function count(client: SQSClient, url: string): Promise<number> {
  const { Attributes } = await client.send(
    new GetQueueAttributesCommand({
      QueueUrl: url,
      AttributeNames: ['ApproximateNumberOfMessages', 'ApproximateNumberOfMessagesNotVisible'],
    }),
  );
  return (
    Number(Attributes?.ApproximateNumberOfMessages) +
    Number(Attributes?.ApproximateNumberOfMessagesNotVisible)
  );
}

async function takeAll(client: SQSClient, url: string): Promise<readonly string[]> {
  const bodies: string[] = [];
  for (;;) {
    const { Messages = [] } = await client.send(
      new ReceiveMessageCommand({ QueueUrl: url, MaxNumberOfMessages: 10 }),
    );
    if (Messages.length === 0) {
      return bodies;
    }
    for (const { Body, ReceiptHandle } of Messages) {
      await client.send(new DeleteMessageCommand({ QueueUrl: url, ReceiptHandle }));
      bodies.push(Body ?? '');
    }
  }
}
