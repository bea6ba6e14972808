import { poolerName } from '#shared/api/names.ts';
import type { PoolerId, PoolerRecord } from './topology.ts';

/**
 * Whether a pooler record belongs to a pod: by name, hostname, hostname prefix or derived service id.
 *
 * All four, because each alone has misled: records written by an address, by a full domain name, or under a name that
 * was shortened to fit PostgreSQL's limit.
 */
export function isRecordOfPod(record: PoolerRecord, pod: string): boolean {
  return (
    record.id.name === pod ||
    record.hostname === pod ||
    record.hostname.startsWith(`${pod}.`) ||
    record.id.name === poolerName(record.id.cell, pod)
  );
}

/** The id a pod's pooler registers under; its record's own where there is one. */
export function poolerOfPod(records: readonly PoolerRecord[], cell: string, pod: string): PoolerId {
  return (
    records.find((record) => isRecordOfPod(record, pod))?.id ?? {
      cell,
      name: poolerName(cell, pod),
    }
  );
}

/**
 * Tells of any record whether it belongs to one of these pods, as {@link isRecordOfPod} does for one: for many records
 * and pods, where comparing each with each would take too long.
 */
export function matchesAnyPod(pods: Iterable<string>): (record: PoolerRecord) => boolean {
  const names = new Set(pods);
  const derivedByCell = new Map<string, ReadonlySet<string>>();

  function derivedIn(cell: string): ReadonlySet<string> {
    const known = derivedByCell.get(cell);
    const derived = known ?? new Set([...names].map((pod) => poolerName(cell, pod)));
    derivedByCell.set(cell, derived);
    return derived;
  }

  return ({ id, hostname }) =>
    names.has(id.name) ||
    namesBefore(hostname).some((name) => names.has(name)) ||
    derivedIn(id.cell).has(id.name);
}

/** The hostname, and what stands before each of its dots. */
function namesBefore(hostname: string): readonly string[] {
  const dots = [...hostname.matchAll(/\./g)].map(({ index }) => hostname.slice(0, index));
  return [hostname, ...dots];
}
