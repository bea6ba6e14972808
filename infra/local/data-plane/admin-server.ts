import http from 'node:http';
import type { AdminReply, AdminRequest } from './state.ts';

/** The longest request body that is read, in bytes. */
const maxBodyBytes = 64 * 1024;

/** multiadmin's HTTP side: hands questions to the core, and its answers back. */
export class AdminServer {
  readonly #server: http.Server;
  readonly #open = new Map<number, http.ServerResponse>();
  #lastId = 0;

  constructor(ask: (request: AdminRequest) => void) {
    this.#server = http.createServer((request, response) => {
      this.#take(request, response, ask).catch(() => response.destroy());
    });
  }

  /** @returns the server, to listen with and to close */
  get server(): http.Server {
    return this.#server;
  }

  async #take(
    request: http.IncomingMessage,
    response: http.ServerResponse,
    ask: (request: AdminRequest) => void,
  ): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://admin');
    const body = await readBody(request);
    const query: { [name: string]: string[] } = {};
    for (const [name, value] of url.searchParams) {
      (query[name] ??= []).push(value);
    }
    this.#lastId += 1;
    const id = this.#lastId;
    this.#open.set(id, response);
    response.once('close', () => this.#open.delete(id));
    const path = decodeURIComponent(url.pathname);
    ask({ id, method: request.method ?? 'GET', path, query, body });
  }

  /** Does nothing for a caller who has gone. */
  reply(requestId: number, { status, body }: AdminReply): void {
    const isText = typeof body === 'string';
    this.#open
      .get(requestId)
      ?.writeHead(status, { 'content-type': isText ? 'text/plain' : 'application/json' })
      .end(isText ? body : JSON.stringify(body));
  }

  drop(requestId: number): void {
    this.#open.get(requestId)?.socket?.resetAndDestroy();
  }
}

/** Throws for a body that is longer than anything that is asked here. */
export async function readBody(request: http.IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > maxBodyBytes) {
      throw new Error(`the body is longer than ${maxBodyBytes} bytes`);
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}
