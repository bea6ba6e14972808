import { create, toBinary } from '@bufbuild/protobuf';
import { poolerKey } from '#infra/local/data-plane/records.ts';
import {
  ComponentType,
  MultipoolerSchema,
  PoolerLifecycleStatus,
  PoolerServingStatus,
  PoolerType,
  RoutingRole,
} from '#shared/topology/proto/clustermetadata_pb.ts';
import type { Entry } from '#test/world/model/etcd.ts';
import type { World } from './world.ts';

const garbled = Buffer.from('no protobuf at all');

/** As answers of etcd have it. */
export const garbledValue = garbled.toString('base64');

/** Puts a pooler record that nobody can decode beside the others, and removes it after so many seconds. */
export function garble(world: World, seconds: number): void {
  const { config, cells } = world.multigres.state;
  const key = poolerKey(config, { cell: cells[0]?.name ?? '', name: 'garbled' });
  world.etcd.put(key, garbled);
  world.later('the garbled record is removed', seconds, (at) => at.etcd.delete(key));
}

/** Field 1000, a varint: what a version writes that ours does not know. */
export const fieldOfTheFuture = Buffer.from([0xc0, 0x3e, 0x07]);

/** Somebody of a later version rewrites the record of a pod's pooler: it says the same, and one thing more. */
export function rewriteRecord(world: World, pod: string): void {
  const found = world.etcd.list('').find(({ key }) => textOf(key).endsWith(`-${pod}/Pooler`));
  if (found !== undefined) {
    addField(world, found);
  }
}

/** The same of a record that is known. */
export function addField(world: World, { key, value }: Pick<Entry, 'key' | 'value'>): void {
  world.etcd.put(textOf(key), Buffer.concat([value, fieldOfTheFuture]));
}

/** A pooler of another shard of the same table group that leads it, in the first cell: nobody here is to count it. */
export function addNeighbour(world: World): void {
  const { config, cells } = world.multigres.state;
  const id = { cell: cells[0]?.name ?? '', name: 'neighbour' };
  const record = create(MultipoolerSchema, {
    id: { component: ComponentType.MULTIPOOLER, ...id },
    type: PoolerType.PRIMARY,
    servingStatus: PoolerServingStatus.SERVING,
    hostname: 'neighbour',
    shardKey: { ...config.shard, shard: '8-inf' },
    lifecycleStatus: { status: PoolerLifecycleStatus.ACTIVE },
    routingState: {
      role: RoutingRole.PRIMARY,
      rule: { coordinatorTerm: 99n, leaderSubterm: 0n },
    },
  });
  world.etcd.put(poolerKey(config, id), toBinary(MultipoolerSchema, record));
}

export function textOf(key: Uint8Array): string {
  return Buffer.from(key).toString();
}
