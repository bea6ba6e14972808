import { connect } from 'node:net';
import { once } from 'node:events';
import { describe, expect, onTestFinished, test } from 'vitest';
import { createRelayMetrics } from '#events/relay/metrics.ts';
import { Relay } from '#events/relay/relay.ts';
import { serveRelay } from '#events/relay/server.ts';
import type { ResourceKind } from '#shared/kube/resources.ts';
import { aPod, aRecord, aShard, listAll } from './objects.ts';
import { RecordingQueue } from './recording-queue.ts';
import { VirtualTimers } from './virtual-timers.ts';
import { twoRoutes } from '#test/builders/two-steps.ts';

async function serve() {
  const timers = new VirtualTimers();
  const queue = new RecordingQueue();
  const metrics = createRelayMetrics(timers);
  const relay = new Relay({
    routing: twoRoutes,
    clusterId: 'test',
    stage: 'test',
    namespaces: [],
    queues: queue,
    timers,
    random: () => 0.5,
    report: (news) => metrics.count(news),
  });
  metrics.observe(relay);
  const server = await serveRelay(relay, metrics.registry, { host: '127.0.0.1', port: 0 });
  onTestFinished(() => server.close());
  const list = (kind: ResourceKind, objects: ReturnType<typeof aShard>[]) =>
    listAll(relay.sources.find(({ resource }) => resource.kind === kind)?.sink, objects);
  const get = (path: string, init?: RequestInit) => fetch(`${server.url}${path}`, init);
  return { timers, queue, relay, server, list, get };
}

describe('the relay’s server', () => {
  test('is alive from the start, and ready when all is listed', async () => {
    const { list, get } = await serve();
    const statuses = [(await get('/healthz')).status, (await get('/readyz')).status];

    for (const kind of ['Shard', 'Pod', 'Database'] as const) {
      list(kind, []);
    }
    statuses.push((await get('/readyz')).status);

    expect(statuses).toEqual([200, 503, 200]);
  });

  test('says what makes it not ready', async () => {
    const { list, get } = await serve();
    list('Shard', []);
    list('Database', []);

    const body: unknown = await (await get('/readyz')).json();

    expect(body).toEqual({ problems: ['Pod in all namespaces: not listed yet'] });
  });

  test('tells a waiting pod whether it is released', async () => {
    const { list, get } = await serve();
    list('Pod', [
      aPod('draining', 'a', { annotations: { 'drain.millrace.dev/state': 'draining' } }),
      aPod('finished', 'a', { annotations: { 'drain.millrace.dev/state': 'finished' } }),
      aPod('released', 'a', { annotations: { 'release.millrace.dev/state': 'released' } }),
      aPod('plain', 'a'),
    ]);

    const answers = await Promise.all(
      ['draining', 'finished', 'released', 'plain'].map(async (name) =>
        (await get(`/v1/pods/db/${name}`)).json(),
      ),
    );

    expect(answers).toEqual([
      { state: 'draining', released: false },
      { state: 'finished', released: true },
      { state: 'released', released: true },
      { state: null, released: false },
    ]);
  });

  test('does not know a pod that is not there, but says so only once it knows all', async () => {
    const { list, get } = await serve();
    const before = (await get('/v1/pods/db/p-0')).status;

    list('Pod', []);

    expect([before, (await get('/v1/pods/db/p-0')).status]).toEqual([503, 404]);
  });

  test.each([
    '/',
    '/v1/pods/db',
    '/v1/pods/db/a/b',
    '/v1/pods/DB/a',
    '/v1/pods/%2e%2e/a',
    '/v1/pods/db/%00',
    '/v1/secrets/db/a',
    '//healthz',
  ])('serves nothing at %s', async (path) => {
    const { get } = await serve();

    expect((await get(path)).status).toBe(404);
  });

  test('takes no writes', async () => {
    const { get } = await serve();

    expect((await get('/v1/pods/db/p-0', { method: 'DELETE' })).status).toBe(405);
  });

  test('closes although a client holds its connection', async () => {
    const { server } = await serve();
    const socket = connect(Number(new URL(server.url).port), '127.0.0.1');
    await once(socket, 'connect');

    await server.close();

    await once(socket, 'close');
  });
});

/** A metric's value in the text that Prometheus reads. */
function value(text: string, line: string): string | undefined {
  return text
    .split('\n')
    .find((each) => each.startsWith(`${line} `))
    ?.split(' ')
    .at(-1);
}

describe('the relay’s metrics', () => {
  test('show what is owed, how old it is, and what was sent and why', async () => {
    const { timers, queue, list, get } = await serve();
    queue.isDown = true;
    list('Shard', [aShard('a', { annotations: aRecord('drain-step', { every: 3_600 }) })]);
    await timers.pass(42_000);
    const during = await (await get('/metrics')).text();

    queue.isDown = false;
    await timers.pass(15_000);
    const after = await (await get('/metrics')).text();

    expect(value(during, 'millrace_relay_dirty{step="drain-step"}')).toBe('1');
    expect(value(during, 'millrace_relay_oldest_unsent_seconds')).toBe('42');
    expect(
      Number(value(during, 'millrace_relay_send_failures_total{step="drain-step"}')),
    ).toBeGreaterThan(3);
    expect(value(during, 'millrace_relay_lag_seconds{kind="Pod",namespace=""}')).toBe('42');
    expect(value(during, 'millrace_relay_sleepers')).toBe('1');
    expect(value(during, 'millrace_relay_objects{kind="Shard"}')).toBe('1');
    expect(value(after, 'millrace_relay_dirty{step="drain-step"}')).toBe('0');
    expect(value(after, 'millrace_relay_oldest_unsent_seconds')).toBe('0');
    expect(value(after, 'millrace_relay_hints_total{step="drain-step",why="resync"}')).toBe('1');
    expect(value(after, 'millrace_relay_hint_delay_seconds_count{step="drain-step"}')).toBe('1');
  });

  test('show gaps, lost history, silence and failures', async () => {
    const { relay, list, get } = await serve();
    const source = relay.sources.find(({ resource }) => resource.kind === 'Shard');
    list('Shard', [aShard('a'), aShard('b')]);
    source?.report({ kind: 'gone', where: 'stream' });
    source?.report({ kind: 'silent' });
    source?.report({ kind: 'failed', why: 'no' });
    list('Shard', [aShard('a')]);
    relay.resync();

    const text = await (await get('/metrics')).text();

    expect(value(text, 'millrace_relay_gaps_total{kind="Shard"}')).toBe('1');
    expect(value(text, 'millrace_relay_lists_total{kind="Shard",how="stream"}')).toBe('2');
    expect(value(text, 'millrace_relay_gone_total{kind="Shard",where="stream"}')).toBe('1');
    expect(value(text, 'millrace_relay_silent_total{kind="Shard"}')).toBe('1');
    expect(value(text, 'millrace_relay_watch_failures_total{kind="Shard"}')).toBe('1');
    expect(value(text, 'millrace_relay_resyncs_total')).toBe('1');
  });

  test('count the wakes that were due', async () => {
    const { timers, list, get } = await serve();
    list('Shard', [aShard('a', { annotations: aRecord('drain-step', { every: 5 }) })]);

    await timers.pass(16_000);

    const text = await (await get('/metrics')).text();
    expect(value(text, 'millrace_relay_wakes_total{step="drain-step"}')).toBe('3');
  });
});
