import { LiveView } from '#infra/local/goverse/cluster-view.ts';
import { noMemory } from '#infra/local/goverse/leader.ts';
import { LocalObjects, objectIds } from '#infra/local/goverse/objects.ts';
import { type OutageSummary, Outages } from '#infra/local/goverse/outages.ts';
import { type Rewrite, isOwned, isRoutable } from '#infra/local/goverse/rules.ts';
import { type GoverseNodeState, type TickLink, tick } from '#infra/local/goverse/tick.ts';
import type { GoverseView, ShardWrite, ShardsWritten } from '#shared/goverse/goverse.ts';
import { keysOf, shardKey } from '#shared/goverse/keys.ts';
import { type ShardValue, formatShard, parseShard } from '#shared/goverse/shard-value.ts';
import { viewOf } from '#shared/goverse/view.ts';

const keys = keysOf('/goverse');
const tickMs = 5_000;

/** From a write to where a watch tells of it. */
const latencyMs = 3;

interface SimulatedNode extends GoverseNodeState {
  dueMs: number;
}

/** A shard as it is, or as it shall be. */
export interface PlacedShard extends ShardValue {
  readonly shard: number;
}

/** Several nodes with GoVerse's rules over one store, on a clock that only ticks move: minutes pass in no time. */
export class SimulatedGoverse {
  readonly #shardCount: number;
  readonly #store = new Map<string, { value: string; modRevision: number }>();
  readonly #nodes = new Map<string, SimulatedNode>();
  readonly #leases: { readonly atMs: number; readonly address: string }[] = [];
  readonly #dead = new Set<string>();
  #revision = 1;
  #nowMs = 0;
  #beganMs = 0;
  #wholeMs = 0;
  #unowned: Outages;
  #unroutable: Outages;

  constructor(shardCount = 8_192) {
    this.#shardCount = shardCount;
    this.#unowned = new Outages(shardCount);
    this.#unroutable = new Outages(shardCount);
  }

  get nowMs(): number {
    return this.#nowMs;
  }

  get leader(): string {
    return this.#store.get(keys.leader)?.value ?? '';
  }

  get nodes(): string[] {
    return [...this.#nodes.keys()].toSorted();
  }

  node(address: string): GoverseNodeState {
    const node = this.#nodes.get(address);
    if (node === undefined) {
      throw new Error(`there is no ${address}`);
    }
    return node;
  }

  shards(): PlacedShard[] {
    return Array.from({ length: this.#shardCount }, (_, shard) => ({
      shard,
      ...this.#valueOf(shard),
    }));
  }

  /** Shards that are meant for the node. */
  load(address: string): number {
    return this.shards().filter(({ target }) => target === address).length;
  }

  /** Registers a node whose ticker starts now. */
  start(address: string): void {
    const view = new LiveView(keys, this.#shardCount);
    const node: SimulatedNode = {
      self: address,
      shardCount: this.#shardCount,
      speed: 1,
      view,
      objects: new LocalObjects(objectIds(4_000), this.#shardCount),
      memory: noMemory,
      dueMs: this.#nowMs + tickMs,
    };
    this.put(`${keys.nodes}${address}`, address);
    view.load(
      [...this.#store].map(([key, entry]) => ({ key, ...entry })),
      this.#nowMs + latencyMs,
    );
    this.#nodes.set(address, node);
  }

  /** SIGTERM. */
  stop(address: string): void {
    this.#nodes.delete(address);
    this.put(`${keys.nodes}${address}`, null);
  }

  /** SIGKILL: the lease ends as long after. */
  kill(address: string, leaseMs: number): void {
    this.#nodes.delete(address);
    this.#dead.add(address);
    this.#leases.push({ atMs: this.#nowMs + leaseMs, address });
    this.#look();
  }

  registerGate(address: string): void {
    this.put(`${keys.gates}${address}`, address);
  }

  /** Writes shards as somebody from outside. */
  place(shards: readonly PlacedShard[]): void {
    for (const { shard, ...value } of shards) {
      this.put(shardKey(keys, shard), formatShard(value));
    }
  }

  /** What who looks from outside reads. */
  view(): GoverseView {
    const entries = [...this.#store].map(([key, { value, modRevision }]) => ({
      key,
      value: Buffer.from(value),
      modRevision: String(modRevision),
    }));
    return viewOf(keys, this.#shardCount, String(this.#revision), entries);
  }

  /** One transaction from outside: all of it, or nothing. */
  swap(writes: readonly ShardWrite[]): ShardsWritten {
    const moved = writes.filter(
      ({ shard, modRevision }) =>
        String(this.#store.get(shardKey(keys, shard))?.modRevision ?? 0) !== modRevision,
    );
    if (moved.length > 0) {
      return { kind: 'lostRace', moved: moved.map(({ shard }) => shard) };
    }
    for (const write of writes) {
      this.put(shardKey(keys, write.shard), formatShard(write));
    }
    return { kind: 'written', modRevision: String(this.#revision) };
  }

  put(key: string, value: string | null): number {
    this.#revision += 1;
    const modRevision = this.#revision;
    if (value === null) {
      this.#store.delete(key);
    } else {
      this.#store.set(key, { value, modRevision });
    }
    for (const { view } of this.#nodes.values()) {
      view.take({ key, value, modRevision }, this.#nowMs + latencyMs);
    }
    this.#lookAt(key);
    return modRevision;
  }

  /** Measures anew from now on. */
  begin(): void {
    this.#beganMs = this.#nowMs;
    this.#wholeMs = this.#nowMs;
    this.#unowned = new Outages(this.#shardCount);
    this.#unroutable = new Outages(this.#shardCount);
    this.#look();
  }

  measured(): {
    readonly allOwnedMs: number;
    readonly unowned: OutageSummary;
    readonly unroutable: OutageSummary;
  } {
    return {
      allOwnedMs: this.#unroutable.openCount === 0 ? this.#wholeMs - this.#beganMs : Infinity,
      unowned: this.#unowned.summary(this.#nowMs),
      unroutable: this.#unroutable.summary(this.#nowMs),
    };
  }

  /** Lets time pass, tick after tick. */
  async run(forMs: number): Promise<void> {
    const endMs = this.#nowMs + forMs;
    for (;;) {
      const node = [...this.#nodes.values()].toSorted((a, b) => a.dueMs - b.dueMs)[0];
      const lease = this.#leases.toSorted((a, b) => a.atMs - b.atMs)[0];
      const nextMs = Math.min(node?.dueMs ?? Infinity, lease?.atMs ?? Infinity);
      if (nextMs > endMs) {
        this.#nowMs = endMs;
        return;
      }
      this.#nowMs = nextMs;
      if (lease?.atMs === nextMs) {
        this.#leases.splice(this.#leases.indexOf(lease), 1);
        this.put(`${keys.nodes}${lease.address}`, null);
      } else if (node !== undefined) {
        node.dueMs += tickMs;
        await tick(node, this.#linkOf(node), () => this.#nowMs);
      }
    }
  }

  #linkOf({ self, view }: GoverseNodeState): TickLink {
    return {
      campaign: async (leaderRevision) => {
        if ((this.#store.get(keys.leader)?.modRevision ?? 0) === leaderRevision) {
          this.put(keys.leader, self);
        }
      },
      write: async (writes) => writes.filter((write) => this.#write(view, write)),
    };
  }

  #write(view: LiveView, { shard, modRevision, ...value }: Rewrite): boolean {
    const key = shardKey(keys, shard);
    if ((this.#store.get(key)?.modRevision ?? 0) !== modRevision) {
      return false;
    }
    view.wrote(shard, value, this.put(key, formatShard(value)));
    return true;
  }

  #valueOf(shard: number): ShardValue {
    const text = this.#store.get(shardKey(keys, shard))?.value ?? '';
    return parseShard(text) ?? { target: '', current: '', flags: [] };
  }

  #lookAt(key: string): void {
    if (key.startsWith(keys.shards)) {
      this.#lookAtShards([Number(key.slice(keys.shards.length))]);
    } else {
      this.#look();
    }
  }

  #look(): void {
    this.#lookAtShards(Array.from({ length: this.#shardCount }, (_, shard) => shard));
  }

  #lookAtShards(shards: readonly number[]): void {
    const wasWhole = this.#unroutable.openCount === 0;
    const alive = new Set(this.nodes.filter((node) => !this.#dead.has(node)));
    for (const shard of shards) {
      const value = this.#valueOf(shard);
      this.#unowned.look(shard, !isOwned(alive, value), this.#nowMs);
      this.#unroutable.look(shard, !isRoutable(alive, value), this.#nowMs);
    }
    if (!wasWhole && this.#unroutable.openCount === 0) {
      this.#wholeMs = this.#nowMs;
    }
  }
}

/** A cluster whose nodes started a while apart, all of whose shards are owned. The first one to tick leads. */
export async function aSettledCluster({
  nodes = ['a', 'b', 'c'],
  apartMs = 1_300,
  shardCount = 8_192,
} = {}): Promise<SimulatedGoverse> {
  const cluster = new SimulatedGoverse(shardCount);
  for (const node of nodes) {
    cluster.start(node);
    await cluster.run(apartMs);
  }
  await cluster.run(60_000);
  cluster.begin();
  return cluster;
}
