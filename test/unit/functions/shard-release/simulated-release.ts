import { expect } from 'vitest';
import { decide } from '#functions/shard-release/decide.ts';
import { isUneven } from '#functions/shard-release/plan.ts';
import { type ReleaseRecord, readReleaseRecord } from '#functions/shard-release/record.ts';
import type { ClusterView, PodView, ReleaseSnapshot } from '#functions/shard-release/snapshot.ts';
import { shardRelease } from '#functions/shard-release/step.ts';
import { recordAnnotation } from '#shared/api/annotations.ts';
import {
  type GoverseClusterStatus,
  goverseClusterStatusSchema,
} from '#shared/api/goverse-cluster.ts';
import type { ShardWrite } from '#shared/goverse/goverse.ts';
import { isPinned, marksOf } from '#shared/goverse/shard-value.ts';
import type { Decision } from '#shared/kernel/decision.ts';
import { type Writers, execute } from '#shared/kernel/execute.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import { createLogger } from '#shared/kernel/logger.ts';
import { absent, present, unknown } from '#shared/kernel/read.ts';
import { wakeOf } from '#shared/kernel/record.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import {
  SimulatedGoverse,
  aSettledCluster,
} from '#test/unit/infra/local/goverse/simulated-goverse.ts';

const start = Date.parse('2026-01-01T00:00:00Z') as Instant;
const logger = createLogger('silent', {});
export const mark = '0badcafe';

interface SimulatedPod {
  readonly view: PodView;
  readonly node: string;
}

interface Options {
  readonly nodes?: readonly string[];
  readonly shardCount?: number;
  readonly cluster?: Partial<ClusterView>;
}

class Crash extends Error {}

/**
 * The step on a simulated GoVerse, in virtual time: every look reads the keys that are there, decides, and is executed by
 * the code that ships. Nodes are pods that stop when their mirror lets them go.
 */
export class SimulatedRelease {
  readonly goverse: SimulatedGoverse;
  readonly counted: string[] = [];
  readonly decisions: Decision[] = [];
  /** Transactions that wrote something. */
  batches = 0;
  status: GoverseClusterStatus | null = null;
  /** How many of the transactions to come are written before the process dies; dies never without it. */
  diesAfterBatches: number | undefined;
  isEtcdGone = false;
  cluster: ClusterView;
  writesOfObjects = 0;
  readonly #pods = new Map<string, SimulatedPod>();
  #record: string | null = null;
  #version = 1;
  #lookDueMs = 0;
  #made = 0;

  private constructor(
    goverse: SimulatedGoverse,
    shardCount: number,
    cluster: Partial<ClusterView>,
  ) {
    this.goverse = goverse;
    this.cluster = {
      namespace: 'games',
      name: 'world',
      uid: 'cluster-uid',
      generation: 1,
      resourceVersion: '1',
      isPaused: false,
      isBeingDeleted: false,
      shardCount,
      mode: 'clean',
      timeoutSeconds: 60,
      rebalance: 'inside',
      mark,
      status: null,
      ...cluster,
    };
  }

  /** Nodes that have been there for a while, each with its pod. */
  static async settled({
    nodes = ['a', 'b', 'c'],
    shardCount = 256,
    cluster = {},
  }: Options = {}): Promise<SimulatedRelease> {
    const goverse = await aSettledCluster({ nodes: [...nodes], shardCount });
    const run = new SimulatedRelease(goverse, shardCount, cluster);
    for (const node of nodes) {
      run.#addPod(node);
    }
    await run.run(15);
    goverse.begin();
    run.batches = 0;
    return run;
  }

  get now(): Instant {
    return (start + this.goverse.nowMs) as Instant;
  }

  get record(): ReleaseRecord | null {
    const read = this.#readRecord();
    return read.kind === 'ours' ? read.record : null;
  }

  get reason(): string {
    return this.decisions.at(-1)?.reason ?? '';
  }

  pod(node: string): PodView | undefined {
    return this.#pods.get(node)?.view;
  }

  /** Nodes whose pods are there, whether or not they still run. */
  get podNodes(): string[] {
    return [...this.#pods.keys()];
  }

  marked(): number {
    return this.goverse.shards().filter((shard) => marksOf(shard).length > 0).length;
  }

  join(node: string): void {
    this.goverse.start(node);
    this.#addPod(node);
    this.touch();
  }

  deletePod(node: string): void {
    this.#change(node, { isBeingDeleted: true });
  }

  ask(node: string, isAskedToLeave = true): void {
    this.#change(node, { isAskedToLeave });
  }

  setMode(node: string, mode: PodView['mode']): void {
    this.#change(node, { mode });
  }

  /** The process dies, its pod with it. */
  kill(node: string): void {
    this.goverse.kill(node, 13_000);
    this.#pods.delete(node);
    this.touch();
  }

  /** The process stops in order, its pod goes with it. */
  stop(node: string): void {
    this.goverse.stop(node);
    this.#pods.delete(node);
    this.touch();
  }

  loseRecord(): void {
    this.#record = null;
    this.touch();
  }

  /** Something happened that the relay tells of. */
  touch(): void {
    this.#lookDueMs = this.goverse.nowMs;
  }

  /** Lets time pass: looks when they are due, and nodes that stop once they may. */
  async run(seconds: number): Promise<void> {
    const endMs = this.goverse.nowMs + seconds * 1000;
    while (this.goverse.nowMs < endMs) {
      if (this.goverse.nowMs >= this.#lookDueMs) {
        await this.look();
      }
      for (const [node, { view }] of this.#pods) {
        if (view.isBeingDeleted && view.mirror === 'released') {
          this.stop(node);
        }
      }
      await this.goverse.run(500);
    }
  }

  async until(holds: () => boolean, seconds: number): Promise<void> {
    for (let passed = 0; !holds(); passed += 0.5) {
      expect(passed, `${this.reason}: ${this.decisions.at(-1)?.message}`).toBeLessThan(seconds);
      await this.run(0.5);
    }
  }

  async look(): Promise<Decision> {
    const snapshot = this.snapshot();
    const decision = decide(snapshot, this.now);
    this.decisions.push(decision);
    if (decision.reason === 'PinsTakenOff') {
      // H4: what GoVerse's leader gets back leaves it nothing to work on.
      expect(isUneven(this.goverse.view())).toBe(false);
    }
    this.#lookDueMs = Infinity;
    try {
      await execute(shardRelease, this.#target(), decision, this.#writers(), {
        clock: () => this.now,
        logger: { ...logger, info: (fields: object) => this.#count(fields) } as typeof logger,
        signal: new AbortController().signal,
        remainingMs: () => 30_000,
      });
    } catch (error) {
      if (!(error instanceof Crash)) {
        throw error;
      }
    }
    const wake = this.#record === null ? undefined : wakeOf(this.#record);
    const everyMs = wake !== undefined && 'every' in wake ? wake.every * 1000 : Infinity;
    this.#lookDueMs = Math.min(this.#lookDueMs, this.goverse.nowMs + everyMs);
    return decision;
  }

  snapshot(): ReleaseSnapshot {
    return {
      cluster: { ...this.cluster, status: this.status, resourceVersion: String(this.#version) },
      record: this.#readRecord(),
      view: this.isEtcdGone ? unknown('etcd does not answer') : present(this.goverse.view()),
      pods: present([...this.#pods.values()].map(({ view }) => view)),
    };
  }

  #readRecord() {
    const annotations =
      this.#record === null ? {} : { [recordAnnotation('shard-release')]: this.#record };
    return readReleaseRecord({ uid: this.cluster.uid, annotations });
  }

  #addPod(node: string): void {
    this.#made += 1;
    this.#pods.set(node, {
      node,
      view: {
        name: node,
        uid: `pod-${node}-${this.#made}`,
        resourceVersion: '1',
        ips: [],
        address: null,
        isBeingDeleted: false,
        isAskedToLeave: false,
        mode: null,
        graceSeconds: 120,
        mirror: null,
      },
    });
  }

  #change(node: string, change: Partial<PodView>): void {
    const pod = this.#pods.get(node);
    if (pod !== undefined) {
      this.#version += 1;
      const view = { ...pod.view, ...change, resourceVersion: String(this.#version) };
      this.#pods.set(node, { ...pod, view });
      this.touch();
    }
  }

  #target(): KubeObject<'GoverseCluster'> {
    const { namespace, name, uid, generation } = this.cluster;
    const annotations =
      this.#record === null ? {} : { [recordAnnotation('shard-release')]: this.#record };
    return {
      metadata: {
        namespace,
        name,
        uid,
        generation,
        annotations,
        resourceVersion: String(this.#version),
      },
    } as KubeObject<'GoverseCluster'>;
  }

  #writers(): Writers {
    const neverAsked = () => expect.unreachable('shard-release has nothing to do with it');
    const written = () => {
      this.#version += 1;
      this.writesOfObjects += 1;
      return { kind: 'written' as const, resourceVersion: String(this.#version) };
    };
    return {
      kube: {
        get: async () => absent,
        swapAnnotation: async (_ref, { next, previous }) => {
          expect(previous).toBe(this.#record);
          this.#record = next;
          // Its own write is a change that the relay tells of.
          this.touch();
          return written();
        },
        mergePatch: async ({ name }, patch) => {
          const [mirror] = Object.values(
            (patch as { metadata: { annotations: Record<string, string | null> } }).metadata
              .annotations,
          );
          this.#change(name, { mirror: mirror ?? null });
          return written();
        },
        applyStatus: async (_ref, status) => {
          this.status = goverseClusterStatusSchema.parse(structuredClone(status));
          return written();
        },
        create: async () => written(),
        delete: neverAsked,
      },
      goverse: async () => ({ writeShards: async (writes) => this.#write(writes) }),
      topology: neverAsked,
      admin: neverAsked,
      repository: neverAsked,
    };
  }

  /** H1, H2 and H5 at each write: a revision that was read, `current` and foreign flags as they are, and no foreign pin. */
  #write(writes: readonly ShardWrite[]) {
    if (this.diesAfterBatches === 0) {
      this.diesAfterBatches = undefined;
      throw new Crash('the process is gone');
    }
    const before = new Map(this.goverse.view().shards.map((shard) => [shard.shard, shard]));
    for (const write of writes) {
      const known = before.get(write.shard);
      expect(known).toBeDefined();
      if (known?.modRevision === write.modRevision) {
        const foreign = known.flags.filter(
          (flag) => flag !== 'pinned' && flag !== `millrace-${mark}`,
        );
        expect(write.current).toBe(known.current);
        expect(write.flags).toEqual(expect.arrayContaining(foreign));
        expect(isPinned(known) && marksOf(known).length === 0).toBe(false);
        expect(isPinned(write)).toBe(marksOf(write).length > 0);
      }
    }
    const answer = this.goverse.swap(writes);
    if (answer.kind === 'written') {
      this.batches += 1;
    }
    if (this.diesAfterBatches !== undefined) {
      this.diesAfterBatches -= 1;
    }
    return answer;
  }

  #count(fields: object): void {
    if ('metric' in fields && 'count' in fields) {
      const { metric, count, ...labels } = fields;
      this.counted.push([metric, ...Object.values(labels), count].join(' '));
    }
  }
}
