import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { type DecodedPooler, decodePooler } from '#shared/topology/pooler-record.ts';
import {
  CellSchema,
  ComponentType,
  DatabaseSchema,
  LegacyMultipoolerSchema,
  MultipoolerSchema,
  PoolerLifecycleStatus,
  PoolerServingStatus,
  PoolerType,
  QuorumType,
  RoutingRole,
  ShardInitClaimSchema,
} from '#shared/topology/proto/clustermetadata_pb.ts';
import { type PoolerId, isSamePooler } from '#shared/topology/topology.ts';
import { remembering } from './remembering.ts';
import type { DataPlaneConfig, DataPlaneState, Member } from './state.ts';

/** The ports a pooler's pod listens on: Multigres' defaults. */
export const poolerPorts = { grpc: 15_270, http: 15_200, pgbackrest: 8_432, postgres: 5_432 };

/** Where the local run says its backups are. Nothing is kept there. */
const backupPath = '/backups';

export function cellRoot(config: DataPlaneConfig, cell: string): string {
  return config.cellRoot.replaceAll('{cell}', cell);
}

export function poolerKey(config: DataPlaneConfig, { cell, name }: PoolerId): string {
  return `${cellRoot(config, cell)}/poolers/multipooler-${cell}-${name}/Pooler`;
}

export function cellKey(config: DataPlaneConfig, cell: string): string {
  return `${config.globalRoot}/cells/${cell}/Cell`;
}

export function databaseKey(config: DataPlaneConfig): string {
  return `${config.globalRoot}/databases/${config.shard.database}/Database`;
}

export function claimKey({ globalRoot, shard }: DataPlaneConfig): string {
  return `${globalRoot}/databases/${shard.database}/${shard.tableGroup}/${shard.shard}/ShardInitClaim`;
}

/** Whose backup runs: one key, there as long as somebody holds the lease. */
export function backupLeaseKey({ globalRoot, shard }: DataPlaneConfig): string {
  return `${globalRoot}/backups/${shard.database}/${shard.tableGroup}/${shard.shard}/lock`;
}

/** Everything of ours in etcd begins with one of these, and none of them with another. */
export function topologyPrefixes({ config, cells }: DataPlaneState): string[] {
  const poolers = cells.map(({ name }) => `${cellRoot(config, name)}/poolers/`);
  const all = [...new Set([`${config.globalRoot}/`, ...poolers])];
  return all.filter((prefix) => !all.some((other) => other !== prefix && prefix.startsWith(other)));
}

const lifecycleStatus = {
  starting: PoolerLifecycleStatus.STARTING,
  active: PoolerLifecycleStatus.ACTIVE,
  stopping: PoolerLifecycleStatus.STOPPING,
  shutdown: PoolerLifecycleStatus.SHUTDOWN,
} as const;

const servingStatus = {
  serving: PoolerServingStatus.SERVING,
  disabled: PoolerServingStatus.DISABLED,
  draining: PoolerServingStatus.DRAINING,
} as const;

const poolerType = {
  none: PoolerType.UNKNOWN,
  primary: PoolerType.PRIMARY,
  replica: PoolerType.REPLICA,
} as const;

export function poolerDir({ name }: PoolerId): string {
  return `/data/pooler_${name}`;
}

/** The record a pooler writes of itself, in its generation. The same bytes for the same state. */
export function encodePooler(config: DataPlaneConfig, member: Member): Uint8Array {
  const id = idMessage(ComponentType.MULTIPOOLER, member.id);
  const shared = {
    id,
    type: poolerType[member.role],
    servingStatus: servingStatus[member.serving],
    hostname: member.pod.hostname,
    portMap: poolerPorts,
    poolerDir: poolerDir(member.id),
  };
  if (config.legacyPods.includes(member.pod.name)) {
    return toBinary(
      LegacyMultipoolerSchema,
      create(LegacyMultipoolerSchema, { ...shared, ...config.shard }),
    );
  }
  const message = create(MultipoolerSchema, {
    ...shared,
    shardKey: config.shard,
    pgDataDir: `${poolerDir(member.id)}/pg_data`,
    lifecycleStatus: {
      status: lifecycleStatus[member.lifecycle],
      reason: `pooler ${member.lifecycle}`,
      updated: timestampFromMs(member.lifecycleSinceMs),
    },
    ...(member.role === 'none' ? {} : { routingState: routingState(member) }),
  });
  return toBinary(MultipoolerSchema, message);
}

function routingState({ role, roleRule }: Member) {
  if (role !== 'primary') {
    return { role: RoutingRole.REPLICA };
  }
  return {
    role: RoutingRole.PRIMARY,
    rule: {
      coordinatorTerm: BigInt(roleRule?.term ?? 0),
      leaderSubterm: BigInt(roleRule?.subterm ?? 0),
    },
  };
}

function idMessage(component: ComponentType, { cell, name }: PoolerId) {
  return { component, cell, name };
}

export function encodeCell(config: DataPlaneConfig, cell: string): Uint8Array {
  const message = create(CellSchema, {
    name: cell,
    serverAddresses: [config.serverAddress, ...(config.otherServerAddresses ?? [])],
    root: cellRoot(config, cell),
  });
  return toBinary(CellSchema, message);
}

export function encodeClaim(claimer: PoolerId, cohort: readonly PoolerId[]): Uint8Array {
  const message = create(ShardInitClaimSchema, {
    claimerId: idMessage(ComponentType.MULTIORCH, claimer),
    cohortMembers: cohort.map((id) => idMessage(ComponentType.MULTIPOOLER, id)),
  });
  return toBinary(ShardInitClaimSchema, message);
}

export function decodeClaim(value: Uint8Array): PoolerId[] {
  return fromBinary(ShardInitClaimSchema, value).cohortMembers.map(({ cell, name }) => ({
    cell,
    name,
  }));
}

export function policyName({ requiredCount }: DataPlaneConfig): string {
  return `AT_LEAST_${requiredCount}`;
}

export function policyDescription({ requiredCount }: DataPlaneConfig): string {
  return `At least ${requiredCount} nodes must acknowledge`;
}

export function encodeDatabase(config: DataPlaneConfig, cells: readonly string[]): Uint8Array {
  const message = create(DatabaseSchema, {
    name: config.shard.database,
    backupLocation: { location: { case: 'filesystem', value: { path: backupPath } } },
    cells: [...cells],
    bootstrapDurabilityPolicy: {
      policyName: policyName(config),
      quorumType: QuorumType.AT_LEAST_N,
      requiredCount: config.requiredCount,
      description: policyDescription(config),
    },
  });
  return toBinary(DatabaseSchema, message);
}

/**
 * The record with these cells too, all else kept; `undefined` where nothing is missing or it is no record.
 *
 * @param value base64, and so is what is returned
 */
export function addCells(value: string, cells: readonly string[]): string | undefined {
  const listed = cellsOfDatabase(value);
  if (listed === null || cells.every((cell) => listed.includes(cell))) {
    return undefined;
  }
  const message = fromBinary(DatabaseSchema, fromBase64(value));
  message.cells.push(...cells.filter((cell) => !listed.includes(cell)));
  return toBase64(toBinary(DatabaseSchema, message));
}

/** `null` where it is no record. */
const cellsOfDatabase = remembering((value): readonly string[] | null => {
  try {
    return fromBinary(DatabaseSchema, fromBase64(value)).cells;
  } catch {
    return null;
  }
});

export function fromBase64(text: string): Uint8Array {
  return Buffer.from(text, 'base64');
}

export function toBase64(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('base64');
}

/** A pooler's record from its base64. */
export const poolerRecord: (value: string) => DecodedPooler = remembering((value) =>
  decodePooler(fromBase64(value)),
);

/** What multiorch and multiadmin make of the record of a pooler. */
export type RecordView =
  | { readonly kind: 'absent' }
  | { readonly kind: 'undecodable' }
  | { readonly kind: 'shutdown' }
  | { readonly kind: 'live'; readonly isPrimary: boolean };

export function recordOf(state: DataPlaneState, id: PoolerId): RecordView {
  const key = poolerKey(state.config, id);
  const entry = state.topology?.find((candidate) => candidate.key === key);
  if (entry === undefined) {
    return { kind: 'absent' };
  }
  const decoded = poolerRecord(entry.value);
  if (decoded.kind === 'undecodable') {
    return { kind: 'undecodable' };
  }
  const { record } = decoded;
  // The older generation has no lifecycle: out of service, and nobody there, is the most it says about an end.
  const isGone =
    record.generation === 'legacy' &&
    record.serving === 'disabled' &&
    !Object.values(state.members).some(
      (member) => isSamePooler(member.id, id) && member.process === 'running',
    );
  if (record.lifecycle === 'shutdown' || isGone) {
    return { kind: 'shutdown' };
  }
  return { kind: 'live', isPrimary: record.role === 'primary' };
}
