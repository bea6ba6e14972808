import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { type IncomingMessage, type Server, type ServerResponse, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import * as z from 'zod';

/** One message as it came. */
export interface Arrival {
  readonly queue: string;
  readonly body: string;
  /** On the clock of `performance.now`. */
  readonly atMs: number;
}

const requestSchema = z.looseObject({
  QueueUrl: z.string(),
  Entries: z.array(z.looseObject({ Id: z.string(), MessageBody: z.string() })).max(10),
});

/**
 * Queues that keep nothing but when each message came. They speak SendMessageBatch of SQS over HTTP, AWS JSON 1.0, and
 * nothing else: a real emulator stores every message, which takes longer than the relays that are measured.
 */
export class RecordingQueues implements AsyncDisposable {
  readonly #server: Server;
  readonly #port: number;
  readonly #onArrival: (arrival: Arrival) => void;
  /** SendMessageBatch requests that were answered, by queue. */
  readonly requests = new Map<string, number>();

  private constructor(server: Server, onArrival: (arrival: Arrival) => void) {
    this.#server = server;
    this.#port = (server.address() as AddressInfo).port;
    this.#onArrival = onArrival;
    server.on('request', (request, response) => {
      this.#take(request, response).catch(() => response.destroy());
    });
  }

  static async start(onArrival: (arrival: Arrival) => void): Promise<RecordingQueues> {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new RecordingQueues(server, onArrival);
  }

  get endpoint(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** Refuses every connection until {@link RecordingQueues.comeBack}. */
  async goAway(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }

  async comeBack(): Promise<void> {
    this.#server.listen(this.#port, '127.0.0.1');
    await once(this.#server, 'listening');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.goAway();
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = requestSchema.parse(JSON.parse(await text(request)));
    const atMs = performance.now();
    const queue = body.QueueUrl.split('/').at(-1) ?? '';
    this.requests.set(queue, (this.requests.get(queue) ?? 0) + 1);
    for (const { MessageBody } of body.Entries) {
      this.#onArrival({ queue, body: MessageBody, atMs });
    }
    const successful = body.Entries.map(({ Id, MessageBody }) => ({
      Id,
      MessageId: Id,
      // The SDK compares it with its own.
      MD5OfMessageBody: createHash('md5').update(MessageBody).digest('hex'),
    }));
    response.setHeader('content-type', 'application/x-amz-json-1.0');
    response.end(JSON.stringify({ Successful: successful, Failed: [] }));
  }
}
