import type { RepositoryPlace } from '#shared/api/repository.ts';
import type { Read } from '#shared/kernel/read.ts';
import type { WriteResult } from '#shared/kube/kube.ts';

/** Names a shard in the data plane (not its Kubernetes object). */
export interface ShardKey {
  readonly database: string;
  readonly tableGroup: string;
  readonly shard: string;
}

export interface PoolerId {
  readonly cell: string;
  readonly name: string;
}

/** A consensus rule's number. Both parts are int64, so they are decimal strings here: snapshots are plain JSON. */
export interface RuleNumber {
  readonly term: string;
  readonly subterm: string;
}

/** `unknown` stands for every value this version does not know: never treated as any of the others. */
export type Lifecycle = 'starting' | 'active' | 'stopping' | 'shutdown' | 'quarantined' | 'unknown';
export type Serving = 'serving' | 'disabled' | 'draining' | 'unknown';
export type RoutingRole = 'primary' | 'replica' | 'none' | 'unknown';

/** One pooler's record as it stands in etcd. */
export interface PoolerRecord {
  /** The full etcd key. */
  readonly key: string;
  /** The cell whose store holds the record. */
  readonly storeCell: string;
  /** etcd's mod revision, the token of a compare-and-swap; a decimal string (int64). */
  readonly modRevision: string;
  readonly id: PoolerId;
  readonly shard: ShardKey;
  readonly hostname: string;
  readonly lifecycle: Lifecycle;
  readonly serving: Serving;
  readonly role: RoutingRole;
  /** The rule under which `role` was taken; only a primary's record names one. */
  readonly rule: RuleNumber | null;
  /** Which record generation the bytes are of. */
  readonly generation: 'current' | 'legacy';
}

export interface PoolerListing {
  /** The decoded records of the shard asked for, over all its cells, in the order of their keys. */
  readonly poolers: readonly PoolerRecord[];
  /** Records that could not be decoded. They may be of any shard, so a destructive decision must not ignore them. */
  readonly undecodable: readonly { readonly key: string; readonly why: string }[];
}

/** What a database's own record in the global store says, as far as Millrace cares. */
export interface DatabaseRecord {
  /** etcd's mod revision, the token of a compare-and-swap; a decimal string (int64). */
  readonly modRevision: string;
  /** Where the data plane keeps backups; `null` where it was not told yet. */
  readonly place: RepositoryPlace | null;
  /** Whether the data plane starts no repository that is not encrypted. */
  readonly mustEncrypt: boolean;
}

/** What is to be written into a database's record; `null` leaves a part as it is. */
export interface DatabaseChange {
  readonly place: RepositoryPlace | null;
  readonly mustEncrypt: boolean | null;
}

export interface TopologyReader {
  /** The shard's pooler records in the given cells; `unknown` as soon as one cell cannot be read completely. */
  poolers(
    shard: ShardKey,
    cells: readonly string[],
    signal?: AbortSignal,
  ): Promise<Read<PoolerListing>>;
  /** The record of the database of this name in the data plane; `absent` where none was registered yet. */
  database(name: string, signal?: AbortSignal): Promise<Read<DatabaseRecord>>;
  /** The lease that a backup of the shard holds while it runs. `absent`: nobody holds it. */
  backupLease(shard: ShardKey, signal?: AbortSignal): Promise<Read<BackupLease>>;
}

/** That the key is there is what counts: whoever wrote it, and whatever it says. */
export interface BackupLease {
  /** What its holder says it does, for people; empty where it cannot be told. */
  readonly holder: string;
}

export interface TopologyWriter {
  /**
   * Rewrites a pooler's record to what its own graceful stop would have left (SHUTDOWN, DISABLED, no routing state),
   * every unknown field kept, only while its mod revision is still the one given.
   */
  retire(
    pooler: { readonly cell: string; readonly key: string },
    modRevision: string,
    signal?: AbortSignal,
  ): Promise<WriteResult>;
  /**
   * Deletes a pooler's record, only while its mod revision is still the one given. One that is gone already counts as
   * written; one that does not say that its pooler has stopped is refused, whatever its revision.
   */
  remove(
    pooler: { readonly cell: string; readonly key: string },
    modRevision: string,
    signal?: AbortSignal,
  ): Promise<WriteResult>;
  /**
   * Writes where backups are kept into a database's record, every other field and every unknown one kept, only while its
   * mod revision is still the one given. It writes also where nothing changes: then only the revision moves, and no
   * write that compares an earlier one succeeds any more.
   */
  rewriteDatabase(
    name: string,
    change: DatabaseChange,
    modRevision: string,
    signal?: AbortSignal,
  ): Promise<WriteResult>;
}

/** Where a topology's connections end. Idempotent. */
export interface Topology extends TopologyReader, TopologyWriter {
  close(): Promise<void>;
}

/** Negative when `a` is the lower rule, 0 when they are the same. */
export function compareRules(a: RuleNumber, b: RuleNumber): number {
  const term = BigInt(a.term) - BigInt(b.term);
  const difference = term === 0n ? BigInt(a.subterm) - BigInt(b.subterm) : term;
  return difference < 0n ? -1 : difference > 0n ? 1 : 0;
}

export function isSamePooler(a: PoolerId, b: PoolerId): boolean {
  return a.cell === b.cell && a.name === b.name;
}

/** What a record says of its pooler. */
type Standing = Pick<PoolerRecord, 'generation' | 'lifecycle' | 'serving' | 'role'>;

/**
 * Whether a record says that its pooler has stopped for good: SHUTDOWN, or NOT_SERVING in the older generation, which
 * knows no life cycle.
 */
export function hasStopped(record: Standing): boolean {
  return record.generation === 'legacy'
    ? record.serving === 'disabled'
    : record.lifecycle === 'shutdown';
}

/** Whether a record says all that a graceful stop leaves: nobody routes to its pooler, and it is in no cohort for long. */
export function isRetired(record: Standing): boolean {
  return (
    hasStopped(record) &&
    record.serving === 'disabled' &&
    (record.generation === 'legacy' || record.role === 'none')
  );
}

/** Whether the data plane has put the pooler aside for a person to look at: QUARANTINED, formerly DRAINED. */
export function isSetAside(record: Standing): boolean {
  return (
    record.lifecycle === 'quarantined' || (record.generation === 'legacy' && record.role === 'none')
  );
}
