import { type PoolerRecord, isSamePooler } from '#shared/topology/topology.ts';
import type { Row } from './screen.ts';

/**
 * A row for each pooler that was ever listed, with what its record said at each moment, and at which revision of etcd it was
 * written last.
 *
 * @param moments what each is called, and the records that were there then
 */
export function recordRows(
  moments: readonly (readonly [when: string, records: readonly PoolerRecord[]])[],
): readonly Row[] {
  const ids = moments
    .flatMap(([, records]) => records.map(({ id }) => id))
    .filter((id, place, all) => all.findIndex((other) => isSamePooler(other, id)) === place);
  return ids.map((id) => ({
    'record of': id.name,
    ...Object.fromEntries(
      moments.map(([when, records]) => [
        when,
        saying(records.find((record) => isSamePooler(record.id, id))),
      ]),
    ),
  }));
}

function saying(record: PoolerRecord | undefined): string {
  return record === undefined
    ? 'gone'
    : `${record.lifecycle.toUpperCase()} at revision ${record.modRevision}`;
}
