import { describe, expect, test } from 'vitest';
import { DirtySet } from '#events/relay/dirty-set.ts';
import { KnownWorld } from '#events/relay/known-world.ts';
import { Sender, type SenderNews, senderLimits } from '#events/relay/sender.ts';
import { type Instant, plusSeconds, toText } from '#shared/kernel/instant.ts';
import type { Tracer } from '#shared/kernel/trace.ts';
import { threeRoutes as routing } from '#test/builders/two-steps.ts';
import { RecordedTracer } from '#test/builders/recorded-tracer.ts';
import { aDatabase, aShard, written } from './objects.ts';
import { RecordingQueue } from './recording-queue.ts';
import { VirtualTimers } from './virtual-timers.ts';

const traceId = '0af7651916cd43dd8448eb211c80319c';
const spanId = 'b7ad6b7169203331';
const traceparent = `00-${traceId}-${spanId}-01`;

function left(at: Instant, text = traceparent): Record<string, string> {
  return { 'millrace.dev/traceparent': text, 'millrace.dev/traceparent-ts': toText(at) };
}

/** A relay's bookkeeping and its sender, over objects that a test shows it. */
function setUp(tracer?: Tracer) {
  const timers = new VirtualTimers();
  const queue = new RecordingQueue();
  const news: SenderNews[] = [];
  const world = new KnownWorld(routing);
  const dirty = new DirtySet({ timers, pace: senderLimits.pace, onHeld: () => undefined });
  const sender = new Sender({
    queues: queue,
    dirty,
    timers,
    random: () => 1,
    clusterId: 'test',
    stage: 'test',
    steps: ['drain-step', 'pool-pods'],
    limits: senderLimits,
    isLeading: () => true,
    report: (item) => news.push(item),
    ...(tracer === undefined ? {} : { tracer }),
  });
  const see = async (...given: Parameters<KnownWorld['see']>) => {
    const { marks } = world.see(...given);
    marks.forEach((mark) => dirty.mark(mark));
    sender.notice();
    await timers.pass(1_000);
    return queue.taken.splice(0).map(({ hint }) => hint);
  };
  return { timers, queue, news, world, see };
}

describe('a hint about a target whose change belongs to a trace', () => {
  test('continues the span that the relay sends it in, below the trace of the change', async () => {
    const tracer = new RecordedTracer();
    const { timers, see } = setUp(tracer);

    const hints = await see('Shard', aShard('a', { annotations: left(timers.now()) }));

    const [first] = tracer.named('send millrace-test-drain-step');
    expect(first?.parentSpanId).toBe(spanId);
    expect(first?.traceId).toBe(traceId);
    expect(first?.links).toEqual([]);
    expect(first?.hasEnded).toBe(true);
    expect(first?.attributes).toMatchObject({ 'millrace.cause': 'changed' });
    expect(hints.map(({ data }) => data.traceparent)).toContain(
      `00-${traceId}-${first?.spanId}-01`,
    );
  });

  test('begins a trace of its own, with a link, from ten minutes on', async () => {
    const tracer = new RecordedTracer();
    const { timers, see } = setUp(tracer);
    const annotations = left(plusSeconds(timers.now(), -600));

    await see('Shard', aShard('a', { annotations }));

    const [first] = tracer.named('send millrace-test-drain-step');
    expect(first?.parentSpanId).toBeUndefined();
    expect(first?.traceId).not.toBe(traceId);
    expect(first?.links).toEqual([{ traceId, spanId, isSampled: true }]);
  });

  test('hands the trace on where the relay traces nothing, for as long as it is young', async () => {
    const { timers, see } = setUp();
    const shard = aShard('a', { annotations: left(timers.now()) });

    const young = await see('Shard', shard);
    await timers.pass(600_000);
    const old = await see('Shard', written(shard, { generation: 2 }));

    expect(young.map(({ data }) => data.traceparent)).toEqual([traceparent, traceparent]);
    expect(old.map(({ data }) => data)).not.toContainEqual(
      expect.objectContaining({ traceparent: expect.anything() }),
    );
  });

  test('that was not acknowledged is a span that failed, and the next try is another one', async () => {
    const tracer = new RecordedTracer();
    const { timers, queue, see } = setUp(tracer);
    queue.isDown = true;
    await see('Shard', aShard('a', { annotations: left(timers.now()) }));

    queue.isDown = false;
    await timers.pass(20_000);

    const spans = tracer.named('send millrace-test-drain-step');
    expect(spans.length).toBeGreaterThan(1);
    expect(spans.map(({ failure }) => failure).at(0)).toBe('not_acknowledged');
    expect(spans.map(({ failure }) => failure).at(-1)).toBeUndefined();
    expect(spans.every(({ hasEnded }) => hasEnded)).toBe(true);
  });

  test('belongs to the Database’s trace where that is what changed last', async () => {
    const { timers, see } = setUp();
    await see('Shard', aShard('a'));
    const database = aDatabase('orders');
    await see('Database', database);

    const changed = written(database, { generation: 2, annotations: left(timers.now()) });
    const hints = await see('Database', changed);

    const ofShard = hints.filter(({ data }) => data.kind === 'Shard');
    expect(ofShard.length).toBeGreaterThan(0);
    expect(new Set(ofShard.map(({ data }) => data.traceparent))).toEqual(new Set([traceparent]));
  });
});

describe('annotations about a trace', () => {
  test('wake nobody by themselves, and count for the next hint', async () => {
    const { timers, see } = setUp();
    const shard = aShard('a');
    await see('Shard', shard);

    const annotated = written(shard, { annotations: left(timers.now()) });
    const alone = await see('Shard', annotated);
    const later = await see('Shard', written(annotated, { generation: 2 }));

    expect(alone).toEqual([]);
    expect(later.map(({ data }) => data.traceparent)).toEqual([traceparent, traceparent]);
  });

  test('that are none are told of, and the hint goes without', async () => {
    const { timers, world, see } = setUp();
    const shard = aShard('a', { annotations: left(timers.now(), 'garbage') });

    const hints = await see('Shard', shard);
    const { ignored } = world.see('Shard', written(shard, {}));

    expect(hints.map(({ data }) => data.traceparent)).toEqual([undefined, undefined]);
    expect(ignored).toMatchObject({
      target: { kind: 'Shard', namespace: 'db', name: 'a' },
      why: expect.stringContaining('no W3C traceparent'),
    });
  });
});
