import { once } from 'node:events';
import { type RequestListener, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { connectHttp, readText } from '#shared/http/connection.ts';

/** A server that answers like this, with one connection to it at a time; both end with the test. */
async function serve(answer: RequestListener) {
  const server = createServer(answer).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const connection = connectHttp(new URL(`http://127.0.0.1:${port}/ignored?path`), 1);
  onTestFinished(async () => {
    connection.close();
    server.close();
    server.closeAllConnections();
    await once(server, 'close');
  });
  return { server, connection };
}

const get = { method: 'GET', path: '/', headers: {} };

describe('a connection', () => {
  test('sends method, path, headers and body as they are given', async () => {
    const seen: unknown[] = [];
    const { connection } = await serve((request, response) => {
      seen.push([request.method, request.url, request.headers['x-word']]);
      request.pipe(response);
    });
    const request = { method: 'POST', path: '/a?b=c', headers: { 'x-word': 'd' }, body: 'ä' };

    const echo = await readText(await connection.send(request), 2);

    expect(seen).toEqual([['POST', '/a?b=c', 'd']]);
    expect(echo).toBe('ä');
  });

  test('is used again once an answer was read to its end', async () => {
    const ports = new Set<number | undefined>();
    const { connection } = await serve((request, response) => {
      ports.add(request.socket.remotePort);
      response.end('answer');
    });

    const first = await readText(await connection.send(get), 6);
    const second = await readText(await connection.send(get), 6);

    expect([first, second]).toEqual(['answer', 'answer']);
    expect(ports.size).toBe(1);
  });

  test('rejects what its signal gives up', async () => {
    const { connection } = await serve(() => undefined);

    const sending = connection.send({ ...get, signal: AbortSignal.abort() });

    await expect(sending).rejects.toMatchObject({ name: 'AbortError' });
  });
});

describe('a body', () => {
  test('is read where it is as long as it may be, however its characters are cut', async () => {
    const bytes = Array.from(Buffer.from('ä€😀'), (byte) => Uint8Array.of(byte));

    expect(await readText(bytes, 9)).toBe('ä€😀');
  });

  test('that is none is empty', async () => {
    expect(await readText([], 9)).toBe('');
  });

  test('that is too long is refused, and its connection ends though the server has more to say', async () => {
    const { server, connection } = await serve((_request, response) => {
      response.write('0123456789');
    });
    const closed = Promise.withResolvers<void>();
    server.on('connection', (socket) => socket.on('close', () => closed.resolve()));
    const answer = await connection.send(get);

    await expect(readText(answer, 9)).rejects.toThrow('the answer is longer than 9 bytes');

    await closed.promise;
  });

  test('that breaks off is refused', async () => {
    const { connection } = await serve((_request, response) => {
      response.write('half', () => response.destroy());
    });
    const answer = await connection.send(get);

    await expect(readText(answer, 9)).rejects.toThrow('aborted');
  });
});
