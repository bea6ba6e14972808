import type { Instant } from './instant.ts';

/** One span of somebody's trace, as W3C Trace Context names it. */
export interface TraceContext {
  /** 32 hexadecimal digits. */
  readonly traceId: string;
  /** 16 hexadecimal digits. */
  readonly spanId: string;
  /** Whether whoever began the trace records it. */
  readonly isSampled: boolean;
}

/** A trace context that was left somewhere, and when; `undefined` where nobody says when. */
export interface LeftContext {
  readonly context: TraceContext;
  readonly at: Instant | undefined;
}

/** How a span hangs together with what came before it: below it, or beside it with a link. */
export interface Origin {
  readonly parent?: TraceContext;
  readonly links: readonly TraceContext[];
}

/** What a span says of itself. Never a secret, an annotation's value or a sentence that somebody else wrote. */
export type Attributes = Readonly<Record<string, string | number | boolean>>;

/** What a span is from the outside, as OpenTelemetry tells them apart. */
export type SpanKind = 'internal' | 'client' | 'producer' | 'consumer';

export interface SpanBeginning {
  readonly kind?: SpanKind;
  /** Without one the span is a child of the one in whose work it begins, and where there is none it is not recorded. */
  readonly origin?: Origin;
  readonly attributes?: Attributes;
}

export interface Span {
  /** `undefined` where nobody traces. */
  readonly context: TraceContext | undefined;
  set(attributes: Attributes): void;
  /** It went wrong. `type` is a constant: a reason, a status, the name of an error's class. */
  fail(type: string): void;
}

/** A span that its maker ends. */
export interface OpenSpan extends Span {
  end(): void;
}

/** Where spans go. No decision ever sees them, and what they cost nobody waits for but {@link Tracer.flush}. */
export interface Tracer {
  /** Runs work in a span of its own: what begins in it becomes its child. The span fails with the work. */
  run<T>(name: string, beginning: SpanBeginning, work: (span: Span) => Promise<T>): Promise<T>;
  start(name: string, beginning: SpanBeginning): OpenSpan;
  /**
   * Sends what has ended, for at most so long. Never rejects: resolves with why it could not, when that is news that nobody
   * was told yet.
   */
  flush(limitMs: number): Promise<string | undefined>;
}

/** A span of nobody. */
export const silentSpan: OpenSpan = {
  context: undefined,
  set: () => undefined,
  fail: () => undefined,
  end: () => undefined,
};

/** Traces nothing: work is run as if there were no tracer. */
export const silentTracer: Tracer = {
  run: (_name, _beginning, work) => work(silentSpan),
  start: () => silentSpan,
  flush: () => Promise.resolve(undefined),
};

/**
 * From then on a context is history. What comes later was not caused by that change alone, such as a resync, a wake or a
 * replay, and would make a trace of minutes one of days.
 */
const freshMs = 10 * 60_000;

/** How far in the future a context may lie: clocks of a pipeline and of a cluster differ by so much at most. */
const aheadMs = 60_000;

/**
 * What a context that was left somewhere is to a span that begins now: its parent for ten minutes, then only a link; a link
 * as well where it comes from the future, or where nobody says from when it is.
 */
export function originOf(left: LeftContext | undefined, now: Instant): Origin {
  if (left === undefined) {
    return { links: [] };
  }
  const { context, at } = left;
  const ageMs = at === undefined ? Infinity : now - at;
  return ageMs < freshMs && ageMs >= -aheadMs
    ? { parent: context, links: [] }
    : { links: [context] };
}

/** Version, trace, span, flags; a version that is not known yet may go on behind another hyphen (W3C Trace Context, 3.2). */
const traceparentForm =
  /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;

/** Beyond it nothing is looked at, in characters. */
const maxTraceparentLength = 256;

/** `undefined` for whatever is no W3C `traceparent`. */
export function parseTraceparent(text: string): TraceContext | undefined {
  if (text.length > maxTraceparentLength) {
    return undefined;
  }
  const [, version, traceId = '', spanId = '', flags = '', more] = traceparentForm.exec(text) ?? [];
  if (version === undefined || (version === '00' && more !== undefined)) {
    return undefined;
  }
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

/** In version 00, which has 55 characters. */
export function traceparentOf({ traceId, spanId, isSampled }: TraceContext): string {
  return `00-${traceId}-${spanId}-${isSampled ? '01' : '00'}`;
}

/** The fields of a log line by which its trace is found. */
export interface Correlation {
  readonly trace_id?: string;
  readonly span_id?: string;
}

/** The own span's, or of the trace that is only handed on. */
export function correlationOf(span: Span, origin: Origin): Correlation {
  if (span.context !== undefined) {
    return { trace_id: span.context.traceId, span_id: span.context.spanId };
  }
  return origin.parent === undefined ? {} : { trace_id: origin.parent.traceId };
}
