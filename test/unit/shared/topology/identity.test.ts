import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { poolerName } from '#shared/api/names.ts';
import { isRecordOfPod, matchesAnyPod } from '#shared/topology/identity.ts';
import type { PoolerRecord } from '#shared/topology/topology.ts';

const parts = fc.constantFrom(
  'a',
  'a-1',
  'a-10',
  'a-1.svc',
  'svc',
  '',
  `b${'0123456789'.repeat(6)}-1`,
);
const name = fc.array(parts, { minLength: 1, maxLength: 3 }).map((chosen) => chosen.join('.'));
const cell = fc.constantFrom('zone-a', 'zone-b');

function recordOf(id: PoolerRecord['id'], hostname: string): PoolerRecord {
  return {
    key: '/k',
    storeCell: id.cell,
    modRevision: '1',
    id,
    shard: { database: 'postgres', tableGroup: 'default', shard: '0-inf' },
    hostname,
    lifecycle: 'active',
    serving: 'serving',
    role: 'replica',
    rule: null,
    generation: 'current',
  };
}

test('many pods are compared as each of them alone', () => {
  fc.assert(
    fc.property(
      fc.array(name, { maxLength: 5 }),
      fc.oneof(
        fc.tuple(cell, name),
        fc.tuple(cell, name).map(([zone, pod]) => [zone, poolerName(zone, pod)] as const),
      ),
      name,
      (pods, [zone, own], hostname) => {
        const record = recordOf({ cell: zone, name: own }, hostname);

        expect(matchesAnyPod(pods)(record)).toBe(pods.some((pod) => isRecordOfPod(record, pod)));
      },
    ),
    { numRuns: 2000 },
  );
});
