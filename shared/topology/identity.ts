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
