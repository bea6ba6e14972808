import { once } from 'node:events';
import { type IncomingMessage, type Server, type ServerResponse, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import * as z from 'zod';
import { stepNames } from '#shared/api/steps.ts';
import { readText } from '#shared/http/connection.ts';
import { describeError } from '#shared/kernel/errors.ts';
import { feed } from './feed.ts';
import { Gate, safeHeaders } from './gate.ts';
import { readPageFiles } from './page-files.ts';
import type { PagePorts } from './ports.ts';

/** The page, served. */
export interface PageServer {
  /** The address for people, which signs in. */
  readonly address: string;
  /** Ends every connection. */
  close(): Promise<void>;
}

/** An order names a few targets; nothing else is sent. */
const maxOrderBytes = 64 * 1024;

const orderSchema = z.strictObject({
  step: z.enum(stepNames),
  targets: z.array(z.string().min(1).max(600)).min(1).max(100),
});

/**
 * Serves the page on this machine alone, until it is closed.
 *
 * @param port 0 for any that is free
 */
export async function servePage(ports: PagePorts, port: number): Promise<PageServer> {
  const files = readPageFiles();
  const server = createServer();
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  const gate = new Gate(portOf(server));
  server.on('request', (request, response) => {
    const url = new URL(request.url ?? '/', gate.origin);
    answer({ ports, gate, files, request, response, url }).catch((error: unknown) => {
      fail(response, error);
    });
  });
  return {
    address: gate.address,
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

function portOf(server: Server): number {
  const address = server.address() as AddressInfo;
  return address.port;
}

interface Visit {
  readonly ports: PagePorts;
  readonly gate: Gate;
  readonly files: ReturnType<typeof readPageFiles>;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly url: URL;
}

/** First whether this may be asked at all; then by path. */
async function answer(visit: Visit): Promise<void> {
  const { gate, request, url } = visit;
  if (!gate.isForUs(request.headers)) {
    return refuse(visit, 403, 'this server answers under its own address only');
  }
  const token = url.searchParams.get('token');
  if (url.pathname === '/' && token !== null) {
    return signIn(visit, token);
  }
  if (!gate.isFromOurSite(request.headers)) {
    return refuse(visit, 403, 'another site asked for this');
  }
  if (!gate.isSignedIn(request.headers)) {
    return refuse(
      visit,
      401,
      'open the address that `millrace ui` printed; it signs this browser in',
    );
  }
  if (request.method === 'POST') {
    return gate.isFromOurPage(request.headers)
      ? order(visit)
      : refuse(visit, 403, 'only the page itself may ask for this');
  }
  return request.method === 'GET' ? show(visit) : refuse(visit, 405, 'this is not how to ask');
}

/** The token is exchanged for a cookie, and leaves the address bar with the redirect. */
function signIn(visit: Visit, token: string): void {
  const { gate, response } = visit;
  if (!gate.isToken(token)) {
    refuse(visit, 401, 'this token is of another run; open the address that was printed last');
    return;
  }
  response.writeHead(303, { ...safeHeaders, location: '/', 'set-cookie': gate.cookie }).end();
}

async function show(visit: Visit): Promise<void> {
  const { ports, files, response, url } = visit;
  const file = files.get(url.pathname);
  if (file !== undefined) {
    response.writeHead(200, { ...safeHeaders, 'content-type': file.contentType }).end(file.text);
    return;
  }
  const id = url.searchParams.get('id') ?? '';
  const signal = untilClosed(response);
  switch (url.pathname) {
    case '/feed':
      return feed(ports, response);
    case '/api/story':
      return tell(visit, await ports.story(id));
    case '/api/timeline':
      return tell(visit, await ports.timeline(id, { from: instantOf(url) }, signal));
    case '/api/letters':
      return tell(visit, await ports.letters.list());
    default:
      return refuse(visit, 404, 'there is nothing here');
  }
}

/** What a person asked the page to do. */
async function order(visit: Visit): Promise<void> {
  const { ports, request, response, url } = visit;
  const { letters } = ports;
  if (url.pathname !== '/api/preview' && url.pathname !== '/api/replay') {
    return refuse(visit, 404, 'there is nothing here');
  }
  if (url.pathname === '/api/replay' && letters.replay === undefined) {
    return refuse(
      visit,
      403,
      'the page may only look; start `millrace ui` with --write to replay from it',
    );
  }
  const parsed = orderSchema.safeParse(parseJson(await readText(request, maxOrderBytes)));
  if (!parsed.success) {
    return refuse(visit, 400, 'name one step and 1 to 100 targets');
  }
  const signal = untilClosed(response);
  // A replay that was begun goes on when the browser goes away: its letters are on their way.
  return url.pathname === '/api/preview' || letters.replay === undefined
    ? tell(visit, await letters.preview(parsed.data, signal))
    : tell(visit, await letters.replay(parsed.data, new AbortController().signal));
}

/** The start of what is asked for; the beginning of time where it is not said. */
function instantOf(url: URL): number {
  const from = Number(url.searchParams.get('from') ?? 0);
  return Number.isFinite(from) ? from : 0;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Aborts when the browser no longer waits for the answer. */
function untilClosed(response: ServerResponse): AbortSignal {
  const gone = new AbortController();
  response.on('close', () => gone.abort());
  return gone.signal;
}

function tell(visit: Visit, value: unknown): void {
  if (value === undefined) {
    refuse(visit, 404, 'there is no such target');
    return;
  }
  say(visit.response, 200, value);
}

/** A person who opens an address reads a sentence; the page's own script reads JSON. */
function refuse({ request, response }: Visit, status: number, problem: string): void {
  if (request.headers.accept?.includes('text/html') === true) {
    response
      .writeHead(status, { ...safeHeaders, 'content-type': 'text/plain; charset=utf-8' })
      .end(`${problem}\n`);
  } else {
    say(response, status, { problem });
  }
}

function say(response: ServerResponse, status: number, value: unknown): void {
  response
    .writeHead(status, { ...safeHeaders, 'content-type': 'application/json; charset=utf-8' })
    .end(JSON.stringify(value));
}

/** Whatever could not be read is said where it was asked for. */
function fail(response: ServerResponse, error: unknown): void {
  if (response.headersSent) {
    response.destroy();
  } else {
    say(response, 502, { problem: describeError(error) });
  }
}
