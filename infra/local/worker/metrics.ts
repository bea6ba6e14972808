import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import * as z from 'zod';
import { processGauges } from '#events/relay/process-gauges.ts';
import {
  type MetricDeclaration,
  type Sample,
  toldMetrics,
  workerMetrics,
} from '#shared/api/metrics.ts';
import type { FunctionName } from '#shared/api/steps.ts';

/**
 * A gauge of a target that was not told of for so long is forgotten: the target is gone, or its step no longer runs. Every
 * living one is looked at each half an hour at least, because the relay then hints at all of them.
 */
const forgottenAfterMs = 65 * 60 * 1000;

/** How an invocation ended for the worker. */
export type InvocationEnd = 'returned' | 'failed' | 'refused';

/** What the worker's functions tell, kept for Prometheus. */
export interface WorkerMetrics {
  readonly registry: Registry;
  /** Takes a line that a function wrote; false where it is none of numbers. */
  take(line: string): boolean;
  invoked(name: FunctionName, result: InvocationEnd): void;
}

const toldLine = z.strictObject({
  metrics: z.array(
    z.strictObject({
      metric: z.string(),
      labels: z.record(z.string(), z.string()),
      value: z.number(),
    }),
  ),
});

/** @param nowMs a clock of which only differences mean something */
export function createWorkerMetrics(nowMs: () => number): WorkerMetrics {
  const registry = new Registry();
  processGauges(registry);
  const told = new Map(
    Object.entries(toldMetrics).map(([name, declaration]) => [
      name,
      collectorOf(name, declaration, registry, nowMs),
    ]),
  );
  const { help, labels } = workerMetrics.millrace_worker_invocations_total;
  const invocations = new Counter({
    name: 'millrace_worker_invocations_total',
    help,
    labelNames: labels,
    registers: [registry],
  });
  return {
    registry,
    take(line) {
      const samples = samplesOf(line);
      for (const sample of samples ?? []) {
        told.get(sample.metric)?.(sample);
      }
      return samples !== undefined;
    },
    invoked(name, result) {
      invocations.inc({ function: name, result });
    },
  };
}

/** Most lines are of the log, and are not worth parsing. */
function samplesOf(
  line: string,
): readonly (Omit<Sample, 'metric'> & { metric: string })[] | undefined {
  if (!line.startsWith('{"metrics":')) {
    return undefined;
  }
  try {
    const parsed = toldLine.safeParse(JSON.parse(line));
    return parsed.success ? parsed.data.metrics : undefined;
  } catch {
    return undefined;
  }
}

/** Where the samples of one metric go. */
type Collector = (sample: Pick<Sample, 'labels' | 'value'>) => void;

function collectorOf(
  name: string,
  { kind, help, labels, isOfTarget, buckets }: MetricDeclaration,
  registry: Registry,
  nowMs: () => number,
): Collector {
  const labelNames = isOfTarget === true ? [...labels, 'namespace', 'name'] : labels;
  const options = { name, help, labelNames, registers: [registry] };
  // A function of another version may tell a label that is not declared here; that must not end the worker.
  const known = (given: Sample['labels']) =>
    Object.fromEntries(labelNames.map((label) => [label, given[label] ?? '']));
  switch (kind) {
    case 'counter': {
      const counter = new Counter(options);
      return (sample) => counter.inc(known(sample.labels), Math.max(0, sample.value));
    }
    case 'histogram': {
      const histogram = new Histogram({
        ...options,
        ...(buckets === undefined ? {} : { buckets: [...buckets] }),
      });
      return (sample) => histogram.observe(known(sample.labels), sample.value);
    }
    case 'gauge': {
      const told = new Map<string, { readonly labels: Sample['labels']; readonly atMs: number }>();
      const gauge = new Gauge({
        ...options,
        collect() {
          for (const [key, { labels: old, atMs }] of told) {
            if (nowMs() - atMs > forgottenAfterMs) {
              told.delete(key);
              this.remove(old);
            }
          }
        },
      });
      return (sample) => {
        const own = known(sample.labels);
        told.set(JSON.stringify(Object.values(own)), { labels: own, atMs: nowMs() });
        gauge.set(own, sample.value);
      };
    }
  }
}
