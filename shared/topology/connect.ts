import { fromBinary } from '@bufbuild/protobuf';
import pLimit from 'p-limit';
import * as z from 'zod';
import { RetryableError, TerminalError, describeError } from '#shared/kernel/errors.ts';
import { type Clock, wallClock } from '#shared/kernel/instant.ts';
import { type Read, absent, present, unknown } from '#shared/kernel/read.ts';
import type { WriteResult } from '#shared/kube/kube.ts';
import type { TopologyAccess, TopologySpec } from './access.ts';
import {
  EtcdFailure,
  type EtcdStore,
  type RequestLimits,
  type StoredValue,
  readKey,
  readPrefix,
  within,
} from './etcd-store.ts';
import { decodeDatabase, rewriteDatabase } from './database-record.ts';
import { decodePooler, retirePooler } from './pooler-record.ts';
import { CellSchema } from './proto/clustermetadata_pb.ts';
import { type Stores, storesOf } from './stores.ts';
import {
  type BackupLease,
  type DatabaseChange,
  type DatabaseRecord,
  type PoolerListing,
  type PoolerRecord,
  type ShardKey,
  type Topology,
  type TopologyWriter,
  isRetired,
} from './topology.ts';

/** How long one read of the topology may take by default, in milliseconds, over all its requests. */
const defaultTimeoutMs = 5_000;

/** The parts of a write, in milliseconds: together less than the 8 s that the executor reserves for it. */
const writeReadMs = 3_000;
const writeSwapMs = 3_000;
const writeLookMs = 1_500;

/** Cells and their stores that are read at the same time. */
const concurrency = 8;

/** Cells and databases: what may become part of a key. */
const recordName = /^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/;
const rootPath = /^\/?[A-Za-z0-9._-]+(\/[A-Za-z0-9._-]+)*$/;

/** The limits of a part of a write, counted from when it begins. */
type Limit = (timeoutMs: number) => RequestLimits;

/** Where one cell's records are. */
interface CellLocation {
  readonly cell: string;
  readonly store: EtcdStore;
  readonly root: string;
}

/** Why a cell's records cannot be read. The message is for people and names the cell. */
class CellUnreadable extends Error {
  readonly isForbidden: boolean;

  constructor(cell: string, error: unknown) {
    super(`the records of cell ${JSON.stringify(cell)} cannot be read: ${describeError(error)}`, {
      cause: error,
    });
    this.isForbidden = error instanceof EtcdFailure && error.kind === 'forbidden';
  }
}

/**
 * Connects to the topology store that a database names. Nothing is sent before the first read, and nothing is thrown:
 * a wrong address or a missing part is an unknown answer to each read, and a retryable refusal of each write.
 */
export function connectTopology(spec: TopologySpec, access: TopologyAccess): Topology {
  const stores = storesOf(spec, access);
  const globalRoot = spec.globalRoot.replace(/\/+$/, '');
  const timeoutMs = access.requestTimeoutMs ?? defaultTimeoutMs;
  const clock = access.clock ?? wallClock;

  return {
    async poolers(shard, cells, signal) {
      const limits = within(timeoutMs, signal, clock);
      try {
        return present(await listPoolers(stores, globalRoot, shard, cells, limits));
      } catch (error) {
        return unknownOf(error);
      }
    },
    async database(name, signal) {
      const limits = within(timeoutMs, signal, clock);
      try {
        return await readDatabase(await stores.global(), globalRoot, name, limits);
      } catch (error) {
        return unknown(describeError(error));
      }
    },
    async backupLease(shard, signal) {
      try {
        return await readLease(stores, globalRoot, shard, within(timeoutMs, signal, clock));
      } catch (error) {
        return unknown(`the lease of the backups cannot be read: ${describeError(error)}`);
      }
    },
    ...topologyWriter(stores, globalRoot, clock),
    close: () => stores.close(),
  };
}

function topologyWriter(stores: Stores, globalRoot: string, clock: Clock): TopologyWriter {
  async function retire(
    pooler: { readonly cell: string; readonly key: string },
    modRevision: string,
    signal?: AbortSignal,
  ): Promise<WriteResult> {
    const limit: Limit = (timeoutMs) => within(timeoutMs, signal, clock);
    const { store, found } = await readForWrite(stores, globalRoot, pooler, limit);
    if (found?.modRevision !== modRevision) {
      return lostRace(pooler.key, found);
    }
    const next = retirePooler(found.value, clock());
    if (next.kind === 'undecodable') {
      throw new TerminalError('PoolerRecordUndecodable', `${pooler.key}: ${next.why}`);
    }
    return next.kind === 'unchanged'
      ? { kind: 'written', resourceVersion: modRevision }
      : swap(store, { key: pooler.key, value: next.value, modRevision }, limit);
  }

  async function remove(
    pooler: { readonly cell: string; readonly key: string },
    modRevision: string,
    signal?: AbortSignal,
  ): Promise<WriteResult> {
    const limit: Limit = (timeoutMs) => within(timeoutMs, signal, clock);
    const { store, found } = await readForWrite(stores, globalRoot, pooler, limit);
    if (found === undefined) {
      return { kind: 'written', resourceVersion: '' };
    }
    if (found.modRevision !== modRevision) {
      return lostRace(pooler.key, found);
    }
    refuseLive(found);
    return swap(store, { key: pooler.key, value: null, modRevision }, limit);
  }

  async function rewrite(
    name: string,
    change: DatabaseChange,
    modRevision: string,
    signal?: AbortSignal,
  ): Promise<WriteResult> {
    const limit: Limit = (timeoutMs) => within(timeoutMs, signal, clock);
    const { store, key, found } = await readDatabaseForWrite(stores, globalRoot, name, limit);
    if (found === undefined || found.modRevision !== modRevision) {
      return lostRace(key, found);
    }
    const next = rewriteDatabase(found.value, name, change);
    if (next.kind === 'undecodable') {
      throw new TerminalError('DatabaseRecordUndecodable', `${key}: ${next.why}`);
    }
    return swap(store, { key, value: next.value, modRevision }, limit);
  }

  return { retire, remove, rewriteDatabase: rewrite };
}

/** @throws Error where the root or the name could lead to another key */
function databaseKey(globalRoot: string, name: string): string {
  refuseRoot(globalRoot);
  if (!recordName.test(name)) {
    throw new Error('that is no valid name of a database');
  }
  return `${globalRoot}/databases/${name}/Database`;
}

function refuseRoot(globalRoot: string): void {
  if (!rootPath.test(globalRoot)) {
    throw new Error('the global root is not a path of names');
  }
}

async function readDatabase(
  store: EtcdStore,
  globalRoot: string,
  name: string,
  limits: RequestLimits,
): Promise<Read<DatabaseRecord>> {
  const key = databaseKey(globalRoot, name);
  const found = await readKey(store, key, limits);
  if (found === undefined) {
    return absent;
  }
  const decoded = decodeDatabase(found.value, name);
  return decoded.kind === 'decoded'
    ? present({ modRevision: found.modRevision, ...decoded.record })
    : unknown(`the record ${key} cannot be decoded: ${decoded.why}`);
}

async function readDatabaseForWrite(
  stores: Stores,
  globalRoot: string,
  name: string,
  limit: Limit,
): Promise<{ store: EtcdStore; key: string; found: StoredValue | undefined }> {
  try {
    const key = databaseKey(globalRoot, name);
    const store = await stores.global();
    return { store, key, found: await readKey(store, key, limit(writeReadMs)) };
  } catch (error) {
    throw notWritten(error);
  }
}

/** How much of what a lease's holder says is kept, in characters. */
const maxHolderLength = 80;

const leaseSchema = z.object({ Action: z.string() });

async function readLease(
  stores: Stores,
  globalRoot: string,
  { database, tableGroup, shard }: ShardKey,
  limits: RequestLimits,
): Promise<Read<BackupLease>> {
  const names = [database, tableGroup, shard];
  refuseRoot(globalRoot);
  if (!names.every((name) => recordName.test(name))) {
    throw new Error('the shard is not made of valid names');
  }
  const key = `${globalRoot}/backups/${names.join('/')}/lock`;
  const found = await readKey(await stores.global(), key, limits);
  return found === undefined ? absent : present({ holder: holderOf(found.value) });
}

/** A lease that cannot be read is held all the same. */
function holderOf(value: Uint8Array): string {
  try {
    const { Action } = leaseSchema.parse(JSON.parse(Buffer.from(value).toString('utf8')));
    return Action.replaceAll(/[^ -~]/g, '?').slice(0, maxHolderLength);
  } catch {
    return '';
  }
}

async function listPoolers(
  stores: Stores,
  globalRoot: string,
  shard: ShardKey,
  cells: readonly string[],
  limits: RequestLimits,
): Promise<PoolerListing> {
  if (cells.length === 0) {
    throw new Error('no cell was asked for, so nothing is known of the poolers');
  }
  const locations = await forEach([...new Set(cells)], (cell) =>
    locate(stores, globalRoot, cell, limits),
  );
  const found = await forEach(sharedRoots(locations), (group) => listRoot(group, limits));
  const poolers = found.flatMap((part) => part.poolers);
  return {
    poolers: poolers.filter((pooler) => isOfShard(pooler, shard)).toSorted(byKey),
    undecodable: found.flatMap((part) => part.undecodable).toSorted(byKey),
  };
}

/** Rejects only when all have ended, so that no request outlives the read it belongs to. */
async function forEach<Item, Result>(
  items: readonly Item[],
  read: (item: Item) => Promise<Result>,
): Promise<readonly Result[]> {
  const limit = pLimit(concurrency);
  const endings = await Promise.allSettled(items.map((item) => limit(() => read(item))));
  return endings.map((ending) => {
    if (ending.status === 'rejected') {
      throw ending.reason;
    }
    return ending.value;
  });
}

/** Reads a cell's record, which says where the cell keeps its own. */
async function locate(
  stores: Stores,
  globalRoot: string,
  cell: string,
  limits: RequestLimits,
): Promise<CellLocation> {
  try {
    if (!recordName.test(cell)) {
      throw new Error('that is no valid name of a cell');
    }
    refuseRoot(globalRoot);
    const found = await readKey(await stores.global(), `${globalRoot}/cells/${cell}/Cell`, limits);
    if (found === undefined) {
      throw new Error('the topology has no Cell record of that name');
    }
    const record = fromBinary(CellSchema, found.value);
    if (record.name !== cell) {
      throw new Error('its Cell record has another name');
    }
    if (!rootPath.test(record.root)) {
      throw new Error('its Cell record names no root');
    }
    return { cell, root: record.root, store: await stores.at(record.serverAddresses) };
  } catch (error) {
    throw new CellUnreadable(cell, error);
  }
}

interface SharedRoot {
  readonly store: EtcdStore;
  readonly root: string;
  readonly cells: ReadonlySet<string>;
}

/** Cells that keep their records under one root of one store: it is listed once. */
function sharedRoots(locations: readonly CellLocation[]): SharedRoot[] {
  const groups: { store: EtcdStore; root: string; cells: Set<string> }[] = [];
  for (const { store, root, cell } of locations) {
    const group = groups.find((known) => known.store === store && known.root === root);
    if (group === undefined) {
      groups.push({ store, root, cells: new Set([cell]) });
    } else {
      group.cells.add(cell);
    }
  }
  return groups;
}

/** Every pooler record of the cells under one root, of whatever shard. */
async function listRoot(group: SharedRoot, limits: RequestLimits): Promise<PoolerListing> {
  const entries = await readPrefix(group.store, `${group.root}/poolers/`, limits).catch(
    (error: unknown) => {
      throw new CellUnreadable([...group.cells].join(', '), error);
    },
  );
  const poolers: PoolerRecord[] = [];
  const undecodable: { key: string; why: string }[] = [];
  for (const entry of entries) {
    if (!isPoolerKey(group.root, entry.key)) {
      continue;
    }
    const decoded = decodePooler(entry.value);
    if (decoded.kind === 'undecodable') {
      undecodable.push({ key: entry.key, why: decoded.why });
      continue;
    }
    const { id } = decoded.record;
    if (entry.key !== `${group.root}/poolers/multipooler-${id.cell}-${id.name}/Pooler`) {
      undecodable.push({ key: entry.key, why: 'its id is not the one its key names' });
    } else if (group.cells.has(id.cell)) {
      const { key, modRevision } = entry;
      poolers.push({ key, storeCell: id.cell, modRevision, ...decoded.record });
    }
  }
  return { poolers, undecodable };
}

/** `<root>/poolers/<one name>/Pooler`; beside it a folder may hold locks, which are no records. */
function isPoolerKey(root: string, key: string): boolean {
  const prefix = `${root}/poolers/`;
  return key.startsWith(prefix) && /^[^/]+\/Pooler$/.test(key.slice(prefix.length));
}

function isOfShard({ shard }: PoolerRecord, wanted: ShardKey): boolean {
  return (
    shard.database === wanted.database &&
    shard.tableGroup === wanted.tableGroup &&
    shard.shard === wanted.shard
  );
}

function byKey(a: { readonly key: string }, b: { readonly key: string }): number {
  return a.key < b.key ? -1 : a.key > b.key ? 1 : 0;
}

function unknownOf(error: unknown): Read<never> {
  return unknown(describeError(error));
}

/** The record as it is now, and where. What cannot be read cannot be written: nothing has been sent yet. */
async function readForWrite(
  stores: Stores,
  globalRoot: string,
  pooler: { readonly cell: string; readonly key: string },
  limit: Limit,
): Promise<{ store: EtcdStore; found: StoredValue | undefined }> {
  const limits = limit(writeReadMs);
  try {
    const { store, root } = await locate(stores, globalRoot, pooler.cell, limits);
    if (!isPoolerKey(root, pooler.key)) {
      throw new TerminalError(
        'PoolerKeyInvalid',
        `the key is none of a pooler in cell ${pooler.cell}`,
      );
    }
    return { store, found: await readKey(store, pooler.key, limits) };
  } catch (error) {
    throw error instanceof TerminalError ? error : notWritten(error);
  }
}

/** A repaired permission or address emits no event, so the message comes back slowly instead of being dropped. */
function notWritten(error: unknown): RetryableError {
  const isForbidden =
    (error instanceof CellUnreadable && error.isForbidden) ||
    (error instanceof EtcdFailure && error.kind === 'forbidden');
  return isForbidden
    ? new RetryableError('TopologyForbidden', describeError(error), {
        afterSeconds: 300,
        cause: error,
      })
    : new RetryableError('TopologyUnreachable', describeError(error), { cause: error });
}

/**
 * The compare-and-swap. When its answer is lost, or says that the key moved, what the key holds now decides: an unmoved
 * key was not written yet, and our own bytes under another revision were written by us whatever the answer was.
 */
async function swap(
  store: EtcdStore,
  write: {
    readonly key: string;
    /** `null` deletes the key. */
    readonly value: Uint8Array | null;
    readonly modRevision: string;
  },
  limit: Limit,
): Promise<WriteResult> {
  let failure: unknown;
  try {
    const answer = await store.swap(write, limit(writeSwapMs));
    if (answer.kind === 'swapped') {
      return { kind: 'written', resourceVersion: answer.modRevision };
    }
  } catch (error) {
    if (error instanceof EtcdFailure && error.kind === 'forbidden') {
      throw notWritten(error);
    }
    failure = error;
  }
  let now: StoredValue | undefined;
  try {
    now = await readKey(store, write.key, limit(writeLookMs));
  } catch (error) {
    throw new RetryableError('TopologyOutcomeUnknown', `${write.key}: ${describeError(error)}`, {
      cause: failure ?? error,
    });
  }
  if (now?.modRevision === write.modRevision) {
    throw new RetryableError('TopologyUnreachable', `${write.key}: ${describeError(failure)}`, {
      cause: failure,
    });
  }
  return isAsWritten(now, write.value)
    ? { kind: 'written', resourceVersion: now?.modRevision ?? '' }
    : lostRace(write.key, now);
}

/** Whether a key holds what was to be written, or is gone as it was to be. */
function isAsWritten(now: StoredValue | undefined, value: Uint8Array | null): boolean {
  return value === null || now === undefined
    ? value === null && now === undefined
    : Buffer.from(value).equals(now.value);
}

/** A record that was deleted without the mark would be missed by nobody, and its pooler stay in the cohort for ever. */
function refuseLive({ key, value }: StoredValue): void {
  const decoded = decodePooler(value);
  if (decoded.kind === 'undecodable') {
    throw new TerminalError('PoolerRecordUndecodable', `${key}: ${decoded.why}`);
  }
  if (!isRetired(decoded.record)) {
    throw new TerminalError('PoolerRecordLive', `${key}: it does not say that its pooler stopped`);
  }
}

function lostRace(key: string, now: StoredValue | undefined): WriteResult {
  return {
    kind: 'lostRace',
    why: now === undefined ? `${key} is gone` : `${key} is at mod revision ${now.modRevision} now`,
  };
}
