import { recordAnnotation, releasedClaim } from '#shared/api/annotations.ts';
import type { DrainCause, LeavingRecord } from '#shared/api/drain-record.ts';
import { claimName } from '#shared/api/names.ts';
import type { Decision } from '#shared/kernel/decision.ts';
import { execute } from '#shared/kernel/execute.ts';
import { createLogger } from '#shared/kernel/logger.ts';
import type { Ports } from '#shared/kernel/ports.ts';
import { type Read, present } from '#shared/kernel/read.ts';
import { recordText } from '#shared/kernel/record.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import type { Backup } from '#shared/admin/admin.ts';
import { poolPods } from '#functions/pool-pods/step.ts';
import { aDrainOf } from '#test/builders/drain-record.ts';
import { KubeModel } from '#test/builders/kube-model.ts';
import { nameOfPod } from '#test/builders/pod.ts';
import { type ShardBuilder, aDatabase } from '#test/builders/shard.ts';
import { now } from './a-snapshot.ts';
import { noGoverse } from '#test/builders/no-goverse.ts';

const logger = createLogger('silent', {});
const signal = new AbortController().signal;

/** Looks until the step settles; more than these mean that it never does. */
const maxLooks = 40;

/** pool-pods at work on a model of the API server: its own observe, decide and the executor. */
export class Run {
  readonly kube = new KubeModel();
  readonly #name: string;

  /** What the data plane answers when it is asked for the shard's backups. */
  backups: Read<readonly Backup[]> = present([aBackup('complete')]);
  /** How often it was asked. */
  questions = 0;

  constructor(shard: ShardBuilder, database: Parameters<typeof aDatabase>[0] = {}) {
    const built = shard.build();
    this.#name = built.metadata.name;
    this.kube.put('Shard', built).put('Database', aDatabase(database));
  }

  get shard(): KubeObject<'Shard'> {
    return this.kube.the('Shard', this.#name);
  }

  get ports(): Ports {
    return {
      clusterId: 'test',
      kube: this.kube,
      goverse: noGoverse,
      topology: neverAsked,
      admin: () => ({
        poolerStatus: neverAsked,
        backupJob: neverAsked,
        backups: async () => {
          this.questions += 1;
          return this.backups;
        },
      }),
      repository: neverAsked,
    };
  }

  /** One look. A lost race is looked at again, as the pipeline does. */
  async look(): Promise<Decision> {
    for (let look = 0; look < 3; look += 1) {
      const shard = this.shard;
      const snapshot = await poolPods.observe(present(shard), this.ports, signal, () => now);
      const decision = poolPods.decide(snapshot, now);
      const execution = await this.perform(shard, decision);
      if (execution.kind === 'done') {
        return decision;
      }
    }
    throw new Error('three looks in a row lost their race');
  }

  /** Performs a decision that was made for the Shard as it was then. */
  perform(shard: KubeObject<'Shard'>, decision: Decision) {
    return execute(
      poolPods,
      shard,
      decision,
      { kube: this.kube, topology: refuse, goverse: noGoverse, admin: refuse, repository: refuse },
      { clock: () => now, logger, signal, remainingMs: () => 30_000 },
    );
  }

  /** Looks until one acts no more, every pod becoming ready between two looks. */
  async settle(): Promise<Decision> {
    for (let look = 0; look < maxLooks; look += 1) {
      const decision = await this.look();
      const wasReady = this.kube.all('Pod').every(isReady);
      this.makePodsReady();
      if (decision.outcome !== 'acting' && wasReady) {
        return decision;
      }
    }
    throw new Error(`pool-pods did not settle within ${maxLooks} looks`);
  }

  makePodsReady(): void {
    for (const pod of this.kube.all('Pod')) {
      if (!isReady(pod) && pod.metadata.deletionTimestamp === undefined) {
        this.kube.change('Pod', pod.metadata.name, (object) => ({
          ...object,
          status: { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] },
        }));
      }
    }
  }

  /** Somebody edits the spec of the Database. */
  editDatabase(changes: Partial<KubeObject<'Database'>['spec']>): void {
    this.kube.change('Database', 'main', (database) => ({
      ...database,
      spec: { ...database.spec, ...changes },
    }));
  }

  /** Somebody edits the spec of the first pool. */
  scaleTo(replicasPerCell: number): void {
    this.kube.change('Shard', this.#name, (shard) => {
      const [first, ...others] = shard.spec.pools;
      if (first === undefined) {
        throw new Error('the shard has no pool');
      }
      const pools = [{ ...first, replicasPerCell }, ...others];
      const generation = (shard.metadata.generation ?? 0) + 1;
      return {
        ...shard,
        metadata: { ...shard.metadata, generation },
        spec: { ...shard.spec, pools },
      };
    });
  }

  /** A pod is asked to stop; it is there until {@link stop}. */
  terminate(index: number): void {
    this.#mark('Pod', this.pod(index));
  }

  stop(index: number): void {
    this.kube.remove('Pod', this.pod(index));
  }

  terminateClaim(index: number): void {
    this.#mark('PersistentVolumeClaim', claimName(this.pod(index)));
  }

  stopClaim(index: number): void {
    this.kube.remove('PersistentVolumeClaim', claimName(this.pod(index)));
  }

  /** What drain-step writes when it picks the pod at an index, and when it goes on. */
  openDrain(index: number, state: LeavingRecord['state'], cause: DrainCause): void {
    this.#setRecord(recordText(aDrainOf(this.shard, index, state, { cause })));
  }

  /** The end of a drain of a surplus member whose claim is kept. */
  closeDrain(released?: number): void {
    if (released !== undefined) {
      this.kube.change('PersistentVolumeClaim', claimName(this.pod(released)), (claim) => ({
        ...claim,
        metadata: { ...claim.metadata, annotations: { [releasedClaim]: 'the-pod-that-left' } },
      }));
    }
    this.#setRecord(null);
  }

  pod(index: number): string {
    return nameOfPod(this.shard, index);
  }

  /** Indices of the pods of the first pool, ascending. */
  get indices(): readonly number[] {
    return this.kube
      .all('Pod')
      .map(({ metadata }) => Number(metadata.name.split('-').at(-1)))
      .toSorted((a, b) => a - b);
  }

  #setRecord(text: string | null): void {
    this.kube.change('Shard', this.#name, (shard) => {
      const { [recordAnnotation('drain-step')]: _before, ...others } =
        shard.metadata.annotations ?? {};
      const annotations =
        text === null ? others : { ...others, [recordAnnotation('drain-step')]: text };
      return { ...shard, metadata: { ...shard.metadata, annotations } };
    });
  }

  #mark(kind: 'Pod' | 'PersistentVolumeClaim', name: string): void {
    this.kube.change(kind, name, (object) => ({
      ...object,
      metadata: { ...object.metadata, deletionTimestamp: '2026-01-01T00:00:00Z' },
    }));
  }
}

function isReady(pod: KubeObject<'Pod'>): boolean {
  return (
    pod.metadata.deletionTimestamp !== undefined ||
    (pod.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') ??
      false)
  );
}

function neverAsked(): never {
  throw new Error('pool-pods asks Kubernetes, and the data plane for backups only');
}

export function aBackup(status: Backup['status']): Backup {
  return {
    id: '20260101-000000F',
    type: 'full',
    status,
    job: null,
    startedAt: null,
    stoppedAt: null,
    sizeBytes: null,
  };
}

/** The writers that a step of Kubernetes alone must not reach. */
export function refuse(): Promise<never> {
  return Promise.reject(new Error('pool-pods writes to Kubernetes only'));
}
