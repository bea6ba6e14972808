import { expect, test } from 'vitest';
import { recordRows } from '#infra/local/show/records-told.ts';
import type { PoolerRecord } from '#shared/topology/topology.ts';

function aRecord(name: string, modRevision: string): PoolerRecord {
  return {
    key: `/multigres/zone-a/poolers/multipooler-zone-a-${name}/Pooler`,
    storeCell: 'zone-a',
    modRevision,
    id: { cell: 'zone-a', name },
    shard: { database: 'postgres', tableGroup: 'default', shard: '0-inf' },
    hostname: name,
    lifecycle: 'active',
    serving: 'serving',
    role: 'replica',
    rule: null,
    generation: 'current',
  };
}

test('each record is told at each moment, also once it is gone', () => {
  const live = aRecord('orders-1', '13');
  const dead = aRecord('orders-10', '16');
  const marked = { ...dead, lifecycle: 'shutdown' as const, modRevision: '17' };

  const rows = recordRows([
    ['before', [live, dead]],
    ['marked', [live, marked]],
    ['at the end', [live]],
  ]);

  expect(rows).toEqual([
    {
      'record of': 'orders-1',
      before: 'ACTIVE at revision 13',
      marked: 'ACTIVE at revision 13',
      'at the end': 'ACTIVE at revision 13',
    },
    {
      'record of': 'orders-10',
      before: 'ACTIVE at revision 16',
      marked: 'SHUTDOWN at revision 17',
      'at the end': 'gone',
    },
  ]);
});
