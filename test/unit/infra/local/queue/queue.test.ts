import { mkdtemp, rm } from 'node:fs/promises';
import { networkInterfaces, tmpdir } from 'node:os';
import { connect } from 'node:net';
import { once } from 'node:events';
import { join } from 'node:path';
import {
  ChangeMessageVisibilityCommand,
  GetQueueAttributesCommand,
  ReceiveMessageCommand,
  SQSClient,
  SendMessageCommand,
} from '@aws-sdk/client-sqs';
import { afterEach, describe, expect, test } from 'vitest';
import { deadLetterQueueName, queueName } from '#events/hint.ts';
import { type QueueOptions, openQueue, queueUrl } from '#infra/local/queue/queue.ts';
import { startQueue } from '#infra/local/queue/start.ts';
import { stepNames } from '#shared/api/steps.ts';

const cleanUp: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const undo of cleanUp.splice(0).toReversed()) {
    await undo();
  }
});

async function someOptions(): Promise<QueueOptions> {
  const dataDir = await mkdtemp(join(tmpdir(), 'millrace-queue-'));
  cleanUp.push(() => rm(dataDir, { recursive: true }));
  return { dataDir, port: 0, stage: 'test', region: 'eu-west-1', visibilitySeconds: 180 };
}

function clientOf(endpoint: string): SQSClient {
  const client = new SQSClient({
    endpoint,
    region: 'eu-west-1',
    useQueueUrlAsEndpoint: false,
    credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
  });
  cleanUp.push(async () => client.destroy());
  return client;
}

function drainQueue(endpoint: string): { QueueUrl: string } {
  return { QueueUrl: queueUrl(endpoint, queueName('test', 'drain-step')) };
}

describe('the embedded queue', { timeout: 60_000 }, () => {
  test('has a queue and a dead-letter queue for every step', async () => {
    const queue = await openQueue(await someOptions());
    cleanUp.push(() => queue.close());
    const client = clientOf(queue.url);

    for (const step of stepNames) {
      const source = await client.send(
        new GetQueueAttributesCommand({
          QueueUrl: queueUrl(queue.url, queueName('test', step)),
          AttributeNames: ['All'],
        }),
      );
      const deadLetter = await client.send(
        new GetQueueAttributesCommand({
          QueueUrl: queueUrl(queue.url, deadLetterQueueName('test', step)),
          AttributeNames: ['All'],
        }),
      );

      expect(source.Attributes).toMatchObject({
        VisibilityTimeout: '180',
        MessageRetentionPeriod: String(4 * 86_400),
      });
      expect(JSON.parse(source.Attributes?.RedrivePolicy ?? '')).toEqual({
        deadLetterTargetArn: deadLetter.Attributes?.QueueArn,
        maxReceiveCount: 5,
      });
      expect(deadLetter.Attributes?.MessageRetentionPeriod).toBe(String(14 * 86_400));
    }
  });

  test('L7: a message it has acknowledged survives a kill of its process', async () => {
    const options = await someOptions();
    const first = await startQueue(options);
    cleanUp.push(() => first.stop(0));
    const client = clientOf(first.announced.url);

    await client.send(
      new SendMessageCommand({ ...drainQueue(first.announced.url), MessageBody: 'kept' }),
    );
    first.signal('SIGKILL');
    await first.exited;
    const port = Number(new URL(first.announced.url).port);
    const second = await startQueue({ ...options, port });
    cleanUp.push(() => second.stop(5_000));
    const answer = await client.send(new ReceiveMessageCommand(drainQueue(second.announced.url)));

    expect(second.announced.url).toBe(first.announced.url);
    expect(answer.Messages?.map((message) => message.Body)).toEqual(['kept']);
  });

  test('takes new settings over and keeps the messages', async () => {
    const options = await someOptions();
    const first = await openQueue(options);
    await clientOf(first.url).send(
      new SendMessageCommand({ ...drainQueue(first.url), MessageBody: 'kept' }),
    );
    await first.close();

    const second = await openQueue({ ...options, visibilitySeconds: 240 });
    cleanUp.push(() => second.close());
    const answer = await clientOf(second.url).send(
      new GetQueueAttributesCommand({ ...drainQueue(second.url), AttributeNames: ['All'] }),
    );

    expect(answer.Attributes).toMatchObject({
      VisibilityTimeout: '240',
      ApproximateNumberOfMessages: '1',
    });
  });

  test('makes a message visible again at once, with its receive count, also over a restart', async () => {
    const options = await someOptions();
    const first = await openQueue(options);
    const client = clientOf(first.url);
    await client.send(new SendMessageCommand({ ...drainQueue(first.url), MessageBody: 'again' }));
    const received = await client.send(new ReceiveMessageCommand(drainQueue(first.url)));

    await client.send(
      new ChangeMessageVisibilityCommand({
        ...drainQueue(first.url),
        ReceiptHandle: received.Messages?.[0]?.ReceiptHandle,
        VisibilityTimeout: 0,
      }),
    );
    await first.close();
    const second = await openQueue(options);
    cleanUp.push(() => second.close());
    const again = await clientOf(second.url).send(
      new ReceiveMessageCommand({
        ...drainQueue(second.url),
        MessageSystemAttributeNames: ['ApproximateReceiveCount'],
      }),
    );

    expect(again.Messages).toMatchObject([
      { Body: 'again', Attributes: { ApproximateReceiveCount: '2' } },
    ]);
  });

  test('a message handed to a receiver that died while it waited is visible again at once', async () => {
    const queue = await openQueue(await someOptions());
    cleanUp.push(() => queue.close());
    const client = clientOf(queue.url);
    const dying = connect(Number(new URL(queue.url).port), '127.0.0.1');
    await once(dying, 'connect');
    const body = JSON.stringify({ ...drainQueue(queue.url), WaitTimeSeconds: 20 });
    dying.write(
      `POST / HTTP/1.1\r\nhost: queue\r\ncontent-type: application/x-amz-json-1.0\r\n` +
        `x-amz-target: AmazonSQS.ReceiveMessage\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
    // The queue answers in the order it hears: after this answer the receive above is waiting.
    await client.send(new GetQueueAttributesCommand(drainQueue(queue.url)));
    dying.resetAndDestroy();
    await once(dying, 'close');

    await client.send(
      new SendMessageCommand({ ...drainQueue(queue.url), MessageBody: 'not lost' }),
    );
    const answer = await client.send(
      new ReceiveMessageCommand({
        ...drainQueue(queue.url),
        WaitTimeSeconds: 5,
        MessageSystemAttributeNames: ['ApproximateReceiveCount'],
      }),
    );

    expect(answer.Messages).toMatchObject([
      { Body: 'not lost', Attributes: { ApproximateReceiveCount: '2' } },
    ]);
  });

  test('a second process on the same folder is refused', async () => {
    const options = await someOptions();
    const queue = await openQueue(options);
    cleanUp.push(() => queue.close());

    const second = startQueue(options);

    await expect(second).rejects.toThrow(/another process uses the queue/);
  });

  test('is reachable from this machine alone', async () => {
    const outside = Object.values(networkInterfaces())
      .flatMap((addresses) => addresses ?? [])
      .find((address) => !address.internal && address.family === 'IPv4');
    const queue = await openQueue(await someOptions());
    cleanUp.push(() => queue.close());
    const port = Number(new URL(queue.url).port);

    const inside = connect(port, '127.0.0.1');
    await once(inside, 'connect');
    inside.destroy();
    // A machine with no network has no outside to be reached from.
    if (outside !== undefined) {
      const [error] = (await once(connect(port, outside.address), 'error')) as [
        NodeJS.ErrnoException,
      ];
      expect(error.code).toBe('ECONNREFUSED');
    }

    expect(inside.destroyed).toBe(true);
  });
});
