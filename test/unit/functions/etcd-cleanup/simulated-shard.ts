import type { PoolerStatus } from '#shared/admin/admin.ts';
import { recordAnnotation } from '#shared/api/annotations.ts';
import { shardLabel } from '#shared/api/labels.ts';
import { podBaseName, podName } from '#shared/api/names.ts';
import { RetryableError } from '#shared/kernel/errors.ts';
import { type Invocation, type Writers, execute } from '#shared/kernel/execute.ts';
import { type Instant, plusSeconds } from '#shared/kernel/instant.ts';
import { createLogger } from '#shared/kernel/logger.ts';
import { present, unknown } from '#shared/kernel/read.ts';
import type { WriteResult } from '#shared/kube/kube.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import { isRecordOfPod } from '#shared/topology/identity.ts';
import { type PoolerRecord, isRetired, isSamePooler } from '#shared/topology/topology.ts';
import { decide } from '#functions/etcd-cleanup/decide.ts';
import type { CleanupSnapshot } from '#functions/etcd-cleanup/snapshot.ts';
import { observe } from '#functions/etcd-cleanup/observe.ts';
import { etcdCleanup } from '#functions/etcd-cleanup/step.ts';
import { KubeModel } from '#test/builders/kube-model.ts';
import { aDatabase, aShard } from '#test/builders/shard.ts';
import { aPooler, aStatus, stopped } from './a-cleanup.ts';
import { noGoverse } from '#test/builders/no-goverse.ts';

/** What strikes a look. */
export type Strike =
  | { readonly kind: 'none' | 'lostReply' | 'lostRequest' }
  /** The handler ends before, or after, its write of this number. */
  | { readonly kind: 'crashBefore' | 'crashAfter'; readonly write: number }
  | { readonly kind: 'unanswered'; readonly what: 'topology' | 'pods' | 'admin' };

class Crash extends Error {}

export const desired = 3;
const base = podBaseName('orders', 'main', 'zone-a');

/** Names of poolers: members, and some whose names are only like theirs. */
export const names: readonly string[] = [
  ...[0, 1, 2, 3, 10, 11, 20].map((index) => podName(base, index)),
  `${base}-1x`,
  'stranger-1',
];

/** A pooler that runs: its pod, and whether anybody would find that by its label. */
interface Live {
  readonly pod: 'labelled' | 'unlabelled' | 'elsewhere';
}

/**
 * One shard over a model API server and a topology of its own, in virtual time, with the step's own observe and decide and
 * the kernel's own executor. Whatever goes against the step's promises is kept as a sentence in `violations`.
 */
export class SimulatedShard {
  readonly looks: { readonly snapshot: CleanupSnapshot; readonly now: Instant }[] = [];
  readonly kube = new KubeModel();
  readonly live = new Map<string, Live>();
  readonly violations: string[] = [];
  /** When each change of the topology was made. */
  readonly changes: Instant[] = [];
  records: readonly PoolerRecord[] = [];
  now: Instant;
  #revision = 100;
  #term = 1;
  #writes = 0;
  readonly #maxPerPass: number;

  constructor(start: Instant, maxPerPass: number) {
    this.now = start;
    this.#maxPerPass = maxPerPass;
    const shard = aShard().withPool(desired).build();
    const cleanup = { enabled: true, quietFor: '10m', deleteAfter: '1h', maxPerPass };
    this.kube
      .put('Database', aDatabase())
      .put('Shard', { ...shard, spec: { ...shard.spec, cleanup } });
    for (const name of names.slice(0, desired)) {
      this.start(name, 'labelled');
    }
    this.lead(names[0] ?? '');
  }

  get shard(): KubeObject<'Shard'> {
    return this.kube.the('Shard', 'orders');
  }

  get writes(): number {
    return this.#writes;
  }

  get leader(): PoolerRecord | undefined {
    return this.records.find(({ role, id }) => role === 'primary' && this.live.has(id.name));
  }

  /** Its pod is made and its pooler writes its record; one of before is used again. */
  start(name: string, pod: Live['pod']): void {
    if (!this.live.has(name)) {
      this.makePod(name, pod);
      this.live.set(name, { pod });
      this.#write(aPooler(name, { hostname: `${name}.orders.db.svc` }));
    }
  }

  /** The pod is there, its pooler has not begun. */
  makePod(name: string, pod: Live['pod']): void {
    if (pod !== 'elsewhere') {
      const labels = pod === 'labelled' ? { [shardLabel]: 'orders' } : {};
      this.kube.put('Pod', {
        metadata: { name, namespace: 'db', uid: `${name}-uid`, resourceVersion: '1', labels },
      });
    }
  }

  /** It and its pod vanish, and the record stays as it is. */
  kill(name: string): void {
    this.live.delete(name);
    this.kube.remove('Pod', name);
  }

  stop(name: string): void {
    const record = this.#recordOf(name);
    if (record !== undefined && this.live.has(name)) {
      this.#write({ ...record, ...stopped, rule: null });
      this.kill(name);
    }
  }

  touch(name: string): void {
    const record = this.#recordOf(name);
    if (record !== undefined && this.live.has(name)) {
      this.#write(record);
    }
  }

  relabel(name: string): void {
    if (this.live.get(name)?.pod === 'labelled') {
      this.makePod(name, 'unlabelled');
      this.live.set(name, { pod: 'unlabelled' });
    }
  }

  lead(name: string): void {
    const record = this.#recordOf(name);
    if (record !== undefined && this.live.get(name)?.pod === 'labelled') {
      for (const other of this.records) {
        if (other.role === 'primary' && this.live.has(other.id.name)) {
          this.#write({ ...other, role: 'replica', rule: null });
        }
      }
      this.#term += 1;
      const rule = { term: String(this.#term), subterm: '0' };
      this.#write({ ...record, role: 'primary', rule });
    }
  }

  /** One look with a fresh view. */
  async look(strike: Strike = { kind: 'none' }): Promise<void> {
    await (
      await this.prepare(strike)
    )();
  }

  /** Reads and decides now; what is returned writes, as late as it is called. */
  async prepare(strike: Strike = { kind: 'none' }): Promise<() => Promise<void>> {
    const target = this.shard;
    const isUnanswered = (what: string) => strike.kind === 'unanswered' && strike.what === what;
    const snapshot = await observe(
      present(target),
      {
        clusterId: 'test',
        kube: {
          get: (ref) => this.kube.get(ref),
          list: async (kind, options) =>
            isUnanswered('pods') ? unknown('page 2: 410') : this.kube.list(kind, options),
        },
        goverse: noGoverse,
        topology: () => ({
          poolers: async () =>
            isUnanswered('topology')
              ? unknown('zone-a is down')
              : present({ poolers: this.records, undecodable: [] }),
          database: async () => unknown('this step does not ask'),
          backupLease: async () => unknown('this step does not ask'),
        }),
        admin: () => ({
          poolerStatus: async (id) =>
            isUnanswered('admin') || !this.live.has(id.name)
              ? unknown('no answer')
              : present(this.#statusOf(id.name)),
          backupJob: async () => unknown('this step does not ask'),
          backups: async () => unknown('this step does not ask'),
        }),
        repository: () => ({ survey: () => Promise.reject(new Error('not asked')) }),
      },
      new AbortController().signal,
      () => this.now,
    );
    this.looks.push({ snapshot, now: this.now });
    const decision = decide(snapshot, this.now);
    return async () => {
      const invocation: Invocation = {
        clock: () => this.now,
        logger: createLogger('silent', {}),
        signal: new AbortController().signal,
        remainingMs: () => 30_000,
      };
      try {
        await execute(etcdCleanup, target, decision, this.#writers(strike), invocation);
      } catch (error) {
        if (!(error instanceof Crash || error instanceof RetryableError)) {
          throw error;
        }
      }
    };
  }

  #statusOf(name: string): PoolerStatus {
    const leader = this.leader;
    const isLeader = leader?.id.name === name;
    return aStatus(name, {
      role: isLeader ? 'primary' : 'replica',
      decision:
        leader === undefined
          ? null
          : {
              rule: leader.rule ?? { term: '0', subterm: '0' },
              leader: leader.id,
              // Whoever says that it has stopped is taken out of the cohort.
              cohort: this.records.filter((it) => !isRetired(it)).map(({ id }) => id),
              policy: { kind: 'at-least-n', requiredCount: 2 },
            },
    });
  }

  #recordOf(name: string): PoolerRecord | undefined {
    return this.records.find(({ id }) => id.name === name);
  }

  #write(record: PoolerRecord): void {
    this.#revision += 1;
    const others = this.records.filter(({ id }) => !isSamePooler(id, record.id));
    this.records = [...others, { ...record, modRevision: String(this.#revision) }].toSorted(
      (a, b) => (a.key < b.key ? -1 : 1),
    );
  }

  #writers(strike: Strike): Writers {
    let writes = 0;
    const struck =
      <Given extends unknown[], Answer>(write: (...given: Given) => Promise<Answer>) =>
      async (...given: Given): Promise<Answer> => {
        writes += 1;
        this.#writes += 1;
        if (strike.kind === 'crashBefore' && strike.write === writes) {
          throw new Crash();
        }
        const answer = await write(...given);
        if (strike.kind === 'crashAfter' && strike.write === writes) {
          throw new Crash();
        }
        return answer;
      };
    const notAsked = () => Promise.reject(new Error('this step does not ask for it'));
    return {
      kube: {
        get: (ref) => this.kube.get(ref),
        swapAnnotation: struck((ref, change) => this.kube.swapAnnotation(ref, change)),
        applyStatus: struck((_ref, status, _manager, guard) => this.#applyStatus(status, guard)),
        create: async () => ({ kind: 'written', resourceVersion: '' }),
        mergePatch: notAsked,
        delete: notAsked,
      },
      goverse: noGoverse,
      topology: async () => ({
        retire: struck(async ({ key }, revision) =>
          this.#change(key, revision, strike, (record) =>
            this.#write({ ...record, ...stopped, rule: null }),
          ),
        ),
        remove: struck(async ({ key }, revision) =>
          this.#change(key, revision, strike, (record) => {
            if (!isRetired(record)) {
              this.violations.push(`${record.id.name}: deleted without its mark`);
            }
            this.records = this.records.filter((other) => other !== record);
          }),
        ),
        rewriteDatabase: notAsked,
      }),
      repository: notAsked,
      admin: notAsked,
    };
  }

  /** A compare-and-swap, with what is promised of it. */
  #change(
    key: string,
    revision: string,
    strike: Strike,
    change: (record: PoolerRecord) => void,
  ): WriteResult {
    const record = this.records.find((candidate) => candidate.key === key);
    if (strike.kind === 'lostRequest') {
      throw new RetryableError('TopologyUnreachable', 'no answer');
    }
    if (record?.modRevision !== revision) {
      return { kind: 'lostRace', why: 'the record moved' };
    }
    this.#judge(record);
    change(record);
    this.changes.push(this.now);
    if (strike.kind === 'lostReply') {
      throw new RetryableError('TopologyOutcomeUnknown', 'no answer');
    }
    return { kind: 'written', resourceVersion: String(this.#revision) };
  }

  #judge(record: PoolerRecord): void {
    if (this.live.has(record.id.name)) {
      this.violations.push(`${record.id.name}: changed while its pooler lived`);
    }
    const own = this.shard.metadata.annotations?.[recordAnnotation('etcd-cleanup')] ?? '';
    if (!own.includes(record.modRevision)) {
      this.violations.push(`${record.id.name}: changed under no record that names its revision`);
    }
    const since = plusSeconds(this.now, -600);
    const recent = this.changes.filter((at) => at > since).length;
    // A window as long as a pass touches two at most.
    if (recent >= 2 * this.#maxPerPass) {
      this.violations.push(`${record.id.name}: changed beyond the pass`);
    }
  }

  /** This step is the only one here, so what it applies is the whole status. */
  async #applyStatus(
    status: object,
    guard: { readonly uid: string; readonly resourceVersion: string },
  ): Promise<WriteResult> {
    if (this.shard.metadata.resourceVersion !== guard.resourceVersion) {
      return { kind: 'lostRace', why: 'the target moved' };
    }
    this.kube.change('Shard', 'orders', (shard) => ({ ...shard, status }));
    return { kind: 'written', resourceVersion: this.shard.metadata.resourceVersion };
  }

  /** Records that no pod is, of poolers that do not run. */
  get dead(): readonly PoolerRecord[] {
    const pods = this.kube.all('Pod').map(({ metadata }) => metadata.name);
    return this.records.filter(
      (record) => !this.live.has(record.id.name) && !pods.some((pod) => isRecordOfPod(record, pod)),
    );
  }
}
