import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import https from 'node:https';
import { join } from 'node:path';
import type { ControlPlane } from '#infra/local/control-plane/control-plane.ts';
import { addressOf } from './address.ts';

interface Recorded {
  readonly status: number;
  readonly contentType: string;
  readonly body: Buffer;
}

/**
 * Stands before an API server with that one's own certificate, passes each read on the first time, and answers it from memory
 * ever after. So what a look takes besides waiting can be told: an answer is there at once, and the time until it was
 * given is known.
 *
 * What is no read is refused: a look that writes would not be the same the next time.
 */
export class ReplayingServer implements AsyncDisposable {
  readonly #origin: URL;
  readonly #ca: string;
  readonly #server: https.Server;
  readonly #recorded = new Map<string, Recorded>();
  #heldMs = 0;
  #requests = 0;

  private constructor(origin: URL, ca: string, certificate: { cert: Buffer; key: Buffer }) {
    this.#origin = origin;
    this.#ca = ca;
    this.#server = https.createServer(certificate, (request, response) => {
      this.#answer(request, response).catch((error: unknown) => response.destroy(error as Error));
    });
  }

  static async start({ server, ca, dataDir }: ControlPlane): Promise<ReplayingServer> {
    const [cert, key] = await Promise.all(
      ['apiserver.crt', 'apiserver.key'].map((name) => readFile(join(dataDir, 'api-server', name))),
    );
    const replaying = new ReplayingServer(new URL(server), ca, {
      cert: cert ?? Buffer.alloc(0),
      key: key ?? Buffer.alloc(0),
    });
    replaying.#server.listen(0, '127.0.0.1');
    await once(replaying.#server, 'listening');
    return replaying;
  }

  get url(): string {
    return `https://${addressOf(this.#server)}`;
  }

  /** How long requests were here so far, one after the other, in milliseconds, and how many. */
  held(): { readonly ms: number; readonly requests: number } {
    return { ms: this.#heldMs, requests: this.#requests };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const beganMs = performance.now();
    const { method = '', url = '' } = request;
    if (method !== 'GET') {
      response.writeHead(500).end(`the look writes: ${method} ${url}`);
      return;
    }
    const known = this.#recorded.get(url) ?? (await this.#passOn(request));
    this.#recorded.set(url, known);
    response
      .writeHead(known.status, {
        'Content-Type': known.contentType,
        'Content-Length': known.body.length,
      })
      .end(known.body);
    this.#heldMs += performance.now() - beganMs;
    this.#requests += 1;
  }

  async #passOn({ url = '', headers }: IncomingMessage): Promise<Recorded> {
    const { accept, authorization } = headers;
    const request = https.get(new URL(url, this.#origin), {
      ca: this.#ca,
      headers: { ...(accept === undefined ? {} : { accept }), authorization },
    });
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    const chunks: Buffer[] = [];
    for await (const chunk of response as AsyncIterable<Buffer>) {
      chunks.push(chunk);
    }
    return {
      status: response.statusCode ?? 500,
      contentType: response.headers['content-type'] ?? '',
      body: Buffer.concat(chunks),
    };
  }
}
