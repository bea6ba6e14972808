import { RetryableError, describeError } from '#shared/kernel/errors.ts';
import { wallClock } from '#shared/kernel/instant.ts';
import { present, unknown } from '#shared/kernel/read.ts';
import type { ServiceAddress, TopologyAccess } from '#shared/topology/access.ts';
import {
  EtcdFailure,
  type SwapRequest,
  readPrefixAt,
  within,
} from '#shared/topology/etcd-store.ts';
import { storesOf } from '#shared/topology/stores.ts';
import { type GoverseKeys, keysOf, shardKey } from './keys.ts';
import { type GoverseStore, type ShardWrite, type ShardsWritten, maxBatch } from './goverse.ts';
import { formatShard } from './shard-value.ts';
import { viewOf } from './view.ts';

/** How long one view of all keys may take by default, in milliseconds, over all its pages. */
const defaultTimeoutMs = 5_000;

/** How long a transaction may take, in milliseconds: less than the 8 s that the executor reserves for a write. */
const writeMs = 6_000;

/** Entries per page: a shard's key and value are some 60 bytes, 600 at worst, and gRPC refuses answers from 4 MiB on. */
const pageSize = 4_096;

/** Where a cluster keeps its keys: the addresses of etcd's members, or the Service before them. */
export interface GoverseSpec {
  readonly endpoints?: readonly string[] | undefined;
  readonly service?: ServiceAddress | undefined;
  readonly prefix: string;
  readonly shards: number;
}

/**
 * Connects to the etcd that a GoVerse cluster lives in, by the transports that topologies have. Nothing is sent before the
 * first read.
 *
 * @throws RangeError where the prefix is not made of names
 */
export function connectGoverse(spec: GoverseSpec, access: TopologyAccess): GoverseStore {
  const keys = keysOf(spec.prefix);
  const stores = storesOf(spec, access);
  const timeoutMs = access.requestTimeoutMs ?? defaultTimeoutMs;
  const clock = access.clock ?? wallClock;
  return {
    async view(signal) {
      try {
        const store = await stores.global();
        const limits = within(timeoutMs, signal, clock);
        const { revision, entries } = await readPrefixAt(store, keys.all, limits, pageSize);
        return present(viewOf(keys, spec.shards, revision, entries));
      } catch (error) {
        return unknown(`the keys of GoVerse cannot be read: ${describeError(error)}`);
      }
    },
    async writeShards(writes, signal) {
      const swaps = swapsOf(keys, writes);
      try {
        const store = await stores.global();
        const answer = await store.swapAll(swaps, within(writeMs, signal, clock));
        return answer.kind === 'swapped'
          ? { kind: 'written', modRevision: answer.modRevision }
          : lostRace(writes, answer.modRevisions);
      } catch (error) {
        throw notWritten(error);
      }
    },
    close: () => stores.close(),
  };
}

function swapsOf(keys: GoverseKeys, writes: readonly ShardWrite[]): SwapRequest[] {
  const shards = new Set(writes.map(({ shard }) => shard));
  if (shards.size !== writes.length || writes.length === 0 || writes.length > maxBatch) {
    throw new RangeError(`a batch is 1 to ${maxBatch} different shards`);
  }
  return writes.map((write) => ({
    key: shardKey(keys, write.shard),
    value: Buffer.from(formatShard(write)),
    modRevision: write.modRevision,
  }));
}

function lostRace(writes: readonly ShardWrite[], modRevisions: readonly string[]): ShardsWritten {
  const moved = writes.filter((write, place) => write.modRevision !== modRevisions[place]);
  return { kind: 'lostRace', moved: moved.map(({ shard }) => shard) };
}

/** A repaired permission emits no event, so the message comes back slowly instead of being dropped. */
function notWritten(error: unknown): RetryableError {
  return error instanceof EtcdFailure && error.kind === 'forbidden'
    ? new RetryableError('GoverseForbidden', describeError(error), {
        afterSeconds: 300,
        cause: error,
      })
    : new RetryableError('GoverseUnreachable', describeError(error), { cause: error });
}
