import { once } from 'node:events';
import { type IncomingMessage, type ServerResponse, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { isDeepStrictEqual } from 'node:util';
import { expect } from 'vitest';

interface ExpectedRequest {
  readonly method: string;
  readonly path: string;
  /** Parsed JSON; absent: none may be sent. */
  readonly body?: unknown;
  /** Only these are compared. */
  readonly headers?: Readonly<Record<string, string>>;
}

export type Answer =
  | {
      readonly status: number;
      readonly body?: unknown;
      readonly headers?: Readonly<Record<string, string>>;
    }
  /** The request is taken, and never answered. */
  | 'hang'
  /** The request is taken, and the connection ends. */
  | 'drop';

/**
 * A real HTTP server on loopback that answers exactly the requests it was told to expect, each once and in any order.
 * Anything else is answered 599 and fails {@link ScriptedServer.verify}, as does a request that never came.
 */
export interface ScriptedServer extends AsyncDisposable {
  /** `http://127.0.0.1:<port>` */
  readonly url: string;
  expect(request: ExpectedRequest, answer: Answer): void;
  verify(): void;
}

export async function startScriptedServer(): Promise<ScriptedServer> {
  const expected: { request: ExpectedRequest; answer: Answer }[] = [];
  const unexpected: unknown[] = [];

  async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const received = await describeRequest(request);
    const index = expected.findIndex(
      (candidate) =>
        candidate.request.method === received.method &&
        candidate.request.path === received.path &&
        isDeepStrictEqual(candidate.request.body, received.body) &&
        Object.entries(candidate.request.headers ?? {}).every(
          ([name, value]) => request.headers[name] === value,
        ),
    );
    const [match] = index === -1 ? [] : expected.splice(index, 1);
    if (match === undefined) {
      unexpected.push(received);
      response.writeHead(599).end();
    } else if (match.answer === 'drop') {
      response.destroy();
    } else if (match.answer !== 'hang') {
      const { status, body, headers } = match.answer;
      response.writeHead(status, { 'content-type': 'application/json', ...headers });
      response.end(typeof body === 'string' ? body : JSON.stringify(body ?? {}));
    }
  }

  const server = createServer((request, response) => {
    respond(request, response).catch((error: unknown) => {
      unexpected.push(error);
      response.destroy();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    expect(request, answer) {
      expected.push({ request, answer });
    },
    verify() {
      expect({ unexpected, missing: expected.map(({ request }) => request) }).toEqual({
        unexpected: [],
        missing: [],
      });
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

async function describeRequest(request: IncomingMessage): Promise<ExpectedRequest> {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) {
    chunks.push(chunk);
  }
  const text = Buffer.concat(chunks).toString('utf8');
  const parts = { method: request.method ?? '', path: request.url ?? '' };
  return text === '' ? parts : { ...parts, body: JSON.parse(text) as unknown };
}
