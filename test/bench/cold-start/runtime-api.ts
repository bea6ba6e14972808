import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { type IncomingMessage, type ServerResponse, createServer } from 'node:http';
import { addressOf } from './address.ts';

/** One invocation, on the clock of `performance.now`. */
export interface Invocation {
  /** When its event was given out. */
  readonly givenMs: number;
  /** When the whole answer had come. */
  readonly answeredMs: number;
  /** What the function answered. */
  readonly answer: unknown;
}

interface Running {
  readonly id: string;
  readonly givenMs: number;
  readonly end: PromiseWithResolvers<Invocation>;
}

const version = '/2018-06-01/runtime';

/** How long an invocation may take, in milliseconds, as the function is told. */
const deadlineMs = 30_000;

/**
 * The server that Lambda's runtime client polls for invocations (AWS Lambda Developer Guide, "Using the Lambda runtime API"),
 * for one process of one function, which gets one event at a time.
 */
export class RuntimeApi implements AsyncDisposable {
  readonly #server = createServer((request, response) => void this.#serve(request, response));
  #polling = Promise.withResolvers<{ readonly atMs: number; readonly response: ServerResponse }>();
  #running: Running | undefined;
  /** Rejects when the function could not be loaded. */
  readonly #broken = Promise.withResolvers<never>();

  private constructor() {
    // It may break while nobody waits.
    this.#broken.promise.catch(() => undefined);
  }

  static async start(): Promise<RuntimeApi> {
    const api = new RuntimeApi();
    api.#server.keepAliveTimeout = 0;
    api.#server.listen(0, '127.0.0.1');
    await once(api.#server, 'listening');
    return api;
  }

  /** What the function's process is told as `AWS_LAMBDA_RUNTIME_API`. */
  get address(): string {
    return addressOf(this.#server);
  }

  /** When the function asked for its next event: everything that it loads is loaded. */
  async polled(): Promise<number> {
    const { atMs } = await Promise.race([this.#polling.promise, this.#broken.promise]);
    return atMs;
  }

  /** Gives the function an event as soon as it asks for one. Rejects where it answers with an error. */
  async invoke(event: unknown): Promise<Invocation> {
    const { response } = await Promise.race([this.#polling.promise, this.#broken.promise]);
    this.#polling = Promise.withResolvers();
    const end = Promise.withResolvers<Invocation>();
    const body = JSON.stringify(event);
    const running = { id: randomUUID(), givenMs: performance.now(), end };
    this.#running = running;
    response
      .writeHead(200, {
        'Content-Type': 'application/json',
        'Content-Length': Buffer.byteLength(body),
        'Lambda-Runtime-Aws-Request-Id': running.id,
        'Lambda-Runtime-Deadline-Ms': String(Date.now() + deadlineMs),
        'Lambda-Runtime-Invoked-Function-Arn':
          'arn:aws:lambda:us-east-1:000000000000:function:bench',
        'Lambda-Runtime-Trace-Id': 'Root=1-00000000-000000000000000000000000;Sampled=0',
      })
      .end(body);
    return Promise.race([end.promise, this.#broken.promise]);
  }

  /** The process has ended: whoever waits for it waits in vain. */
  fail(why: string): void {
    this.#broken.reject(new Error(why));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const atMs = performance.now();
    if (request.method === 'GET' && request.url === `${version}/invocation/next`) {
      this.#polling.resolve({ atMs, response });
      return;
    }
    const text = await textOf(request);
    const answeredMs = performance.now();
    // The client asks for the next event only now, so this invocation is over first.
    response.writeHead(202, { 'Content-Length': 0 }).end();
    const running = this.#running;
    if (running !== undefined && request.url === `${version}/invocation/${running.id}/response`) {
      running.end.resolve({ givenMs: running.givenMs, answeredMs, answer: JSON.parse(text) });
    } else {
      this.fail(`the function answered at ${request.url}: ${text}`);
    }
  }
}

async function textOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) {
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}
