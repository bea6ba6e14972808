import type { Read } from '#shared/kernel/read.ts';
import type { ShardValue } from './shard-value.ts';

/** A node or a gate that is registered, or who leads. */
export interface GoverseMember {
  readonly address: string;
  /** It moves when the member registers anew under the same address: for GoVerse that is a change like any other. */
  readonly modRevision: string;
}

export interface GoverseShard extends ShardValue {
  readonly shard: number;
  /** etcd's mod revision, the token of a compare-and-swap; a decimal string (int64). */
  readonly modRevision: string;
}

/** All keys of one cluster, as they were at one revision. */
export interface GoverseView {
  readonly revision: string;
  /** In the order of their addresses, by which GoVerse chooses among equals. */
  readonly nodes: readonly GoverseMember[];
  readonly gates: readonly GoverseMember[];
  /** `null` where nobody leads. One that is not among the nodes is dead. */
  readonly leader: GoverseMember | null;
  /** In the order of their numbers. One without a key is missing. */
  readonly shards: readonly GoverseShard[];
  /** Keys below the prefix that cannot be read as what they are. Who decides must not act as if they were not there. */
  readonly unreadable: readonly { readonly key: string; readonly why: string }[];
}

/** A shard's whole value as it shall be. */
export interface ShardWrite extends ShardValue {
  readonly shard: number;
  /** The key is written only while this is its mod revision. */
  readonly modRevision: string;
}

export type ShardsWritten =
  | { readonly kind: 'written'; readonly modRevision: string }
  /** Nothing was written. `moved`: the shards of the batch whose keys had another mod revision; the others had not. */
  | { readonly kind: 'lostRace'; readonly moved: readonly number[] };

/** As many keys as etcd takes into one transaction when it is not told otherwise. */
export const maxBatch = 128;

/** Looks at the keys of one GoVerse cluster. */
export interface GoverseReader {
  /** `unknown` unless every page of them was read, all at one revision. */
  view(signal?: AbortSignal): Promise<Read<GoverseView>>;
}

/** Writes the shards of one GoVerse cluster. */
export interface GoverseWriter {
  /**
   * Writes up to {@link maxBatch} shards in one transaction, all or none, each only while its mod revision is the one given.
   *
   * @throws RetryableError where etcd refuses or does not answer. The write may have happened then: every later write
   *   compares what a new view says, so nothing has to be found out about this one.
   * @throws RangeError where there are none, too many, or one twice
   */
  writeShards(writes: readonly ShardWrite[], signal?: AbortSignal): Promise<ShardsWritten>;
}

/** The keys of one GoVerse cluster. */
export interface GoverseStore extends GoverseReader, GoverseWriter {
  /** Idempotent. */
  close(): Promise<void>;
}
