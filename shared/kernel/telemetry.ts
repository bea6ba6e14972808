import * as z from 'zod';
import {
  type FunctionMetrics,
  type LabelsOf,
  type NameOf,
  type Sample,
  toldMetrics,
} from '#shared/api/metrics.ts';
import type { Count, Gauge } from './decision.ts';
import { embeddedMetrics } from './embedded-metrics.ts';

/** Where the numbers of an invocation go, and the clocks that they are taken from: no decision ever sees them. */
export interface Telemetry {
  /** Milliseconds on a clock of which only differences mean something. */
  monotonicMs(): number;
  /** Milliseconds since the epoch. */
  wallMs(): number;
  /** Called once per invocation, at its end. */
  tell(samples: readonly Sample[]): void;
}

/**
 * In what form a function tells its numbers: as CloudWatch's embedded metric format, as JSON lines that the local worker
 * reads, or not at all.
 */
const metricsForms = ['emf', 'lines', 'none'] as const;
type MetricsForm = (typeof metricsForms)[number];

export const silentTelemetry: Telemetry = {
  monotonicMs: () => 0,
  wallMs: () => 0,
  tell: () => undefined,
};

/** What a function's environment says of it. Lambda sets `AWS_EXECUTION_ENV` itself. */
export const telemetryVariables = {
  MILLRACE_METRICS: z.enum(metricsForms).optional(),
  AWS_EXECUTION_ENV: z.string().optional(),
};

/** Where nothing is said the form is CloudWatch's on Lambda, and silence everywhere else. */
export function telemetryFrom(
  config: {
    readonly MILLRACE_METRICS?: MetricsForm | undefined;
    readonly AWS_EXECUTION_ENV?: string | undefined;
    /** A dimension of everything: one account may serve several clusters. */
    readonly MILLRACE_CLUSTER_ID: string;
  },
  write: (text: string) => void = (text) => void process.stdout.write(text),
): Telemetry {
  const runsOnLambda = config.AWS_EXECUTION_ENV?.startsWith('AWS_Lambda_') === true;
  const form = config.MILLRACE_METRICS ?? (runsOnLambda ? 'emf' : 'none');
  const cluster = config.MILLRACE_CLUSTER_ID;
  if (form === 'none') {
    return silentTelemetry;
  }
  return {
    monotonicMs: () => performance.now(),
    wallMs: () => Date.now(),
    tell(samples) {
      const lines =
        form === 'lines'
          ? [{ metrics: samples }]
          : embeddedMetrics(samples, { cluster }, Date.now());
      // In one write: what belongs to one invocation must not be torn apart by what another thread says.
      write(lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
    },
  };
}

/** The target that a number is about. */
export interface MeteredTarget {
  readonly namespace: string;
  readonly name: string;
}

/**
 * The numbers of one invocation. Counts of the same thing are added up; everything else is kept one by one. Nothing is
 * told before {@link Meter.tell}: a line for each number would cost more than what it says.
 */
export class Meter {
  readonly telemetry: Telemetry;
  readonly #counts = new Map<string, Sample>();
  readonly #measured: Sample[] = [];

  constructor(telemetry: Telemetry = silentTelemetry) {
    this.telemetry = telemetry;
  }

  count<Name extends NameOf<FunctionMetrics, 'counter'>>(
    metric: Name,
    labels: LabelsOf<FunctionMetrics[Name]>,
    by = 1,
  ): void {
    this.#add({ metric, labels, value: by });
  }

  measure<Name extends NameOf<FunctionMetrics, 'gauge' | 'histogram'>>(
    metric: Name,
    labels: LabelsOf<FunctionMetrics[Name]>,
    value: number,
    target?: MeteredTarget,
  ): void {
    this.#measured.push({ metric, labels: withTarget(metric, labels, target), value });
  }

  /** What a decision counts. */
  addCounts(counts: readonly Count[], target: MeteredTarget): void {
    for (const { metric, labels, count } of counts) {
      this.#add({ metric, labels: withTarget(metric, labels, target), value: count });
    }
  }

  /** What a decision measures. */
  addGauges(gauges: readonly Gauge[], target: MeteredTarget): void {
    for (const { metric, labels, value } of gauges) {
      this.#measured.push({ metric, labels: withTarget(metric, labels, target), value });
    }
  }

  /** Says it all, once. Where there is nothing to say it says nothing. */
  tell(): void {
    const samples = [...this.#counts.values(), ...this.#measured];
    this.#counts.clear();
    this.#measured.length = 0;
    if (samples.length > 0) {
      this.telemetry.tell(samples);
    }
  }

  #add(sample: Sample): void {
    const key = JSON.stringify([sample.metric, sample.labels]);
    const before = this.#counts.get(key)?.value ?? 0;
    this.#counts.set(key, { ...sample, value: before + sample.value });
  }
}

function withTarget(
  metric: Sample['metric'],
  labels: Sample['labels'],
  target: MeteredTarget | undefined,
): Sample['labels'] {
  return target === undefined || toldMetrics[metric]?.isOfTarget !== true
    ? labels
    : { ...labels, namespace: target.namespace, name: target.name };
}
