import { once } from 'node:events';
import { type RequestListener, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type FauxqsServer, startFauxqs } from 'fauxqs';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { QueueRefusal } from '#shared/queue/explain.ts';
import { connectSqsLetters } from '#shared/queue/sqs-letters.ts';
import { connectSqsSender, embeddedQueueUrlPrefix } from '#shared/queue/sqs-sender.ts';

const credentials = { accessKeyId: 'local', secretAccessKey: 'local' };
const region = 'us-east-1';

let server: FauxqsServer;

beforeAll(async () => {
  server = await startFauxqs({ port: 0, logger: false });
});

afterAll(() => server.stop());

function connect(endpoint = server.address) {
  const letters = connectSqsLetters(
    { region, endpoint, credentials },
    embeddedQueueUrlPrefix(endpoint),
  );
  onTestFinished(() => letters.close());
  return letters;
}

async function aQueue(name: string, bodies: readonly string[]): Promise<string> {
  server.createQueue(name);
  const sender = connectSqsSender(
    { region, endpoint: server.address, credentials },
    embeddedQueueUrlPrefix(server.address),
  );
  const entries = bodies.map((body, place) => ({ id: String(place), body, group: 'g' }));
  await sender.send(name, entries);
  sender.close();
  return name;
}

async function serve(answer: RequestListener): Promise<string> {
  const listener = createServer(answer).listen(0, '127.0.0.1');
  await once(listener, 'listening');
  onTestFinished(() => {
    listener.close();
    listener.closeAllConnections();
  });
  return `http://127.0.0.1:${(listener.address() as AddressInfo).port}`;
}

const waiting = { hiddenSeconds: 60, waitSeconds: 0 };

describe('letters', () => {
  test('are received once, hidden from everybody, shown again and deleted', async () => {
    const queue = await aQueue('millrace-test-letters', ['a', 'b', 'c']);
    const letters = connect();
    const earlier = Date.now() - 60_000;

    const first = await letters.receive(queue, waiting);
    const none = await letters.receive(queue, waiting);
    const hidden = await letters.size(queue);
    await letters.delete(
      queue,
      first.slice(0, 1).map(({ receipt }) => receipt),
    );
    await letters.show(
      queue,
      first.slice(1).map(({ receipt }) => receipt),
    );
    const second = await letters.receive(queue, waiting);

    expect(first.map(({ body }) => body)).toEqual(['a', 'b', 'c']);
    expect(first.every(({ sentAt }) => sentAt > earlier)).toBe(true);
    expect(none).toEqual([]);
    expect(hidden).toEqual({ visible: 0, hidden: 3 });
    expect(second.map(({ id }) => id).toSorted()).toEqual(
      first
        .slice(1)
        .map(({ id }) => id)
        .toSorted(),
    );
  });

  test('of a queue that is not there are refused for good, in words that name the setting', async () => {
    const asking = connect().size('millrace-test-nowhere');

    await expect(asking).rejects.toThrow(QueueRefusal);
    await expect(asking).rejects.toThrow(
      /there is no queue millrace-test-nowhere: check MILLRACE_STAGE/,
    );
    await expect(asking).rejects.toMatchObject({ isLasting: true });
  });

  test.each([
    [
      'AccessDenied',
      403,
      true,
      /not allowed to ask for sqs:ReceiveMessage of q: allow it to this identity/,
    ],
    ['InvalidClientTokenId', 403, true, /AWS does not know the credentials/],
    ['ExpiredToken', 403, true, /the credentials of AWS have ended/],
    ['OverLimit', 403, true, /OverLimit/],
    ['RequestThrottled', 400, false, /RequestThrottled/],
    ['InternalFailure', 500, false, /InternalFailure/],
  ])('that are refused with %s', async (word, status, isLasting, says) => {
    const endpoint = await serve((_, response) => {
      response.writeHead(status, { 'content-type': 'application/x-amz-json-1.0' });
      response.end(JSON.stringify({ __type: `com.amazonaws.sqs#${word}`, message: 'no' }));
    });

    const asking = connect(endpoint).receive('q', waiting);

    await expect(asking).rejects.toThrow(says);
    await expect(asking).rejects.toMatchObject({ word, isLasting });
  });

  test('of a server that is not there say which setting to look at', async () => {
    const gone = 'http://127.0.0.1:1';

    await expect(connect(gone).size('q')).rejects.toThrow(
      /nothing answers for the queues at 127\.0\.0\.1:1: check MILLRACE_QUEUE_URL_PREFIX/,
    );
  });
});
