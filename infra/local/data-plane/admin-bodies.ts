import { fromBinary } from '@bufbuild/protobuf';
import { type Timestamp, timestampDate } from '@bufbuild/protobuf/wkt';
import { decodePooler } from '#shared/topology/pooler-record.ts';
import {
  type BackupLocation,
  CellSchema,
  type Database,
  DatabaseSchema,
  LegacyMultipoolerSchema,
  type Multipooler,
  MultipoolerSchema,
  PoolerLifecycleStatus,
  PoolerServingStatus,
  PoolerType,
  QuorumType,
  RoutingRole,
} from '#shared/topology/proto/clustermetadata_pb.ts';
import { type PoolerId, type ShardKey, isSamePooler } from '#shared/topology/topology.ts';
import { currentLeader } from './poolers.ts';
import { policyDescription, policyName, poolerDir, poolerPorts } from './records.ts';
import {
  type BackupJob,
  type Cell,
  type DataPlaneConfig,
  type DataPlaneState,
  type Member,
  type Rule,
  type ShardRule,
  type StoredBackup,
  isReachable,
  membersOf,
} from './state.ts';

/*
 * What multiadmin answers, as proto3 JSON writes it: int64 as strings, and no field that is zero, empty or false.
 */

type Json = { readonly [name: string]: unknown };

/** Leaves out what proto3 JSON leaves out. */
function sparse(fields: Json): Json {
  return Object.fromEntries(
    Object.entries(fields).filter(
      ([, value]) =>
        value !== undefined &&
        value !== null &&
        value !== '' &&
        value !== 0 &&
        value !== false &&
        !(Array.isArray(value) && value.length === 0),
    ),
  );
}

function int64(value: number | bigint): string | undefined {
  return BigInt(value) === 0n ? undefined : String(value);
}

function idOf(component: 'MULTIPOOLER' | 'MULTIORCH' | 'MULTIGATEWAY', { cell, name }: PoolerId) {
  return { component, cell, name };
}

function instant(atMs: number): string {
  return new Date(atMs).toISOString();
}

export function cellBody(value: Uint8Array): Json {
  const { name, serverAddresses, root } = fromBinary(CellSchema, value);
  return { cell: sparse({ name, serverAddresses, root }) };
}

export function databaseBody(value: Uint8Array): Json {
  const database = fromBinary(DatabaseSchema, value);
  const policy = database.bootstrapDurabilityPolicy;
  return {
    database: sparse({
      name: database.name,
      backupLocation: locationBody(database),
      cells: database.cells,
      bootstrapDurabilityPolicy:
        policy &&
        sparse({
          policyName: policy.policyName,
          policyVersion: int64(policy.policyVersion),
          quorumType: nameOf(quorumNames, policy.quorumType),
          requiredCount: policy.requiredCount,
          description: policy.description,
        }),
    }),
  };
}

const quorumNames = {
  [QuorumType.UNKNOWN]: undefined,
  [QuorumType.AT_LEAST_N]: 'QUORUM_TYPE_AT_LEAST_N',
  [QuorumType.MULTI_CELL_AT_LEAST_N]: 'QUORUM_TYPE_MULTI_CELL_AT_LEAST_N',
} as const;

function locationBody({ backupLocation }: Database): Json | undefined {
  if (backupLocation === undefined) {
    return undefined;
  }
  const { location, requireInitialRepoEncryption, authoritativeGeneration } = backupLocation;
  return sparse({
    ...repositoryBody(location),
    requireInitialRepoEncryption,
    authoritativeGeneration: int64(authoritativeGeneration),
  });
}

function repositoryBody(location: BackupLocation['location']): Json {
  switch (location.case) {
    case 'filesystem':
      return { filesystem: sparse({ path: location.value.path }) };
    case 's3': {
      const { bucket, region, endpoint, keyPrefix, useEnvCredentials } = location.value;
      return { s3: sparse({ bucket, region, endpoint, keyPrefix, useEnvCredentials }) };
    }
    case undefined:
    default:
      return {};
  }
}

export function gatewaysBody(cells: readonly Cell[]): Json {
  return sparse({
    gateways: cells.map(({ name, gateway, pidPrefix }) => ({
      id: idOf('MULTIGATEWAY', { cell: name, name: gateway }),
      hostname: `multigateway-${name}`,
      portMap: { grpc: 15_170, http: 15_100, postgres: 5_432 },
      pidPrefix,
    })),
  });
}

export function orchsBody(cells: readonly Cell[]): Json {
  return sparse({
    orchs: cells.map(({ name, orch }) => ({
      id: idOf('MULTIORCH', { cell: name, name: orch }),
      hostname: `multiorch-${name}`,
      portMap: { grpc: 15_370, http: 15_300 },
    })),
  });
}

const typeNames = {
  [PoolerType.UNKNOWN]: undefined,
  [PoolerType.PRIMARY]: 'PRIMARY',
  [PoolerType.REPLICA]: 'REPLICA',
  [PoolerType.DRAINED]: 'DRAINED',
} as const;

const servingNames = {
  [PoolerServingStatus.SERVING]: undefined,
  [PoolerServingStatus.DISABLED]: 'DISABLED',
  [PoolerServingStatus.DRAINING]: 'DRAINING',
} as const;

const lifecycleNames = {
  [PoolerLifecycleStatus.UNKNOWN]: undefined,
  [PoolerLifecycleStatus.STARTING]: 'LIFECYCLE_STARTING',
  [PoolerLifecycleStatus.ACTIVE]: 'LIFECYCLE_ACTIVE',
  [PoolerLifecycleStatus.STOPPING]: 'LIFECYCLE_STOPPING',
  [PoolerLifecycleStatus.SHUTDOWN]: 'LIFECYCLE_SHUTDOWN',
  [PoolerLifecycleStatus.QUARANTINED]: 'LIFECYCLE_QUARANTINED',
} as const;

const roleNames = {
  [RoutingRole.UNKNOWN]: undefined,
  [RoutingRole.PRIMARY]: 'ROUTING_ROLE_PRIMARY',
  [RoutingRole.REPLICA]: 'ROUTING_ROLE_REPLICA',
} as const;

/** proto3 JSON writes the number of a value it has no name for. */
function nameOf(names: Readonly<Record<number, string | undefined>>, value: number) {
  return value in names ? names[value] : value;
}

/** A pooler's record, of either generation. Throws where it is none. */
export function poolerBody(value: Uint8Array): Json {
  const decoded = decodePooler(value);
  if (decoded.kind === 'undecodable') {
    throw new Error(decoded.why);
  }
  if (decoded.record.generation === 'legacy') {
    const message = fromBinary(LegacyMultipoolerSchema, value);
    const { database, tableGroup, shard } = message;
    return sparse({ ...sharedPoolerFields(message), database, tableGroup, shard });
  }
  const message = fromBinary(MultipoolerSchema, value);
  const { shardKey, pgDataDir } = message;
  return sparse({
    ...sharedPoolerFields(message),
    shardKey: shardKey && {
      database: shardKey.database,
      tableGroup: shardKey.tableGroup,
      shard: shardKey.shard,
    },
    pgDataDir,
    lifecycleStatus: lifecycleBody(message),
    routingState: routingBody(message),
  });
}

function sharedPoolerFields(
  message: Pick<
    Multipooler,
    'id' | 'type' | 'servingStatus' | 'hostname' | 'portMap' | 'poolerDir'
  >,
): Json {
  const { id, hostname, portMap, poolerDir } = message;
  return {
    id: id && idOf('MULTIPOOLER', id),
    type: nameOf(typeNames, message.type),
    servingStatus: nameOf(servingNames, message.servingStatus),
    hostname,
    portMap: Object.fromEntries(Object.entries(portMap).toSorted(([a], [b]) => (a < b ? -1 : 1))),
    poolerDir,
  };
}

function lifecycleBody({ lifecycleStatus }: Multipooler): Json | undefined {
  return (
    lifecycleStatus &&
    sparse({
      status: nameOf(lifecycleNames, lifecycleStatus.status),
      reason: lifecycleStatus.reason,
      updated: timestampText(lifecycleStatus.updated),
    })
  );
}

function timestampText(timestamp: Timestamp | undefined): string | undefined {
  return timestamp && timestampDate(timestamp).toISOString();
}

function routingBody({ routingState }: Multipooler): Json | undefined {
  return (
    routingState &&
    sparse({
      role: nameOf(roleNames, routingState.role),
      rule:
        routingState.rule &&
        sparse({
          coordinatorTerm: int64(routingState.rule.coordinatorTerm),
          leaderSubterm: int64(routingState.rule.leaderSubterm),
        }),
    })
  );
}

/** What a pooler says of itself. One without PostgreSQL knows its own name and little else. */
export function statusBody(state: DataPlaneState, member: Member): Json {
  const volume = state.volumes[member.pod.volume];
  const id = idOf('MULTIPOOLER', member.id);
  if (!member.isPostgresUp || volume === undefined) {
    return {
      status: sparse({
        isInitialized: volume !== undefined,
        hasDataDirectory: volume !== undefined,
        postgresStatus: 'POSTGRES_STATUS_STARTING',
        shardId: state.config.shard.shard,
      }),
      consensusStatus: { id },
    };
  }
  const isPrimary = member.role === 'primary';
  const lsn = lsnText(volume.lsn);
  const proposal = isPrimary ? proposalOf(state, member) : null;
  return {
    status: sparse({
      poolerType: isPrimary ? 'PRIMARY' : 'REPLICA',
      ...(isPrimary
        ? { primaryStatus: primaryBody(state, member, volume.decision, lsn) }
        : { replicationStatus: replicationBody(state, member, lsn) }),
      isInitialized: true,
      hasDataDirectory: true,
      postgresRunning: true,
      postgresStatus: isPrimary ? 'POSTGRES_STATUS_PRIMARY' : 'POSTGRES_STATUS_STANDBY',
      walPosition: lsn,
      shardId: state.config.shard.shard,
      postgresReady: true,
    }),
    consensusStatus: sparse({
      termRevocation: revocationBody(volume.decision),
      currentPosition: {
        position: sparse({
          decision: ruleBody(state.config, volume.decision),
          proposal: proposal === null ? undefined : ruleBody(state.config, proposal),
        }),
        lsn,
      },
      replicationPrimary: replicationPrimaryBody(state, member, volume.decision),
      id,
    }),
  };
}

/** What a leader proposed is written on its own volume: it shows it also where nobody else reaches it any more. */
function proposalOf({ consensus: { proposal } }: DataPlaneState, { id }: Member): ShardRule | null {
  const leader = proposal?.leader ?? null;
  return leader !== null && isSamePooler(leader, id) ? proposal : null;
}

function lsnText(lsn: number): string {
  const high = Math.floor(lsn / 2 ** 32);
  return `${high.toString(16)}/${(lsn % 2 ** 32).toString(16)}`.toUpperCase();
}

function primaryBody(
  state: DataPlaneState,
  member: Member,
  { cohort }: ShardRule,
  lsn: string,
): Json {
  const followers = membersOf(state).filter(
    (other) => other !== member && other.isStreaming && isReachable(state, member),
  );
  return sparse({
    lsn,
    ready: true,
    connectedFollowers: followers.map(({ id }) => idOf('MULTIPOOLER', id)),
    syncReplicationConfig: sparse({
      synchronousCommit: 'SYNCHRONOUS_COMMIT_ON',
      synchronousMethod: 'SYNCHRONOUS_METHOD_ANY',
      numSync: state.config.requiredCount - 1,
      standbyIds: cohort.map((id) => idOf('MULTIPOOLER', id)),
      standbyApplicationNames: cohort.map(applicationName),
    }),
    maxWalSenders: 25,
  });
}

/** The name a standby gives itself in PostgreSQL; at most 63 bytes, which is why pooler names are short. */
function applicationName({ cell, name }: PoolerId): string {
  return `${cell}_${name}`;
}

function replicationBody(state: DataPlaneState, member: Member, lsn: string): Json {
  const now = instant(state.nowMs);
  const leader = currentLeader(state);
  const passfile = `${poolerDir(member.id)}/pgbackrest/pgbackrest.pgpass`;
  const host = leader?.pod.hostname ?? '';
  const port = poolerPorts.postgres;
  const name = applicationName(member.id);
  return sparse({
    lastReplayLsn: lsn,
    lastReceiveLsn: lsn,
    walReplayPauseState: 'not paused',
    lastXactReplayTimestamp: now.replace('T', ' ').replace('Z', '+00'),
    ...(member.isStreaming
      ? {
          primaryConnInfo: {
            host,
            port,
            user: 'postgres',
            applicationName: name,
            raw: `host=${host} port=${port} user=postgres application_name=${name} dbname=postgres passfile=${passfile}`,
            passfile,
            dbname: 'postgres',
          },
          walReceiverStatus: 'streaming',
          lastMsgReceiveTime: now,
        }
      : {}),
    walReceiverStatusInterval: '10s',
    lastReceiveLsnAdvanceTime: now,
  });
}

function ruleNumberBody({ term, subterm }: Rule): Json {
  return sparse({ coordinatorTerm: int64(term), leaderSubterm: int64(subterm) });
}

function ruleBody(config: DataPlaneConfig, rule: ShardRule, isDescribed = false): Json {
  return sparse({
    ruleNumber: ruleNumberBody(rule.rule),
    leaderId: idOf('MULTIPOOLER', rule.leader),
    cohortMembers: rule.cohort.map((id) => idOf('MULTIPOOLER', id)),
    durabilityPolicy: {
      policyName: policyName(config),
      quorumType: 'QUORUM_TYPE_AT_LEAST_N',
      requiredCount: config.requiredCount,
      ...(isDescribed ? { description: policyDescription(config) } : {}),
    },
    coordinatorId: idOf('MULTIORCH', rule.coordinator),
    creationTime: instant(rule.createdAtMs),
  });
}

function revocationBody({ rule, revocation }: ShardRule): Json {
  return {
    revokedBelowTerm: String(rule.term),
    acceptedCoordinatorId: idOf('MULTIORCH', revocation.by),
    coordinatorInitiatedAt: instant(revocation.atMs),
    outgoingRule: ruleNumberBody(revocation.outgoing),
  };
}

/** Whom it replicates from; the leader names itself, and has its rule from the coordinator, description included. */
function replicationPrimaryBody(
  state: DataPlaneState,
  member: Member,
  decision: ShardRule,
): Json | undefined {
  const isLeader = member.role === 'primary';
  const leader = membersOf(state).find(({ id }) => isSamePooler(id, decision.leader));
  if (!isLeader && (!member.isStreaming || leader === undefined)) {
    return undefined;
  }
  return {
    position: { decision: ruleBody(state.config, decision, isLeader) },
    primary: {
      id: idOf('MULTIPOOLER', decision.leader),
      host: (leader ?? member).pod.hostname,
      postgresPort: poolerPorts.postgres,
    },
    rewindReady: true,
  };
}

/** Made up: an empty database has about that size, and nothing is kept of it. */
const backupBytes = { full: 39_626_082, diff: 8_262_114, incr: 2_097_408 } as const;

const pgVersion = '17.11';

export function backupsBody(shard: ShardKey, backups: readonly StoredBackup[]): Json {
  return sparse({
    backups: backups.map((backup) => ({
      backupId: backup.id,
      ...shard,
      type: backup.type,
      status: 'BACKUP_STATUS_COMPLETE',
      backupSizeBytes: String(backupBytes[backup.type]),
      multipoolerServiceId: backup.pooler.name,
      routingRole: backup.role === 'primary' ? 'ROUTING_ROLE_PRIMARY' : 'ROUTING_ROLE_REPLICA',
      startLsn: lsnText(backup.startLsn),
      stopLsn: lsnText(backup.stopLsn),
      pgVersion,
      startTimestamp: secondOf(backup.startedAtMs),
      stopTimestamp: secondOf(backup.stoppedAtMs),
      jobId: backup.jobId,
    })),
  });
}

function secondOf(atMs: number): string {
  return instant(atMs).replace(/\.\d+/, '');
}

const jobStatus = {
  pending: 'JOB_STATUS_PENDING',
  running: 'JOB_STATUS_RUNNING',
  completed: 'JOB_STATUS_COMPLETED',
  failed: 'JOB_STATUS_FAILED',
} as const;

export function jobBody({
  jobId,
  status,
  shard,
  error,
  backupId,
}: Pick<BackupJob, 'jobId' | 'status' | 'shard' | 'error' | 'backupId'>): Json {
  return sparse({
    jobId,
    jobType: 'JOB_TYPE_BACKUP',
    status: jobStatus[status],
    errorMessage: error,
    ...shard,
    backupId,
  });
}
