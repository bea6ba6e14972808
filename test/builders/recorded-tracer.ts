import type {
  Attributes,
  OpenSpan,
  Origin,
  Span,
  SpanBeginning,
  TraceContext,
  Tracer,
} from '#shared/kernel/trace.ts';

/** What became of one span. */
export interface RecordedSpan {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  readonly links: Origin['links'];
  readonly attributes: Attributes;
  readonly failure: string | undefined;
  readonly hasEnded: boolean;
}

type Writable = { -readonly [K in keyof RecordedSpan]: RecordedSpan[K] };

/** Keeps spans in memory; ids are counted. Spans have no parents but those that they are told. */
export class RecordedTracer implements Tracer {
  readonly spans: RecordedSpan[] = [];

  named(name: string): readonly RecordedSpan[] {
    return this.spans.filter((span) => span.name === name);
  }

  async run<T>(
    name: string,
    beginning: SpanBeginning,
    work: (span: Span) => Promise<T>,
  ): Promise<T> {
    const span = this.start(name, beginning);
    try {
      return await work(span);
    } finally {
      span.end();
    }
  }

  start(name: string, { origin, attributes = {} }: SpanBeginning): OpenSpan {
    const count = this.spans.length + 1;
    const context: TraceContext = {
      traceId: origin?.parent?.traceId ?? String(count).padStart(32, '0'),
      spanId: String(count).padStart(16, '0'),
      isSampled: true,
    };
    const span: Writable = {
      name,
      traceId: context.traceId,
      spanId: context.spanId,
      parentSpanId: origin?.parent?.spanId,
      links: origin?.links ?? [],
      attributes,
      failure: undefined,
      hasEnded: false,
    };
    this.spans.push(span);
    return {
      context,
      set: (more) => void (span.attributes = { ...span.attributes, ...more }),
      fail: (type) => void (span.failure = type),
      end: () => void (span.hasEnded = true),
    };
  }

  flush(): Promise<undefined> {
    return Promise.resolve(undefined);
  }
}
