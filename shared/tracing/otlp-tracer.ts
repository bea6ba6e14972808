import { AsyncLocalStorage } from 'node:async_hooks';
import {
  type Context,
  INVALID_SPAN_CONTEXT,
  type Span as SdkSpan,
  ROOT_CONTEXT,
  SpanKind as SdkSpanKind,
  type SpanContext,
  type SpanOptions,
  SpanStatusCode,
  TraceFlags,
  isSpanContextValid,
  trace,
} from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources';
import { BatchSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';
import type {
  Attributes,
  OpenSpan,
  SpanBeginning,
  SpanKind,
  TraceContext,
  Tracer,
} from '#shared/kernel/trace.ts';
import type { Variables } from './config.ts';
import { PatientExporter } from './exporter.ts';
import { samplerOf } from './sampler.ts';

export interface OtlpOptions {
  /** What the process is called where `OTEL_SERVICE_NAME` does not say. */
  readonly serviceName: string;
  /** What is said of the process with all of its spans. */
  readonly resource: Attributes;
  /** How long one export may take, with what is tried again, in milliseconds; what `OTEL_EXPORTER_OTLP_TIMEOUT` says if absent. */
  readonly exportTimeoutMs?: number;
  /** Told why nothing can be exported, once for each outage. Without it {@link Tracer.flush} tells. */
  readonly onFailure?: (why: string) => void;
}

/** Spans that wait to be sent; what comes beyond it is dropped. About 2 MB. */
const maxWaiting = 2_048;

const kinds: { readonly [K in SpanKind]: SdkSpanKind } = {
  internal: SdkSpanKind.INTERNAL,
  client: SdkSpanKind.CLIENT,
  producer: SdkSpanKind.PRODUCER,
  consumer: SdkSpanKind.CONSUMER,
};

/** What is the same for all spans of a kind, by the semantic conventions for messaging. */
const kindAttributes: { readonly [K in SpanKind]: Attributes } = {
  internal: {},
  client: {},
  producer: messaging('send'),
  consumer: messaging('process'),
};

function messaging(operation: 'send' | 'process'): Attributes {
  return {
    'messaging.system': 'aws_sqs',
    'messaging.operation.type': operation,
    'messaging.operation.name': operation,
  };
}

/** Traces by OpenTelemetry's SDK, and sends spans in batches as OTLP over HTTP, in JSON. */
export function otlpTracer(environment: Variables, options: OtlpOptions): Tracer {
  let news: string | undefined;
  const tell = options.onFailure ?? ((why: string) => (news = why));
  const { exportTimeoutMs } = options;
  const exporter = new PatientExporter(
    new OTLPTraceExporter(exportTimeoutMs === undefined ? {} : { timeoutMillis: exportTimeoutMs }),
    () => performance.now(),
    tell,
  );
  const provider = new TracerProvider({
    resource: resourceFromAttributes({
      'service.name': options.serviceName,
      'service.namespace': 'millrace',
      ...options.resource,
    }).merge(detectResources({ detectors: [envDetector] })),
    sampler: samplerOf(environment),
    spanProcessors: [new BatchSpanProcessor({ exporter, maxQueueSize: maxWaiting })],
  });
  const sdk = provider.getTracer('millrace');
  const current = new AsyncLocalStorage<SdkSpan>();

  function start(name: string, beginning: SpanBeginning): SdkSpan {
    const parent = parentOf(beginning, current.getStore());
    return parent === undefined
      ? trace.wrapSpanContext(INVALID_SPAN_CONTEXT)
      : sdk.startSpan(name, optionsOf(beginning), parent);
  }

  return {
    async run(name, beginning, work) {
      const span = start(name, beginning);
      try {
        return await current.run(span, () => work(viewOf(span)));
      } catch (error) {
        fail(span, typeOf(error));
        throw error;
      } finally {
        span.end();
      }
    },
    start: (name, beginning) => viewOf(start(name, beginning)),
    async flush(limitMs) {
      const isInTime = await within(limitMs, provider.forceFlush());
      if (!isInTime) {
        exporter.failed('the collector did not answer in time');
      }
      const told = news;
      news = undefined;
      return told;
    },
  };
}

/** Where a span begins; `undefined` where it would be a trace of its own that nobody asked for. */
function parentOf({ origin }: SpanBeginning, current: SdkSpan | undefined): Context | undefined {
  if (origin !== undefined) {
    const { parent } = origin;
    return parent === undefined
      ? ROOT_CONTEXT
      : trace.setSpanContext(ROOT_CONTEXT, sdkContext(parent));
  }
  return current === undefined ? undefined : trace.setSpan(ROOT_CONTEXT, current);
}

function optionsOf({ kind = 'internal', origin, attributes = {} }: SpanBeginning): SpanOptions {
  return {
    kind: kinds[kind],
    attributes: { ...kindAttributes[kind], ...attributes },
    links: (origin?.links ?? []).map((context) => ({ context: sdkContext(context) })),
  };
}

function sdkContext({ traceId, spanId, isSampled }: TraceContext) {
  const traceFlags = isSampled ? TraceFlags.SAMPLED : TraceFlags.NONE;
  return { traceId, spanId, traceFlags, isRemote: true };
}

function ownContext({ traceId, spanId, traceFlags }: SpanContext): TraceContext {
  return { traceId, spanId, isSampled: (traceFlags & TraceFlags.SAMPLED) !== 0 };
}

function viewOf(span: SdkSpan): OpenSpan {
  const context = span.spanContext();
  return {
    context: isSpanContextValid(context) ? ownContext(context) : undefined,
    set: (attributes) => void span.setAttributes({ ...attributes }),
    fail: (type) => fail(span, type),
    end: () => span.end(),
  };
}

function fail(span: SdkSpan, type: string): void {
  span.setStatus({ code: SpanStatusCode.ERROR });
  span.setAttribute('error.type', type);
}

/** The constant of an error, never its message: that may quote what others wrote. */
function typeOf(error: unknown): string {
  if (!(error instanceof Error)) {
    return '_OTHER';
  }
  return 'reason' in error && typeof error.reason === 'string' ? error.reason : error.name;
}

/** Whether the work ended in time, in whatever way. */
async function within(limitMs: number, work: Promise<unknown>): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const timer = setTimeout(() => resolve(false), Math.max(0, limitMs));
  work.then(
    () => resolve(true),
    () => resolve(true),
  );
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
  }
}
