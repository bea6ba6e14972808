import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { create, toBinary } from '@bufbuild/protobuf';
import { Etcd3 } from 'etcd3';
import { startEtcd } from '#infra/local/control-plane/etcd.ts';
import { connectTopology } from '#shared/topology/connect.ts';
import {
  CellSchema,
  ComponentType,
  IDSchema,
  MultipoolerSchema,
  PoolerLifecycleSchema,
  PoolerLifecycleStatus,
  PoolerType,
  RoutingRole,
  RoutingStateSchema,
  ShardKeySchema,
} from '#shared/topology/proto/clustermetadata_pb.ts';
import type { Topology } from '#shared/topology/topology.ts';
import { median } from './distribution.ts';
import { type Figure, figure } from './figure.ts';
import { type Part, scaled } from './part.ts';

const recordCount = 1_000;
const looks = 21;
const goalMs = 300;

const globalRoot = '/multigres/global';
const cell = 'zone-a';
const cellRoot = '/multigres/zone-a';
const shard = { database: 'postgres', tableGroup: 'default', shard: '0-inf' };

/** What a look of etcd-cleanup reads of the topology, whatever it then does with it: every record of a cell. */
export const cleanup: Part = {
  name: 'cleanup',
  title: 'the records of a cell with 1,000 poolers, as etcd-cleanup reads them at each look',
  async measure(options) {
    await using stack = new AsyncDisposableStack();
    const folder = await mkdtemp(join(tmpdir(), 'millrace-bench-cleanup-'));
    stack.defer(() => rm(folder, { recursive: true, force: true }));
    const etcd = stack.use(await startEtcd({ dataDir: folder }));
    const records = scaled(recordCount, options);
    options.log(`writing ${records} records`);
    await writeRecords(etcd.endpoint, records);
    const topology = connectTopology(
      { endpoints: [etcd.endpoint], globalRoot },
      { namespace: 'default' },
    );
    stack.defer(() => topology.close());
    const firstMs = await timeOf(topology, records);
    const readsBefore = await rangeReads(etcd.endpoint);
    const times: number[] = [];
    for (let look = 0; look < looks; look += 1) {
      times.push(await timeOf(topology, records));
    }
    const reads = ((await rangeReads(etcd.endpoint)) - readsBefore) / looks;
    return figuresOf(firstMs, times, reads);
  },
};

function figuresOf(firstMs: number, times: readonly number[], reads: number): Figure[] {
  return [
    figure('cleanup: the first look, with its connection', firstMs, 'ms'),
    figure('cleanup: a look, median', median(times), 'ms', { goal: goalMs }),
    figure('cleanup: a look, slowest', Math.max(...times), 'ms'),
    figure('cleanup: range reads of a look, one of them the cell’s own record', reads, 'reads', {
      goal: 2,
    }),
  ];
}

/** Milliseconds for all records of the cell, decoded. */
async function timeOf(topology: Topology, records: number): Promise<number> {
  const began = performance.now();
  const read = await topology.poolers(shard, [cell]);
  const tookMs = performance.now() - began;
  const found = read.kind === 'present' ? read.value.poolers.length : 0;
  if (found !== records) {
    throw new Error(`${found} of ${records} records were found`);
  }
  return tookMs;
}

async function writeRecords(endpoint: string, count: number): Promise<void> {
  const client = new Etcd3({ hosts: endpoint });
  try {
    const address = endpoint.replace('http://', '');
    const record = create(CellSchema, { name: cell, root: cellRoot, serverAddresses: [address] });
    await client
      .put(`${globalRoot}/cells/${cell}/Cell`)
      .value(Buffer.from(toBinary(CellSchema, record)))
      .exec();
    for (let number = 0; number < count; number += 1) {
      const name = `orders-main-zone-a-0df9c5c5-${number}`;
      await client
        .put(`${cellRoot}/poolers/multipooler-${cell}-${name}/Pooler`)
        .value(poolerRecord(name))
        .exec();
    }
  } finally {
    client.close();
  }
}

function poolerRecord(name: string): Buffer {
  const record = create(MultipoolerSchema, {
    id: create(IDSchema, { component: ComponentType.MULTIPOOLER, cell, name }),
    hostname: `${name}.orders.db.svc.cluster.local`,
    portMap: { grpc: 15_270, http: 15_200, pgbackrest: 8_432, postgres: 5_432 },
    type: PoolerType.REPLICA,
    shardKey: create(ShardKeySchema, shard),
    lifecycleStatus: create(PoolerLifecycleSchema, { status: PoolerLifecycleStatus.ACTIVE }),
    routingState: create(RoutingStateSchema, { role: RoutingRole.REPLICA }),
  });
  return Buffer.from(toBinary(MultipoolerSchema, record));
}

/** Ranges that etcd has answered since it began, its own included. */
async function rangeReads(endpoint: string): Promise<number> {
  const text = await (await fetch(new URL('/metrics', endpoint))).text();
  const [, count] = /^etcd_mvcc_range_total (\S+)$/m.exec(text) ?? [];
  return Number(count);
}
