import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  ChangeMessageVisibilityCommand,
  ReceiveMessageCommand,
  SQSClient,
} from '@aws-sdk/client-sqs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { queueName } from '#events/hint.ts';
import { type EmbeddedQueue, openQueue, queueUrl } from '#infra/local/queue/queue.ts';
import { type StepQueues, openStepQueues } from '#infra/local/show/step-queues.ts';

let folder: string;
let server: EmbeddedQueue;
let queues: StepQueues;
let worker: SQSClient;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-queues-'));
  server = await openQueue({
    dataDir: folder,
    port: 0,
    stage: 'test',
    region: 'us-east-1',
    visibilitySeconds: 180,
  });
  queues = openStepQueues(server.url, 'test');
  worker = new SQSClient({
    endpoint: server.url,
    region: 'us-east-1',
    useQueueUrlAsEndpoint: false,
    credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
  });
});

afterAll(async () => {
  worker.destroy();
  queues.close();
  await server.close();
  await rm(folder, { recursive: true });
});

/** Takes what is there and gives it back at once, as a step that refuses everything. */
async function refuseEverything(): Promise<number> {
  const QueueUrl = queueUrl(server.url, queueName('test', 'drain-step'));
  const { Messages = [] } = await worker.send(
    new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10 }),
  );
  for (const { ReceiptHandle } of Messages) {
    await worker.send(
      new ChangeMessageVisibilityCommand({ QueueUrl, ReceiptHandle, VisibilityTimeout: 0 }),
    );
  }
  return Messages.length;
}

describe('the queues of the steps', { timeout: 30_000 }, () => {
  test('keep what is refused as dead letters, byte for byte, until they are taken', async () => {
    const bodies = Array.from({ length: 25 }, (_, place) => `message ${place} ${'ü'.repeat(50)}`);
    await queues.send('drain-step', bodies);
    const sent = await queues.waiting();

    while ((await refuseEverything()) > 0);
    const waiting = await queues.waiting();
    const dead = await queues.deadLetters('drain-step');
    const taken = await queues.takeDeadLetters('drain-step');

    expect([sent, waiting, dead]).toEqual([25, 0, 25]);
    expect(taken.toSorted()).toEqual(bodies.toSorted());
    expect(await queues.deadLetters('drain-step')).toBe(0);
    expect(await queues.deadLetters('pool-pods')).toBe(0);
  });

  test('count a message that somebody has in work', async () => {
    await queues.send('pool-pods', ['in work']);
    const QueueUrl = queueUrl(server.url, queueName('test', 'pool-pods'));

    const { Messages } = await worker.send(new ReceiveMessageCommand({ QueueUrl }));

    expect(Messages).toHaveLength(1);
    expect(await queues.waiting()).toBe(1);
  });

  test('answer while their server runs, and an outage is told from a refused connection', async () => {
    const stranger = openStepQueues('http://127.0.0.1:1', 'test');

    const isAnswered = await queues.hasAnswered(AbortSignal.timeout(20_000));

    expect(isAnswered).toBe(true);
    await expect(stranger.hasAnswered(AbortSignal.timeout(20_000))).rejects.toThrow('ECONNREFUSED');
    stranger.close();
  });
});
