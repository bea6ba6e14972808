import { describe, expect, test } from 'vitest';
import { type Instant, plusSeconds } from '#shared/kernel/instant.ts';
import {
  type Origin,
  type TraceContext,
  correlationOf,
  originOf,
  parseTraceparent,
  silentSpan,
  silentTracer,
  traceparentOf,
} from '#shared/kernel/trace.ts';

const now = Date.parse('2026-01-01T00:00:00Z') as Instant;
const traceId = '0af7651916cd43dd8448eb211c80319c';
const spanId = 'b7ad6b7169203331';
const context: TraceContext = { traceId, spanId, isSampled: true };

describe('a traceparent', () => {
  test('names a trace, a span and whether it is recorded, and is written as it was read', () => {
    const text = `00-${traceId}-${spanId}-01`;

    expect(parseTraceparent(text)).toEqual(context);
    expect(traceparentOf(context)).toBe(text);
    expect(parseTraceparent(`00-${traceId}-${spanId}-00`)?.isSampled).toBe(false);
  });

  test('of a version to come is read as far as it is known', () => {
    expect(parseTraceparent(`01-${traceId}-${spanId}-03-more`)).toEqual(context);
  });

  test.each([
    ['nothing', ''],
    ['a word', 'garbage'],
    ['a trace of zeros', `00-${'0'.repeat(32)}-${spanId}-01`],
    ['a span of zeros', `00-${traceId}-${'0'.repeat(16)}-01`],
    ['the version that none may have', `ff-${traceId}-${spanId}-01`],
    ['capital letters', `00-${traceId.toUpperCase()}-${spanId}-01`],
    ['more than version 00 has', `00-${traceId}-${spanId}-01-more`],
    ['a line break behind it', `00-${traceId}-${spanId}-01\n`],
    ['a megabyte', `01-${traceId}-${spanId}-01-${'x'.repeat(1_000_000)}`],
  ])('is not %s', (_what, text) => {
    expect(parseTraceparent(text)).toBeUndefined();
  });
});

describe('a context that was left somewhere', () => {
  const at = (seconds: number): Origin => originOf({ context, at: plusSeconds(now, seconds) }, now);
  const isParent: Origin = { parent: context, links: [] };
  const isLink: Origin = { links: [context] };

  test('is the parent for ten minutes, and a link from then on', () => {
    expect(at(0)).toEqual(isParent);
    expect(at(-599.999)).toEqual(isParent);
    expect(at(-600)).toEqual(isLink);
    expect(at(-86_400)).toEqual(isLink);
  });

  test('is the parent where clocks differ by a minute, and a link where it comes from further ahead', () => {
    expect(at(60)).toEqual(isParent);
    expect(at(60.001)).toEqual(isLink);
  });

  test('is a link where nobody says when that was', () => {
    expect(originOf({ context, at: undefined }, now)).toEqual(isLink);
  });

  test('is nothing where there is none', () => {
    expect(originOf(undefined, now)).toEqual({ links: [] });
  });
});

describe('without a tracer', () => {
  test('work is run as it is', async () => {
    const work = Promise.resolve(7);

    const done = silentTracer.run('work', {}, () => work);

    expect(done).toBe(work);
    expect(await silentTracer.flush(1)).toBeUndefined();
  });

  test('a line names the trace that is handed on, and no span', () => {
    expect(correlationOf(silentSpan, { parent: context, links: [] })).toEqual({
      trace_id: traceId,
    });
    expect(correlationOf(silentSpan, { links: [context] })).toEqual({});
  });
});
