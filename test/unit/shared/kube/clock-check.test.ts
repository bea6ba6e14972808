import { describe, expect, test } from 'vitest';
import { type Instant, parseInstant, plusSeconds } from '#shared/kernel/instant.ts';
import { certainSkew, checkingClock } from '#shared/kube/clock-check.ts';
import type { KubeConnection, KubeRequest, KubeResponse } from '#shared/kube/connection.ts';

const noon = parseInstant('2026-01-01T12:00:00Z') as Instant;
const after = (seconds: number): Instant => plusSeconds(noon, seconds);

/** An API server that answers at noon, asked by somebody whose clock shows these times one after the other. */
function aConnection(answer: Partial<KubeResponse>, ...times: readonly Instant[]): KubeConnection {
  const clock = times.values();
  return checkingClock(
    {
      request: async () => ({ status: 200, body: 'read', ...answer }),
      stream: () => Promise.reject(new Error('nobody watches')),
      close: () => undefined,
    },
    () => clock.next().value ?? noon,
  );
}

const read: KubeRequest = { method: 'GET', path: '/api/v1/namespaces/db/pods/orders-0' };

describe('how far a clock is certainly off another that tells whole seconds', () => {
  test.each([
    ['the same', 0, 0, 0],
    ['within the second that was told', 0.9, 0.9, 0],
    ['ahead', 61, 61, 60],
    ['behind', -60, -60, -60],
    ['ahead when it was asked, after a slow answer', 61, 75, 60],
    ['behind when it answered, after a slow answer', -75, -60, -60],
    ['unknown, after an answer that took a minute', -30, 30, 0],
  ])('%s', (_how, sent, received, skew) => {
    expect(certainSkew(noon, after(sent), after(received))).toBe(skew);
  });
});

describe('a connection for whoever counts by a clock (F26)', () => {
  test.each([0, 2.9, -2])('reads where it is %s s off', async (off) => {
    const connection = aConnection({ toldAt: noon }, after(off), after(off));

    expect(await connection.request(read)).toMatchObject({ body: 'read' });
  });

  test.each([
    [3_601, 'this clock is at least 3600 s ahead of the API server'],
    [-3_600, 'this clock is at least 3600 s behind the API server'],
  ])('reads nothing where it is %s s off', async (off, message) => {
    const connection = aConnection({ toldAt: noon }, after(off), after(off));

    await expect(connection.request(read)).rejects.toThrow(message);
  });

  test('reads nothing where the answer says no time', async () => {
    await expect(aConnection({}).request(read)).rejects.toThrow('this clock cannot be checked');
  });

  test.each([
    ['a write, which took effect whatever the time is', { ...read, method: 'DELETE' as const }],
    ['what is behind the service proxy', { ...read, path: `${read.path}:http/proxy/v3/kv/range` }],
  ])('lets pass %s', async (_what, request) => {
    const connection = aConnection({ toldAt: after(3_600) }, noon, noon);

    expect(await connection.request(request)).toMatchObject({ body: 'read' });
  });
});
