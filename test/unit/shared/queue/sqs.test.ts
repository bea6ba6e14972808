import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type FauxqsServer, startFauxqs } from 'fauxqs';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { connectSqs, embeddedQueueUrlPrefix } from '#shared/queue/sqs.ts';

let server: FauxqsServer;

beforeAll(async () => {
  process.env.AWS_ACCESS_KEY_ID = 'test';
  process.env.AWS_SECRET_ACCESS_KEY = 'test';
  server = await startFauxqs({ port: 0, logger: false });
});

afterAll(() => server.stop());

function connect(endpoint = server.address) {
  const queues = connectSqs(
    { region: 'us-east-1', endpoint, tries: 1 },
    embeddedQueueUrlPrefix(endpoint),
  );
  onTestFinished(() => queues.close());
  return queues;
}

/** Names that no other test uses: the messages of a queue outlive the test. */
function createQueue(name: string): string {
  server.createQueue(name);
  return name;
}

describe('a batch', () => {
  test('is acknowledged entry by entry, with body and group as given', async () => {
    const queue = createQueue('millrace-test-batch');
    const entries = [
      { id: '0', body: 'first', group: 'uid-a' },
      { id: '1', body: 'second', group: 'uid-b' },
    ];

    const outcome = await connect().send(queue, entries);

    expect(outcome).toEqual({ acknowledged: ['0', '1'], failed: [] });
    const messages = server.inspectQueue(queue)?.messages.ready ?? [];
    expect(messages.map(({ body }) => body)).toEqual(['first', 'second']);
  });

  test('names exactly the entries the queue refused', async () => {
    const queue = createQueue('millrace-test-partly');
    const entries = [
      { id: '0', body: 'good', group: 'uid-a' },
      { id: '1', body: '\u0000', group: 'uid-b' },
    ];

    const outcome = await connect().send(queue, entries);

    expect(outcome.acknowledged).toEqual(['0']);
    expect(outcome.failed.map(({ id }) => id)).toEqual(['1']);
  });

  test('to a queue that does not exist rejects', async () => {
    const sending = connect().send('millrace-test-nowhere', [{ id: '0', body: 'x', group: 'g' }]);

    await expect(sending).rejects.toThrow();
  });

  test('to a server that does not answer rejects', async () => {
    const gone = await startFauxqs({ port: 0, logger: false });
    const { address } = gone;
    await gone.stop();

    const sending = connect(address).send('millrace-test-batch', [
      { id: '0', body: 'x', group: 'g' },
    ]);

    await expect(sending).rejects.toThrow();
  });

  test('to a server that takes the request and never answers rejects in time', async () => {
    const silent = createServer(() => undefined).listen(0, '127.0.0.1');
    await once(silent, 'listening');
    onTestFinished(() => {
      silent.close();
      silent.closeAllConnections();
    });
    const endpoint = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
    const queues = connectSqs(
      { region: 'us-east-1', endpoint, tries: 1, requestTimeoutMs: 200 },
      embeddedQueueUrlPrefix(endpoint),
    );
    onTestFinished(() => queues.close());

    const sending = queues.send('millrace-test-batch', [{ id: '0', body: 'x', group: 'g' }]);

    await expect(sending).rejects.toThrow(/timeout|timed out|within/i);
  });

  test('can be given up', async () => {
    const queue = createQueue('millrace-test-aborted');

    const sending = connect().send(
      queue,
      [{ id: '0', body: 'x', group: 'g' }],
      AbortSignal.abort(),
    );

    await expect(sending).rejects.toThrow();
  });
});

test('a received message becomes visible again when asked', async () => {
  const { SQSClient, ReceiveMessageCommand } = await import('@aws-sdk/client-sqs');
  const queue = createQueue('millrace-test-visibility');
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

  await connect().changeVisibility(queueUrl, first?.ReceiptHandle ?? '', 0);

  expect(hidden).toEqual([]);
  expect((await receive()).map(({ Body }) => Body)).toEqual(['hello']);
});
