import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { describe, expect, test } from 'vitest';
import { ComponentDied } from '#infra/local/control-plane/component.ts';
import { findFreePort, isFree, startOnFreePort } from '#infra/local/control-plane/port.ts';

const portTaken = new ComponentDied('etcd', 'ended', 'etcd.log', ['bind: address already in use']);
const otherDeath = new ComponentDied('etcd', 'ended', 'etcd.log', ['no space left on device']);

describe('a port', () => {
  test('is free until somebody listens on it', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;

    const whileListening = await isFree(port);
    server.close();
    await once(server, 'close');
    const afterwards = await isFree(port);

    expect([whileListening, afterwards]).toEqual([false, true]);
  });

  test('comes from below the local ports of outgoing connections', async () => {
    const ports = await Promise.all(Array.from({ length: 50 }, findFreePort));

    expect(Math.min(...ports)).toBeGreaterThanOrEqual(20_000);
    expect(Math.max(...ports)).toBeLessThan(32_000);
  });

  test('that was lost to somebody else is drawn again until one can be had', async () => {
    const tried: number[] = [];

    const port = await startOnFreePort(async (port) => {
      tried.push(port);
      if (tried.length < 3) {
        throw portTaken;
      }
      return port;
    });

    expect(tried).toHaveLength(3);
    expect(port).toBe(tried[2]);
  });

  test('is given up after five lost races, and at once after any other failure', async () => {
    const attempts = { lost: 0, failed: 0 };

    const lost = startOnFreePort(async () => {
      attempts.lost++;
      throw portTaken;
    });
    const failed = startOnFreePort(async () => {
      attempts.failed++;
      throw otherDeath;
    });

    await Promise.all([
      expect(lost).rejects.toBe(portTaken),
      expect(failed).rejects.toBe(otherDeath),
    ]);
    expect(attempts).toEqual({ lost: 5, failed: 1 });
  });
});
