import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { followObjects } from '#infra/local/data-plane/follow-objects.ts';
import { createLogger } from '#shared/kernel/logger.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import { connectKube } from '#shared/kube/http-connection.ts';

type Respond = (request: http.IncomingMessage, response: http.ServerResponse) => void;

const silence = createLogger('silent', {});

/** An API server that answers what it is told, in this order, and then hangs. */
let script: Respond[];
let requests: string[];
let server: http.Server;
let connection: KubeConnection;
let closing: AbortController;

beforeEach(async () => {
  script = [];
  requests = [];
  closing = new AbortController();
  server = http.createServer((request, response) => {
    requests.push(request.url ?? '');
    script.shift()?.(request, response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  connection = connectKube({
    server: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    credentials: async () => ({}),
  });
});

afterEach(() => {
  closing.abort();
  connection.close();
  server.closeAllConnections();
  server.close();
});

function pod(name: string) {
  return { metadata: { name, uid: `uid-${name}`, resourceVersion: '1' } };
}

function list(names: readonly string[], more = ''): Respond {
  return (_, response) => {
    const metadata = { resourceVersion: '7', ...(more === '' ? {} : { continue: more }) };
    response.end(JSON.stringify({ metadata, items: names.map(pod) }));
  };
}

function watch(...events: readonly object[]): Respond {
  return (_, response) => {
    response.end(events.map((event) => `${JSON.stringify(event)}\n`).join(''));
  };
}

/** Follows until so many lists were read. */
async function follow(lists: number): Promise<string[]> {
  const heard: string[] = [];
  const enough = Promise.withResolvers<void>();
  let read = 0;
  const following = followObjects(
    connection,
    'Pod',
    'app=x',
    {
      onList(pods) {
        heard.push(`list ${pods.map(({ metadata }) => metadata.name).join(' ')}`);
        read += 1;
        if (read === lists) {
          enough.resolve();
        }
      },
      onChange: ({ metadata }) => void heard.push(`change ${metadata.name}`),
      onGone: ({ metadata }) => void heard.push(`gone ${metadata.name}`),
    },
    { signal: closing.signal, log: silence },
  );
  await Promise.all([following, enough.promise.then(() => closing.abort())]);
  return heard;
}

describe('following objects', () => {
  test('lists first, watches from there, and lists again when the watch ends', async () => {
    script = [
      list(['a']),
      watch(
        { type: 'MODIFIED', object: pod('a') },
        { type: 'ADDED', object: pod('b') },
        { type: 'DELETED', object: pod('a') },
      ),
      list(['b']),
    ];

    const heard = await follow(2);

    expect(heard).toEqual(['list a', 'change a', 'change b', 'gone a', 'list b']);
    expect(requests[0]).toContain('labelSelector=app%3Dx');
    expect(requests[1]).toContain('resourceVersion=7');
    expect(requests[1]).toContain('watch=true');
  });

  test('reads all pages of a list before it says anything', async () => {
    script = [list(['a'], 'next'), list(['b']), watch(), list([])];

    expect(await follow(2)).toEqual(['list a b', 'list ']);
    expect(requests[1]).toContain('continue=next');
  });

  test('lists again after a 410 in the stream', async () => {
    script = [
      list(['a']),
      watch({ type: 'ERROR', object: { kind: 'Status', code: 410 } }),
      list(['b']),
    ];

    expect(await follow(2)).toEqual(['list a', 'list b']);
  });

  test('lists again after a 410 of the watch itself', async () => {
    script = [list(['a']), (_, response) => void response.writeHead(410).end('{}'), list(['b'])];

    expect(await follow(2)).toEqual(['list a', 'list b']);
  });

  test('lists again after the connection broke', async () => {
    script = [
      list(['a']),
      (_, response) => {
        response.write(`${JSON.stringify({ type: 'ADDED', object: pod('b') })}\n`, () =>
          response.destroy(),
        );
      },
      list(['b']),
    ];

    expect((await follow(2)).at(-1)).toBe('list b');
  });

  test('begins the list anew when one of its pages fails', async () => {
    script = [
      list(['a'], 'next'),
      (_, response) => void response.writeHead(410).end('{}'),
      list(['b']),
    ];

    expect(await follow(1)).toEqual(['list b']);
  });
});
