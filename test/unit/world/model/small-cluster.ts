import type { DataPlaneConfig } from '#infra/local/data-plane/state.ts';
import { viewOf } from '#infra/local/data-plane/core.ts';
import { cellLabel, poolLabel, shardLabel } from '#shared/api/labels.ts';
import { poolerName } from '#shared/api/names.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import type { KubeRequest, KubeResponse } from '#shared/kube/connection.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import { decodePooler } from '#shared/topology/pooler-record.ts';
import type { PoolerRecord } from '#shared/topology/topology.ts';
import { ApiServer, type Commit } from '#test/world/model/api-server.ts';
import { Etcd } from '#test/world/model/etcd.ts';
import { type AdminAnswer, type AdminQuestion, Multigres } from '#test/world/model/multigres.ts';

export const start = Date.UTC(2026, 0, 1) as Instant;

const config: DataPlaneConfig = {
  speed: 1,
  shard: { database: 'postgres', tableGroup: 'default', shard: '0-inf' },
  globalRoot: '/multigres/global',
  cellRoot: '/multigres/{cell}',
  serverAddress: 'topology:2379',
  requiredCount: 2,
  legacyPods: [],
};

const cell = 'zone-a';
const pods = '/api/v1/namespaces/db/pods';
const claims = '/api/v1/namespaces/db/persistentvolumeclaims';

/** API server, etcd and one data plane, with a clock that jumps from one due time to the next. */
export class SmallCluster {
  readonly api: ApiServer;
  readonly etcd: Etcd;
  readonly multigres: Multigres;
  now: Instant = start;
  /** What the node wrote. */
  commits: readonly Commit[] = [];
  answers: readonly AdminAnswer[] = [];

  /** @param shardName the node's own shard, where it has one */
  constructor(seed = 1, shardName?: string, copyOf?: SmallCluster) {
    this.api = copyOf?.api.fork() ?? new ApiServer({ namespaces: ['db'] });
    this.etcd = copyOf?.etcd.fork() ?? new Etcd();
    this.multigres =
      copyOf?.multigres.fork() ??
      new Multigres({
        config,
        seed,
        cells: [],
        nowMs: start,
        ...(shardName === undefined ? {} : { shardName }),
      });
    if (copyOf !== undefined) {
      this.now = copyOf.now;
      this.commits = copyOf.commits;
      this.answers = copyOf.answers;
    }
  }

  fork(): SmallCluster {
    return new SmallCluster(0, undefined, this);
  }

  /** @throws Error for any answer but a success */
  send(request: KubeRequest): KubeResponse {
    const { response } = this.api.handle(request, this.now);
    if (response.status >= 300) {
      throw new Error(`${request.method} ${request.path}: ${JSON.stringify(response)}`);
    }
    return response;
  }

  createClaim(pod: string): void {
    this.send({
      method: 'POST',
      path: claims,
      body: {
        apiVersion: 'v1',
        kind: 'PersistentVolumeClaim',
        metadata: { name: `data-${pod}` },
        spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
      },
    });
  }

  createPod(name: string, shard = 'orders', gates: readonly string[] = []): void {
    this.send({
      method: 'POST',
      path: pods,
      body: {
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: {
          name,
          labels: { [shardLabel]: shard, [poolLabel]: 'main', [cellLabel]: cell },
        },
        spec: {
          subdomain: shard,
          containers: [{ name: 'pooler', image: 'pooler' }],
          volumes: [{ name: 'data', persistentVolumeClaim: { claimName: `data-${name}` } }],
          ...(gates.length === 0 ? {} : { schedulingGates: gates.map((gate) => ({ name: gate })) }),
        },
      },
    });
  }

  createMember(name: string): void {
    this.createClaim(name);
    this.createPod(name);
  }

  deletePod(name: string, gracePeriodSeconds?: number): void {
    this.send({
      method: 'DELETE',
      path: `${pods}/${name}`,
      ...(gracePeriodSeconds === undefined ? {} : { body: { gracePeriodSeconds } }),
    });
  }

  pod(name: string): KubeObject<'Pod'> | undefined {
    return this.api.get('Pod', 'db', name);
  }

  isReady(name: string): boolean {
    const conditions = this.pod(name)?.status?.conditions ?? [];
    return conditions.some(({ type, status }) => type === 'Ready' && status === 'True');
  }

  record(pod: string): Omit<PoolerRecord, 'key' | 'storeCell' | 'modRevision'> | undefined {
    const name = poolerName(cell, pod);
    const entry = this.etcd.read(`/multigres/${cell}/poolers/multipooler-${cell}-${name}/Pooler`);
    const decoded = entry && decodePooler(entry.value);
    return decoded?.kind === 'decoded' ? decoded.record : undefined;
  }

  leaderPod(): string {
    const leader = viewOf(this.multigres.state).members.find(({ role }) => role === 'primary');
    if (leader === undefined) {
      throw new Error('nobody leads');
    }
    return leader.pod;
  }

  replicaPods(): readonly string[] {
    const { members } = viewOf(this.multigres.state);
    return members.filter(({ role }) => role === 'replica').map(({ pod }) => pod);
  }

  cohort(): readonly string[] {
    return viewOf(this.multigres.state)
      .cohort.map(({ name }) => name)
      .toSorted();
  }

  /** Everything that follows at this instant. */
  pass(): void {
    const written = this.multigres.pass(this, this.now);
    this.commits = [...this.commits, ...written];
    this.answers = [...this.answers, ...this.multigres.takeReplies()];
  }

  runFor(durationMs: number): void {
    const end = this.now + durationMs;
    this.pass();
    while (this.multigres.nextDue() <= end) {
      this.now = this.multigres.nextDue();
      this.pass();
    }
    this.now = end as Instant;
    this.pass();
  }

  /** @returns how long it took, in milliseconds */
  runUntil(isReached: () => boolean, withinMs = 120_000): number {
    const began = this.now;
    this.pass();
    while (!isReached()) {
      this.now = this.multigres.nextDue();
      if (this.now > began + withinMs) {
        throw new Error(`not reached: ${JSON.stringify(viewOf(this.multigres.state))}`);
      }
      this.pass();
    }
    return this.now - began;
  }

  ask(question: AdminQuestion): AdminAnswer['reply'] {
    const id = this.multigres.ask(question, this, this.now);
    this.runUntil(() => this.answers.some((answer) => answer.id === id));
    return this.answers.find((answer) => answer.id === id)?.reply ?? 'dropped';
  }
}

export const members = ['orders-0', 'orders-1', 'orders-2'];

/** A shard of three members whose bootstrap is past. */
export function aSettledCluster(seed = 1): SmallCluster {
  const cluster = new SmallCluster(seed);
  for (const name of members) {
    cluster.createMember(name);
  }
  cluster.runUntil(() => members.every((name) => cluster.isReady(name)));
  cluster.runFor(10_000);
  return cluster;
}
