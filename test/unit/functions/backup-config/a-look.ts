import { expect } from 'vitest';
import { type Database, databaseStatusSchema } from '#shared/api/database.ts';
import { type RepositoryPlace, wantedRepository } from '#shared/api/repository.ts';
import type { Effect, EffectKind } from '#shared/kernel/effect.ts';
import { parseInstant } from '#shared/kernel/instant.ts';
import { absent, present, unknown } from '#shared/kernel/read.ts';
import { recordText } from '#shared/kernel/record.ts';
import type { JsonObject } from '#shared/kube/json.ts';
import type { RepositorySurvey } from '#shared/repository/repository.ts';
import type { DatabaseRecord } from '#shared/topology/topology.ts';
import { decide } from '#functions/backup-config/decide.ts';
import type { BackupConfigDecision } from '#functions/backup-config/moves.ts';
import type { BackupConfigRecord, Intent } from '#functions/backup-config/record.ts';
import type { BackupConfigSnapshot, DatabaseView } from '#functions/backup-config/snapshot.ts';

export const now = parseInstant('2026-01-01T00:00:00Z') ?? expect.unreachable();

export const why = unknown('it took too long');

export type Repository = NonNullable<Database['spec']['backup']>['repository'];

export const aBucket: Repository = {
  type: 's3',
  s3: { bucket: 'backups', region: 'eu-west-1', credentialsSecret: 'keys' },
};

export const aFilesystem: Repository = {
  type: 'filesystem',
  filesystem: { path: '/backups', storage: { size: '10Gi', accessModes: ['ReadWriteOnce'] } },
};

/** Where {@link aBucket} is. */
export const bucketPlace: Extract<RepositoryPlace, { readonly type: 's3' }> = {
  type: 's3',
  bucket: 'backups',
  region: 'eu-west-1',
  endpoint: '',
  keyPrefix: 'db/main',
  usesEnvironment: true,
};

const identity = { namespace: 'db', name: 'main', uid: 'database-uid' };

/** Everything as it should be. */
export const sound: RepositorySurvey = {
  credentials: present({ missing: [] }),
  owner: present({ etag: '"1"', owner: { cluster: 'test', ...identity } }),
  keepsConditions: present(true),
  isVersioned: present(true),
  isEncrypted: present(true),
};

/**
 * What a look at the Database `main` in namespace `db` of cluster `test` found, generation 2: its bucket is sound and its
 * own, and the data plane has been told nothing yet, at revision 42.
 */
export function aLook(repository: Repository | null = aBucket): Look {
  return new Look({
    database: {
      cluster: 'test',
      ...identity,
      generation: 2,
      resourceVersion: '7',
      isPaused: false,
      isBeingDeleted: false,
      dataPlaneName: 'postgres',
      wanted: wantedOf(repository),
      confirmed: null,
      conditions: [],
      observedGeneration: null,
      repository: null,
    },
    record: { kind: 'none', text: null },
    topology: present({ modRevision: '42', place: null, mustEncrypt: false }),
    survey: sound,
    shards: unknown('it was not asked'),
  });
}

function wantedOf(repository: Repository | null): DatabaseView['wanted'] {
  return wantedRepository({
    metadata: identity,
    spec: repository === null ? {} : { backup: { repository } },
  });
}

export class Look {
  readonly snapshot: BackupConfigSnapshot;

  constructor(snapshot: BackupConfigSnapshot) {
    this.snapshot = snapshot;
  }

  with(changes: Partial<BackupConfigSnapshot>): Look {
    return new Look({ ...this.snapshot, ...changes });
  }

  withDatabase(changes: Partial<DatabaseView>): Look {
    return this.with({ database: { ...this.snapshot.database, ...changes } });
  }

  wanting(repository: Repository | null, generation: number): Look {
    return this.withDatabase({ wanted: wantedOf(repository), generation });
  }

  withSurvey(changes: Partial<RepositorySurvey>): Look {
    return this.with({ survey: { ...this.snapshot.survey, ...changes } });
  }

  told(changes: Partial<DatabaseRecord>): Look {
    const { topology } = this.snapshot;
    const before = topology.kind === 'present' ? topology.value : expect.unreachable();
    return this.with({ topology: present({ ...before, ...changes }) });
  }

  unclaimed(): Look {
    return this.withSurvey({ owner: absent });
  }

  withRecord(record: BackupConfigRecord): Look {
    return this.with({ record: { kind: 'ours', text: recordText(record), record } });
  }

  /** A record of a handler that was about to write the topology's. */
  applying(intent: Intent): Look {
    const { uid } = this.snapshot.database;
    return this.withRecord({
      v: 1,
      uid,
      key: `backup-config/${uid}/${intent.generation}`,
      state: 'applying',
      generation: intent.generation,
      attempt: 0,
      since: '2026-01-01T00:00:00Z',
      reason: 'RepositoryApplied',
      wake: { every: 5 },
      data: { intent },
    });
  }

  /** What is there once the decision's own writes of the Database are: record and status. */
  after({ effects }: BackupConfigDecision): Look {
    const all: readonly Effect[] = effects;
    return all.reduce((look: Look, effect) => look.#after(effect), this);
  }

  #after(effect: Effect): Look {
    if (effect.kind === 'applyStatus') {
      return this.withDatabase(statusIn(effect.status));
    }
    if (effect.kind !== 'advance') {
      return this;
    }
    return effect.record === null
      ? this.with({ record: { kind: 'none', text: null } })
      : this.withRecord(effect.record as BackupConfigRecord);
  }

  decide(): BackupConfigDecision {
    return decide(this.snapshot, now);
  }
}

/** A status that was applied, as the next look reads it. */
function statusIn(
  status: JsonObject,
): Pick<DatabaseView, 'conditions' | 'observedGeneration' | 'repository'> {
  const {
    conditions = [],
    observedGeneration = null,
    repository = null,
  } = databaseStatusSchema.parse(status);
  return { conditions, observedGeneration, repository };
}

/** The one effect of a kind, `undefined` where the decision has none. */
export function effectOf<K extends EffectKind>(
  { effects }: BackupConfigDecision,
  kind: K,
): Effect<K> | undefined {
  const all: readonly Effect[] = effects;
  return all.flatMap((effect) => (effect.kind === kind ? [effect as object as Effect<K>] : []))[0];
}

export function kindsOf({ effects }: BackupConfigDecision): readonly EffectKind[] {
  const all: readonly Effect[] = effects;
  return all.map(({ kind }) => kind);
}

/** `BackupConfigured=False/BucketMissing`, for each condition that the decision writes. */
export function conditionsOf(decision: BackupConfigDecision): readonly string[] {
  return conditionsIn(decision).map(({ type, status, reason }) => `${type}=${status}/${reason}`);
}

/** The message of the condition `BackupConfigured` that the decision writes. */
export function saidBy(decision: BackupConfigDecision): string {
  return conditionsIn(decision).find(({ type }) => type === 'BackupConfigured')?.message ?? '';
}

function conditionsIn(decision: BackupConfigDecision): DatabaseView['conditions'] {
  const applied = effectOf(decision, 'applyStatus');
  return applied === undefined ? [] : statusIn(applied.status).conditions;
}
