import type { Backup, BackupJob } from '#shared/admin/admin.ts';
import type { BackupSchedule } from '#shared/api/backup.ts';
import { recordAnnotation } from '#shared/api/annotations.ts';
import { readDrainRecord } from '#shared/api/drain-record.ts';
import { decide } from '#functions/backup-trigger/decide.ts';
import { observe } from '#functions/backup-trigger/observe.ts';
import { type BackupRecord, type Run, readBackupRecord } from '#functions/backup-trigger/record.ts';
import { backupTrigger } from '#functions/backup-trigger/step.ts';
import { type Invocation, type Writers, execute } from '#shared/kernel/execute.ts';
import {
  type Clock,
  type Instant,
  parseInstant,
  plusSeconds,
  toText,
} from '#shared/kernel/instant.ts';
import { RetryableError, TerminalError } from '#shared/kernel/errors.ts';
import { createLogger } from '#shared/kernel/logger.ts';
import { type Read, absent, present, unknown } from '#shared/kernel/read.ts';
import type { JsonObject } from '#shared/kube/json.ts';
import type { WriteResult } from '#shared/kube/kube.ts';
import type { KubeObject, ObjectRef, ResourceKind } from '#shared/kube/resources.ts';
import { KubeModel } from '#test/builders/kube-model.ts';
import { aDatabase, aShard } from '#test/builders/shard.ts';
import { noGoverse } from '#test/builders/no-goverse.ts';

/** What strikes a look. */
export type Strike =
  | { readonly kind: 'none' | 'lostReply' | 'lostRequest' | 'jobRefused' }
  /** The handler ends before, or after, its write of this number. */
  | { readonly kind: 'crashBefore' | 'crashAfter'; readonly write: number }
  /** The handler's clock is wrong by so many seconds. */
  | { readonly kind: 'wrongClock'; readonly seconds: number };

class Crash extends Error {}

/** A start that is later after its intent than this was not to be sent, in seconds. */
const sentWithinSeconds = 10;

/**
 * One shard with schedules over a model API server and a data plane that runs one backup at a time, in virtual time, with
 * the step's own observe and decide and the kernel's own executor. Whatever goes against the step's promises is kept as a
 * sentence in `violations`.
 */
export class SimulatedShard {
  readonly kube = new KubeModel();
  readonly plane: SimulatedPlane;
  readonly violations: string[] = [];
  /** Starts that reached the data plane, by `<schedule>/<slot>/<attempt>`. */
  readonly starts = new Map<string, number>();
  /** Slots that were passed over, and slots whose run was begun, as committed decisions count them, by schedule. */
  readonly passedOver = new Map<string, number>();
  readonly begun = new Map<string, number>();
  /** How runs ended, by committed decisions. */
  readonly results = new Map<string, number>();
  /** When each schedule was last in force again. */
  readonly inForceSince = new Map<string, Instant>();
  now: Instant;

  constructor(start: Instant, schedules: readonly BackupSchedule[], plane: SimulatedPlane) {
    this.now = start;
    this.plane = plane;
    const shard = aShard().build();
    this.kube.put('Database', aDatabase()).put('Shard', {
      ...shard,
      metadata: { ...shard.metadata, generation: 1, managedFields: changedAt(start) },
      spec: { ...shard.spec, backup: { schedules, jobTemplate } },
    });
    for (const { name } of schedules) {
      this.inForceSince.set(name, start);
    }
  }

  get shard(): KubeObject<'Shard'> {
    return this.kube.the('Shard', 'orders');
  }

  get record(): BackupRecord | null {
    const read = readBackupRecord(this.shard.metadata);
    return read.kind === 'ours' ? read.record : null;
  }

  /** A person's edit of the schedules: the spec's generation and the time of its change move. */
  edit(change: (schedule: BackupSchedule) => BackupSchedule): void {
    this.kube.change('Shard', 'orders', (shard) => {
      const schedules = (shard.spec.backup?.schedules ?? []).map(change);
      for (const { name, suspend } of schedules) {
        const before = shard.spec.backup?.schedules.find((schedule) => schedule.name === name);
        if (before?.suspend === true && !suspend) {
          this.inForceSince.set(name, this.now);
        }
      }
      return {
        ...shard,
        metadata: {
          ...shard.metadata,
          generation: (shard.metadata.generation ?? 0) + 1,
          managedFields: changedAt(this.now),
        },
        spec: { ...shard.spec, backup: { ...shard.spec.backup, schedules } },
      };
    });
  }

  annotate(key: string, value: string | undefined): void {
    this.kube.change('Shard', 'orders', (shard) => {
      const { [key]: _, ...rest } = shard.metadata.annotations ?? {};
      const annotations = value === undefined ? rest : { ...rest, [key]: value };
      return { ...shard, metadata: { ...shard.metadata, annotations } };
    });
  }

  /** Time passes in the data plane and for the Jobs; one that was released goes at once. */
  pass(seconds: number): void {
    this.now = plusSeconds(this.now, seconds);
    const ended = this.plane.pass(this.now);
    if (ended !== null) {
      this.kube.change('Job', ended.name, (job) => ({ ...job, status: statusOf(ended.type) }));
    }
    for (const job of this.kube.all('Job')) {
      if (job.spec?.ttlSecondsAfterFinished !== undefined) {
        this.kube.remove('Job', job.metadata.name);
      }
    }
  }

  /** A person removes a Job, whatever it does. */
  removeJob(): void {
    const name = this.kube.all('Job').at(-1)?.metadata.name;
    if (name !== undefined) {
      this.kube.remove('Job', name);
      this.plane.endJob(name);
    }
  }

  /** One look with a fresh view. @returns whether it wrote the record */
  async look(strike: Strike = { kind: 'none' }): Promise<boolean> {
    return (await this.prepare(strike))();
  }

  /** Reads and decides now; what is returned writes, as late as it is called. */
  async prepare(strike: Strike = { kind: 'none' }): Promise<() => Promise<boolean>> {
    const skew = strike.kind === 'wrongClock' ? strike.seconds : 0;
    const clock = () => plusSeconds(this.now, skew);
    const target = this.shard;
    const snapshot = await observe(
      present(target),
      {
        clusterId: 'test',
        kube: this.kube,
        goverse: noGoverse,
        topology: () => this.plane.topology,
        admin: () => this.plane.admin,
        repository: () => ({
          survey: () => Promise.reject(new Error('this step does not ask for it')),
        }),
      },
      new AbortController().signal,
    );
    const decision = decide(snapshot, clock());
    return async () => {
      const before = this.shard.metadata.annotations?.[recordAnnotation('backup-trigger')];
      const invocation: Invocation = {
        clock,
        logger: createLogger('silent', {}),
        signal: new AbortController().signal,
        remainingMs: () => 30_000,
      };
      try {
        await execute(backupTrigger, target, decision, this.#writers(strike, clock), invocation);
      } catch (error) {
        if (!(error instanceof Crash) && !(error instanceof RetryableError)) {
          throw error;
        }
      }
      const after = this.shard.metadata.annotations?.[recordAnnotation('backup-trigger')];
      const isCommitted = before !== after;
      if (isCommitted) {
        for (const { metric, labels, count } of decision.counts ?? []) {
          if (metric === 'backup_skipped_total') {
            add(this.passedOver, labels.schedule, count);
          } else if (metric === 'backup_runs_total') {
            add(this.results, labels.result, count);
            this.#noteEnd(target, labels.result);
          }
        }
        this.#noteIntent(before);
      }
      return isCommitted;
    };
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

  /** What is said of a run must be so: that it made a backup, or that it does not run. */
  #noteEnd(target: KubeObject<'Shard'>, result: string): void {
    const before = readBackupRecord(target.metadata);
    const run = before.kind === 'ours' ? before.record.data.run : undefined;
    if (run === undefined) {
      return;
    }
    const key = keyOf(run);
    const why = this.record?.data.schedules[run.schedule]?.why;
    if ((result === 'succeeded' || result === 'adopted') && !this.plane.made.has(key)) {
      this.violations.push(`${toText(this.now)}: ${key} ${result} and made no backup`);
    }
    if (why !== 'RunDeadline' && this.plane.runningKeys.includes(key)) {
      this.violations.push(`${toText(this.now)}: ${key} ended as ${result} and still runs`);
    }
  }

  #noteIntent(before: string | undefined): void {
    const run = this.record?.data.run;
    const key = run === undefined ? '' : `"key":"${this.record?.key ?? ''}"`;
    if (run !== undefined && run.attempt === 0 && before?.includes(key) !== true) {
      add(this.begun, run.schedule, 1);
    }
  }

  #writers(strike: Strike, clock: Clock): Writers {
    let writes = 0;
    const struck =
      <Given extends unknown[], Answer>(write: (...given: Given) => Promise<Answer>) =>
      async (...given: Given): Promise<Answer> => {
        writes += 1;
        if (strike.kind === 'crashBefore' && strike.write === writes) {
          throw new Crash();
        }
        const answer = await write(...given);
        if (strike.kind === 'crashAfter' && strike.write === writes) {
          throw new Crash();
        }
        return answer;
      };
    const { kube } = this;
    const makeJob = struck(
      async <K extends ResourceKind>(ref: ObjectRef<K>, manifest: JsonObject) => {
        if (strike.kind === 'jobRefused') {
          throw new TerminalError('WriteInvalid', `writing Job db/${ref.name}: 422 Invalid`);
        }
        if (strike.kind === 'lostRequest') {
          throw new RetryableError('WriteOutcomeUnknown', 'no answer');
        }
        const made = await kube.create(ref, manifest);
        if (made.kind === 'written') {
          const key = this.#noteStart(clock());
          this.plane.startJob(ref.name, key, this.record?.data.run?.type ?? 'full', this.now);
        }
        if (strike.kind === 'lostReply') {
          throw new RetryableError('WriteOutcomeUnknown', 'no answer');
        }
        return made;
      },
    );
    return {
      kube: {
        get: (ref) => kube.get(ref),
        swapAnnotation: struck((ref, change) => kube.swapAnnotation(ref, change)),
        mergePatch: struck((ref, patch, guard) => kube.mergePatch(ref, patch, guard)),
        applyStatus: struck((_ref, status, _manager, guard) => this.#applyStatus(status, guard)),
        create: async (ref, manifest) =>
          // Nobody reads Events, and thousands would slow the model down.
          ref.kind === 'Job' ? makeJob(ref, manifest) : { kind: 'written', resourceVersion: '' },
        delete: (ref, guard) => kube.delete(ref, guard),
      },
      goverse: noGoverse,
      topology: () => Promise.reject(new Error('this step writes nothing there')),
      repository: () => Promise.reject(new Error('this step writes nothing there')),
      admin: async () => ({
        switchPrimary: () => Promise.reject(new Error('this step does not ask for it')),
        startBackup: struck(async (_shard, type) => {
          if (strike.kind === 'lostRequest') {
            return { kind: 'unknown', why: 'no answer' };
          }
          const key = this.#noteStart(clock());
          const result = this.plane.start(key, type, this.now);
          return strike.kind === 'lostReply' ? { kind: 'unknown', why: 'no answer' } : result;
        }),
      }),
    };
  }

  /**
   * @param sentAt by the clock of the handler that sends
   * @returns what is started
   */
  #noteStart(sentAt: Instant): string {
    const run = this.record?.data.run;
    if (run === undefined) {
      this.violations.push(`${toText(this.now)}: started without an intent`);
      return '';
    }
    const key = keyOf(run);
    if (sentAt >= plusSeconds(parseInstant(run.at) ?? (0 as Instant), sentWithinSeconds)) {
      this.violations.push(`${toText(this.now)}: ${key} was sent too long after its intent`);
    }
    const drain = readDrainRecord(this.shard.metadata);
    if (drain.kind === 'ours' && drain.record.state === 'finished') {
      this.violations.push(`${toText(this.now)}: ${key} started beside a drain`);
    }
    add(this.starts, key, 1);
    if ((this.starts.get(key) ?? 0) > 1) {
      this.violations.push(`${toText(this.now)}: ${key} started twice`);
    }
    if (this.plane.isBusy(this.now) || this.plane.runningJob !== null) {
      this.violations.push(`${toText(this.now)}: ${key} started while a backup ran`);
    }
    const slot = parseInstant(run.slot);
    const since = this.inForceSince.get(run.schedule);
    if (slot !== undefined && since !== undefined && slot <= since) {
      this.violations.push(`${key} is from before its schedule was in force (${toText(since)})`);
    }
    const schedule = this.shard.spec.backup?.schedules.find(({ name }) => name === run.schedule);
    if (schedule?.suspend === true) {
      this.violations.push(`${key} started while its schedule was suspended`);
    }
    return key;
  }
}

const jobTemplate = { spec: { containers: [{ name: 'backup', image: 'backup' }] } };

function keyOf({ schedule, slot, attempt }: Run): string {
  return `${schedule}/${slot}/${attempt}`;
}

export function add(counts: Map<string, number>, key: string, count: number): void {
  counts.set(key, (counts.get(key) ?? 0) + count);
}

function statusOf(type: 'Complete' | 'Failed') {
  return { conditions: [{ type, status: 'True' as const, message: 'as the job controller says' }] };
}

function changedAt(instant: Instant) {
  return [{ time: toText(instant), fieldsV1: { 'f:spec': {} } }];
}

/** A data plane in virtual time: one backup at a time, jobs that a restart forgets, reads that may fail. */
export class SimulatedPlane {
  readonly #random: () => number;
  readonly #backups: Backup[] = [];
  #jobs = new Map<string, BackupJob>();
  #running: {
    readonly job: string;
    readonly key: string;
    readonly type: Backup['type'];
    from: Instant;
    to: Instant;
    fails: boolean;
  } | null = null;
  #jobRun: {
    readonly name: string;
    readonly key: string;
    readonly type: Backup['type'];
    from: Instant;
    to: Instant;
  } | null = null;
  /** Whose backups were complete once. */
  readonly made = new Set<string>();
  #foreignUntil = 0 as Instant;
  #count = 0;
  /** How likely a read has no answer, and a backup fails. */
  unanswered = 0;
  failing = 0;
  now = 0 as Instant;

  constructor(random: () => number) {
    this.#random = random;
  }

  readonly topology = {
    database: async () => unknown('this step does not ask'),
    poolers: async () => unknown('this step does not ask'),
    backupLease: async () =>
      this.#read(() => (this.isBusy(this.now) ? present({ holder: 'a pooler' }) : absent)),
  };

  readonly admin = {
    poolerStatus: async () => unknown('this step does not ask'),
    backupJob: async (_shard: unknown, job: string) =>
      this.#read((): Read<BackupJob> => {
        const known = this.#jobs.get(job);
        return known === undefined ? absent : present(known);
      }),
    backups: async () => this.#read(() => present(structuredClone(this.#backups))),
  };

  get isRunning(): boolean {
    return this.#running !== null;
  }

  isBusy(now: Instant): boolean {
    return this.#running !== null || now < this.#foreignUntil;
  }

  start(key: string, type: Backup['type'], now: Instant) {
    this.#count += 1;
    const job = `job-${this.#count}`;
    const seconds = 5 + Math.floor(this.#random() ** 6 * 400);
    this.#running = {
      job,
      key,
      type,
      from: now,
      to: plusSeconds(now, seconds),
      fails: this.#random() < this.failing,
    };
    this.#jobs.set(job, { status: 'running', backup: null, why: null });
    return { kind: 'started' as const, job };
  }

  /** What runs now, whoever has forgotten it. */
  get runningKeys(): readonly string[] {
    return [this.#running, this.#jobRun].flatMap((run) => run?.key ?? []);
  }

  get runningJob(): string | null {
    return this.#jobRun?.name ?? null;
  }

  /** The container of a Job backs up by its own means, without the lease. */
  startJob(name: string, key: string, type: Backup['type'], now: Instant): void {
    const seconds = 5 + Math.floor(this.#random() ** 6 * 400);
    this.#jobRun = { name, key, type, from: now, to: plusSeconds(now, seconds) };
  }

  /** Its Job was removed, and its pod with it. */
  endJob(name: string): void {
    if (this.#jobRun?.name === name) {
      this.#jobRun = null;
    }
  }

  /** Somebody else backs up. */
  holdLease(until: Instant): void {
    if (this.#running === null && this.#jobRun === null) {
      this.#foreignUntil = until;
    }
  }

  /** What it had asked for is killed, and its jobs are forgotten. */
  restart(): void {
    this.#running = null;
    this.#jobs = new Map();
  }

  /** @returns the Job that ended, and how */
  pass(now: Instant): { readonly name: string; readonly type: 'Complete' | 'Failed' } | null {
    this.now = now;
    this.#passRun(now);
    const job = this.#jobRun;
    if (job === null || job.to > now) {
      return null;
    }
    this.#jobRun = null;
    if (this.#random() < this.failing) {
      return { name: job.name, type: 'Failed' };
    }
    // A container may end well and have made nothing.
    if (this.#random() >= this.failing) {
      this.made.add(job.key);
      this.#count += 1;
      this.#list({ id: `backup-${this.#count}`, type: job.type, job: null }, job);
    }
    return { name: job.name, type: 'Complete' };
  }

  #passRun(now: Instant): void {
    const run = this.#running;
    if (run === null || run.to > now) {
      return;
    }
    this.#running = null;
    const id = `backup-${this.#count}`;
    if (run.fails) {
      this.#jobs.set(run.job, { status: 'failed', backup: null, why: 'exit status 63' });
      return;
    }
    this.#jobs.set(run.job, { status: 'completed', backup: id, why: null });
    this.made.add(run.key);
    this.#list({ id, type: run.type, job: run.job }, run);
  }

  #list(
    backup: Pick<Backup, 'id' | 'type' | 'job'>,
    { from, to }: { readonly from: Instant; readonly to: Instant },
  ): void {
    this.#backups.push({
      ...backup,
      status: 'complete',
      startedAt: toText(from),
      stoppedAt: toText(to),
      sizeBytes: '1000',
    });
    // As many as a repository keeps.
    this.#backups.splice(0, Math.max(0, this.#backups.length - 7));
  }

  #read<T>(answer: () => Read<T>): Read<T> {
    return this.#random() < this.unanswered ? unknown('no answer within 3 s') : answer();
  }
}
