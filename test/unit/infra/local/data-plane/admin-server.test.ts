import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { AdminServer } from '#infra/local/data-plane/admin-server.ts';
import type { AdminRequest } from '#infra/local/data-plane/state.ts';

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

describe('the admin server', () => {
  test('hands on method, path, parameters and body, and the answer back', async () => {
    const answering = fetch(`${url}/api/v1/poolers?cells=a&cells=b`, {
      method: 'POST',
      body: '{"reason":"x"}',
    });

    const request = await asked.promise;
    admin.reply(request.id, { status: 404, body: { code: 5 } });
    const answer = await answering;

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
    const answering = fetch(url);

    admin.drop((await asked.promise).id);

    await expect(answering).rejects.toThrow('fetch failed');
  });

  test('sends a text as text', async () => {
    const answering = fetch(url);

    admin.reply((await asked.promise).id, { status: 404, body: '404 page not found\n' });
    const answer = await answering;

    expect(answer.headers.get('content-type')).toBe('text/plain');
    expect(await answer.text()).toBe('404 page not found\n');
  });

  test('forgets a caller who has gone', async () => {
    const caller = new AbortController();
    const answering = fetch(url, { signal: caller.signal });
    const { id } = await asked.promise;

    caller.abort();
    await expect(answering).rejects.toThrow(/abort/);

    expect(() => admin.reply(id, { status: 200, body: {} })).not.toThrow();
  });

  test('closes on a caller whose body has no end', async () => {
    const answering = fetch(url, { method: 'POST', body: 'x'.repeat(100_000) });

    await expect(answering).rejects.toThrow('fetch failed');
  });
});
