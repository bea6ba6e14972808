import { fromBinary } from '@bufbuild/protobuf';
import { describe, expect, test } from 'vitest';
import {
  DatabaseSchema,
  type Multipooler,
  MultipoolerSchema,
  ShardInitClaimSchema,
} from '#shared/topology/proto/clustermetadata_pb.ts';
import {
  recordedCell,
  recordedClaim,
  recordedDatabase,
  recordedPoolers,
} from '#test/unit/shared/topology/recorded-records.ts';
import { SimulatedCluster, aRecordedCluster, aSettledCluster } from './simulated-cluster.ts';

function decode(value: Uint8Array): Multipooler {
  return fromBinary(MultipoolerSchema, value);
}

/** What depends on where and when it runs is left out; which ports there are is kept. */
function essence({ lifecycleStatus, portMap, ...message }: Multipooler) {
  const { hostname: _host, poolerDir: _dir, pgDataDir: _data, ...rest } = message;
  return {
    ...rest,
    ports: Object.keys(portMap).toSorted(),
    lifecycle: lifecycleStatus?.status,
    reason: lifecycleStatus?.reason,
    isDated: lifecycleStatus?.updated !== undefined,
  };
}

function recorded(state: keyof typeof recordedPoolers) {
  const { key, value } = recordedPoolers[state];
  return { key, content: essence(decode(Buffer.from(value, 'base64'))) };
}

describe('the records of a shard equal those of a real one', () => {
  test.each([
    ['zone1', 'primary'],
    ['zone1', 'replica'],
  ] as const)('where the member of %s leads: %s', (leader, state) => {
    const cluster = aRecordedCluster(leader);

    const { key, content } = recorded(state);

    expect(essence(decode(cluster.valueOf(key)))).toEqual(content);
  });

  test('after a graceful stop of a replica', () => {
    const cluster = aRecordedCluster('zone1');
    const { key, content } = recorded('stopped');

    cluster.deletePod('p-00000003');
    cluster.runUntil(() => cluster.podView('p-00000003')?.phase === 'ended');
    cluster.removePod('p-00000003');

    expect(essence(decode(cluster.valueOf(key)))).toEqual(content);
  });

  test('after a replica was killed: byte for byte as before', () => {
    const cluster = aRecordedCluster('zone2');
    const { key, content } = recorded('killed');
    const before = cluster.valueOf(key);

    cluster.removePod('p-00000001');
    cluster.runFor(73_000);

    expect(cluster.valueOf(key)).toEqual(before);
    expect(essence(decode(cluster.valueOf(key)))).toEqual(content);
  });

  test('for a cell, byte for byte', () => {
    const cluster = aRecordedCluster('zone1');

    expect(Buffer.from(cluster.valueOf(recordedCell.key)).toString('base64')).toBe(
      recordedCell.value,
    );
  });

  test('for the database, all but the place of its backups', () => {
    const cluster = aRecordedCluster('zone1');
    const real = fromBinary(DatabaseSchema, Buffer.from(recordedDatabase.value, 'base64'));

    const ours = fromBinary(DatabaseSchema, cluster.valueOf(recordedDatabase.key));

    expect({ ...ours, backupLocation: undefined }).toEqual({ ...real, backupLocation: undefined });
    expect(ours.backupLocation?.location.case).toBe(real.backupLocation?.location.case);
  });

  test('for the claim of a fresh shard', () => {
    const cluster = aRecordedCluster('zone1');
    const real = fromBinary(ShardInitClaimSchema, Buffer.from(recordedClaim.value, 'base64'));
    const byName = (a: { name: string }, b: { name: string }) => (a.name < b.name ? -1 : 1);

    const ours = fromBinary(ShardInitClaimSchema, cluster.valueOf(recordedClaim.key));

    expect(ours.cohortMembers.toSorted(byName)).toEqual(real.cohortMembers.toSorted(byName));
    expect(ours.claimerId?.component).toBe(real.claimerId?.component);
  });

  test('in their keys', () => {
    const cluster = aRecordedCluster('zone1');

    expect([...cluster.stored.keys()].toSorted()).toEqual([
      '/multigres/global/cells/zone1/Cell',
      '/multigres/global/cells/zone2/Cell',
      '/multigres/global/cells/zone3/Cell',
      '/multigres/global/databases/postgres/Database',
      '/multigres/global/databases/postgres/default/0-inf/ShardInitClaim',
      '/multigres/zone1/poolers/multipooler-zone1-p-00000001/Pooler',
      '/multigres/zone2/poolers/multipooler-zone2-p-00000002/Pooler',
      '/multigres/zone3/poolers/multipooler-zone3-p-00000003/Pooler',
    ]);
  });
});

describe('the topology', () => {
  test('may hold both generations of records side by side', () => {
    const cluster = aSettledCluster({ config: { legacyPods: ['orders-1'] } });

    expect(cluster.recordOf('orders-0')?.generation).toBe('current');
    expect(cluster.recordOf('orders-1')).toMatchObject({
      generation: 'legacy',
      lifecycle: 'unknown',
      serving: 'serving',
      shard: { database: 'postgres', tableGroup: 'default', shard: '0-inf' },
    });
    expect(cluster.cohort()).toEqual(['orders-0', 'orders-1', 'orders-2']);
  });

  test('lets a member with an older record leave the cohort', () => {
    const cluster = aSettledCluster({ config: { legacyPods: ['orders-1'] } });

    cluster.deletePod('orders-1');
    cluster.runFor(15_000);

    expect(cluster.recordOf('orders-1')).toMatchObject({ serving: 'disabled', role: 'unknown' });
    expect(cluster.cohort()).toEqual(['orders-0', 'orders-2']);
  });

  test('may keep the cells under one root', () => {
    const cluster = new SimulatedCluster({ cellRoot: '/multigres/global' });

    cluster.startPod('a', 'zone-a');
    cluster.startPod('b', 'zone-b');
    cluster.runUntil(() => cluster.view.leader !== null);

    const keys = [...cluster.stored.keys()].filter((key) => key.endsWith('/Pooler'));
    expect(keys.toSorted()).toEqual([
      '/multigres/global/poolers/multipooler-zone-a-a/Pooler',
      '/multigres/global/poolers/multipooler-zone-b-b/Pooler',
    ]);
  });

  test('keeps what somebody else wrote into the database when a cell is added', () => {
    const cluster = aSettledCluster();
    const key = '/multigres/global/databases/postgres/Database';
    // Field 99, a string, which this version does not know.
    const foreign = Buffer.concat([cluster.valueOf(key), Buffer.from([0x9a, 0x06, 0x01, 0x78])]);
    cluster.put(key, foreign.toString('base64'));

    cluster.startPod('late', 'zone-b');
    cluster.runFor(3_000);

    const value = Buffer.from(cluster.valueOf(key));
    expect(fromBinary(DatabaseSchema, value).cells).toEqual(['zone-a', 'zone-b']);
    expect(value.includes(Buffer.from([0x9a, 0x06, 0x01, 0x78]))).toBe(true);
  });
});
