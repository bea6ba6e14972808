import { describe, expect, test } from 'vitest';
import { contextIn, laterOf } from '#events/relay/left-context.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import type { LeftContext } from '#shared/kernel/trace.ts';

const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
const context = {
  traceId: '0af7651916cd43dd8448eb211c80319c',
  spanId: 'b7ad6b7169203331',
  isSampled: true,
};
const at = Date.parse('2026-01-01T00:00:00Z') as Instant;

function annotations(text: string, time?: string): Record<string, string> {
  return {
    'millrace.dev/traceparent': text,
    ...(time === undefined ? {} : { 'millrace.dev/traceparent-ts': time }),
  };
}

describe('the annotations of a target', () => {
  test.each(['1767225600', '2026-01-01T00:00:00Z', ' 2026-01-01T01:00:00+01:00\n'])(
    'tell of a trace and of its time, also as %j',
    (time) => {
      expect(contextIn(annotations(traceparent, time))).toEqual({
        kind: 'left',
        left: { context, at },
      });
    },
  );

  test('tell of a trace of unknown age where there is no time', () => {
    expect(contextIn(annotations(traceparent))).toEqual({
      kind: 'left',
      left: { context, at: undefined },
    });
  });

  test.each(['yesterday', '-5', '1767225600000', '9'.repeat(100_000)])(
    'tell of a trace of unknown age, and of what is ignored, where the time is none',
    (time) => {
      expect(contextIn(annotations(traceparent, time))).toEqual({
        kind: 'left',
        left: { context, at: undefined },
        ignored: 'millrace.dev/traceparent-ts is neither Unix seconds nor RFC 3339',
      });
    },
  );

  test('that hold no trace context are ignored, and nothing of them is repeated', () => {
    expect(contextIn(annotations('s3cret', '1767225600'))).toEqual({
      kind: 'ignored',
      ignored: 'millrace.dev/traceparent is no W3C traceparent',
    });
  });

  test('say nothing where there are none', () => {
    expect(contextIn({ 'millrace.dev/traceparent-ts': '1767225600' })).toEqual({ kind: 'none' });
  });
});

describe('of two contexts', () => {
  const old: LeftContext = { context, at };
  const young: LeftContext = { context, at: (at + 1) as Instant };
  const ageless: LeftContext = { context, at: undefined };

  test('the later one counts, and one of unknown age before no other', () => {
    expect(laterOf(old, young)).toBe(young);
    expect(laterOf(young, old)).toBe(young);
    expect(laterOf(ageless, old)).toBe(old);
    expect(laterOf(old, ageless)).toBe(old);
    expect(laterOf(undefined, old)).toBe(old);
    expect(laterOf(undefined, undefined)).toBeUndefined();
  });
});
