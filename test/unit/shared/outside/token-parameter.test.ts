import { once } from 'node:events';
import { type IncomingMessage, type ServerResponse, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { tokenFromParameter } from '#shared/outside/token-parameter.ts';

const name = '/millrace/test/kube-token';

interface Asked {
  readonly target: string;
  readonly body: unknown;
}

/** Answers each call with the next value, the last one again and again; a failure for `undefined`. */
async function serveParameter(...values: readonly (string | undefined)[]): Promise<Asked[]> {
  const asked: Asked[] = [];
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body: unknown = JSON.parse(await text(request));
    const value = values[Math.min(asked.length, values.length - 1)];
    asked.push({ target: String(request.headers['x-amz-target']), body });
    response.statusCode = value === undefined ? 400 : 200;
    response.setHeader('content-type', 'application/x-amz-json-1.1');
    response.end(
      JSON.stringify(
        value === undefined
          ? { __type: 'AccessDeniedException', message: 'not you' }
          : { Parameter: { Name: name, Type: 'SecureString', Value: value } },
      ),
    );
  };
  const server = createServer((request, response) => void answer(request, response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  vi.stubEnv('AWS_ENDPOINT_URL_SSM', `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  return asked;
}

beforeEach(() => {
  vi.stubEnv('AWS_ACCESS_KEY_ID', 'test');
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'test');
  // From now on: the SDK compares its clock with the server's.
  vi.useFakeTimers({ toFake: ['Date'] });
});

afterEach(() => {
  vi.unstubAllEnvs();
  vi.useRealTimers();
});

describe('a token in a parameter', () => {
  test('is asked for decrypted, by its name, and not before it is needed', async () => {
    const asked = await serveParameter('secret\n');
    const read = tokenFromParameter(name, 'us-east-1');
    const before = asked.length;

    const token = await read();

    expect(before).toBe(0);
    expect(token).toBe('secret');
    expect(asked).toEqual([
      { target: 'AmazonSSM.GetParameter', body: { Name: name, WithDecryption: true } },
    ]);
  });

  test('is read once for many requests at a time, and for those of the next minutes', async () => {
    const asked = await serveParameter('first', 'second');
    const read = tokenFromParameter(name, 'us-east-1');

    const together = await Promise.all([read(), read(), read()]);
    vi.advanceTimersByTime(4 * 60_000);
    const later = await read();

    expect([...together, later]).toEqual(['first', 'first', 'first', 'first']);
    expect(asked).toHaveLength(1);
  });

  test('that was rotated is in use within ten minutes', async () => {
    await serveParameter('first', 'second');
    const read = tokenFromParameter(name, 'us-east-1');
    await read();

    vi.advanceTimersByTime(10 * 60_000 - 1);

    expect(await read()).toBe('second');
  });

  test('that could not be read is asked for again by the next request', async () => {
    await serveParameter(undefined, 'secret');
    const read = tokenFromParameter(name, 'us-east-1');

    const refused = read();

    await expect(refused).rejects.toThrow('not you');
    expect(await read()).toBe('secret');
  });

  test('that is empty is none', async () => {
    await serveParameter(' \n');
    const read = tokenFromParameter(name, 'us-east-1');

    await expect(read()).rejects.toThrow(`the parameter ${name} is empty`);
  });
});
