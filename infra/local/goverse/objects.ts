/** The shard of an object: FNV-1a (32 bits) of its id's bytes, modulo the count. */
export function shardOfObject(id: string, shardCount: number): number {
  let hash = 0x811c9dc5;
  for (const byte of Buffer.from(id)) {
    hash = Math.imul(hash ^ byte, 0x01000193);
  }
  return (hash >>> 0) % shardCount;
}

/** Objects with a slash in their id belong to a node or name their shard: neither evicted nor counted. */
function isCounted(id: string): boolean {
  return !id.includes('/');
}

/** What one node has in memory. */
export class LocalObjects {
  readonly #held = new Map<number, Set<string>>();
  readonly #all: ReadonlyMap<number, readonly string[]>;

  /** @param ids all objects of the cluster; each is in memory where its shard was claimed, as if it were called at once */
  constructor(ids: readonly string[], shardCount: number) {
    const all = new Map<number, string[]>();
    for (const id of ids.filter(isCounted)) {
      const shard = shardOfObject(id, shardCount);
      all.set(shard, [...(all.get(shard) ?? []), id]);
    }
    this.#all = all;
  }

  /** How many are in memory. */
  get size(): number {
    return [...this.#held.values()].reduce((sum, ids) => sum + ids.size, 0);
  }

  countOf(shard: number): number {
    return this.#held.get(shard)?.size ?? 0;
  }

  /** The shards of which something is in memory. */
  shards(): number[] {
    return [...this.#held.keys()];
  }

  load(shards: readonly number[]): void {
    for (const shard of shards) {
      const ids = this.#all.get(shard);
      if (ids !== undefined) {
        this.#held.set(shard, new Set(ids));
      }
    }
  }

  evict(shards: readonly number[]): void {
    for (const shard of shards) {
      this.#held.delete(shard);
    }
  }
}

/** The ids of as many plain objects. */
export function objectIds(count: number): string[] {
  return Array.from({ length: count }, (_, place) => `object-${place}`);
}
