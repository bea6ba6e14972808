import { once } from 'node:events';
import { type IncomingMessage, type ServerResponse, createServer } from 'node:http';
import * as z from 'zod';
import { LineLog } from '#test/unit/infra/local/worker/line-log.ts';

const valueSchema = z.looseObject({
  stringValue: z.string().optional(),
  intValue: z.union([z.number(), z.string()]).optional(),
});

const attributesSchema = z
  .array(z.looseObject({ key: z.string(), value: valueSchema }))
  .default([])
  .transform((list) =>
    Object.fromEntries(
      list.map(({ key, value }) => [key, value.stringValue ?? value.intValue ?? '']),
    ),
  );

const spanSchema = z.looseObject({
  traceId: z.string(),
  spanId: z.string(),
  parentSpanId: z.string().optional(),
  name: z.string(),
  kind: z.number(),
  startTimeUnixNano: z.coerce.bigint(),
  endTimeUnixNano: z.coerce.bigint(),
  attributes: attributesSchema,
  links: z.array(z.looseObject({ traceId: z.string(), spanId: z.string() })).default([]),
  status: z.looseObject({ code: z.number().optional() }).optional(),
});

/** The parts of OTLP's ExportTraceServiceRequest, in JSON, that are looked at. */
const requestSchema = z.object({
  resourceSpans: z.array(
    z.looseObject({
      resource: z.looseObject({ attributes: attributesSchema }),
      scopeSpans: z.array(z.looseObject({ spans: z.array(spanSchema) })),
    }),
  ),
});

export type CollectedSpan = z.infer<typeof spanSchema> & { readonly service: string };

/** Takes OTLP over HTTP in JSON, as a collector does, and keeps the spans. */
export class Collector implements AsyncDisposable {
  readonly spans: CollectedSpan[] = [];
  readonly url: string;
  /** All that was sent, as text. */
  text = '';
  readonly #news = new LineLog();
  readonly #close: () => Promise<void>;

  private constructor(url: string, close: () => Promise<void>) {
    this.url = url;
    this.#close = close;
  }

  static async start(): Promise<Collector> {
    const server = createServer((request, response) => {
      collector.#answer(request, response).catch(() => response.destroy());
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const address = server.address();
    const port = typeof address === 'object' ? address?.port : undefined;
    const collector: Collector = new Collector(`http://127.0.0.1:${port}`, async () => {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    });
    return collector;
  }

  /** Resolves with the spans as soon as they are such; the test's own timeout ends it. */
  async until(
    isSo: (spans: readonly CollectedSpan[]) => boolean,
  ): Promise<readonly CollectedSpan[]> {
    let seen = 0;
    while (!isSo(this.spans)) {
      seen += 1;
      await this.#news.until({}, seen);
    }
    return this.spans;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#close();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await readBody(request);
    const isTraces = request.method === 'POST' && request.url === '/v1/traces';
    if (isTraces) {
      this.#take(body);
    }
    response.writeHead(isTraces ? 200 : 404, { 'content-type': 'application/json' }).end('{}');
  }

  #take(body: string): void {
    this.text += body;
    for (const { resource, scopeSpans } of requestSchema.parse(JSON.parse(body)).resourceSpans) {
      const service = String(resource.attributes['service.name']);
      const spans = scopeSpans.flatMap((scope) => scope.spans);
      this.spans.push(...spans.map((span) => ({ ...span, service })));
    }
    this.#news.add('{}');
  }
}

async function readBody(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) {
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** A trace as lines, each span below its parent, in the order in which they began. */
export function treeOf(spans: readonly CollectedSpan[], traceId: string): string {
  const own = spans
    .filter((span) => span.traceId === traceId)
    .toSorted((one, other) => Number(one.startTimeUnixNano - other.startTimeUnixNano));
  const ids = new Set(own.map(({ spanId }) => spanId));
  const below = (parent: string | undefined, depth: number): string[] =>
    own
      .filter(({ parentSpanId }) =>
        parent === undefined ? !ids.has(parentSpanId ?? '') : parentSpanId === parent,
      )
      .flatMap((span) => [lineOf(span, depth), ...below(span.spanId, depth + 1)]);
  return below(undefined, 0).join('\n');
}

function lineOf(span: CollectedSpan, depth: number): string {
  const { name, service, attributes, startTimeUnixNano: from, endTimeUnixNano: to } = span;
  const told = [
    attributes['millrace.outcome'],
    attributes['millrace.reason'],
    attributes['millrace.object.name'],
    attributes['http.response.status_code'],
    attributes['error.type'],
  ].filter((each) => each !== undefined);
  const tookMs = (Number(to - from) / 1e6).toFixed(0);
  return `${'  '.repeat(depth)}${name} (${service}, ${tookMs} ms) ${told.join(' ')}`.trimEnd();
}
