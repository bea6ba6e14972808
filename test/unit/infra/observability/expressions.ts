import { parser } from '@prometheus-io/lezer-promql';

/** A metric in an expression of Prometheus, with the labels that are asked of it or that anything is grouped by. */
export interface Mention {
  readonly metric: string;
  readonly labels: readonly string[];
}

/**
 * The metrics that an expression names, read by the grammar that Prometheus' own editor uses.
 *
 * @throws SyntaxError where it is no expression of Prometheus
 */
export function mentionsIn(expr: string): readonly Mention[] {
  const grouped: string[] = [];
  const asked: { readonly metric: string; readonly labels: string[] }[] = [];
  let isGrouping = false;
  parser.parse(expr).iterate({
    enter({ type, name, from, to }) {
      const text = expr.slice(from, to);
      if (type.isError) {
        throw new SyntaxError(`${expr} is no expression from its character ${from} on`);
      }
      if (name === 'Identifier') {
        asked.push({ metric: text, labels: [] });
      } else if (name === 'GroupingLabels') {
        isGrouping = true;
      } else if (name === 'LabelName') {
        (isGrouping ? grouped : asked.at(-1)?.labels)?.push(text);
      }
    },
    leave({ name }) {
      if (name === 'GroupingLabels') {
        isGrouping = false;
      }
    },
  });
  return asked.map(({ metric, labels }) => ({ metric, labels: [...labels, ...grouped] }));
}
