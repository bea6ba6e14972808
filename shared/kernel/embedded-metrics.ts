import { type MetricDeclaration, type Sample, toldMetrics } from '#shared/api/metrics.ts';

/** The namespace of our metrics in CloudWatch. */
export const cloudWatchNamespace = 'Millrace';

/** As many values as one member may have (Amazon CloudWatch User Guide, "Specification: Embedded metric format"). */
const maxValues = 100;

const units = { count: 'Count', seconds: 'Seconds', bytes: 'Bytes' } as const;

interface MetricDefinition {
  readonly Name: string;
  readonly Unit: (typeof units)[MetricDeclaration['unit']];
}

/** One line of CloudWatch's embedded metric format, as JSON. Dimensions' values and metrics' values are members of its root. */
export interface EmbeddedLine {
  readonly _aws: {
    readonly Timestamp: number;
    readonly CloudWatchMetrics: readonly {
      readonly Namespace: string;
      readonly Dimensions: readonly [readonly string[]];
      readonly Metrics: readonly MetricDefinition[];
    }[];
  };
  readonly [member: string]: unknown;
}

/** All values of one metric with one set of dimensions. */
interface Series {
  readonly metric: string;
  readonly declaration: MetricDeclaration;
  readonly dimensions: Readonly<Record<string, string>>;
  readonly values: number[];
}

/** A line in the making. */
interface Draft {
  readonly members: Map<string, string>;
  readonly series: Series[];
}

/**
 * The samples of an invocation in as few lines as the format admits. In one line a dimension has one value and a metric one
 * place, so looks that ended in two ways take two lines; nearly every invocation takes one.
 *
 * @param always dimensions of every metric
 * @param nowMs since the epoch
 */
export function embeddedMetrics(
  samples: readonly Sample[],
  always: Readonly<Record<string, string>>,
  nowMs: number,
): readonly EmbeddedLine[] {
  const drafts: Draft[] = [];
  for (const series of seriesOf(samples, always)) {
    const draft = drafts.find((candidate) => hasRoom(candidate, series)) ?? {
      members: new Map<string, string>(),
      series: [],
    };
    if (draft.series.length === 0) {
      drafts.push(draft);
    }
    draft.series.push(series);
    Object.entries(series.dimensions).forEach(([name, value]) => draft.members.set(name, value));
  }
  return drafts.map((draft) => lineOf(draft, nowMs));
}

function seriesOf(
  samples: readonly Sample[],
  always: Readonly<Record<string, string>>,
): readonly Series[] {
  const open = new Map<string, Series>();
  const full: Series[] = [];
  for (const { metric, labels, value } of samples) {
    const declaration = toldMetrics[metric];
    if (declaration === undefined) {
      continue;
    }
    const own = (declaration.dimensions ?? declaration.labels).map((label): [string, string] => [
      label,
      labels[label] ?? '',
    ]);
    const dimensions = { ...always, ...Object.fromEntries(own) };
    const key = JSON.stringify([metric, own]);
    const series = open.get(key) ?? { metric, declaration, dimensions, values: [] };
    open.set(key, series);
    if (declaration.kind === 'counter') {
      series.values[0] = (series.values[0] ?? 0) + value;
    } else {
      series.values.push(value);
    }
    if (series.values.length === maxValues) {
      full.push(series);
      open.delete(key);
    }
  }
  return [...full, ...open.values()];
}

function hasRoom({ members, series }: Draft, next: Series): boolean {
  return (
    series.every(({ metric }) => metric !== next.metric) &&
    Object.entries(next.dimensions).every(([name, value]) => (members.get(name) ?? value) === value)
  );
}

function lineOf({ members, series }: Draft, nowMs: number): EmbeddedLine {
  const byDimensions = Map.groupBy(series, ({ dimensions }) => Object.keys(dimensions).join());
  return {
    ...Object.fromEntries(members),
    ...Object.fromEntries(
      series.map(({ metric, values }) => [metric, values.length === 1 ? values[0] : values]),
    ),
    _aws: {
      Timestamp: nowMs,
      CloudWatchMetrics: [...byDimensions.values()].map((alike) => ({
        Namespace: cloudWatchNamespace,
        Dimensions: [Object.keys(alike[0]?.dimensions ?? {})],
        Metrics: alike.map(({ metric, declaration }) => ({
          Name: metric,
          Unit: units[declaration.unit],
        })),
      })),
    },
  };
}
