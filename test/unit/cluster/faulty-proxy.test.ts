import { once } from 'node:events';
import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  FaultyProxy,
  type ProxiedAnswer,
  type ProxiedRequest,
} from '#test/cluster/faulty-proxy.ts';

let server: http.Server;
/** Paths that reached the real server. */
let served: string[];
/** Streams that the real server has open. */
let streams: ServerResponse[];
let target: string;
const proxies: FaultyProxy[] = [];

beforeEach(async () => {
  served = [];
  streams = [];
  server = http.createServer((request, response) => {
    served.push(request.url ?? '');
    if (request.url === '/stream') {
      response.flushHeaders();
      streams.push(response);
      return;
    }
    response.writeHead(201, { 'x-from': 'server' });
    request.pipe(response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  target = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterEach(async () => {
  for (const proxy of proxies.splice(0)) {
    await proxy[Symbol.asyncDispose]();
  }
  server.closeAllConnections();
  server.close();
  await once(server, 'close');
});

async function aProxy(
  onAnswer?: (request: ProxiedRequest, answer: ProxiedAnswer) => void,
): Promise<FaultyProxy> {
  const proxy = await FaultyProxy.start({
    target,
    ...(onAnswer === undefined ? {} : { onAnswer }),
  });
  proxies.push(proxy);
  return proxy;
}

function post(proxy: FaultyProxy, path: string, body = ''): Promise<Response> {
  return fetch(`${proxy.url}${path}`, { method: 'POST', body });
}

/** A streamed answer, and how it ended: all of the text, and whether the connection broke. */
async function openStream(proxy: FaultyProxy) {
  const request = http.get(`${proxy.url}/stream`, { agent: false });
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  let text = '';
  response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
  const ended = new Promise<{ text: string; isWhole: boolean }>((resolve) => {
    response.on('error', () => undefined);
    response.once('close', () => resolve({ text, isWhole: response.complete }));
  });
  return { ended, destroy: () => request.destroy() };
}

describe('the proxy that fails', () => {
  test('without a fault hands requests and answers on as they are, and remembers them', async () => {
    const proxy = await aProxy();

    const answer = await post(proxy, '/a?b=1', 'hello');

    expect([answer.status, answer.headers.get('x-from'), await answer.text()]).toEqual([
      201,
      'server',
      'hello',
    ]);
    expect(served).toEqual(['/a?b=1']);
    expect(proxy.requests).toMatchObject([{ method: 'POST', path: '/a', body: 'hello' }]);
    expect(proxy.requests[0]?.query.get('b')).toBe('1');
  });

  test('refuses connections, and takes them on the same port once it has healed', async () => {
    const proxy = await aProxy();
    const { url } = proxy;
    proxy.refuse();

    await expect(post(proxy, '/a')).rejects.toThrow('fetch failed');
    await proxy.heal();

    expect((await post(proxy, '/b')).status).toBe(201);
    expect(proxy.url).toBe(url);
    expect(served).toEqual(['/b']);
  });

  test('is silent for what came before it healed, and for nothing after it', async () => {
    const proxy = await aProxy();
    const { ended, destroy } = await openStream(proxy);
    proxy.fallSilent();
    const unanswered = new AbortController();
    const first = fetch(`${proxy.url}/a`, { signal: unanswered.signal }).then(
      () => 'answered',
      () => 'given up',
    );
    streams[0]?.end('too late\n');
    await expect.poll(() => proxy.unheardConnections).toBe(1);
    await proxy.heal();

    const second = post(proxy, '/b').then(({ status }) => status);

    expect(await Promise.race([first, second, ended])).toBe(201);
    expect(served).toEqual(['/stream', '/b']);
    unanswered.abort();
    destroy();
    expect(await first).toBe('given up');
    expect(await ended).toEqual({ text: '', isWhole: false });
  });

  test('answers by itself what its rule says', async () => {
    const proxy = await aProxy();
    const busy = { status: 429, headers: { 'retry-after': '2' }, body: { code: 429 } };
    proxy.treat(({ path }) => (path === '/busy' ? { kind: 'answer', ...busy } : undefined));

    const refused = await post(proxy, '/busy');
    const passed = await post(proxy, '/a');

    expect([refused.status, refused.headers.get('retry-after'), await refused.json()]).toEqual([
      429,
      '2',
      { code: 429 },
    ]);
    expect(passed.status).toBe(201);
    expect(served).toEqual(['/a']);
  });

  test.each(['loseReply', 'withholdReply'] as const)(
    '%s: the server has done it, and its client does not hear of it',
    async (kind) => {
      const told = Promise.withResolvers<ProxiedAnswer>();
      const proxy = await aProxy((_, answer) => told.resolve(answer));
      proxy.treat(() => ({ kind }));
      const unanswered = new AbortController();

      const asking = fetch(`${proxy.url}/a`, {
        method: 'POST',
        body: 'done',
        signal: unanswered.signal,
      }).then(
        () => 'answered',
        () => 'not answered',
      );

      expect(await told.promise).toEqual({ status: 201, body: 'done' });
      expect(served).toEqual(['/a']);
      unanswered.abort();
      expect(await asking).toBe('not answered');
    },
  );

  test('tells of the server’s answer although its client has gone', async () => {
    const told = Promise.withResolvers<ProxiedAnswer>();
    const unanswered = new AbortController();
    const proxy = await aProxy((_, answer) => told.resolve(answer));
    proxy.treat(() => {
      unanswered.abort();
      return { kind: 'pass' };
    });

    const asking = fetch(`${proxy.url}/a`, {
      method: 'POST',
      body: 'done',
      signal: unanswered.signal,
    });

    await expect(asking).rejects.toThrow();
    expect(await told.promise).toEqual({ status: 201, body: 'done' });
  });

  test('cuts an answer after whole lines, in the middle of the next', async () => {
    const proxy = await aProxy();
    proxy.treat(() => ({ kind: 'cut', afterLines: 2 }));
    const { ended } = await openStream(proxy);

    streams[0]?.write('one\ntw');
    streams[0]?.write('o\n');
    streams[0]?.write('three!\nfour\n');

    expect(await ended).toEqual({ text: 'one\ntwo\nthr', isWhole: false });
  });

  test('breaks open answers in the middle of the line that comes next, and ends others in good order', async () => {
    const proxy = await aProxy();
    const broken = await openStream(proxy);
    proxy.breakAnswers();
    streams[0]?.write('abcd\n');
    const brokenEnd = await broken.ended;
    const finished = await openStream(proxy);
    const open = proxy.openAnswers;
    proxy.endAnswers();

    expect(brokenEnd).toEqual({ text: 'ab', isWhole: false });
    expect(await finished.ended).toEqual({ text: '', isWhole: true });
    expect(open).toBe(1);
  });

  test('ends an answer abruptly whose server went away', async () => {
    const proxy = await aProxy();
    const { ended } = await openStream(proxy);

    streams[0]?.destroy();

    expect(await ended).toEqual({ text: '', isWhole: false });
  });

  test('amends what is asked and what is answered', async () => {
    const proxy = await aProxy();
    proxy.treat(() => ({
      kind: 'amend',
      request: (body) => body.replace('b', ''),
      answer: (body) => `${body}!`,
    }));

    const answer = await post(proxy, '/a', 'abc');

    expect(await answer.text()).toBe('ac!');
  });
});
