import { describe, expect, onTestFinished, test } from 'vitest';
import {
  type ListMode,
  type ReflectedResource,
  Reflector,
  type ReflectorNews,
  type ReflectorSink,
  reflectorLimits,
} from '#events/relay/reflector.ts';
import { type Timers, systemTimers } from '#events/relay/timers.ts';
import type { WatchedObject } from '#events/relay/watched-object.ts';
import {
  type Scene,
  ScriptedApiServer,
  bookmark,
  brokenWatch,
  errorEvent,
  event,
  page,
  refuse,
  shortWatch,
  streamedList,
  watch,
} from './scripted-api-server.ts';
import { ModelApiServer } from './model-api-server.ts';
import { aShard } from './objects.ts';
import { VirtualTimers } from './virtual-timers.ts';

const shards: ReflectedResource = { kind: 'Shard', isMetadataOnly: false };

interface SetUp {
  readonly resource?: ReflectedResource;
  readonly timers?: Timers;
  readonly silenceMs?: number;
}

/** Runs a reflector against the scenes until the test ends. What it tells its sink comes out as words. */
async function follow(scenes: Scene[], { resource = shards, timers, silenceMs }: SetUp = {}) {
  const server = await ScriptedApiServer.start(...scenes);
  const connection = server.connect();
  const told: string[] = [];
  const news: ReflectorNews[] = [];
  const waits: number[] = [];
  const tell = (what: string) => (object: WatchedObject) =>
    told.push(`${what} ${object.metadata.name}@${object.metadata.resourceVersion}`);
  let listed: string[] = [];
  const modes: ListMode[] = [];
  const sink: ReflectorSink = {
    began() {
      listed = [];
    },
    listed: ({ metadata }) => listed.push(metadata.name),
    completed(how) {
      modes.push(how);
      told.push(`all ${listed.join(',')}`);
    },
    changed: tell('changed'),
    removed: tell('removed'),
  };
  const ports = { connection, timers: timers ?? hasty(waits), random: () => 0 };
  const limits = { ...reflectorLimits, silenceMs: silenceMs ?? reflectorLimits.silenceMs };
  const stopping = new AbortController();
  const reflector = new Reflector(resource, ports, sink, (item) => news.push(item), limits);
  const running = reflector.run(stopping.signal);
  const stop = async () => {
    stopping.abort();
    await running;
  };
  onTestFinished(async () => {
    await stop();
    connection.close();
    await server[Symbol.asyncDispose]();
  });
  const kinds = () => news.filter(({ kind }) => kind !== 'heard').map(toWord);
  return { server, told, modes, listed: () => listed, waits, kinds, stop };
}

/** The same against a server that serves no streaming list; the refusal of the first one is left out of what is seen. */
async function followPages(scenes: Scene[], setUp: SetUp = {}) {
  const { server, ...rest } = await follow([refuse(422), ...scenes], setUp);
  return {
    ...rest,
    server: {
      asked: (count: number) => server.asked(count + 1),
      get words() {
        return server.words.slice(1);
      },
      get requests() {
        return server.requests.slice(1);
      },
    },
  };
}

function toWord(news: ReflectorNews): string {
  return news.kind === 'gone' ? `gone ${news.where}` : news.kind;
}

/** Waits of a minute and more never end, shorter ones at once; they are written down. */
function hasty(waits: number[]): Timers {
  return {
    ...systemTimers,
    after(delayMs, run) {
      if (delayMs >= 60_000) {
        return () => {};
      }
      waits.push(delayMs);
      return systemTimers.after(0, run);
    },
  };
}

const a1 = aShard('a', { resourceVersion: '11' });
const a2 = aShard('a', { resourceVersion: '21' });
const b1 = aShard('b', { resourceVersion: '12' });

describe('a reflector of a server that lists in pages', () => {
  test('lists all pages, then watches from the list’s version and hands on what comes', async () => {
    const { server, told } = await followPages([
      page('20', [a1], 'more'),
      page('20', [b1]),
      shortWatch(event('MODIFIED', a2), event('DELETED', aShard('b', { resourceVersion: '22' }))),
    ]);

    await server.asked(4);

    expect(told).toEqual(['all a,b', 'changed a@21', 'removed b@22']);
    expect(server.words).toEqual(['list', 'list more', 'watch 20', 'watch 22']);
  });

  test('never takes a cached list, and asks for pages, bookmarks and an end', async () => {
    const { server } = await followPages([page('20', [])]);

    await server.asked(2);

    expect(server.requests[0]).toMatchObject({
      path: '/apis/millrace.dev/v1alpha1/shards',
      query: { limit: '500' },
    });
    expect(server.requests[0]?.query).not.toHaveProperty('resourceVersion');
    expect(server.requests[1]?.query).toMatchObject({
      allowWatchBookmarks: 'true',
      timeoutSeconds: '300',
    });
  });

  test('asks for the metadata of labelled pods of one namespace alone', async () => {
    const resource = {
      kind: 'Pod',
      namespace: 'db',
      label: 'millrace.dev/shard',
      isMetadataOnly: true,
    } as const;
    const { server } = await followPages([page('20', [])], { resource });

    await server.asked(2);

    const [list, watched] = server.requests;
    expect(list?.path).toBe('/api/v1/namespaces/db/pods');
    expect(list?.query.labelSelector).toBe('millrace.dev/shard');
    expect(list?.accept).toMatch(/^application\/json;as=PartialObjectMetadataList;/);
    expect(watched?.query.labelSelector).toBe('millrace.dev/shard');
    expect(watched?.accept).toMatch(/^application\/json;as=PartialObjectMetadata;/);
  });

  test('goes on from the last bookmark when a watch ends', async () => {
    const { server, kinds } = await followPages([
      page('20', [a1]),
      shortWatch(bookmark('300')),
      shortWatch(bookmark('400')),
    ]);

    await server.asked(4);

    expect(server.words).toEqual(['list', 'watch 20', 'watch 300', 'watch 400']);
    expect(kinds()).toEqual([]);
  });

  test('goes on from the last whole event when the connection breaks inside one', async () => {
    const { server, told } = await followPages([
      page('20', [a1]),
      brokenWatch(event('MODIFIED', a2)),
      watch(event('ADDED', aShard('c', { resourceVersion: '23' }))),
    ]);

    await server.asked(3);
    await expect.poll(() => told).toHaveLength(3);

    expect(server.words).toEqual(['list', 'watch 20', 'watch 21']);
    expect(told).toEqual(['all a', 'changed a@21', 'changed c@23']);
  });

  test('F16: lists anew when the watch says 410', async () => {
    const { server, told, kinds } = await followPages([
      page('20', [a1, b1]),
      shortWatch(errorEvent(410)),
      page('50', [a1]),
    ]);

    await server.asked(4);

    expect(told).toEqual(['all a,b', 'all a']);
    expect(server.words).toEqual(['list', 'watch 20', 'list', 'watch 50']);
    expect(kinds()).toEqual(['gone stream']);
  });

  test('F16: lists anew when the watch is refused with 410', async () => {
    const { server, told, kinds } = await followPages([
      page('20', [a1, b1]),
      refuse(410),
      page('50', [a1]),
    ]);

    await server.asked(4);

    expect(told).toEqual(['all a,b', 'all a']);
    expect(kinds()).toEqual(['gone watch']);
  });

  test('F8: starts a list over when a later page is gone, and never takes a part of it for the whole', async () => {
    const { server, told, kinds } = await followPages([
      page('20', [a1], 'more'),
      refuse(410),
      page('30', [a1], 'more'),
      page('30', [b1]),
    ]);

    await server.asked(5);

    expect(told).toEqual(['all a,b']);
    expect(server.words).toEqual(['list', 'list more', 'list', 'list more', 'watch 30']);
    expect(kinds()).toEqual(['gone list']);
  });

  test.each([403, 404, 500])(
    'F8: takes a list refused with %i for no list at all',
    async (code) => {
      const { server, told, kinds } = await followPages([
        refuse(code),
        refuse(code),
        page('20', [a1]),
      ]);

      await server.asked(4);

      expect(told).toEqual(['all a']);
      expect(kinds()).toEqual(['failed', 'failed']);
    },
  );

  test('takes a list of nothing for one, also in the form a metadata-only list has', async () => {
    const empty = '{"metadata":{"resourceVersion":"20"},"items":null}';
    const { server, told } = await followPages([(response) => response.end(empty)]);

    await server.asked(2);

    expect(told).toEqual(['all ']);
    expect(server.words).toEqual(['list', 'watch 20']);
  });

  test.each(['', '{}', '{"metadata":{"resourceVersion":"1"}}', '<html></html>'])(
    'F8: takes %j for no list at all',
    async (body) => {
      const { server, told } = await followPages([
        (response) => response.end(body),
        page('20', [a1]),
      ]);

      await server.asked(3);

      expect(told).toEqual(['all a']);
    },
  );

  test.each(['garbage', '{"type":"ADDED"}', '{"type":"PARTY","object":{}}', 'null'])(
    'gives up a watch that sends %j and hears the rest again',
    async (line) => {
      const { server, told } = await followPages([
        page('20', [a1]),
        watch(event('MODIFIED', a2), line),
        watch(event('ADDED', aShard('c', { resourceVersion: '23' }))),
      ]);

      await server.asked(3);
      await expect.poll(() => told).toHaveLength(3);

      expect(server.words).toEqual(['list', 'watch 20', 'watch 21']);
    },
  );

  test('F22: waits as long as the server asks, for a list, a watch and inside a watch', async () => {
    const { server, waits } = await followPages([
      refuse(429, { 'retry-after': '7' }),
      page('20', []),
      refuse(503, { 'retry-after': '9' }),
      shortWatch(errorEvent(429, 11)),
    ]);

    await server.asked(5);

    const [list, refused, inside] = waits;
    expect(list).toBeGreaterThanOrEqual(7_000);
    expect(refused).toBeGreaterThanOrEqual(9_000);
    expect(inside).toBeGreaterThanOrEqual(11_000);
  });

  test('waits longer with each failure, up to its limit', async () => {
    const { server, waits } = await followPages(Array.from({ length: 9 }, () => refuse(500)));

    await server.asked(10);

    expect(waits).toEqual([100, 200, 400, 800, 1_600, 2_500, 2_500, 2_500, 2_500]);
  });

  test('waits before it takes up watches that end at once', async () => {
    const { server, waits } = await followPages([page('20', []), shortWatch(), shortWatch()]);

    await server.asked(4);

    expect(waits).toEqual([100, 200]);
  });

  test('lists anew when the server does not let it go on from where it is', async () => {
    const { server } = await followPages([
      page('20', []),
      ...Array.from({ length: reflectorLimits.refusalsBeforeList }, () => refuse(500)),
      page('30', []),
    ]);

    await server.asked(8);

    expect(server.words.slice(-3)).toEqual(['watch 20', 'list', 'watch 30']);
  });

  test.each<[string, Scene]>([
    ['is away', (response) => response.socket?.destroy()],
    ['is busy', refuse(429, { 'retry-after': '1' })],
  ])('keeps its place while the server %s, so that no storm of lists follows', async (_, scene) => {
    const outage = Array.from({ length: 20 }, () => scene);
    const { server } = await followPages([page('20', []), ...outage, shortWatch(bookmark('30'))]);

    await server.asked(23);

    expect(server.words.filter((word) => word === 'list')).toHaveLength(1);
    expect(server.words.at(-1)).toBe('watch 30');
  });

  test('L4: gives up a watch that went silent and goes on from where it was', async () => {
    const { server, kinds } = await followPages([page('20', []), watch(bookmark('21'))], {
      timers: systemTimers,
      silenceMs: 50,
    });

    await server.asked(3);

    expect(server.words).toEqual(['list', 'watch 20', 'watch 21']);
    expect(kinds()).toEqual(['silent']);
  });

  test('L4: gives up a watch that was never answered', async () => {
    const { server } = await followPages([page('20', []), () => {}, shortWatch(bookmark('30'))], {
      timers: systemTimers,
      silenceMs: 50,
    });

    await server.asked(4);

    expect(server.words).toEqual(['list', 'watch 20', 'watch 20', 'watch 30']);
  });

  test('outlives a server that is not there', async () => {
    const { server, told } = await followPages([
      (response) => response.socket?.destroy(),
      page('20', [a1]),
      (response) => response.socket?.destroy(),
      watch(bookmark('30')),
    ]);

    await server.asked(4);

    expect(told).toEqual(['all a']);
    expect(server.words).toEqual(['list', 'list', 'watch 20', 'watch 20']);
  });

  test.each<[string, Scene[]]>([
    ['a list', [() => {}]],
    ['a wait', [refuse(500, { 'retry-after': '59' })]],
    ['a watch', [page('20', []), watch(bookmark('30'))]],
  ])('stops in the middle of %s', async (_, scenes) => {
    const { server, stop } = await followPages(scenes, { timers: systemTimers });
    await server.asked(scenes.length);

    await stop();

    expect(server.requests).toHaveLength(scenes.length);
  });
});

describe('a reflector of a server that streams lists', () => {
  test('takes the list inside the watch, up to its mark, and the same stream goes on', async () => {
    const { server, told, modes } = await follow([
      watch(...streamedList('20', [b1, a1]), event('MODIFIED', a2), event('DELETED', b1)),
    ]);

    await expect.poll(() => told).toHaveLength(3);

    expect(told).toEqual(['all b,a', 'changed a@21', 'removed b@12']);
    expect(modes).toEqual(['stream']);
    expect(server.words).toEqual(['stream']);
  });

  test('asks for a consistent list, bookmarks and an end', async () => {
    const { server } = await follow([watch()]);

    await server.asked(1);

    expect(server.requests[0]?.query).toEqual({
      watch: '1',
      sendInitialEvents: 'true',
      resourceVersionMatch: 'NotOlderThan',
      allowWatchBookmarks: 'true',
      timeoutSeconds: '300',
    });
  });

  test('asks for the metadata of labelled pods of one namespace alone', async () => {
    const resource = {
      kind: 'Pod',
      namespace: 'db',
      label: 'millrace.dev/shard',
      isMetadataOnly: true,
    } as const;
    const { server } = await follow([watch()], { resource });

    await server.asked(1);

    expect(server.requests[0]?.path).toBe('/api/v1/namespaces/db/pods');
    expect(server.requests[0]?.query.labelSelector).toBe('millrace.dev/shard');
    expect(server.requests[0]?.accept).toMatch(/^application\/json;as=PartialObjectMetadata;/);
  });

  test('hands objects on before the list is complete', async () => {
    const { listed, told } = await follow([watch(event('ADDED', a1), event('ADDED', b1))]);

    await expect.poll(listed).toEqual(['a', 'b']);

    expect(told).toEqual([]);
  });

  test('goes on from the mark’s version when the stream ends right after it', async () => {
    const { server } = await follow([shortWatch(...streamedList('20', [a1])), watch()]);

    await server.asked(2);

    expect(server.words).toEqual(['stream', 'watch 20']);
  });

  test('hears of changes and deletions that come before the mark', async () => {
    const { told } = await follow([
      watch(
        event('ADDED', a1),
        event('ADDED', b1),
        event('MODIFIED', a2),
        event('DELETED', b1),
        ...streamedList('22', []),
      ),
    ]);

    await expect.poll(() => told).toHaveLength(3);

    expect(told).toEqual(['changed a@21', 'removed b@12', 'all a,b']);
  });

  test('F8: starts a list over whose connection breaks before the mark, and completes no part of it', async () => {
    const { server, told, kinds } = await follow([
      brokenWatch(event('ADDED', a1)),
      watch(...streamedList('30', [a1, b1])),
    ]);

    await server.asked(2);
    await expect.poll(() => told).toEqual(['all a,b']);

    expect(server.words).toEqual(['stream', 'stream']);
    expect(kinds()).toEqual(['failed']);
  });

  test('F16: starts a list over that says 410 inside', async () => {
    const { server, told, kinds } = await follow([
      shortWatch(event('ADDED', a1), errorEvent(410)),
      watch(...streamedList('30', [a1, b1])),
    ]);

    await expect.poll(() => told).toEqual(['all a,b']);

    expect(server.words).toEqual(['stream', 'stream']);
    expect(kinds()).toEqual(['gone stream']);
  });

  test('F16: lists anew in a stream when the watch says 410', async () => {
    const { server, told } = await follow([
      watch(...streamedList('20', [a1, b1]), errorEvent(410)),
      watch(...streamedList('50', [a1])),
    ]);

    await expect.poll(() => told).toEqual(['all a,b', 'all a']);

    expect(server.words).toEqual(['stream', 'stream']);
  });

  test('F22: waits as long as the server asks, before a list and inside it', async () => {
    const { server, waits } = await follow([
      refuse(429, { 'retry-after': '7' }),
      watch(event('ADDED', a1), errorEvent(429, 11)),
      watch(),
    ]);

    await server.asked(3);

    expect(server.words).toEqual(['stream', 'stream', 'stream']);
    expect(waits[0]).toBeGreaterThanOrEqual(7_000);
    expect(waits[1]).toBeGreaterThanOrEqual(11_000);
  });

  test('waits longer with each list that fails half-way', async () => {
    const { server, waits } = await follow([
      refuse(500),
      brokenWatch(event('ADDED', a1)),
      brokenWatch(event('ADDED', a1)),
      watch(),
    ]);

    await server.asked(4);

    expect(waits).toEqual([100, 200, 400]);
  });

  test('stops in the middle of a list', async () => {
    const { listed, server, stop } = await follow([watch(event('ADDED', a1))]);
    await expect.poll(listed).toEqual(['a']);

    await stop();

    expect(server.requests).toHaveLength(1);
  });
});

describe('a reflector turns to pages', () => {
  test.each<[string, Scene]>([
    ['refuses the parameters of a streaming list', refuse(422)],
    ['does not understand them', refuse(400)],
    [
      'ignores them, as a bookmark without the mark shows',
      watch(event('ADDED', a1), bookmark('9')),
    ],
    ['ignores them, as an orderly end without the mark shows', shortWatch(event('ADDED', a1))],
  ])('when a server %s, at once', async (_, scene) => {
    const { server, told, modes, waits } = await follow([scene, page('20', [b1])]);

    await server.asked(3);

    expect(server.words).toEqual(['stream', 'list', 'watch 20']);
    expect(told).toEqual(['all b']);
    expect(modes).toEqual(['pages']);
    expect(waits).toEqual([]);
  });

  test('L4: when nothing comes any more before the mark', async () => {
    const { server, told, kinds } = await follow([watch(event('ADDED', a1)), page('20', [a1])], {
      timers: systemTimers,
      silenceMs: 50,
    });

    await server.asked(3);

    expect(server.words).toEqual(['stream', 'list', 'watch 20']);
    expect(told).toEqual(['all a']);
    expect(kinds()[0]).toBe('silent');
  });

  test('when one list after the other breaks off', async () => {
    const half = brokenWatch(event('ADDED', a1));
    const { server } = await follow([half, half, half, page('20', [a1])]);

    await server.asked(5);

    expect(server.words).toEqual(['stream', 'stream', 'stream', 'list', 'watch 20']);
  });

  test('and stays with them for an hour', async () => {
    const timers = new VirtualTimers();
    const server = new ModelApiServer();
    server.streaming = 'refused';
    const modes: ListMode[] = [];
    const sink: ReflectorSink = {
      began() {},
      listed() {},
      completed: (how) => modes.push(how),
      removed() {},
      changed() {},
    };
    const ports = { connection: server, timers, random: () => 0 };
    const limits = { ...reflectorLimits, listsEveryMs: Number.POSITIVE_INFINITY };
    const stopping = new AbortController();
    const running = new Reflector(shards, ports, sink, () => {}, limits).run(stopping.signal);
    await timers.pass(1_000);

    server.streaming = 'served';
    server.endWatches('gone');
    await timers.pass(3_590_000);
    server.endWatches('gone');
    await timers.pass(60_000);
    server.endWatches('gone');
    await timers.pass(10_000);

    expect(modes).toEqual(['pages', 'pages', 'pages', 'stream']);
    stopping.abort();
    await running;
  });
});

test('L4: a watch with a bookmark a minute is never taken for a silent one', async () => {
  const server = new ModelApiServer();
  const timers = new VirtualTimers();
  const news: ReflectorNews[] = [];
  const sink = { began() {}, listed() {}, completed() {}, removed() {}, changed() {} };
  const ports = { connection: server, timers, random: () => 0 };
  const stopping = new AbortController();
  const running = new Reflector(shards, ports, sink, (item) => news.push(item)).run(
    stopping.signal,
  );

  for (let minute = 0; minute < 10; minute += 1) {
    await timers.pass(60_000);
    server.sendBookmarks();
  }

  expect(new Set(news.map(({ kind }) => kind))).toEqual(new Set(['heard']));
  stopping.abort();
  await running;
});

describe('F13, L1: an event that the server never sent', () => {
  const setUp = () => {
    const server = new ModelApiServer();
    const timers = new VirtualTimers();
    const listed: string[] = [];
    const sink: ReflectorSink = {
      began: () => listed.splice(0),
      listed: ({ metadata }) => listed.push(metadata.name),
      completed() {},
      removed() {},
      changed() {},
    };
    const ports = { connection: server, timers, random: () => 0 };
    const stopping = new AbortController();
    const running = new Reflector(shards, ports, sink, () => {}).run(stopping.signal);
    onTestFinished(async () => {
      stopping.abort();
      await running;
    });
    const passMinutes = async (minutes: number): Promise<void> => {
      for (let minute = 0; minute < minutes; minute += 1) {
        await timers.pass(60_000);
        server.sendBookmarks();
      }
    };
    const loseEvent = (): void => {
      const metadata = { name: 'lost', namespace: 'db', uid: 'lost-1', resourceVersion: '101' };
      server.objects.set('lost', { metadata });
    };
    return { server, timers, listed, passMinutes, loseEvent };
  };

  test.each(['clean', 'broken'] as const)(
    'is found by a list once a watch ends (%s) and the last list is twenty minutes old',
    async (how) => {
      const { server, timers, listed, passMinutes, loseEvent } = setUp();
      await passMinutes(1);
      loseEvent();

      await passMinutes(20);
      server.endWatches(how);
      await timers.pass(1_000);

      expect(listed).toEqual(['lost']);
    },
  );

  test('does not make every watch that ends begin with a list', async () => {
    const { server, timers, listed, passMinutes, loseEvent } = setUp();
    await passMinutes(1);
    loseEvent();

    await passMinutes(18);
    server.endWatches('clean');
    await timers.pass(1_000);

    expect(listed).toEqual([]);
  });
});

test('a defect of the sink ends a reflector loudly, also in a watch', async () => {
  await using server = await ScriptedApiServer.start(
    watch(...streamedList('20', []), event('ADDED', a2)),
  );
  const connection = server.connect();
  const broken = {
    began() {},
    listed() {},
    completed() {},
    removed() {},
    changed() {
      throw new Error('defect');
    },
  };
  const ports = { connection, timers: systemTimers, random: () => 0 };

  const running = new Reflector(shards, ports, broken, () => {}).run(new AbortController().signal);

  await expect(running).rejects.toThrow('defect');
  connection.close();
});
