/** How long the shards were out that were hit at all. */
export interface OutageSummary {
  /** Shards that were out at least once. */
  readonly count: number;
  /** Of each of them over all its outages. */
  readonly meanMs: number;
  readonly maxMs: number;
}

/** Adds up, per shard, for how long something did not hold. */
export class Outages {
  readonly #sinceMs: (number | undefined)[];
  readonly #totalMs: number[];
  #openCount = 0;

  constructor(shardCount: number) {
    this.#sinceMs = Array.from({ length: shardCount }, () => undefined);
    this.#totalMs = Array.from({ length: shardCount }, () => 0);
  }

  /** Shards that are out now. */
  get openCount(): number {
    return this.#openCount;
  }

  look(shard: number, isOut: boolean, nowMs: number): void {
    const sinceMs = this.#sinceMs[shard];
    if (isOut && sinceMs === undefined) {
      this.#sinceMs[shard] = nowMs;
      this.#openCount += 1;
    } else if (!isOut && sinceMs !== undefined) {
      this.#sinceMs[shard] = undefined;
      this.#totalMs[shard] = (this.#totalMs[shard] ?? 0) + nowMs - sinceMs;
      this.#openCount -= 1;
    }
  }

  summary(nowMs: number): OutageSummary {
    const hit = this.#totalMs
      .map((totalMs, shard) => totalMs + nowMs - (this.#sinceMs[shard] ?? nowMs))
      .filter((totalMs, shard) => totalMs > 0 || this.#sinceMs[shard] !== undefined);
    return {
      count: hit.length,
      meanMs: hit.length === 0 ? 0 : hit.reduce((sum, each) => sum + each, 0) / hit.length,
      maxMs: hit.reduce((most, each) => Math.max(most, each), 0),
    };
  }
}
