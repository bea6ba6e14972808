import { once } from 'node:events';
import { type IncomingMessage, type ServerResponse, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { connectKube } from '#shared/kube/http-connection.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';

export interface SeenRequest {
  readonly path: string;
  readonly query: { readonly [name: string]: string };
  readonly accept: string | undefined;
}

/** Plays one answer. What it leaves open stays open until the server is closed. */
export type Scene = (response: ServerResponse) => void;

/** A real HTTP server that plays one scene per request, in order, and remembers what was asked. */
export class ScriptedApiServer implements AsyncDisposable {
  readonly requests: SeenRequest[] = [];
  readonly #scenes: Scene[];
  readonly #server = createServer((request, response) => this.#play(request, response));
  readonly #waiting: { count: number; resolve: () => void }[] = [];

  private constructor(scenes: Scene[]) {
    this.#scenes = scenes;
  }

  static async start(...scenes: Scene[]): Promise<ScriptedApiServer> {
    const scripted = new ScriptedApiServer(scenes);
    scripted.#server.listen(0, '127.0.0.1');
    await once(scripted.#server, 'listening');
    return scripted;
  }

  connect(): KubeConnection {
    const { port } = this.#server.address() as AddressInfo;
    return connectKube({ server: `http://127.0.0.1:${port}`, credentials: async () => ({}) });
  }

  /** Resolves when so many requests have come. */
  async asked(count: number): Promise<void> {
    if (this.requests.length < count) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#waiting.push({ count, resolve });
      await promise;
    }
  }

  /** `stream`, `list`, `list <continue>` or `watch <version>` of each request. */
  get words(): string[] {
    return this.requests.map(({ query }) => {
      if (query.watch !== '1') {
        return `list ${query.continue ?? ''}`.trim();
      }
      return query.sendInitialEvents === 'true' ? 'stream' : `watch ${query.resourceVersion}`;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close();
    this.#server.closeAllConnections();
    await once(this.#server, 'close');
  }

  #play(request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url ?? '/', 'http://server');
    this.requests.push({
      path: url.pathname,
      query: Object.fromEntries(url.searchParams),
      accept: request.headers.accept,
    });
    // After the last scene the server takes requests and says nothing.
    this.#scenes.shift()?.(response);
    for (const { resolve } of this.#waiting.filter(({ count }) => this.requests.length >= count)) {
      resolve();
    }
  }
}

/** A page of a list. */
export function page(version: string, items: readonly object[], next?: string): Scene {
  const metadata = { resourceVersion: version, ...(next === undefined ? {} : { continue: next }) };
  return (response) => response.end(JSON.stringify({ metadata, items }));
}

/** A refusal with a Status body. */
export function refuse(code: number, headers: Record<string, string> = {}): Scene {
  return (response) =>
    response.writeHead(code, headers).end(JSON.stringify({ kind: 'Status', code, message: 'no' }));
}

/** A watch that sends these lines (objects as JSON) and stays open. */
export function watch(...lines: readonly (object | string)[]): Scene {
  return (response) => {
    response.writeHead(200).flushHeaders();
    for (const line of lines) {
      response.write(`${typeof line === 'string' ? line : JSON.stringify(line)}\n`);
    }
  };
}

/** A watch that sends these lines and ends as the API server ends one. */
export function shortWatch(...lines: readonly (object | string)[]): Scene {
  return (response) => {
    watch(...lines)(response);
    response.end();
  };
}

/** A watch whose connection breaks after these lines, in the middle of another one. */
export function brokenWatch(...lines: readonly object[]): Scene {
  return (response) => {
    watch(...lines)(response);
    response.write('{"type":"ADDED","object":{"meta', () => response.socket?.destroy());
  };
}

export function event(type: 'ADDED' | 'MODIFIED' | 'DELETED', object: object): object {
  return { type, object };
}

/** The events of a streaming list: the objects, in any order, and the bookmark that ends it. */
export function streamedList(version: string, items: readonly object[]): object[] {
  const annotations = { 'k8s.io/initial-events-end': 'true' };
  const end = { type: 'BOOKMARK', object: { metadata: { resourceVersion: version, annotations } } };
  return [...items.map((item) => event('ADDED', item)), end];
}

export function bookmark(version: string): object {
  return { type: 'BOOKMARK', object: { metadata: { resourceVersion: version } } };
}

export function errorEvent(code: number, retryAfterSeconds?: number): object {
  const details = retryAfterSeconds === undefined ? {} : { details: { retryAfterSeconds } };
  return { type: 'ERROR', object: { kind: 'Status', code, message: 'no', ...details } };
}
