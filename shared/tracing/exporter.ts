import { ExportResultCode } from '@opentelemetry/core';
import type { SpanExporter } from '@opentelemetry/sdk-trace';

/** After a failure nothing is sent for so long, in milliseconds: a collector that is away must not cost each invocation a wait. */
const pauseMs = 30_000;

/** What the SDK calls with the end of an export. */
type Done = Parameters<SpanExporter['export']>[1];

/**
 * An exporter that tells once that it cannot export, and once more only after it could again. Spans that cannot be sent are
 * dropped: they are the less important half of an outage.
 */
export class PatientExporter implements SpanExporter {
  readonly #inner: SpanExporter;
  readonly #nowMs: () => number;
  readonly #onNews: (why: string) => void;
  #resumesAtMs = -Infinity;
  #isBroken = false;

  /**
   * @param nowMs a clock of which only differences mean something
   * @param onNews told why nothing can be exported
   */
  constructor(inner: SpanExporter, nowMs: () => number, onNews: (why: string) => void) {
    this.#inner = inner;
    this.#nowMs = nowMs;
    this.#onNews = onNews;
  }

  export(spans: Parameters<SpanExporter['export']>[0], done: Done): void {
    if (this.#nowMs() < this.#resumesAtMs) {
      done({ code: ExportResultCode.FAILED });
      return;
    }
    this.#inner.export(spans, (result) => {
      if (result.code === ExportResultCode.SUCCESS) {
        this.#isBroken = false;
      } else {
        this.failed(whyOf(result.error));
      }
      done(result);
    });
  }

  /** Nothing came of an export, by its own word or by that of whoever waited for it. */
  failed(why: string): void {
    this.#resumesAtMs = this.#nowMs() + pauseMs;
    if (!this.#isBroken) {
      this.#isBroken = true;
      this.#onNews(why);
    }
  }

  shutdown(): Promise<void> {
    return this.#inner.shutdown();
  }
}

/** Never what a collector's body says: it may quote what it was sent. */
function whyOf(error: Error | undefined): string {
  if (error === undefined) {
    return 'the collector did not take them';
  }
  const code = 'code' in error ? error.code : undefined;
  return typeof code === 'number'
    ? `the collector answers ${code}`
    : `the collector cannot be reached: ${typeof code === 'string' ? code : error.message}`;
}
