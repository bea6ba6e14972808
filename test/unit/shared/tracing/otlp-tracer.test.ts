import { once } from 'node:events';
import { createServer } from 'node:http';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { RetryableError } from '#shared/kernel/errors.ts';
import type { Origin, Tracer } from '#shared/kernel/trace.ts';
import { isTracingOn } from '#shared/tracing/config.ts';
import { openTracer } from '#shared/tracing/open-tracer.ts';
import { type CollectedSpan, Collector } from '#test/cluster/collector.ts';

afterEach(() => {
  vi.unstubAllEnvs();
});

const parent = {
  traceId: '0af7651916cd43dd8448eb211c80319c',
  spanId: 'b7ad6b7169203331',
  isSampled: true,
};
const child: Origin = { parent, links: [] };

/** A tracer whose environment is this one. */
async function aTracer(variables: Readonly<Record<string, string>>): Promise<Tracer> {
  for (const [name, value] of Object.entries(variables)) {
    vi.stubEnv(name, value);
  }
  const tracer = await openTracer(variables, {
    serviceName: 'millrace-test',
    resource: { 'k8s.cluster.name': 'test' },
    exportTimeoutMs: 750,
  });
  if (tracer === undefined) {
    throw new Error('nothing is traced');
  }
  return tracer;
}

function named(spans: readonly CollectedSpan[], name: string): CollectedSpan | undefined {
  return spans.find((span) => span.name === name);
}

describe('what is traced', () => {
  test('is nothing without an endpoint, or where it is switched off', () => {
    const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318' };

    expect(isTracingOn(endpoint)).toBe(true);
    expect(isTracingOn({ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://collector/x' })).toBe(true);
    expect(isTracingOn({})).toBe(false);
    expect(isTracingOn({ OTEL_EXPORTER_OTLP_ENDPOINT: ' ' })).toBe(false);
    expect(isTracingOn({ ...endpoint, OTEL_SDK_DISABLED: 'TRUE' })).toBe(false);
    expect(isTracingOn({ ...endpoint, OTEL_TRACES_EXPORTER: 'none' })).toBe(false);
  });

  test('is work in work: each span below the one it began in, and a failure by its reason alone', async () => {
    await using collector = await Collector.start();
    const tracer = await aTracer({
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=prod',
    });

    const failing = tracer.run('outer', { kind: 'consumer', origin: child }, () =>
      Promise.all([
        tracer.run('one', { attributes: { 'millrace.effect': 'advance' } }, async () => 1),
        tracer.run('two', {}, async () => {
          throw new RetryableError('Unreachable', 'the sentence of somebody else');
        }),
      ]),
    );
    await expect(failing).rejects.toThrow(RetryableError);
    await tracer.run('nobody asked for it', {}, async () => 1);
    expect(await tracer.flush(1_000)).toBeUndefined();

    const outer = named(collector.spans, 'outer');
    expect(collector.spans.map(({ name }) => name).toSorted()).toEqual(['one', 'outer', 'two']);
    expect(outer).toMatchObject({
      service: 'millrace-test',
      traceId: parent.traceId,
      parentSpanId: parent.spanId,
      status: { code: 2 },
    });
    expect(named(collector.spans, 'one')?.parentSpanId).toBe(outer?.spanId);
    expect(named(collector.spans, 'two')).toMatchObject({
      parentSpanId: outer?.spanId,
      attributes: { 'error.type': 'Unreachable' },
    });
    expect(collector.text).not.toContain('somebody else');
    expect(collector.text).toContain('deployment.environment.name');
  });

  test('is what the beginning of the trace says, and handed on either way', async () => {
    await using collector = await Collector.start();
    const tracer = await aTracer({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url });
    const unsampled: Origin = { parent: { ...parent, isSampled: false }, links: [] };

    const context = await tracer.run(
      'unsampled',
      { origin: unsampled },
      async (span) => span.context,
    );
    await tracer.flush(1_000);

    expect(context).toMatchObject({ traceId: parent.traceId, isSampled: false });
    expect(collector.spans).toEqual([]);
  });

  test.each([
    ['always_off', '', 0],
    ['parentbased_always_off', '', 0],
    ['parentbased_traceidratio', '0', 0],
    ['traceidratio', '1', 1],
    ['always_on', '', 1],
    ['of no known name', '', 1],
  ])('of its own accord follows the sampler %s %s', async (sampler, argument, count) => {
    await using collector = await Collector.start();
    const tracer = await aTracer({
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_TRACES_SAMPLER: sampler,
      OTEL_TRACES_SAMPLER_ARG: argument,
    });

    tracer.start('root', { origin: { links: [] } }).end();
    await tracer.flush(1_000);

    expect(collector.spans).toHaveLength(count);
  });
});

describe('a collector', () => {
  test('whose address is none is told of, and stands in nobody’s way', async () => {
    const tracer = await aTracer({ OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4318' });
    tracer.start('root', { origin: child }).end();

    const why = await tracer.flush(1_000);

    expect(why).toMatch(/^the collector cannot be reached: /);
  });

  test('that hangs costs no more than the limit, once, and is told of once', async () => {
    const server = createServer(() => undefined);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const address = server.address();
    const port = typeof address === 'object' ? address?.port : undefined;
    const tracer = await aTracer({ OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}` });
    const flushed = async () => {
      tracer.start('root', { origin: child }).end();
      const fromMs = performance.now();
      const why = await tracer.flush(200);
      return { why, tookMs: performance.now() - fromMs };
    };

    const first = await flushed();
    const second = await flushed();
    server.close();
    server.closeAllConnections();

    expect(first.why).toBe('the collector did not answer in time');
    expect(first.tookMs).toBeLessThan(1_000);
    expect(second.why).toBeUndefined();
    expect(second.tookMs).toBeLessThan(150);
  });

  test('that refuses is told of by its status, never by what it says', async () => {
    const server = createServer((_request, response) => response.writeHead(401).end('s3cret'));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const address = server.address();
    const port = typeof address === 'object' ? address?.port : undefined;
    const tracer = await aTracer({ OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}` });
    tracer.start('root', { origin: child }).end();

    const why = await tracer.flush(1_000);
    server.close();
    server.closeAllConnections();

    expect(why).toBe('the collector answers 401');
  });
});
