import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { AdminServer } from '#infra/local/data-plane/admin-server.ts';
import type { AdminReply, AdminRequest } from '#infra/local/data-plane/state.ts';

let admin: AdminServer;
let url: string;
let asked: PromiseWithResolvers<AdminRequest>;

beforeEach(async () => {
  asked = Promise.withResolvers();
  admin = new AdminServer((request) => asked.resolve(request));
  admin.server.listen(0, '127.0.0.1');
  await once(admin.server, 'listening');
  url = `http://127.0.0.1:${(admin.server.address() as AddressInfo).port}`;
});

afterEach(() => {
  admin.server.closeAllConnections();
  admin.server.close();
});

async function replyToNext(reply: AdminReply): Promise<AdminRequest> {
  const request = await asked.promise;
  admin.reply(request.id, reply);
  return request;
}

describe('the admin server', () => {
  test('hands on method, path, parameters and body, and the answer back', async () => {
    const [answer, request] = await Promise.all([
      fetch(`${url}/api/v1/poolers?cells=a&cells=b`, { method: 'POST', body: '{"reason":"x"}' }),
      replyToNext({ status: 404, body: { code: 5 } }),
    ]);

    expect(request).toMatchObject({
      method: 'POST',
      path: '/api/v1/poolers',
      query: { cells: ['a', 'b'] },
      body: '{"reason":"x"}',
    });
    expect(answer.status).toBe(404);
    expect(await answer.json()).toEqual({ code: 5 });
  });

  test('resets the connection where the core says so', async () => {
    await Promise.all([
      expect(fetch(url)).rejects.toThrow('fetch failed'),
      asked.promise.then(({ id }) => admin.drop(id)),
    ]);
  });

  test('sends a text as text', async () => {
    const [answer] = await Promise.all([
      fetch(url),
      replyToNext({ status: 404, body: '404 page not found\n' }),
    ]);

    expect(answer.headers.get('content-type')).toBe('text/plain');
    expect(await answer.text()).toBe('404 page not found\n');
  });

  test('forgets a caller who has gone', async () => {
    const caller = new AbortController();

    const [, { id }] = await Promise.all([
      expect(fetch(url, { signal: caller.signal })).rejects.toThrow(/abort/),
      asked.promise.finally(() => caller.abort()),
    ]);

    expect(() => admin.reply(id, { status: 200, body: {} })).not.toThrow();
  });

  test('closes on a caller whose body has no end', async () => {
    const answering = fetch(url, { method: 'POST', body: 'x'.repeat(100_000) });

    await expect(answering).rejects.toThrow('fetch failed');
  });
});
