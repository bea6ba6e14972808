import { once } from 'node:events';
import { createServer } from 'node:net';
import { randomInt } from 'node:crypto';
import { ComponentDied } from './component.ts';

/**
 * Ports are taken from here, below the ranges that Linux (32768 and up) and macOS (49152 and up) draw the local ports
 * of outgoing connections from. So a program that is down for a moment finds its port free when it comes back.
 */
const portRange = { first: 20_000, end: 32_000 };

/** A lost race for a port is rare; losing it this often means something else. */
const maxAttempts = 5;

/** A port of 127.0.0.1 that nobody listens on at this moment. */
export async function findFreePort(): Promise<number> {
  for (;;) {
    const port = randomInt(portRange.first, portRange.end);
    if (await isFree(port)) {
      return port;
    }
  }
}

/** Starts something on a free port, and again on one drawn anew when somebody else took that port first. */
export async function startOnFreePort<T>(start: (port: number) => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await start(await findFreePort());
    } catch (error) {
      const isRaceLost = error instanceof ComponentDied && error.isPortTaken;
      if (!isRaceLost || attempt === maxAttempts) {
        throw error;
      }
    }
  }
}

/** Whether nobody listens on this port of 127.0.0.1. */
export async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  try {
    server.listen({ port, host: '127.0.0.1', exclusive: true });
    await once(server, 'listening');
    return true;
  } catch {
    return false;
  } finally {
    server.close();
  }
}
