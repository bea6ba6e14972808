import type { IncomingMessage } from 'node:http';
import { NoAnswer, explainFailure, problemIn } from './explain.ts';
import { connectHttp, readText } from '#shared/http/connection.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import {
  type KubeAccess,
  type KubeConnection,
  type KubeRequest,
  type KubeResponse,
  isAnsweredByItself,
} from './connection.ts';

/** How long a plain request may take, in milliseconds, when it does not say. */
const defaultTimeoutMs = 10_000;

/** The longest answer that is read into memory, in bytes: 3 MiB pages of 500 objects are usual, 64 MiB is a mistake. */
const maxBodyBytes = 64 * 1024 * 1024;

/**
 * The longest line of a watch, in bytes. etcd takes requests of 1.5 MiB (its `--max-request-bytes`), and an object is
 * seldom twice as long in JSON.
 */
const maxLineBytes = 16 * 1024 * 1024;

const newline = 0x0a;

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
        return await answerOf(request, response);
      } catch (error) {
        throw timeout.aborted
          ? explainFailure(
              new NoAnswer((request.timeoutMs ?? defaultTimeoutMs) / 1000, error),
              access,
            )
          : error;
      }
    },
    async stream(request) {
      const response = await open.send(request, request.signal);
      if (response.statusCode !== 200 || isPage(response)) {
        return { ...(await answerOf(request, response)), lines: noLines() };
      }
      return { ...statusOf(response), body: undefined, lines: linesOf(response) };
    },
    close() {
      open.close();
    },
  };

  async function answerOf(request: KubeRequest, response: IncomingMessage): Promise<KubeResponse> {
    const body = parseBody(await readText(response, maxBodyBytes));
    const status = statusOf(response);
    const problem = problemIn(request, { ...status, body }, access);
    return { ...status, body, ...(problem === undefined ? {} : { problem }) };
  }
}

/** Sends requests over kept connections; resolves with the response's head. */
function opener(access: KubeAccess) {
  const server = new URL(access.server);
  if (server.protocol !== 'https:' && server.protocol !== 'http:') {
    throw new TypeError(
      `the API server's address must start with https:// or http://, not ${server.protocol}//`,
    );
  }
  const connection = connectHttp(server, maxSockets);

  async function send(
    request: KubeRequest,
    signal: AbortSignal | undefined,
  ): Promise<IncomingMessage> {
    const credentials = await access.credentials();
    const payload = request.body === undefined ? undefined : JSON.stringify(request.body);
    const sending = connection.send({
      method: request.method,
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
      body: payload,
      ...(access.ca === undefined ? {} : { ca: access.ca }),
      ...(credentials.certificate === undefined ? {} : { cert: credentials.certificate }),
      ...(credentials.key === undefined ? {} : { key: credentials.key }),
      ...(signal === undefined ? {} : { signal }),
    });
    const response = await sending.catch((error: unknown) => {
      throw explainFailure(error, access);
    });
    if (response.statusCode === 401 && isAnsweredByItself(request)) {
      access.onRefused?.();
    }
    return response;
  }

  return { send, close: () => connection.close() };
}

/** Whatever says of itself that it is not JSON: no watch, so it is read as a whole. */
function isPage({ headers }: IncomingMessage): boolean {
  return headers['content-type'] !== undefined && !headers['content-type'].includes('json');
}

function pathOf(server: URL, request: KubeRequest): string {
  const query = new URLSearchParams(request.query).toString();
  return `${server.pathname.replace(/\/$/, '')}${request.path}${query === '' ? '' : `?${query}`}`;
}

function statusOf(response: IncomingMessage): Omit<KubeResponse, 'body'> {
  const seconds = Number(response.headers['retry-after']);
  const toldAt = Date.parse(response.headers.date ?? '');
  return {
    status: response.statusCode ?? 0,
    ...(Number.isFinite(seconds) && seconds >= 0 ? { retryAfterSeconds: seconds } : {}),
    ...(Number.isNaN(toldAt) ? {} : { toldAt: toldAt as Instant }),
  };
}

function parseBody(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/**
 * Lines of a response as they come, without their ends. The response is read no faster than its lines are taken. A
 * connection that breaks ends in an error, never in a quiet end; what had come of a line by then is no line.
 */
async function* linesOf(response: IncomingMessage): AsyncGenerator<string> {
  // A line is cut out as bytes, so that no character is ever decoded in halves.
  let pieces: Buffer[] = [];
  let length = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    let start = 0;
    for (let end = chunk.indexOf(newline); end !== -1; end = chunk.indexOf(newline, start)) {
      yield lineOf(pieces, chunk.subarray(start, end));
      pieces = [];
      length = 0;
      start = end + 1;
    }
    if (start < chunk.length) {
      pieces.push(chunk.subarray(start));
      length += chunk.length - start;
    }
    if (length > maxLineBytes) {
      throw new Error(`a line of the stream is longer than ${maxLineBytes} bytes`);
    }
  }
  if (!response.complete) {
    throw new Error('the connection closed in the middle of the stream');
  }
  if (length > 0) {
    yield lineOf(pieces, Buffer.alloc(0));
  }
}

function lineOf(pieces: readonly Buffer[], last: Buffer): string {
  return (pieces.length === 0 ? last : Buffer.concat([...pieces, last])).toString('utf8');
}

async function* noLines(): AsyncGenerator<string> {
  // A refused watch has no lines.
}
