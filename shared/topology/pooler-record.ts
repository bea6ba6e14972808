import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { BinaryReader, WireType } from '@bufbuild/protobuf/wire';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import type { Instant } from '#shared/kernel/instant.ts';
import {
  ComponentType,
  type ID,
  LegacyMultipoolerSchema,
  type LegacyMultipooler,
  type Multipooler,
  MultipoolerSchema,
  PoolerLifecycleSchema,
  PoolerLifecycleStatus,
  PoolerServingStatus,
  PoolerType,
  RoutingRole,
  ShardKeySchema,
} from './proto/clustermetadata_pb.ts';
import type {
  Lifecycle,
  PoolerId,
  PoolerRecord,
  RoutingRole as Role,
  RuleNumber,
  Serving,
} from './topology.ts';

/** What the bytes of a record say, without where they were found. */
type PoolerRecordContent = Omit<PoolerRecord, 'key' | 'storeCell' | 'modRevision'>;

export type DecodedPooler =
  | { readonly kind: 'decoded'; readonly record: PoolerRecordContent }
  | { readonly kind: 'undecodable'; readonly why: string };

/** A record rewritten to what a graceful stop leaves, or the reason why it cannot be. */
export type RetiredPooler =
  | { readonly kind: 'retired'; readonly value: Uint8Array }
  /** It says so already: there is nothing to write. */
  | { readonly kind: 'unchanged' }
  | { readonly kind: 'undecodable'; readonly why: string };

type Parsed =
  | { readonly generation: 'current'; readonly message: Multipooler }
  | { readonly generation: 'legacy'; readonly message: LegacyMultipooler };

class UndecodableRecord extends Error {}

/** Written into the lifecycle of a record that Millrace retires, where the pooler itself would write its own words. */
const retiredReason = 'retired: its pod is gone';

/**
 * Decodes a pooler's record, of either generation.
 *
 * A value that this version does not know becomes `unknown`, never one of the known ones. Never throws.
 */
export function decodePooler(value: Uint8Array): DecodedPooler {
  try {
    const parsed = parse(value);
    return {
      kind: 'decoded',
      record: parsed.generation === 'current' ? current(parsed.message) : legacy(parsed.message),
    };
  } catch (error) {
    return { kind: 'undecodable', why: reasonOf(error) };
  }
}

/**
 * Rewrites a record to what the pooler's own graceful stop leaves in its generation.
 *
 * Current: lifecycle SHUTDOWN, serving DISABLED, no routing state, no type. Legacy: not serving, and nothing else, since
 * that generation kept its type and knew no lifecycle. All other fields are kept, also those this version does not know.
 * Never throws.
 */
export function retirePooler(value: Uint8Array, now: Instant): RetiredPooler {
  try {
    const parsed = parse(value);
    return parsed.generation === 'current'
      ? retireCurrent(parsed.message, now)
      : retireLegacy(parsed.message);
  } catch (error) {
    return { kind: 'undecodable', why: reasonOf(error) };
  }
}

function retireCurrent(message: Multipooler, now: Instant): RetiredPooler {
  if (
    message.lifecycleStatus?.status === PoolerLifecycleStatus.SHUTDOWN &&
    message.servingStatus === PoolerServingStatus.DISABLED &&
    message.routingState === undefined
  ) {
    return { kind: 'unchanged' };
  }
  const lifecycle = message.lifecycleStatus ?? create(PoolerLifecycleSchema);
  lifecycle.status = PoolerLifecycleStatus.SHUTDOWN;
  lifecycle.reason = retiredReason;
  lifecycle.updated = timestampFromMs(now);
  message.lifecycleStatus = lifecycle;
  message.servingStatus = PoolerServingStatus.DISABLED;
  message.type = PoolerType.UNKNOWN;
  delete message.routingState;
  return { kind: 'retired', value: toBinary(MultipoolerSchema, message) };
}

function retireLegacy(message: LegacyMultipooler): RetiredPooler {
  if (message.servingStatus === PoolerServingStatus.DISABLED) {
    return { kind: 'unchanged' };
  }
  message.servingStatus = PoolerServingStatus.DISABLED;
  return { kind: 'retired', value: toBinary(LegacyMultipoolerSchema, message) };
}

function current(message: Multipooler): PoolerRecordContent {
  const { shardKey, routingState } = message;
  if (shardKey === undefined) {
    throw new UndecodableRecord('it names no shard');
  }
  return {
    id: poolerId(message.id),
    shard: {
      database: shardKey.database,
      tableGroup: shardKey.tableGroup,
      shard: shardKey.shard,
    },
    hostname: message.hostname,
    lifecycle: currentLifecycleOf(message),
    serving: servingOf(message.servingStatus),
    role: routingState === undefined ? 'none' : roleOf(routingState.role),
    rule: ruleOf(routingState?.rule),
    generation: 'current',
  };
}

function legacy(message: LegacyMultipooler): PoolerRecordContent {
  return {
    id: poolerId(message.id),
    shard: {
      database: message.database,
      tableGroup: message.tableGroup,
      shard: message.shard,
    },
    hostname: message.hostname,
    // That generation wrote no lifecycle: "not serving" is how it starts as well as how it ends.
    lifecycle: 'unknown',
    serving: legacyServingOf(message.servingStatus),
    role: legacyRoleOf(message.type),
    rule: null,
    generation: 'legacy',
  };
}

function poolerId(id: ID | undefined): PoolerId {
  if (id?.component !== ComponentType.MULTIPOOLER || id.cell === '' || id.name === '') {
    throw new UndecodableRecord('its id is not that of a pooler');
  }
  return { cell: id.cell, name: id.name };
}

/** Before there were life cycles, a pooler that was put aside had the type DRAINED. */
function currentLifecycleOf({ lifecycleStatus, type }: Multipooler): Lifecycle {
  const lifecycle = lifecycleOf(lifecycleStatus?.status);
  return lifecycle === 'unknown' && type === PoolerType.DRAINED ? 'quarantined' : lifecycle;
}

function lifecycleOf(status: PoolerLifecycleStatus | undefined): Lifecycle {
  switch (status) {
    case PoolerLifecycleStatus.STARTING:
      return 'starting';
    case PoolerLifecycleStatus.ACTIVE:
      return 'active';
    case PoolerLifecycleStatus.STOPPING:
      return 'stopping';
    case PoolerLifecycleStatus.SHUTDOWN:
      return 'shutdown';
    case PoolerLifecycleStatus.QUARANTINED:
      return 'quarantined';
    case PoolerLifecycleStatus.UNKNOWN:
    case undefined:
    default:
      return 'unknown';
  }
}

function servingOf(status: PoolerServingStatus): Serving {
  switch (status) {
    case PoolerServingStatus.SERVING:
      return 'serving';
    case PoolerServingStatus.DISABLED:
      return 'disabled';
    case PoolerServingStatus.DRAINING:
      return 'draining';
    default:
      return 'unknown';
  }
}

/** The older generation gave 4 another meaning before it became draining, so only the first two can be told. */
function legacyServingOf(status: PoolerServingStatus): Serving {
  const serving = servingOf(status);
  return serving === 'draining' ? 'unknown' : serving;
}

function roleOf(role: RoutingRole): Role {
  switch (role) {
    case RoutingRole.PRIMARY:
      return 'primary';
    case RoutingRole.REPLICA:
      return 'replica';
    case RoutingRole.UNKNOWN:
    default:
      return 'unknown';
  }
}

function legacyRoleOf(type: PoolerType): Role {
  switch (type) {
    case PoolerType.PRIMARY:
      return 'primary';
    case PoolerType.REPLICA:
      return 'replica';
    case PoolerType.DRAINED:
      return 'none';
    case PoolerType.UNKNOWN:
    default:
      return 'unknown';
  }
}

function ruleOf(
  rule: { coordinatorTerm: bigint; leaderSubterm: bigint } | undefined,
): RuleNumber | null {
  return rule === undefined
    ? null
    : { term: String(rule.coordinatorTerm), subterm: String(rule.leaderSubterm) };
}

/**
 * Tells the generation by what is in fields 2 to 4, then decodes by it.
 *
 * The current one holds a shard key message in 2 and nothing in 3 and 4; the older one holds three strings. A string can
 * never pass for a shard key that has all its parts: those begin with a line feed and a length. What fits neither, or
 * holds one of these fields twice, is refused, because a merge of two records would be neither.
 */
function parse(value: Uint8Array): Parsed {
  const fields = identityFields(value);
  const isLegacy = fields.has(3) || fields.has(4);
  if (isLegacy) {
    if (!fields.has(2) || isShardKey(fields.get(2))) {
      throw new UndecodableRecord('its shard fits no record generation');
    }
    const message = fromBinary(LegacyMultipoolerSchema, value);
    if (message.database === '' || message.tableGroup === '' || message.shard === '') {
      throw new UndecodableRecord('it names no shard');
    }
    return { generation: 'legacy', message };
  }
  if (!isShardKey(fields.get(2))) {
    throw new UndecodableRecord('its shard fits no record generation');
  }
  return { generation: 'current', message: fromBinary(MultipoolerSchema, value) };
}

/** The length-delimited contents of the top-level fields 1 to 4. */
function identityFields(value: Uint8Array): Map<number, Uint8Array> {
  const fields = new Map<number, Uint8Array>();
  const reader = new BinaryReader(value);
  while (reader.pos < reader.len) {
    const [field, wireType] = reader.tag();
    if (field > 4) {
      reader.skip(wireType, field);
      continue;
    }
    if (wireType !== WireType.LengthDelimited || fields.has(field)) {
      throw new UndecodableRecord(`its field ${field} is not what a pooler writes`);
    }
    fields.set(field, reader.bytes());
  }
  if (reader.pos !== reader.len) {
    throw new UndecodableRecord('it ends in the middle of a field');
  }
  return fields;
}

function isShardKey(bytes: Uint8Array | undefined): boolean {
  if (bytes === undefined) {
    return false;
  }
  try {
    const key = fromBinary(ShardKeySchema, bytes);
    return key.database !== '' && key.tableGroup !== '' && key.shard !== '';
  } catch {
    return false;
  }
}

/** The codec's own messages may quote the record, so only ours are repeated. */
function reasonOf(error: unknown): string {
  return error instanceof UndecodableRecord ? error.message : 'it is not a valid record';
}
