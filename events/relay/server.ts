import { once } from 'node:events';
import { type IncomingMessage, type Server, type ServerResponse, createServer } from 'node:http';
import type { Registry } from 'prom-client';
import type { Relay } from './relay.ts';

export interface RelayServer {
  /** `http://<host>:<port>` */
  readonly url: string;
  close(): Promise<void>;
}

interface Answer {
  readonly status: number;
  /** Sent as JSON; a string as it is. */
  readonly body: unknown;
  readonly contentType?: string;
}

/** The mirror states after which a pod's process may go: the drain or the release is done. */
const releasedStates: ReadonlySet<string | null> = new Set(['finished', 'released']);

/** Longer than any probe waits, in milliseconds; a client that sends nothing is cut off. */
const requestTimeoutMs = 10_000;

const podPath = /^\/v1\/pods\/([a-z0-9-]{1,63})\/([a-z0-9.-]{1,253})$/;

/**
 * Serves the relay's health, metrics and what it knows of pods. Reads only.
 *
 * @param options.port 0 takes a free one
 */
export async function serveRelay(
  relay: Relay,
  registry: Registry,
  options: { readonly host: string; readonly port: number },
): Promise<RelayServer> {
  const server = createServer((request, response) => {
    answer(relay, registry, request).then(
      (found) => send(response, found),
      () => send(response, { status: 500, body: { error: 'internal error' } }),
    );
  });
  server.requestTimeout = requestTimeoutMs;
  server.listen(options.port, options.host);
  await once(server, 'listening');
  return {
    url: addressOf(server),
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

async function answer(relay: Relay, registry: Registry, request: IncomingMessage): Promise<Answer> {
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    return { status: 405, body: { error: 'only GET is served' } };
  }
  const path = (request.url ?? '').split('?', 1)[0] ?? '';
  switch (path) {
    case '/healthz':
      return { status: 200, body: 'ok\n' };
    case '/readyz': {
      const problems = relay.notReady();
      return problems.length === 0
        ? { status: 200, body: 'ok\n' }
        : { status: 503, body: { problems } };
    }
    case '/metrics':
      return { status: 200, body: await registry.metrics(), contentType: registry.contentType };
    default: {
      const [, namespace, name] = podPath.exec(path) ?? [];
      return namespace === undefined || name === undefined
        ? { status: 404, body: { error: 'no such path' } }
        : podAnswer(relay, namespace, name);
    }
  }
}

/** A pod nobody has seen is 404 only when all pods are known: a waiting pod must not take ignorance for its release. */
function podAnswer(relay: Relay, namespace: string, name: string): Answer {
  const mirror = relay.mirrorOf('Pod', namespace, name);
  if (mirror.kind === 'unknown') {
    return { status: 503, body: { error: mirror.why } };
  }
  return mirror.kind === 'absent'
    ? { status: 404, body: { error: 'no such pod' } }
    : {
        status: 200,
        body: { state: mirror.value, released: releasedStates.has(mirror.value) },
      };
}

function send(response: ServerResponse, { status, body, contentType }: Answer): void {
  const text = typeof body === 'string' ? body : `${JSON.stringify(body)}\n`;
  const type = contentType ?? (typeof body === 'string' ? 'text/plain' : 'application/json');
  response.writeHead(status, { 'content-type': type, 'cache-control': 'no-store' }).end(text);
}

function addressOf(server: Server): string {
  const address = server.address();
  if (address === null || typeof address === 'string') {
    throw new Error('the server listens on no port');
  }
  const host = address.family === 'IPv6' ? `[${address.address}]` : address.address;
  return `http://${host}:${address.port}`;
}
