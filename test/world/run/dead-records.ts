import { create, toBinary } from '@bufbuild/protobuf';
import { cellKey, poolerKey } from '#infra/local/data-plane/records.ts';
import { decodePooler } from '#shared/topology/pooler-record.ts';
import {
  ComponentType,
  LegacyMultipoolerSchema,
  MultipoolerSchema,
  PoolerLifecycleStatus,
  PoolerServingStatus,
  PoolerType,
  RoutingRole,
} from '#shared/topology/proto/clustermetadata_pb.ts';
import type { PoolerId, PoolerRecord, ShardKey } from '#shared/topology/topology.ts';
import type { Entry } from '#test/world/model/etcd.ts';
import { isSamePooler } from '#shared/topology/topology.ts';
import { garbledValue, textOf } from './pooler-records.ts';
import type { World } from './world.ts';

/** A pooler record as the world's etcd has it. */
export interface StandingRecord extends Pick<Entry, 'value'> {
  readonly key: string;
  readonly modRevision: string;
  readonly record: Omit<PoolerRecord, 'key' | 'storeCell' | 'modRevision'>;
}

/** What a pooler that nobody has may have left. */
export interface Remains {
  readonly name: string;
  /** The name when not given. */
  readonly hostname?: string;
  /** The world's first when not given. */
  readonly cell?: string;
  /** `killed` when not given: it serves, as a replica in the cohort would. */
  readonly as?: 'killed' | 'set aside' | 'primary of old';
  readonly generation?: 'current' | 'legacy';
  readonly shard?: string;
}

/** Leaves the record of a pooler that does not run, and of which the data plane knows nothing else. */
export function leaveRecord(world: World, remains: Remains): PoolerId {
  const { config, cells } = world.multigres.state;
  const { name, cell = cells[0]?.name ?? '' } = remains;
  const id = { cell, name };
  const shard = { ...config.shard, shard: remains.shard ?? config.shard.shard };
  const value =
    remains.generation === 'legacy'
      ? legacyRecord(id, shard, remains)
      : currentRecord(id, shard, remains);
  world.etcd.put(poolerKey(config, id), value);
  return id;
}

function currentRecord(
  id: PoolerId,
  shardKey: ShardKey,
  { name, hostname = name, as = 'killed' }: Remains,
): Uint8Array {
  const isPrimary = as === 'primary of old';
  return toBinary(
    MultipoolerSchema,
    create(MultipoolerSchema, {
      id: { component: ComponentType.MULTIPOOLER, ...id },
      shardKey,
      hostname,
      type: isPrimary ? PoolerType.PRIMARY : PoolerType.REPLICA,
      servingStatus: PoolerServingStatus.SERVING,
      lifecycleStatus: {
        status:
          as === 'set aside' ? PoolerLifecycleStatus.QUARANTINED : PoolerLifecycleStatus.ACTIVE,
      },
      routingState: isPrimary
        ? { role: RoutingRole.PRIMARY, rule: { coordinatorTerm: 0n, leaderSubterm: 0n } }
        : { role: RoutingRole.REPLICA },
    }),
  );
}

function legacyRecord(
  id: PoolerId,
  shard: ShardKey,
  { name, hostname = name, as = 'killed' }: Remains,
): Uint8Array {
  return toBinary(
    LegacyMultipoolerSchema,
    create(LegacyMultipoolerSchema, {
      id: { component: ComponentType.MULTIPOOLER, ...id },
      ...shard,
      hostname,
      type: as === 'set aside' ? PoolerType.DRAINED : PoolerType.REPLICA,
      servingStatus: PoolerServingStatus.SERVING,
    }),
  );
}

/** Every pooler record that can be decoded, of whatever shard. */
export function standingRecords({ etcd }: World): readonly StandingRecord[] {
  return etcd
    .list('')
    .filter(({ key }) => textOf(key).endsWith('/Pooler'))
    .flatMap(({ key, value, modRevision }) => {
      const decoded = decodePooler(value);
      const standing = { key: textOf(key), value, modRevision: String(modRevision) };
      return decoded.kind === 'decoded' ? [{ ...standing, record: decoded.record }] : [];
    });
}

/** Those of the world's shard whose poolers do not run, whatever they say. */
export function deadRecords(world: World): readonly StandingRecord[] {
  const { config, members } = world.multigres.state;
  return standingRecords(world).filter(
    ({ record: { id, shard } }) =>
      shard.shard === config.shard.shard &&
      !Object.values(members).some(
        ({ id: other, process }) =>
          isSamePooler(id, other) && process !== 'died' && process !== 'ended',
      ),
  );
}

/** Nobody can decode it for so many seconds; then it says what it said. */
export function garbleRecord(world: World, { key, value }: StandingRecord, seconds: number): void {
  const garbled = Buffer.from(garbledValue, 'base64');
  world.etcd.put(key, garbled);
  world.later('the garbled record is what it was', seconds, ({ etcd }) => {
    // Whoever wrote it meanwhile has said what it says now.
    if (garbled.equals(etcd.read(key)?.value ?? Buffer.alloc(0))) {
      etcd.put(key, value);
    }
  });
}

/** For so many seconds nobody finds a cell's records: what says where they are cannot be read. */
export function hideCell(world: World, cell: string, seconds: number): void {
  const key = cellKey(world.multigres.state.config, cell);
  const value = world.etcd.read(key)?.value;
  const hidden = Buffer.from(garbledValue, 'base64');
  if (value !== undefined && !hidden.equals(value)) {
    world.etcd.put(key, hidden);
    world.later(`the cell ${cell} is found again`, seconds, (at) => at.etcd.put(key, value));
  }
}
