import type { Observation } from '#infra/local/goverse/observer.ts';
import type { OutageSummary } from '#infra/local/goverse/outages.ts';
import type { GoverseClusterStatus } from '#shared/api/goverse-cluster.ts';
import type { Row } from './screen.ts';

/** How far a hand-over is, as a GoverseCluster's status tells it; `undefined` where none is under way. */
export function progressIn({
  draining,
  inMigration = 0,
}: GoverseClusterStatus): string | undefined {
  return draining === undefined
    ? undefined
    : `${draining.pod} has ${counted(draining.left)} shards left, ${counted(inMigration)} are meant for others`;
}

/** What the going of a node cost, as a row of a table. */
export function costRow(
  how: string,
  node: string,
  { allOwnedMs, unowned, unroutable }: Observation,
  marksLeft: number,
): Row {
  return {
    'how it goes': how,
    node,
    'shards hit': counted(unroutable.count),
    'all owned after': `${seconds(allOwnedMs)} s`,
    'unowned mean / max': meanAndMax(unowned),
    'unroutable mean / max': meanAndMax(unroutable),
    'marks left': String(marksLeft),
  };
}

/** `8,192` */
export function counted(count: number): string {
  return count.toLocaleString('en');
}

/** `3.2` */
export function seconds(ms: number): string {
  return (ms / 1000).toFixed(1);
}

function meanAndMax({ meanMs, maxMs }: OutageSummary): string {
  return `${seconds(meanMs)} / ${seconds(maxMs)} s`;
}

/** The name that occurs most often; of several the first in their order. */
export function mostNamed(names: readonly string[]): string | undefined {
  const groups = [...Map.groupBy(names, (name) => name)];
  const [most] = groups.toSorted(([a, as], [b, bs]) => bs.length - as.length || (a < b ? -1 : 1));
  return most?.[0];
}
