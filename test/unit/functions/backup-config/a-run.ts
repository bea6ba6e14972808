import { confirmRepository } from '#shared/api/annotations.ts';
import type { Decision } from '#shared/kernel/decision.ts';
import { type Execution, type Writers, execute } from '#shared/kernel/execute.ts';
import { createLogger } from '#shared/kernel/logger.ts';
import type { Ports } from '#shared/kernel/ports.ts';
import { absent, present } from '#shared/kernel/read.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import type { OwnerObject, RepositorySurvey } from '#shared/repository/repository.ts';
import type { WriteResult } from '#shared/kube/kube.ts';
import { parseOwner } from '#shared/api/repository-owner.ts';
import type { DatabaseRecord } from '#shared/topology/topology.ts';
import { backupConfig } from '#functions/backup-config/step.ts';
import { KubeModel } from '#test/builders/kube-model.ts';
import { aDatabase } from '#test/builders/shard.ts';
import { type Repository, now, sound } from './a-look.ts';
import { noGoverse } from '#test/builders/no-goverse.ts';

const logger = createLogger('silent', {});
const signal = new AbortController().signal;

/** What was thrown in place of a reply: the process is gone. */
export class Crash extends Error {}

/**
 * backup-config at work: its own observe, decide and the executor on a model of the API server, a topology of one record
 * with revisions, and a bucket of one object with versions.
 */
export class Run {
  readonly kube = new KubeModel();
  /** The data plane's record; `null` until it is registered. */
  topology: DatabaseRecord | null = { modRevision: '42', place: null, mustEncrypt: false };
  /** Each value the topology's place has had, oldest first. */
  readonly places: (DatabaseRecord['place'] | undefined)[] = [];
  /** The owner object. */
  owner: { etag: string; text: string } | null = null;
  /** Reads say that it is not there, and writes that it is. */
  isOwnerHidden = false;
  now = now;
  /** Answers that differ from those of a sound bucket. */
  survey: Partial<RepositorySurvey> = {};
  /** Runs before each write; what it throws comes in place of the write. */
  beforeWrite: (name: string) => void = () => undefined;
  /** Runs after each write; what it throws comes in place of the reply. */
  afterWrite: (name: string) => void = () => undefined;
  readonly clusterId: string;
  #versions = 100;

  constructor(repository: Repository | null, clusterId = 'test') {
    this.clusterId = clusterId;
    this.kube.put('Database', aDatabase(repository === null ? {} : { backup: { repository } }));
  }

  get database(): KubeObject<'Database'> {
    return this.kube.the('Database', 'main');
  }

  /** A person changes the spec. */
  want(repository: Repository | null): void {
    this.kube.change('Database', 'main', ({ metadata, spec, ...rest }) => {
      const { backup: _before, ...others } = spec;
      const backup = repository === null ? {} : { backup: { repository } };
      return {
        ...rest,
        metadata: { ...metadata, generation: (metadata.generation ?? 0) + 1 },
        spec: { ...others, ...backup },
      };
    });
  }

  /** A person allows the backups to move to the place with this hash. */
  confirm(hash: string): void {
    this.kube.change('Database', 'main', (database) => {
      const { annotations, ...metadata } = database.metadata;
      return {
        ...database,
        metadata: { ...metadata, annotations: { ...annotations, [confirmRepository]: hash } },
      };
    });
  }

  /** Made anew under its name, as after a deletion: another uid, no status, no record. */
  recreate(uid: string): void {
    const { status: _gone, ...database } = this.database;
    const { annotations: _none, ...metadata } = database.metadata;
    this.kube.put('Database', { ...database, metadata: { ...metadata, uid } });
  }

  /** A look up to its decision, and what performs it whenever that is. */
  async begin(): Promise<{
    readonly decision: Decision;
    readonly perform: () => Promise<Execution>;
  }> {
    const database = this.database;
    const snapshot = await backupConfig.observe(
      present(database),
      this.#ports,
      signal,
      () => this.now,
    );
    const decision = backupConfig.decide(snapshot, this.now);
    return {
      decision,
      perform: () =>
        execute(backupConfig, database, decision, this.#writers, {
          clock: () => this.now,
          logger,
          signal,
          remainingMs: () => 30_000,
        }),
    };
  }

  async look(): Promise<Decision> {
    const { decision, perform } = await this.begin();
    await perform();
    return decision;
  }

  /** Looks until one acts no more. */
  async settle(): Promise<Decision> {
    for (let look = 0; look < 10; look += 1) {
      const decision = await this.look();
      if (decision.outcome !== 'acting') {
        return decision;
      }
    }
    throw new Error('backup-config did not settle within ten looks');
  }

  get #ports(): Ports {
    return {
      clusterId: this.clusterId,
      kube: this.kube,
      goverse: noGoverse,
      topology: () => ({
        poolers: neverAsked,
        backupLease: neverAsked,
        database: async () => (this.topology === null ? absent : present(this.topology)),
      }),
      admin: neverAsked,
      repository: () => ({
        survey: async () => ({ ...sound, owner: this.#ownerRead(), ...this.survey }),
      }),
    };
  }

  #ownerRead() {
    return this.owner === null || this.isOwnerHidden
      ? absent
      : present<OwnerObject>({
          etag: this.owner.etag,
          owner: parseOwner(this.owner.text) ?? null,
        });
  }

  get #writers(): Writers {
    return {
      kube: this.kube,
      goverse: noGoverse,
      admin: neverAsked,
      topology: async () => ({
        retire: neverAsked,
        remove: neverAsked,
        rewriteDatabase: async (_name, change, modRevision) =>
          this.#write('topology', () => {
            if (this.topology?.modRevision !== modRevision) {
              return { kind: 'lostRace', why: 'the revision has moved' };
            }
            this.topology = {
              modRevision: this.#next(),
              place: change.place ?? this.topology.place,
              mustEncrypt: change.mustEncrypt ?? this.topology.mustEncrypt,
            };
            this.places.push(this.topology.place);
            return { kind: 'written', resourceVersion: this.topology.modRevision };
          }),
      }),
      repository: async () => ({
        put: async (_key, text, guard) =>
          this.#write('owner', () => {
            const holds =
              'ifMatch' in guard ? this.owner?.etag === guard.ifMatch : this.owner === null;
            if (!holds) {
              return { kind: 'lostRace', why: '412' };
            }
            this.owner = { etag: this.#next(), text };
            return { kind: 'written', resourceVersion: this.owner.etag };
          }),
      }),
    };
  }

  #write(name: string, write: () => WriteResult): WriteResult {
    this.beforeWrite(name);
    const result = write();
    this.afterWrite(name);
    return result;
  }

  #next(): string {
    return String((this.#versions += 1));
  }
}

function neverAsked(): never {
  throw new Error('backup-config does not ask for it');
}
