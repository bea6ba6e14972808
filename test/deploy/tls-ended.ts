import { once } from 'node:events';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';

/**
 * Stands before a server that has no TLS, and tells it that each request came by it, as a load balancer does. For programs that
 * cannot be given a header.
 *
 * @param to `http://host:port`
 */
export async function endTls(to: string): Promise<AsyncDisposable & { readonly url: string }> {
  const { hostname, port } = new URL(to);
  const server = createServer((asked, answer) => {
    const { method, url: path, headers } = asked;
    const passed = request({
      hostname,
      port,
      method,
      path,
      headers: { ...headers, 'x-forwarded-proto': 'https' },
    });
    passed.on('response', (response) => {
      answer.writeHead(response.statusCode ?? 502, response.headers);
      response.pipe(answer);
    });
    passed.on('error', () => answer.destroy());
    asked.pipe(passed);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
    },
  };
}
