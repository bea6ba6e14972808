import { type GoverseKeys, shardNumber } from '#shared/goverse/keys.ts';
import { type ShardValue, parseShard } from '#shared/goverse/shard-value.ts';

/** One key as it came, or went. */
export interface KeyChange {
  readonly key: string;
  /** `null` where the key was deleted. */
  readonly value: string | null;
  readonly modRevision: number;
}

export interface KnownShard extends ShardValue {
  readonly modRevision: number;
}

/** What a node knows of the keys. Rules read it, and change nothing. */
export interface ClusterView {
  readonly nodes: ReadonlySet<string>;
  readonly gates: ReadonlySet<string>;
  /** Empty where nobody leads. */
  readonly leader: string;
  /** 0 where there is no such key. */
  readonly leaderRevision: number;
  readonly shards: ReadonlyMap<number, KnownShard>;
  /** When a node, a gate or the leader came, went or changed last, as far as was seen here. */
  readonly changedAtMs: number;
}

/** The view that a watch keeps. It changes in place: a hand-over is thousands of changes. */
export class LiveView implements ClusterView {
  readonly nodes = new Set<string>();
  readonly gates = new Set<string>();
  readonly shards = new Map<number, KnownShard>();
  leader = '';
  leaderRevision = 0;
  changedAtMs = 0;
  readonly #keys: GoverseKeys;
  readonly #shardCount: number;

  constructor(keys: GoverseKeys, shardCount: number) {
    this.#keys = keys;
    this.#shardCount = shardCount;
  }

  /** Begins anew with all keys there are, which counts as a change of everything. */
  load(entries: readonly KeyChange[], atMs: number): void {
    this.nodes.clear();
    this.gates.clear();
    this.shards.clear();
    this.leader = '';
    this.leaderRevision = 0;
    for (const entry of entries) {
      this.take(entry, atMs);
    }
    this.changedAtMs = atMs;
  }

  take(change: KeyChange, atMs: number): void {
    const { key } = change;
    if (key.startsWith(this.#keys.shards)) {
      this.#takeShard(change);
    } else if (key === this.#keys.leader) {
      this.leader = change.value ?? '';
      this.leaderRevision = change.value === null ? 0 : change.modRevision;
      this.changedAtMs = atMs;
    } else if (key.startsWith(this.#keys.nodes)) {
      takeMember(this.nodes, this.#keys.nodes, change);
      this.changedAtMs = atMs;
    } else if (key.startsWith(this.#keys.gates)) {
      takeMember(this.gates, this.#keys.gates, change);
      this.changedAtMs = atMs;
    }
  }

  /** A node's own write is known to it before the watch tells. */
  wrote(shard: number, value: ShardValue, modRevision: number): void {
    if ((this.shards.get(shard)?.modRevision ?? 0) < modRevision) {
      this.shards.set(shard, { ...value, modRevision });
    }
  }

  #takeShard({ key, value, modRevision }: KeyChange): void {
    const shard = shardNumber(this.#keys, key, this.#shardCount);
    const parsed = value === null ? undefined : parseShard(value);
    if (shard === undefined || modRevision <= (this.shards.get(shard)?.modRevision ?? 0)) {
      return;
    }
    if (parsed === undefined) {
      this.shards.delete(shard);
    } else {
      this.shards.set(shard, { ...parsed, modRevision });
    }
  }
}

/** The address is the value when a member comes, and the rest of the key when it goes. */
function takeMember(members: Set<string>, prefix: string, { key, value }: KeyChange): void {
  if (value === null) {
    members.delete(key.slice(prefix.length));
  } else {
    members.add(value);
  }
}
