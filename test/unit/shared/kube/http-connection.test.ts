import { once } from 'node:events';
import { type RequestListener, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { KubeConnection } from '#shared/kube/connection.ts';
import { connectKube } from '#shared/kube/http-connection.ts';

/** A connection to a server that answers like this; both end with the test. */
async function connectTo(answer: RequestListener): Promise<KubeConnection> {
  const server = createServer(answer);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const connection = connectKube({
    server: `http://127.0.0.1:${port}`,
    credentials: async () => ({}),
  });
  onTestFinished(async () => {
    connection.close();
    server.close();
    server.closeAllConnections();
    await once(server, 'close');
  });
  return connection;
}

/** The lines of a stream whose bytes come in these chunks, each in a packet of its own. */
async function linesOfChunks(chunks: readonly (string | Uint8Array)[]): Promise<string[]> {
  const connection = await connectTo((_request, response) => {
    const writeFrom = (place: number): void => {
      const chunk = chunks[place];
      if (chunk === undefined) {
        response.end();
      } else {
        response.write(chunk, () => void setImmediate().then(() => writeFrom(place + 1)));
      }
    };
    writeFrom(0);
  });
  const { lines } = await connection.stream({ method: 'GET', path: '/' });
  return Array.fromAsync(lines);
}

describe('a stream’s lines', () => {
  test('are whole, however the chunks fall', async () => {
    const text = 'one\ntwo and a half\n\n{"three":3}\n';
    const single = text.split('');

    const lines = await Promise.all([linesOfChunks([text]), linesOfChunks(single)]);

    const expected = ['one', 'two and a half', '', '{"three":3}'];
    expect(lines).toEqual([expected, expected]);
  });

  test('keep characters that are cut between two chunks', async () => {
    const bytes = Buffer.from('ä€😀\nß\n');
    const single = Array.from(bytes, (byte) => Uint8Array.of(byte));

    const lines = await linesOfChunks(single);

    expect(lines).toEqual(['ä€😀', 'ß']);
  });

  test('include a last one without an end', async () => {
    expect(await linesOfChunks(['one\nt', 'wo'])).toEqual(['one', 'two']);
  });

  test('are none in an empty response', async () => {
    expect(await linesOfChunks([])).toEqual([]);
  });

  test('may be far longer than a chunk', async () => {
    const long = 'x'.repeat(1_500_000);

    const lines = await linesOfChunks([`a\n${long}\nb\n`]);

    expect(lines.map(({ length }) => length)).toEqual([1, long.length, 1]);
  });

  test('end in an error when one never ends', async () => {
    const connection = await connectTo((_request, response) => {
      const chunk = Buffer.alloc(1024 * 1024, 'x');
      const writeOn = (): void => {
        if (!response.destroyed) {
          response.write(chunk, writeOn);
        }
      };
      writeOn();
    });
    const { lines } = await connection.stream({ method: 'GET', path: '/' });

    await expect(Array.fromAsync(lines)).rejects.toThrow('longer than 16777216 bytes');
  });

  test('end in an error, never quietly, when the connection breaks, and half a line is none', async () => {
    const connection = await connectTo((_request, response) => {
      response.write('one\ntw', () => response.socket?.destroy());
    });
    const { lines } = await connection.stream({ method: 'GET', path: '/' });
    const seen: string[] = [];

    const reading = (async () => {
      for await (const line of lines) {
        seen.push(line);
      }
    })();

    await expect(reading).rejects.toThrow();
    expect(seen).toEqual(['one']);
  });

  test('end in an error when the connection broke before anybody read', async () => {
    const broken = Promise.withResolvers<void>();
    const connection = await connectTo((request, response) => {
      request.socket.once('close', () => broken.resolve());
      response.write('one\n', () => response.socket?.destroy());
    });
    const { lines } = await connection.stream({ method: 'GET', path: '/' });
    await broken.promise;

    await expect(Array.fromAsync(lines)).rejects.toThrow();
  });

  test('end in an error when they are no longer wanted', async () => {
    const connection = await connectTo((_request, response) => void response.write('one\n'));
    const stopping = new AbortController();
    const { lines } = await connection.stream({
      method: 'GET',
      path: '/',
      signal: stopping.signal,
    });

    const reading = (async () => {
      for await (const _ of lines) {
        stopping.abort();
      }
    })();

    await expect(reading).rejects.toThrow('aborted');
  });

  test('that nobody takes any more end the response', async () => {
    const closed = Promise.withResolvers<void>();
    const connection = await connectTo((_request, response) => {
      response.once('close', () => closed.resolve());
      response.write('one\ntwo\n');
    });
    const { lines } = await connection.stream({ method: 'GET', path: '/' });

    for await (const line of lines) {
      expect(line).toBe('one');
      break;
    }

    await closed.promise;
  });

  test('hold the server up while nobody takes them', async () => {
    const line = `${'x'.repeat(1024 * 1024 - 1)}\n`;
    const count = 128;
    let written = 0;
    const connection = await connectTo((_request, response) => {
      const writeOn = (): void => {
        if (written === count) {
          response.end();
          return;
        }
        written += 1;
        response.write(line, writeOn);
      };
      writeOn();
    });
    const { lines } = await connection.stream({ method: 'GET', path: '/' });

    const leads: number[] = [];
    for await (const _ of lines) {
      leads.push(written - leads.length);
      // The server has time for far more than one line.
      for (let turn = 0; turn < 10; turn += 1) {
        await setImmediate();
      }
    }

    expect(leads).toHaveLength(count);
    // Both sockets' buffers hold some megabytes.
    expect(Math.max(...leads)).toBeLessThan(32);
  });
});
