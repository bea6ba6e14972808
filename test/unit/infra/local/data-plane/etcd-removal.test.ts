import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { readBody } from '#infra/local/data-plane/admin-server.ts';
import { etcdRemoval } from '#infra/local/data-plane/etcd-removal.ts';
import { within } from '#shared/topology/etcd-store.ts';

let server: http.Server;
let endpoint: string;
let status: number;
let asked: { readonly path: string | undefined; readonly body: unknown }[];

beforeEach(async () => {
  status = 200;
  asked = [];
  server = http.createServer((request, response) => {
    void readBody(request).then((body) => {
      asked.push({ path: request.url, body: JSON.parse(body) });
      return response.writeHead(status).end('{}');
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterEach(() => {
  server.closeAllConnections();
  server.close();
});

describe('the removal of a key', () => {
  test('is of that key alone', async () => {
    await etcdRemoval(endpoint)('/multigres/lock', within(5_000, undefined));

    const key = Buffer.from('/multigres/lock').toString('base64');
    expect(asked).toEqual([{ path: '/v3/kv/deleterange', body: { key } }]);
  });

  test('that etcd refuses is a failure', async () => {
    status = 503;

    const removal = etcdRemoval(endpoint)('/multigres/lock', within(5_000, undefined));

    await expect(removal).rejects.toThrow('etcd answers 503');
  });

  test('ends with the signal of who wanted it', async () => {
    const removal = etcdRemoval(endpoint)('/multigres/lock', within(5_000, AbortSignal.abort()));

    await expect(removal).rejects.toThrow(/abort/);
    expect(asked).toEqual([]);
  });
});
