import type { IncomingMessage, OutgoingHttpHeaders } from 'node:http';
import type { RequestOptions } from 'node:https';

/**
 * Taken and not imported: an import evaluates every export of node:http, WebSocket among them, and so loads all of Node's
 * other HTTP client, which costs each start 30 ms of processor time.
 */
const http = process.getBuiltinModule('node:http');
const https = process.getBuiltinModule('node:https');

/** One request. Which server it goes to is the connection's. */
export type HttpRequest = Pick<RequestOptions, 'ca' | 'cert' | 'key' | 'signal'> & {
  readonly method: string;
  /** With its query. */
  readonly path: string;
  readonly headers: OutgoingHttpHeaders;
  readonly body?: string | undefined;
};

/** One server, over connections that are kept. Nothing is sent before the first request. */
export interface HttpConnection {
  /**
   * Sends one request, once, and resolves with the head of the answer. Redirects come back as their status, and are not
   * followed. Rejects where no answer came.
   */
  send(request: HttpRequest): Promise<IncomingMessage>;
  /** Closes the connections. */
  close(): void;
}

/**
 * Connects to a server with Node's own HTTP client, which reads a body no faster than it is taken.
 *
 * @param server an `https:` or `http:` URL, of which only the host and the port are used
 * @param maxSockets how many connections are open at a time
 */
export function connectHttp(server: URL, maxSockets = Infinity): HttpConnection {
  const transport = server.protocol === 'https:' ? https : http;
  const agent = new transport.Agent({ keepAlive: true, maxSockets });
  // A URL writes an IPv6 address in brackets, a socket takes it without.
  const place = { agent, hostname: server.hostname.replace(/^\[(.*)\]$/, '$1'), port: server.port };
  return {
    send({ body, ...request }) {
      return new Promise((resolve, reject) => {
        transport
          .request({ ...request, ...place }, resolve)
          .on('error', reject)
          .end(body);
      });
    },
    close() {
      agent.destroy();
    },
  };
}

/**
 * Reads the body of an answer to its end, as UTF-8.
 *
 * @throws Error where it is longer than `maxBytes`; what is left of it is not read, and its connection is closed
 */
export async function readText(
  body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  maxBytes: number,
): Promise<string> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  // Whoever leaves this loop early destroys the stream that it reads.
  for await (const chunk of body) {
    length += chunk.length;
    if (length > maxBytes) {
      throw new Error(`the answer is longer than ${maxBytes} bytes`);
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}
