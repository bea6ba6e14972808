import { request } from 'node:http';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { ListNews, StepOrder } from '#infra/cli/ui/ports.ts';
import { type PageServer, servePage } from '#infra/cli/ui/server.ts';
import { pagePorts } from '#test/builders/page-ports.ts';

interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: string;
}

const world = { targets: 3, marks: 5, now: Date.parse('2026-01-01T00:00:00Z') };

let server: PageServer;
let replayed: StepOrder[];
let tellNews: (news: ListNews) => void;

async function start(canWrite: boolean): Promise<void> {
  const ports = pagePorts(world);
  const replay = async (order: StepOrder) => {
    replayed.push(order);
    return { sent: 1, says: ['1 hint sent again'] };
  };
  server = await servePage(
    {
      ...ports,
      targets: {
        rows: ports.targets.rows,
        health: ports.targets.health,
        follow(listener) {
          tellNews = listener;
          return () => undefined;
        },
      },
      letters: { ...ports.letters, ...(canWrite ? { replay } : {}) },
    },
    0,
  );
}

beforeEach(async () => {
  replayed = [];
  await start(true);
});

afterEach(() => server.close());

function ask(
  path: string,
  headers: Readonly<Record<string, string>> = {},
  body?: string,
): Promise<Answer> {
  const { hostname, port } = new URL(server.address);
  const method = body === undefined ? 'GET' : 'POST';
  return new Promise((resolve, reject) => {
    request({ hostname, port, path, headers, method }, (response) => {
      const { statusCode = 0, headers: told } = response;
      text(response).then(
        (all) => resolve({ status: statusCode, headers: told, body: all }),
        reject,
      );
    })
      .on('error', reject)
      .end(body);
  });
}

async function signIn(): Promise<string> {
  const { pathname, search } = new URL(server.address);
  const { headers } = await ask(`${pathname}${search}`);
  return String(headers['set-cookie']).split(';')[0] ?? '';
}

async function asThePage(): Promise<Record<string, string>> {
  const { origin } = new URL(server.address);
  return { cookie: await signIn(), origin, 'content-type': 'application/json' };
}

const order = JSON.stringify({ step: 'drain-step', targets: ['shd/shop/orders-0'] });

describe('the server of the page', () => {
  test('exchanges the token for a cookie and sends the browser on without it', async () => {
    const { pathname, search } = new URL(server.address);

    const answer = await ask(`${pathname}${search}`);

    expect(answer.status).toBe(303);
    expect(answer.headers['location']).toBe('/');
    expect(String(answer.headers['set-cookie'])).toMatch(/HttpOnly; SameSite=Strict/);
  });

  test.each(['/', '/page.ts', '/feed', '/api/story?id=shd/shop/orders-0', '/api/letters'])(
    'tells nobody %s who has not signed in',
    async (path) => {
      const answer = await ask(path);

      expect(answer.status).toBe(401);
      expect(answer.body).not.toContain('orders');
    },
  );

  test('answers under no other name, whatever cookie comes along', async () => {
    const cookie = await signIn();

    const answer = await ask('/', { cookie, host: 'attacker.example' });

    expect(answer.status).toBe(403);
  });

  test('refuses what another site has the browser ask', async () => {
    const cookie = await signIn();

    const answer = await ask('/api/letters', { cookie, 'sec-fetch-site': 'cross-site' });

    expect(answer.status).toBe(403);
  });

  test('serves each module as a script without types, and nothing beside the page’s folder', async () => {
    const cookie = await signIn();

    const script = await ask('/window.ts', { cookie });
    const outside = await ask('/../gate.ts', { cookie });

    expect(script.headers['content-type']).toMatch(/^text\/javascript/);
    expect(script.body).not.toContain('interface');
    expect(outside.status).toBe(404);
  });

  test('keeps the policy on every answer, refusals included', async () => {
    const cookie = await signIn();

    for (const path of ['/', '/nothing']) {
      for (const headers of [{}, { cookie }]) {
        const answer = await ask(path, headers);
        expect(answer.headers['content-security-policy']).toContain("default-src 'none'");
        expect(answer.headers['cache-control']).toBe('no-store');
      }
    }
  });

  test('a replay from the page itself is done', async () => {
    const answer = await ask('/api/replay', await asThePage(), order);

    expect(answer.status).toBe(200);
    expect(replayed).toEqual([{ step: 'drain-step', targets: ['shd/shop/orders-0'] }]);
  });

  test.each([
    ['without an origin', { 'content-type': 'application/json' }],
    ['of another origin', { 'content-type': 'application/json', origin: 'http://evil.example' }],
    ['as a form sends it', { 'content-type': 'text/plain' }],
  ])('a replay %s is refused', async (_, headers) => {
    const cookie = await signIn();

    const answer = await ask('/api/replay', { cookie, ...headers }, order);

    expect(answer.status).toBe(403);
    expect(replayed).toEqual([]);
  });

  test.each(['{', '{"step":"all","targets":["shd/a/b"]}', '{"step":"drain-step","targets":[]}'])(
    'the order %s is refused',
    async (text) => {
      const answer = await ask('/api/replay', await asThePage(), text);

      expect(answer.status).toBe(400);
      expect(replayed).toEqual([]);
    },
  );

  test('a server that may only look refuses every replay, and says how it would not', async () => {
    await server.close();
    await start(false);

    const answer = await ask('/api/replay', await asThePage(), order);

    expect(answer.status).toBe(403);
    expect(answer.body).toContain('--write');
  });

  test('a target that is not there is said to be missing', async () => {
    const cookie = await signIn();

    const answer = await ask('/api/story?id=shd/shop/nobody', { cookie });

    expect(answer.status).toBe(404);
  });

  test('the feed tells everything once, and then what changes, the newest word alone', async () => {
    const [row] = pagePorts(world).targets.rows;
    if (row === undefined) {
      throw new Error('there is a target');
    }
    const heard = await listen(await signIn());
    await heard.until('targets');

    tellNews({ kind: 'changes', changed: [{ ...row, headline: 'first' }], gone: ['shd/shop/x'] });
    tellNews({ kind: 'changes', changed: [{ ...row, headline: 'second' }], gone: [] });
    const changes = await heard.until('changes');

    expect(heard.names).toEqual(['session', 'health', 'targets', 'changes']);
    expect(changes).toEqual({ changed: [{ ...row, headline: 'second' }], gone: ['shd/shop/x'] });
    heard.close();
  });
});

/** Reads server-sent events. */
async function listen(cookie: string) {
  const gone = new AbortController();
  const url = new URL('/feed', server.address);
  const events = eventsOf(await fetch(url, { headers: { cookie }, signal: gone.signal }));
  const names: string[] = [];
  return {
    names,
    async until(name: string): Promise<unknown> {
      for (;;) {
        const { value, done } = await events.next();
        if (done === true) {
          throw new Error('the feed ended');
        }
        names.push(value.name);
        if (value.name === name) {
          return value.data;
        }
      }
    },
    close: () => gone.abort(),
  };
}

async function* eventsOf({ body }: Response) {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const part of body ?? []) {
    const events = `${rest}${decoder.decode(part, { stream: true })}`.split('\n\n');
    rest = events.pop() ?? '';
    for (const event of events) {
      const [, name = '', data = ''] = /^event: (.*)\ndata: (.*)$/.exec(event) ?? [];
      yield { name, data: JSON.parse(data) as unknown };
    }
  }
}
