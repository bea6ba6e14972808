import type { Etcd3, Watcher } from 'etcd3';
import type { EtcdAccess } from '#infra/local/control-plane/etcd-access.ts';
import {
  type GoverseKeys,
  defaultPrefix,
  defaultShardCount,
  keysOf,
  shardNumber,
} from '#shared/goverse/keys.ts';
import { type ShardValue, marksOf, parseShard } from '#shared/goverse/shard-value.ts';
import { type KeyChange, LiveView } from './cluster-view.ts';
import { connectEtcd, readAll, watchAll } from './etcd-link.ts';
import { Outages, type OutageSummary } from './outages.ts';
import { isOwned, isRoutable } from './rules.ts';
import type { TickTold } from './start.ts';

interface ObserverOptions {
  /** `http(s)://host:port` of etcd. */
  readonly endpoint: string;
  readonly access?: EtcdAccess;
  readonly prefix?: string;
  readonly shardCount?: number;
}

/** One write of a shard's key. Who wrote it shows once the node has told of its tick. */
export interface ShardChange {
  readonly atMs: number;
  readonly revision: number;
  readonly shard: number;
  readonly before: ShardValue;
  readonly after: ShardValue;
}

/** What happened to the shards since the last {@link GoverseObserver.begin}. */
export interface Observation {
  /** From the beginning to the moment after which every shard was owned and routable for good. */
  readonly allOwnedMs: number;
  readonly unowned: OutageSummary;
  readonly unroutable: OutageSummary;
}

/**
 * Watches the keys of a cluster and measures, per shard, for how long nobody alive had it, and for how long its callers
 * got errors. It sees only etcd: when a node is killed, it has to be told.
 */
export class GoverseObserver implements AsyncDisposable {
  readonly #client: Etcd3;
  readonly #keys: GoverseKeys;
  readonly #shardCount: number;
  readonly #view: LiveView;
  readonly #killed = new Set<string>();
  readonly #alive = new Set<string>();
  readonly #waiting = new Set<() => void>();
  readonly #writers = new Map<number, string>();
  #watcher: Watcher | undefined;
  #unowned: Outages;
  #unroutable: Outages;
  #history: ShardChange[] = [];
  #beganMs = Date.now();
  #wholeMs = 0;
  #shardChangedMs = 0;

  private constructor(client: Etcd3, options: ObserverOptions) {
    this.#client = client;
    this.#keys = keysOf(options.prefix ?? defaultPrefix);
    this.#shardCount = options.shardCount ?? defaultShardCount;
    this.#view = new LiveView(this.#keys, this.#shardCount);
    this.#unowned = new Outages(this.#shardCount);
    this.#unroutable = new Outages(this.#shardCount);
  }

  static async open(options: ObserverOptions): Promise<GoverseObserver> {
    const observer = new GoverseObserver(connectEtcd(options.endpoint, options.access), options);
    await observer.#follow();
    return observer;
  }

  async #follow(): Promise<void> {
    const { revision, entries } = await readAll(this.#client, this.#keys);
    this.#view.load(entries, Date.now());
    this.#lookAtAll(Date.now());
    this.#watcher = await watchAll(this.#client, this.#keys, revision, {
      onChanges: (changes) => this.#take(changes, Date.now()),
      onReconnected: () => undefined,
      onLost: () => {
        throw new Error('the observer lost its watch, so nothing that it measured is whole');
      },
    });
  }

  /** Living nodes, in their order. */
  get nodes(): string[] {
    return [...this.#alive].toSorted();
  }

  /** Nodes whose key is there, dead ones included whose lease has not ended yet. */
  get registered(): string[] {
    return [...this.#view.nodes].toSorted();
  }

  /** Shards whose callers get errors now. */
  get unroutableCount(): number {
    return this.#unroutable.openCount;
  }

  get leader(): string {
    return this.#view.leader;
  }

  get gates(): string[] {
    return [...this.#view.gates].toSorted();
  }

  /** How many shards each node has, and how many are meant for it. */
  loads(): ReadonlyMap<string, { readonly current: number; readonly target: number }> {
    const loads = new Map<string, { current: number; target: number }>();
    const of = (node: string) => {
      const load = loads.get(node) ?? { current: 0, target: 0 };
      loads.set(node, load);
      return load;
    };
    for (const { current, target } of this.#view.shards.values()) {
      of(current).current += 1;
      of(target).target += 1;
    }
    return loads;
  }

  /** Shards that still carry a mark of Millrace. */
  marked(): number[] {
    return [...this.#view.shards]
      .filter(([, value]) => marksOf(value).length > 0)
      .map(([shard]) => shard);
  }

  shard(shard: number): ShardValue | undefined {
    return this.#view.shards.get(shard);
  }

  /** Every write of a shard's key since the beginning, in their order. */
  history(): readonly ShardChange[] {
    return this.#history;
  }

  /** The node that told of this write; `undefined` where none did: then it was somebody else. */
  writerOf(revision: number): string | undefined {
    return this.#writers.get(revision);
  }

  /** For `onTick` of the nodes. */
  readonly told = ({ address, revisions }: TickTold): void => {
    for (const revision of revisions) {
      this.#writers.set(revision, address);
    }
  };

  /** From now on this node counts as dead, though its key may stay for a while; until it registers anew. */
  killed(address: string): void {
    this.#killed.add(address);
    this.#lookAtAll(Date.now());
  }

  /** Forgets what was measured so far. */
  begin(): void {
    this.#unowned = new Outages(this.#shardCount);
    this.#unroutable = new Outages(this.#shardCount);
    this.#history = [];
    this.#beganMs = Date.now();
    this.#wholeMs = this.#beganMs;
    this.#lookAtAll(this.#beganMs);
  }

  /**
   * Resolves when every shard is owned and routable and no shard's key has changed for `quietMs`.
   *
   * @throws Error when that takes longer than `timeoutMs`
   */
  async settled(quietMs: number, timeoutMs: number): Promise<Observation> {
    const deadlineMs = Date.now() + timeoutMs;
    for (;;) {
      const stillMs = Date.now() - Math.max(this.#shardChangedMs, this.#wholeMs, this.#beganMs);
      if (this.#isWhole() && stillMs >= quietMs) {
        return this.observation();
      }
      if (Date.now() >= deadlineMs) {
        throw new Error(`the cluster has not settled: ${this.describe()}`);
      }
      const waitMs = this.#isWhole() ? quietMs - stillMs : deadlineMs - Date.now();
      await this.#nextChange(Math.min(waitMs, deadlineMs - Date.now()));
    }
  }

  /** Resolves when the condition holds, which is asked after each change. @throws Error after `timeoutMs` */
  async until(condition: (observer: GoverseObserver) => boolean, timeoutMs: number): Promise<void> {
    if (!(await this.whether(condition, timeoutMs))) {
      throw new Error(`it did not come to pass: ${this.describe()}`);
    }
  }

  /** Whether the condition came to hold within `timeoutMs`; resolves as soon as it does. */
  async whether(
    condition: (observer: GoverseObserver) => boolean,
    timeoutMs: number,
  ): Promise<boolean> {
    const deadlineMs = Date.now() + timeoutMs;
    while (!condition(this)) {
      if (Date.now() >= deadlineMs) {
        return false;
      }
      await this.#nextChange(deadlineMs - Date.now());
    }
    return true;
  }

  observation(): Observation {
    const nowMs = Date.now();
    return {
      allOwnedMs: this.#wholeMs - this.#beganMs,
      unowned: this.#unowned.summary(nowMs),
      unroutable: this.#unroutable.summary(nowMs),
    };
  }

  describe(): string {
    const loads = [...this.loads()].map(
      ([node, { current, target }]) => `${node || 'nobody'} has ${current} of ${target}`,
    );
    return `${this.unroutableCount} shards are unroutable, the leader is ${this.leader || 'nobody'}, ${loads.join(', ')}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // A client that is only closed goes on trying to watch.
    await this.#watcher?.cancel();
    this.#client.close();
  }

  #take(changes: readonly KeyChange[], nowMs: number): void {
    const shards: number[] = [];
    let isMembershipChanged = false;
    for (const change of changes) {
      const shard = change.key.startsWith(this.#keys.shards)
        ? shardNumber(this.#keys, change.key, this.#shardCount)
        : undefined;
      if (shard === undefined) {
        isMembershipChanged = true;
        this.#noteReturn(change);
      } else {
        shards.push(shard);
        this.#note(shard, change, nowMs);
      }
      this.#view.take(change, nowMs);
    }
    if (isMembershipChanged) {
      this.#lookAtAll(nowMs);
    } else {
      this.#lookAt(shards, nowMs);
    }
    for (const wake of this.#waiting) {
      wake();
    }
  }

  #noteReturn({ key, value }: KeyChange): void {
    if (value !== null && key.startsWith(this.#keys.nodes)) {
      this.#killed.delete(value);
    }
  }

  #note(shard: number, { value, modRevision }: KeyChange, nowMs: number): void {
    this.#shardChangedMs = nowMs;
    this.#history.push({
      atMs: nowMs,
      revision: modRevision,
      shard,
      before: this.#view.shards.get(shard) ?? noValue,
      after: parseShard(value ?? '') ?? noValue,
    });
  }

  #lookAtAll(nowMs: number): void {
    this.#alive.clear();
    for (const node of this.#view.nodes) {
      if (!this.#killed.has(node)) {
        this.#alive.add(node);
      }
    }
    this.#lookAt(
      Array.from({ length: this.#shardCount }, (_, shard) => shard),
      nowMs,
    );
  }

  #lookAt(shards: readonly number[], nowMs: number): void {
    const wasWhole = this.#isWhole();
    for (const shard of shards) {
      const value = this.#view.shards.get(shard) ?? noValue;
      this.#unowned.look(shard, !isOwned(this.#alive, value), nowMs);
      this.#unroutable.look(shard, !isRoutable(this.#alive, value), nowMs);
    }
    if (!wasWhole && this.#isWhole()) {
      this.#wholeMs = nowMs;
    }
  }

  #isWhole(): boolean {
    return this.unroutableCount === 0;
  }

  async #nextChange(timeoutMs: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.add(resolve);
    const timer = setTimeout(resolve, Math.max(0, timeoutMs));
    await promise;
    clearTimeout(timer);
    this.#waiting.delete(resolve);
  }
}

const noValue: ShardValue = { target: '', current: '', flags: [] };
