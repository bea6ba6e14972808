import {
  type Condition,
  type ConditionFacts,
  applyConditions,
  hasConditions,
} from '#shared/api/condition.ts';
import type { DatabaseStatus } from '#shared/api/database.ts';
import { type Reason, isStalled } from '#shared/api/reasons.ts';
import type { Effect } from '#shared/kernel/effect.ts';
import { type Instant, toText } from '#shared/kernel/instant.ts';
import type { BackupConfigSnapshot } from './snapshot.ts';

/** Where this look leaves the Database. */
export interface Standing {
  /**
   * `configured`: backups go where they shall. `unwanted`: the spec names no repository. `moving`: it goes on by itself.
   * `unmet`: something is not as it must be. `unknown`: it cannot be told. `paused`: a person holds it.
   */
  readonly kind: 'configured' | 'unwanted' | 'moving' | 'unmet' | 'unknown' | 'paused';
  readonly reason: Reason;
  readonly message: string;
  /** What is in use now; not given where that is not known to have changed. */
  readonly repository?: Omit<NonNullable<DatabaseStatus['repository']>, 'checkedAt'>;
}

/** The status of the Database, all of which is backup-config's, and whether it is there already. */
export function statusEffect(
  snapshot: BackupConfigSnapshot,
  now: Instant,
  standing: Standing,
): { readonly effect: Effect<'applyStatus'>; readonly isThere: boolean } {
  const { database } = snapshot;
  const { generation, conditions: existing } = database;
  const [configured, ready] = findings(standing);
  const kept = existing.filter(({ type }) => type === configured.type || type === ready.type);
  const own = [
    // A paused Database is not looked at, so what was found before stays, with the generation it was found under.
    ...(standing.kind === 'paused' && kept.length === 2
      ? kept
      : applyConditions(existing, [configured, ready], generation, now)),
    ...applyConditions(existing, [reconciling(standing), stalled(standing)], generation, now),
  ];
  const hasAll = hasConditions(existing, own);
  const repository = repositoryStatus(snapshot, now, standing, hasAll);
  return {
    effect: {
      kind: 'applyStatus',
      status: {
        observedGeneration: generation,
        conditions: own.map((condition) => ({ ...condition })),
        ...(repository === null ? {} : { repository: { ...repository } }),
      },
      guard: { uid: database.uid, resourceVersion: database.resourceVersion },
    },
    isThere:
      hasAll &&
      database.observedGeneration === generation &&
      isSameRepository(database.repository, repository),
  };
}

/** The last good one stays while another one is not in order. */
function repositoryStatus(
  { database }: BackupConfigSnapshot,
  now: Instant,
  { repository }: Standing,
  isFoundBefore: boolean,
): NonNullable<DatabaseStatus['repository']> | null {
  const before = database.repository;
  if (repository === undefined) {
    return before;
  }
  const next = { ...repository, checkedAt: before?.checkedAt ?? '' };
  return isFoundBefore && isSameRepository(before, next)
    ? next
    : { ...repository, checkedAt: toText(now) };
}

function isSameRepository(
  found: DatabaseStatus['repository'] | null,
  wanted: DatabaseStatus['repository'] | null,
): boolean {
  return (
    found?.hash === wanted?.hash &&
    found?.owner === wanted?.owner &&
    found?.checkedAt === wanted?.checkedAt
  );
}

/** `BackupConfigured`, and `Ready`, which is the same but where no repository is wanted: nothing is missing then. */
function findings({ kind, reason, message }: Standing): readonly [ConditionFacts, ConditionFacts] {
  const status = statusOf(kind);
  return [
    { type: 'BackupConfigured', status, reason, message },
    { type: 'Ready', status: kind === 'unwanted' ? 'True' : status, reason, message },
  ];
}

function statusOf(kind: Standing['kind']): Condition['status'] {
  switch (kind) {
    case 'configured':
      return 'True';
    case 'unwanted':
    case 'moving':
    case 'unmet':
      return 'False';
    case 'unknown':
    case 'paused':
      return 'Unknown';
  }
}

/** In progress; never together with Stalled, so that whoever waits knows whether waiting helps. */
function reconciling({ kind, reason, message }: Standing): ConditionFacts {
  const type = 'Reconciling';
  if (kind === 'moving') {
    return { type, status: 'True', reason, message };
  }
  return kind === 'configured' || kind === 'unwanted'
    ? { type, status: 'False', reason: 'NothingToDo', message: 'what is wanted is there' }
    : { type, status: 'False', reason, message };
}

function stalled({ kind, reason, message }: Standing): ConditionFacts {
  const type = 'Stalled';
  if (kind === 'paused' || isStalled(reason)) {
    return { type, status: kind === 'paused' ? 'False' : 'True', reason, message };
  }
  return {
    type,
    status: 'False',
    reason: 'NothingStalled',
    message: 'nothing waits for a repair',
  };
}
