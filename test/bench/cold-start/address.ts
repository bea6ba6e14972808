import type { Server } from 'node:net';

/** `127.0.0.1:41234` of a server that listens. */
export function addressOf(server: Server): string {
  const address = server.address();
  if (address === null || typeof address === 'string') {
    throw new Error('the server does not listen on a port');
  }
  return `127.0.0.1:${address.port}`;
}
