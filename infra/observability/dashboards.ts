import {
  type MetricDeclaration,
  functionMetrics,
  processMetrics,
  relayMetrics,
  stepMetrics,
  workerMetrics,
} from '#shared/api/metrics.ts';
import { cloudWatchNamespace } from '#shared/kernel/embedded-metrics.ts';

type Declared = Readonly<Record<string, MetricDeclaration>>;

/** A row of a dashboard: metrics that belong together, in the order of their declaration. */
interface Row {
  readonly title: string;
  readonly metrics: Declared;
}

const units = { count: 'short', seconds: 's', bytes: 'bytes' } as const;

/** How the machinery fares: relay, functions, and the processes themselves. */
export function operationsDashboard() {
  return grafana('millrace-operations', 'Millrace: relay and functions', [
    { title: 'Functions', metrics: functionMetrics },
    { title: 'Relay', metrics: relayMetrics },
    { title: 'Processes', metrics: { ...workerMetrics, ...processMetrics } },
  ]);
}

/** How the databases fare that it looks after. */
export function targetsDashboard() {
  const { millrace_target_blocked } = functionMetrics;
  return grafana('millrace-targets', 'Millrace: databases and nodes', [
    { title: 'Needs a person', metrics: { millrace_target_blocked } },
    { title: 'What steps tell', metrics: stepMetrics },
  ]);
}

/** Everything that functions tell to CloudWatch. `${AWS::Region}` is CloudFormation's to put in. */
export function cloudWatchDashboard() {
  const told: Declared = { ...functionMetrics, ...stepMetrics };
  return {
    widgets: Object.entries(told).map(([name, declaration], place) => ({
      type: 'metric',
      x: (place % 2) * 12,
      y: Math.floor(place / 2) * 6,
      width: 12,
      height: 6,
      properties: {
        title: name,
        region: '${AWS::Region}',
        view: 'timeSeries',
        period: 300,
        metrics: statisticsOf(declaration).map((statistic, which) => [
          { expression: searchFor(name, declaration, statistic), id: `e${which}`, label: '' },
        ]),
        yAxis: { left: { min: 0, showUnits: true } },
      },
    })),
  };
}

function statisticsOf({ kind }: MetricDeclaration): readonly string[] {
  switch (kind) {
    case 'counter':
      return ['Sum'];
    case 'gauge':
      return ['Maximum'];
    case 'histogram':
      return ['p50', 'p99'];
  }
}

/** Finds every combination of values that there is, so that no step and no cluster has to be listed. */
function searchFor(
  name: string,
  { dimensions, labels }: MetricDeclaration,
  statistic: string,
): string {
  const schema = [cloudWatchNamespace, 'cluster', ...(dimensions ?? labels)].join(',');
  return `SEARCH('{${schema}} MetricName="${name}"', '${statistic}', 300)`;
}

function grafana(uid: string, title: string, rows: readonly Row[]) {
  const panels: unknown[] = [];
  let y = 0;
  for (const row of rows) {
    panels.push({
      id: panels.length + 1,
      type: 'row',
      title: row.title,
      collapsed: false,
      gridPos: { x: 0, y, w: 24, h: 1 },
      panels: [],
    });
    y += 1;
    for (const [place, [name, declaration]] of Object.entries(row.metrics).entries()) {
      const gridPos = { x: (place % 2) * 12, y: y + Math.floor(place / 2) * 8, w: 12, h: 8 };
      panels.push({ id: panels.length + 1, ...panelOf(name, declaration), gridPos });
    }
    y += Math.ceil(Object.keys(row.metrics).length / 2) * 8;
  }
  return {
    uid,
    title,
    tags: ['millrace'],
    editable: true,
    schemaVersion: 39,
    time: { from: 'now-6h', to: 'now' },
    refresh: '1m',
    templating: {
      list: [{ name: 'datasource', type: 'datasource', query: 'prometheus', label: 'Data source' }],
    },
    panels,
  };
}

const datasource = { type: 'prometheus', uid: '${datasource}' } as const;

function panelOf(name: string, declaration: MetricDeclaration) {
  return {
    type: 'timeseries',
    title: declaration.help,
    description: `\`${name}\``,
    datasource,
    fieldConfig: { defaults: { unit: unitOf(declaration), min: 0 }, overrides: [] },
    targets: queriesOf(name, declaration).map(({ expr, legendFormat }, place) => ({
      refId: String.fromCodePoint(65 + place),
      datasource,
      expr,
      legendFormat,
    })),
  };
}

/** What is counted is shown by how fast it grows. */
function unitOf({ kind, unit }: MetricDeclaration): string {
  return kind === 'counter' && unit === 'count' ? 'ops' : units[unit];
}

interface Query {
  readonly expr: string;
  readonly legendFormat: string;
}

function queriesOf(name: string, declaration: MetricDeclaration): readonly Query[] {
  const target = declaration.isOfTarget === true ? ['namespace', 'name'] : [];
  const labels = [...target, ...declaration.labels];
  const legend = labels.map((label) => `{{${label}}}`).join(' ');
  switch (declaration.kind) {
    case 'counter':
      return [
        { expr: `${by('sum', labels)} (rate(${name}[$__rate_interval]))`, legendFormat: legend },
      ];
    case 'gauge':
      return [{ expr: `${by('max', labels)} (${name})`, legendFormat: legend }];
    case 'histogram':
      return [0.5, 0.99].map((quantile) => ({
        expr: `histogram_quantile(${quantile}, ${by('sum', [...labels, 'le'])} (rate(${name}_bucket[$__rate_interval])))`,
        legendFormat: `${legend} p${quantile * 100}`.trim(),
      }));
  }
}

function by(aggregation: string, labels: readonly string[]): string {
  return labels.length === 0 ? aggregation : `${aggregation} by (${labels.join(', ')})`;
}
