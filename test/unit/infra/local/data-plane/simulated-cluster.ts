import {
  type DataPlaneEvent,
  type DataPlaneView,
  type PodView,
  advance,
  nextDueMs,
  podView,
  viewOf,
} from '#infra/local/data-plane/core.ts';
import type { Fault, FaultKind } from '#infra/local/data-plane/fault.ts';
import { poolerKey } from '#infra/local/data-plane/records.ts';
import {
  type AdminReply,
  type DataPlaneConfig,
  type DataPlaneOutput,
  type DataPlaneState,
  type PodOnNode,
  createState,
} from '#infra/local/data-plane/state.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import { decodePooler, retirePooler } from '#shared/topology/pooler-record.ts';
import type { PoolerRecord } from '#shared/topology/topology.ts';

/** 2026-01-01T00:00:00Z */
export const start = Date.UTC(2026, 0, 1);

export const aConfig: DataPlaneConfig = {
  speed: 1,
  shard: { database: 'postgres', tableGroup: 'default', shard: '0-inf' },
  globalRoot: '/multigres/global',
  cellRoot: '/multigres/{cell}',
  serverAddress: 'localhost:21000',
  requiredCount: 2,
  legacyPods: [],
};

export interface Answer {
  readonly reply: AdminReply | 'dropped';
  readonly afterMs: number;
}

/**
 * The core with an etcd in memory and a clock that jumps from one due time to the next: a shell without any I/O. All
 * times it takes and gives are milliseconds.
 */
export class SimulatedCluster {
  state: DataPlaneState;
  /** What etcd holds, by key. */
  readonly stored = new Map<string, { value: string; modRevision: string }>();
  /** Every write that reached etcd, in order, with its time since the start. */
  readonly writes: { readonly atMs: number; readonly key: string; readonly value: string }[] = [];
  isEtcdUp = true;
  #revision = 1;
  #requestId = 0;
  readonly #answers = new Map<number, Answer>();
  readonly #askedAt = new Map<number, number>();

  constructor(config: Partial<DataPlaneConfig> = {}, seed = 1, cells: readonly string[] = []) {
    this.state = createState({ ...aConfig, ...config }, { nowMs: start, seed, cells });
  }

  get elapsedMs(): number {
    return this.state.nowMs - start;
  }

  get view(): DataPlaneView {
    return viewOf(this.state);
  }

  tell(event: DataPlaneEvent, atMs = this.state.nowMs): void {
    const { state, outputs } = advance(this.state, atMs, event);
    this.state = state;
    for (const output of outputs) {
      this.#carryOut(output);
    }
  }

  #carryOut(output: DataPlaneOutput): void {
    switch (output.kind) {
      case 'readTopology':
        this.tell(
          this.isEtcdUp
            ? { kind: 'topologyRead', id: output.id, entries: this.#range(output.prefixes) }
            : { kind: 'topologyUnreachable', id: output.id },
        );
        return;
      case 'writeRecord':
        this.#write(output);
        return;
      case 'adminReply':
        this.#answer(output.requestId, output.reply);
        return;
      case 'adminDrop':
        this.#answer(output.requestId, 'dropped');
        return;
      case 'podChanged':
      case 'nodeChanged':
        return;
    }
  }

  #range(prefixes: readonly string[]) {
    return [...this.stored]
      .filter(([key]) => prefixes.some((prefix) => key.startsWith(prefix)))
      .map(([key, entry]) => ({ key, ...entry }))
      .toSorted((a, b) => (a.key < b.key ? -1 : 1));
  }

  #write({ id, key, value, onlyAt }: Extract<DataPlaneOutput, { kind: 'writeRecord' }>): void {
    if (onlyAt !== null && onlyAt !== (this.stored.get(key)?.modRevision ?? '0')) {
      this.tell({ kind: 'recordRefused', id });
      return;
    }
    if (value === null) {
      this.stored.delete(key);
      this.tell({ kind: 'recordWritten', id, modRevision: '0' });
      return;
    }
    const modRevision = this.put(key, value);
    this.writes.push({ atMs: this.elapsedMs, key, value });
    this.tell({ kind: 'recordWritten', id, modRevision });
  }

  #answer(requestId: number, reply: AdminReply | 'dropped'): void {
    const askedAt = this.#askedAt.get(requestId) ?? 0;
    this.#answers.set(requestId, { reply, afterMs: this.state.nowMs - askedAt });
  }

  /** Somebody writes from outside. @param value base64 */
  put(key: string, value: string): string {
    this.#revision += 1;
    this.stored.set(key, { value, modRevision: String(this.#revision) });
    return String(this.#revision);
  }

  startPod(name: string, cell = 'zone-a', changes: Partial<PodOnNode> = {}): PodOnNode {
    const pod: PodOnNode = {
      uid: `uid-${name}-${this.state.nowMs}`,
      namespace: 'db',
      name,
      cell,
      poolerName: name,
      hostname: `${name}.orders.db.svc.cluster.local`,
      volume: `claim-of-${name}`,
      ...changes,
    };
    this.tell({ kind: 'podAssigned', pod });
    return pod;
  }

  deletePod(name: string, graceMs = 30_000): void {
    this.tell({ kind: 'podDeletionAsked', podUid: this.uidOf(name), graceMs });
  }

  /** The pod's object vanishes, whatever its processes did. */
  removePod(name: string): void {
    this.tell({ kind: 'podGone', podUid: this.uidOf(name) });
  }

  uidOf(name: string): string {
    const member = this.view.members.find(({ pod }) => pod === name);
    if (member === undefined) {
      throw new Error(`no pod ${name}`);
    }
    return member.podUid;
  }

  podView(name: string): PodView | undefined {
    return podView(this.state, this.uidOf(name));
  }

  inject(fault: Fault): void {
    this.tell({ kind: 'faultInjected', fault });
  }

  lift(fault: FaultKind): void {
    this.tell({ kind: 'faultLifted', fault });
  }

  runFor(durationMs: number): void {
    const endMs = this.state.nowMs + durationMs;
    while (nextDueMs(this.state) <= endMs) {
      this.tell({ kind: 'timePassed' }, nextDueMs(this.state));
    }
    this.tell({ kind: 'timePassed' }, endMs);
  }

  /** @returns how long it took */
  runUntil(isReached: () => boolean, withinMs = 120_000): number {
    const beganMs = this.state.nowMs;
    while (!isReached()) {
      const dueMs = nextDueMs(this.state);
      if (dueMs > beganMs + withinMs) {
        throw new Error(`not reached within ${withinMs} ms: ${JSON.stringify(this.view, null, 1)}`);
      }
      this.tell({ kind: 'timePassed' }, dueMs);
    }
    return this.state.nowMs - beganMs;
  }

  /** Asks the admin service and lets time pass until it answers. */
  ask(method: 'GET' | 'POST', target: string, body = ''): Answer {
    const requestId = this.begin(method, target, body);
    this.runUntil(() => this.#answers.has(requestId));
    return this.answerTo(requestId) ?? { reply: 'dropped', afterMs: 0 };
  }

  begin(method: 'GET' | 'POST', target: string, body = ''): number {
    const url = new URL(target, 'http://admin');
    this.#requestId += 1;
    const id = this.#requestId;
    this.#askedAt.set(id, this.state.nowMs);
    const query: { [name: string]: string[] } = {};
    for (const [name, value] of url.searchParams) {
      (query[name] ??= []).push(value);
    }
    this.tell({ kind: 'adminAsked', request: { id, method, path: url.pathname, query, body } });
    return id;
  }

  answerTo(requestId: number): Answer | undefined {
    return this.#answers.get(requestId);
  }

  keyOf(cell: string, name: string): string {
    return poolerKey(this.state.config, { cell, name });
  }

  valueOf(key: string): Uint8Array {
    const entry = this.stored.get(key);
    if (entry === undefined) {
      throw new Error(`nothing is at ${key}`);
    }
    return Buffer.from(entry.value, 'base64');
  }

  /** The record of a pod's pooler as Millrace reads it; `undefined` where there is none. */
  recordOf(
    name: string,
    cell = 'zone-a',
  ): Omit<PoolerRecord, 'key' | 'storeCell' | 'modRevision'> | undefined {
    const entry = this.stored.get(this.keyOf(cell, name));
    const decoded = entry && decodePooler(Buffer.from(entry.value, 'base64'));
    return decoded?.kind === 'decoded' ? decoded.record : undefined;
  }

  primaries(): string[] {
    return [...this.stored.keys()].filter((key) => {
      const decoded = key.endsWith('/Pooler') ? decodePooler(this.valueOf(key)) : undefined;
      return decoded?.kind === 'decoded' && decoded.record.role === 'primary';
    });
  }

  cohort(): string[] {
    return this.view.cohort.map(({ name }) => name).toSorted();
  }

  leaderPod(): string {
    const leader = this.view.members.find(
      ({ pooler, role }) => role === 'primary' && pooler === this.view.leader?.name,
    );
    if (leader === undefined) {
      throw new Error('nobody leads');
    }
    return leader.pod;
  }

  replicaPods(): string[] {
    return this.view.members.filter(({ role }) => role === 'replica').map(({ pod }) => pod);
  }

  areAllReady(): boolean {
    return this.view.members.every(({ ready }) => ready);
  }
}

/** Three cells with one member each, named as in the recordings; the one of `leaderCell` leads. */
export function aRecordedCluster(leaderCell: 'zone1' | 'zone2' | 'zone3'): SimulatedCluster {
  for (let seed = 1; seed <= 50; seed++) {
    const cluster = new SimulatedCluster({}, seed);
    for (const number of [1, 2, 3]) {
      cluster.startPod(`p-0000000${number}`, `zone${number}`, { hostname: 'localhost' });
    }
    cluster.runUntil(() => cluster.view.leader !== null && cluster.areAllReady());
    if (cluster.view.leader?.cell === leaderCell) {
      return cluster;
    }
  }
  throw new Error(`the member of ${leaderCell} leads under no seed`);
}

/** A shard of so many members whose bootstrap is long past. */
export function aSettledCluster(
  options: { members?: number; config?: Partial<DataPlaneConfig>; seed?: number } = {},
): SimulatedCluster {
  const cluster = new SimulatedCluster(options.config, options.seed);
  for (let index = 0; index < (options.members ?? 3); index++) {
    cluster.startPod(`orders-${index}`);
  }
  cluster.runUntil(() => cluster.view.leader !== null && cluster.areAllReady());
  cluster.runFor(20_000);
  return cluster;
}

/** Somebody marks a live pooler's record as Millrace marks those of the dead. */
export function markGone(cluster: SimulatedCluster, name: string): void {
  const key = cluster.keyOf('zone-a', name);
  const retired = retirePooler(cluster.valueOf(key), cluster.state.nowMs as Instant);
  if (retired.kind !== 'retired') {
    throw new Error(`the record of ${name} is ${retired.kind}`);
  }
  cluster.put(key, Buffer.from(retired.value).toString('base64'));
}

/** The paths to the leaves of a JSON value; all items of a list share one path. */
export function keyPaths(value: unknown, path = ''): Set<string> {
  if (Array.isArray(value)) {
    return new Set(value.flatMap((item) => [...keyPaths(item, `${path}[]`)]));
  }
  if (typeof value === 'object' && value !== null) {
    return new Set(
      Object.entries(value).flatMap(([key, item]) => [...keyPaths(item, `${path}.${key}`)]),
    );
  }
  return new Set([`${path}: ${typeof value}`]);
}
