import { readFileSync, readdirSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { alertGroups } from '#infra/observability/alerts.ts';
import {
  cloudWatchDashboard,
  operationsDashboard,
  targetsDashboard,
} from '#infra/observability/dashboards.ts';
import { mentionsIn } from './expressions.ts';
import { generateObservability } from '#infra/observability/generate.ts';
import {
  type MetricDeclaration,
  functionMetrics,
  processMetrics,
  relayMetrics,
  stepMetrics,
  toldMetrics,
  workerMetrics,
} from '#shared/api/metrics.ts';

const root = new URL('../../../../', import.meta.url);
const runbooks = new URL('infra/observability/runbooks/', root);

const declared: Readonly<Record<string, MetricDeclaration>> = {
  ...stepMetrics,
  ...functionMetrics,
  ...relayMetrics,
  ...workerMetrics,
  ...processMetrics,
};
const alerts = alertGroups.flatMap((group) => group.alerts);
const alertNames = alerts.map(({ name }) => name);

/** Labels that Prometheus gives to whatever it scrapes. */
const scrapeLabels = ['job', 'instance'];

/** What is wrong with an expression: a metric nobody tells, or a label that it does not have. */
function problemsIn(expr: string): readonly string[] {
  return mentionsIn(expr).flatMap(({ metric, labels }) => {
    const base = metric.replace(/_(?:bucket|sum|count)$/, '');
    const declaration = declared[metric] ?? declared[base];
    if (declaration === undefined) {
      return [`nobody tells ${metric}`];
    }
    const isPart = declared[metric] === undefined;
    if (isPart !== (declaration.kind === 'histogram')) {
      return [`${metric} is no series of a ${declaration.kind}`];
    }
    const known = [
      ...declaration.labels,
      ...scrapeLabels,
      ...(declaration.isOfTarget === true ? ['namespace', 'name'] : []),
      ...(metric.endsWith('_bucket') ? ['le'] : []),
    ];
    return labels
      .filter((label) => !known.includes(label))
      .map((label) => `${metric} has no label ${label}`);
  });
}

describe('an alert', () => {
  test.each(alerts)('$name asks for declared metrics and labels', ({ expr }) => {
    expect(mentionsIn(expr).length).toBeGreaterThan(0);
    expect(problemsIn(expr)).toEqual([]);
  });

  test.each(alerts)('$name speaks of labels that its expression keeps', ({ expr, description }) => {
    const spoken = [...description.matchAll(/\$labels\.(\w+)/g)].map(([, label = '']) => label);
    const groupings = [...expr.matchAll(/\bby \(([^)]*)\)/g)].map(([, names = '']) =>
      names.split(', '),
    );
    const kept =
      groupings.at(0) ??
      mentionsIn(expr).flatMap(({ metric }) => [
        ...(declared[metric]?.labels ?? []),
        ...(declared[metric]?.isOfTarget === true ? ['namespace', 'name'] : []),
      ]);

    expect(spoken.filter((label) => !kept.includes(label))).toEqual([]);
  });

  test('has a name of its own', () => {
    expect(new Set(alertNames).size).toBe(alerts.length);
  });

  test.each([
    ['a metric that nobody tells', 'sum(millrace_lookz_total) > 0'],
    ['a label that it does not have', 'sum by (shard) (millrace_relay_dirty) > 0'],
    ['a matcher of a label that it does not have', 'millrace_relay_dirty{shard="a"} > 0'],
    ['a bucket of what is no histogram', 'rate(millrace_relay_dirty_bucket[5m]) > 0'],
    ['a histogram itself', 'rate(millrace_look_seconds[5m]) > 0'],
  ])('would be refused with %s', (_, expr) => {
    expect(problemsIn(expr)).toHaveLength(1);
  });

  test.each([
    'sum(millrace_relay_dirty',
    'sum)millrace_relay_dirty(',
    'sums(millrace_relay_dirty)',
  ])('would be refused as %s', (expr) => {
    expect(() => mentionsIn(expr)).toThrow(SyntaxError);
  });
});

describe('a runbook', () => {
  test('is there for each alert, and for nothing else', () => {
    const pages = readdirSync(runbooks).map((name) => name.replace(/\.md$/, ''));

    expect(pages.toSorted()).toEqual(alertNames.toSorted());
  });

  test.each(alertNames)('%s has its four parts, and asks for declared metrics', (name) => {
    const text = readFileSync(new URL(`${name}.md`, runbooks), 'utf8');

    const headings = [...text.matchAll(/^#+ (.+)$/gm)].map(([, heading]) => heading);
    const queries = [...text.matchAll(/`([^`]*(?:_total|_seconds|_bytes|millrace_)[^`]*)`/g)]
      .map(([, query = '']) => query)
      .filter((query) => !query.includes('kubectl'));

    expect(headings).toEqual([name, 'Meaning', 'Impact', 'Investigation', 'Remediation']);
    expect(queries.flatMap(problemsIn)).toEqual([]);
    for (const [, other = ''] of text.matchAll(/see (Millrace\w+)/gi)) {
      expect(alertNames).toContain(other);
    }
  });

  test('is where its alert points to', () => {
    const text = readFileSync(new URL('infra/observability/alerts.yml', root), 'utf8');
    const { groups } = parse(text) as {
      groups: { rules: { alert: string; annotations: { runbook: string } }[] }[];
    };

    const rules = groups.flatMap((group) => group.rules);

    expect(rules.map(({ alert }) => alert)).toEqual(alertNames);
    for (const { alert, annotations } of rules) {
      const page = readFileSync(new URL(annotations.runbook, root), 'utf8');
      expect(page.startsWith(`# ${alert}\n`)).toBe(true);
    }
  });
});

describe('the dashboards', () => {
  const expressions = [operationsDashboard(), targetsDashboard()].flatMap((dashboard) =>
    [...JSON.stringify(dashboard).matchAll(/"expr":("(?:[^"\\]|\\.)*")/g)].map(
      // Grafana puts a duration in before Prometheus reads it.
      ([, expr = '']) => (JSON.parse(expr) as string).replaceAll('$__rate_interval', '1m'),
    ),
  );

  test('ask for declared metrics and labels', () => {
    expect(expressions.length).toBeGreaterThan(30);
    expect(expressions.flatMap(problemsIn)).toEqual([]);
  });

  test('show every metric there is', () => {
    const shown = new Set(
      expressions.flatMap((expr) =>
        mentionsIn(expr).map(({ metric }) => metric.replace(/_bucket$/, '')),
      ),
    );

    expect([...shown].toSorted()).toEqual(Object.keys(declared).toSorted());
  });

  test('of CloudWatch show everything that functions tell, by the dimensions that it gets', () => {
    const searches = cloudWatchDashboard().widgets.flatMap(({ properties }) =>
      properties.metrics.flatMap((metrics) => metrics.map(({ expression }) => expression)),
    );
    const found = searches.map((search) => {
      const [, dimensions = '', name = ''] =
        /\{Millrace,cluster,?([^}]*)\} MetricName="(\w+)"/.exec(search) ?? [];
      return { name, dimensions };
    });

    expect(new Set(found.map(({ name }) => name))).toEqual(new Set(Object.keys(toldMetrics)));
    for (const { name, dimensions } of found) {
      const { dimensions: own, labels } = toldMetrics[name] ?? { labels: ['?'] };
      expect(dimensions).toBe((own ?? labels).join(','));
    }
  });
});

test.each([...generateObservability()])('$path is what its source says', ({ path, content }) => {
  expect(readFileSync(new URL(path, root), 'utf8')).toBe(content);
});
