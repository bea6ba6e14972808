import { once } from 'node:events';
import { type RequestListener, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type FauxqsServer, startFauxqs } from 'fauxqs';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { connectSqsSender, embeddedQueueUrlPrefix } from '#shared/queue/sqs-sender.ts';

let server: FauxqsServer;

beforeAll(async () => {
  process.env.AWS_ACCESS_KEY_ID = 'test';
  process.env.AWS_SECRET_ACCESS_KEY = 'test';
  server = await startFauxqs({ port: 0, logger: false });
});

afterAll(() => server.stop());

function connect(endpoint = server.address) {
  const queues = connectSqsSender(
    { region: 'us-east-1', endpoint },
    embeddedQueueUrlPrefix(endpoint),
  );
  onTestFinished(() => queues.close());
  return queues;
}

/** A server that answers every request like this. */
async function serve(answer: RequestListener): Promise<string> {
  const listener = createServer(answer).listen(0, '127.0.0.1');
  await once(listener, 'listening');
  onTestFinished(() => {
    listener.close();
    listener.closeAllConnections();
  });
  return `http://127.0.0.1:${(listener.address() as AddressInfo).port}`;
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
    const endpoint = await serve(() => undefined);
    const queues = connectSqsSender(
      { region: 'us-east-1', endpoint, requestTimeoutMs: 200 },
      embeddedQueueUrlPrefix(endpoint),
    );
    onTestFinished(() => queues.close());

    const sending = queues.send('millrace-test-batch', [{ id: '0', body: 'x', group: 'g' }]);

    await expect(sending).rejects.toThrow(/timeout|timed out|within/i);
  });

  test('that is refused rejects with the words of who refused it', async () => {
    const answers = [
      [400, '{"__type":"com.amazonaws.sqs#RequestThrottled","message":"Rate exceeded"}'],
      [503, '<html>busy</html>'],
    ] as const;
    const errors: unknown[] = [];

    for (const [status, text] of answers) {
      const endpoint = await serve((_, response) => response.writeHead(status).end(text));
      const sending = connect(endpoint).send('q', [{ id: '0', body: 'x', group: 'g' }]);
      errors.push(await sending.catch((error: unknown) => error));
    }

    expect(errors.map(String)).toEqual([
      'QueueRefusal: the queue answered 400: RequestThrottled: Rate exceeded',
      'QueueRefusal: the queue answered 503',
    ]);
  });

  test('that got an answer of no known form rejects', async () => {
    const endpoint = await serve((_, response) => response.end('{"Successful":[{}]}'));

    const sending = connect(endpoint).send('q', [{ id: '0', body: 'x', group: 'g' }]);

    await expect(sending).rejects.toThrow();
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
