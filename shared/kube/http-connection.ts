import http from 'node:http';
import https from 'node:https';
import { createInterface } from 'node:readline';
import type { KubeAccess, KubeConnection, KubeRequest, KubeResponse } from './connection.ts';

/** How long a plain request may take, in milliseconds, when it does not say. */
const defaultTimeoutMs = 10_000;

/** The longest answer that is read into memory, in bytes: 3 MiB pages of 500 objects are usual, 64 MiB is a mistake. */
const maxBodyBytes = 64 * 1024 * 1024;

/** Connections kept per API server; a handler looks at few things at a time. */
const maxSockets = 32;

/**
 * Connects to one API server with Node's own HTTP client. Nothing is sent before the first request.
 *
 * The server's certificate is always checked. Redirects come back as their status, and are not followed.
 */
export function connectKube(access: KubeAccess): KubeConnection {
  const open = opener(access);

  return {
    async request(request) {
      const timeout = AbortSignal.timeout(request.timeoutMs ?? defaultTimeoutMs);
      const signal =
        request.signal === undefined ? timeout : AbortSignal.any([timeout, request.signal]);
      try {
        const response = await open.send(request, signal);
        return { ...statusOf(response), body: parseBody(await readAll(response)) };
      } catch (error) {
        throw timeout.aborted
          ? new Error(`no answer within ${(request.timeoutMs ?? defaultTimeoutMs) / 1000} s`, {
              cause: error,
            })
          : error;
      }
    },
    async stream(request) {
      const response = await open.send(request, request.signal);
      if (response.statusCode !== 200) {
        return {
          ...statusOf(response),
          body: parseBody(await readAll(response)),
          lines: noLines(),
        };
      }
      return { ...statusOf(response), body: undefined, lines: linesOf(response) };
    },
    close() {
      open.agent.destroy();
    },
  };
}

/** Sends requests over kept connections; resolves with the response's head. */
function opener(access: KubeAccess) {
  const server = new URL(access.server);
  if (server.protocol !== 'https:' && server.protocol !== 'http:') {
    throw new TypeError(
      `the API server's address must start with https:// or http://, not ${server.protocol}//`,
    );
  }
  const transport = server.protocol === 'https:' ? https : http;
  const agent = new transport.Agent({ keepAlive: true, maxSockets });

  async function send(
    request: KubeRequest,
    signal: AbortSignal | undefined,
  ): Promise<http.IncomingMessage> {
    const credentials = await access.credentials();
    const payload = request.body === undefined ? undefined : JSON.stringify(request.body);
    const options: https.RequestOptions = {
      agent,
      method: request.method,
      hostname: server.hostname.replace(/^\[(.*)\]$/, '$1'),
      port: server.port,
      path: pathOf(server, request),
      headers: {
        ...request.headers,
        accept: request.accept ?? 'application/json',
        'user-agent': access.userAgent ?? 'millrace',
        ...(credentials.token === undefined
          ? {}
          : { authorization: `Bearer ${credentials.token}` }),
        ...(payload === undefined
          ? {}
          : {
              'content-type': request.contentType ?? 'application/json',
              'content-length': Buffer.byteLength(payload),
            }),
      },
      ...(access.ca === undefined ? {} : { ca: access.ca }),
      ...(credentials.certificate === undefined ? {} : { cert: credentials.certificate }),
      ...(credentials.key === undefined ? {} : { key: credentials.key }),
      ...(signal === undefined ? {} : { signal }),
    };
    return new Promise((resolve, reject) => {
      transport.request(options, resolve).on('error', reject).end(payload);
    });
  }

  return { agent, send };
}

function pathOf(server: URL, request: KubeRequest): string {
  const query = new URLSearchParams(request.query).toString();
  return `${server.pathname.replace(/\/$/, '')}${request.path}${query === '' ? '' : `?${query}`}`;
}

function statusOf(
  response: http.IncomingMessage,
): Pick<KubeResponse, 'status' | 'retryAfterSeconds'> {
  const seconds = Number(response.headers['retry-after']);
  return {
    status: response.statusCode ?? 0,
    ...(Number.isFinite(seconds) && seconds >= 0 ? { retryAfterSeconds: seconds } : {}),
  };
}

async function readAll(response: http.IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > maxBodyBytes) {
      response.destroy();
      throw new Error(`the answer is longer than ${maxBodyBytes} bytes`);
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function parseBody(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Lines of a response as they come. A connection that breaks ends in an error, never in a quiet end. */
async function* linesOf(response: http.IncomingMessage): AsyncGenerator<string> {
  const reader = createInterface({ input: response, crlfDelay: Infinity });
  const broken = new Promise<never>((_, reject) => {
    response.once('error', reject);
    response.once('close', () => {
      if (!response.complete) {
        reject(new Error('the connection closed in the middle of the stream'));
      }
    });
  });
  broken.catch(() => {
    // Raised to the reader below; here only so that it is never unhandled when nobody reads any more.
  });
  const iterator = reader[Symbol.asyncIterator]();
  try {
    for (;;) {
      const next = await Promise.race([iterator.next(), broken]);
      if (next.done === true) {
        if (!response.complete) {
          await broken;
        }
        return;
      }
      yield next.value;
    }
  } finally {
    reader.close();
    response.destroy();
  }
}

async function* noLines(): AsyncGenerator<string> {
  // A refused watch has no lines.
}
