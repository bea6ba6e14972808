import { startFauxqs } from 'fauxqs';
import { expect, onTestFinished, test } from 'vitest';
import { connectSqsReceiver } from '#shared/queue/sqs-receiver.ts';
import { embeddedQueueUrlPrefix } from '#shared/queue/sqs-sender.ts';

test('a received message becomes visible again when asked', async () => {
  process.env.AWS_ACCESS_KEY_ID = 'test';
  process.env.AWS_SECRET_ACCESS_KEY = 'test';
  const server = await startFauxqs({ port: 0, logger: false });
  onTestFinished(() => server.stop());
  const { SQSClient, ReceiveMessageCommand } = await import('@aws-sdk/client-sqs');
  const queue = 'millrace-test-visibility';
  server.createQueue(queue);
  const receiver = connectSqsReceiver({ region: 'us-east-1', endpoint: server.address });
  onTestFinished(() => receiver.close());
  const queueUrl = `${embeddedQueueUrlPrefix(server.address)}${queue}`;
  const reader = new SQSClient({
    region: 'us-east-1',
    endpoint: server.address,
    useQueueUrlAsEndpoint: false,
  });
  onTestFinished(() => reader.destroy());
  const receive = async () =>
    (await reader.send(new ReceiveMessageCommand({ QueueUrl: queueUrl }))).Messages ?? [];
  server.sendMessage(queue, 'hello');
  const [first] = await receive();
  const hidden = await receive();

  await receiver.changeVisibility(queueUrl, first?.ReceiptHandle ?? '', 0);

  expect(hidden).toEqual([]);
  expect((await receive()).map(({ Body }) => Body)).toEqual(['hello']);
});
