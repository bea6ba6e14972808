import type { StaleCause } from '#shared/api/cleanup.ts';
import { applyConditions, hasConditions } from '#shared/api/condition.ts';
import type { Effect } from '#shared/kernel/effect.ts';
import { type Instant, toText } from '#shared/kernel/instant.ts';
import type { JsonObject } from '#shared/kube/json.ts';
import type { CleanupInput } from './moves.ts';
import type { CleanupData } from './record.ts';
import type { CleanupSnapshot } from './snapshot.ts';
import { type Stale, hashOf, idText } from './stale.ts';

export interface OwnCondition {
  readonly status: 'True' | 'False' | 'Unknown';
  readonly reason: string;
  readonly message: string;
}

type CleanupStatus = NonNullable<CleanupSnapshot['shard']['cleanup']>;
type Told = NonNullable<CleanupStatus['candidates']>[number];

/** How many records the status tells, and how many the condition names. */
const mostTold = 10;
const mostNamed = 3;

/** Records that only a person can do something about. */
const left: ReadonlySet<StaleCause> = new Set<StaleCause>([
  'Answers',
  'Leads',
  'SetAside',
  'Undecodable',
]);

/**
 * etcd-cleanup's own status as it follows from the records, only where it differs from what stands.
 *
 * @param data our record's data as this decision leaves them
 * @param removed the pooler whose record is gone since the last look
 */
export function statusEffects(
  input: CleanupInput,
  data: CleanupData,
  now: Instant,
  removed?: string,
): Effect<'applyStatus'>[] {
  const { snapshot, stale } = input;
  const told = toldOf(snapshot, stale, data);
  const lastRemoved =
    removed === undefined
      ? snapshot.shard.cleanup?.lastRemoved
      : { pooler: removed, at: toText(now) };
  const cleanup: CleanupStatus = {
    ...(told.length === 0 ? {} : { candidates: told.slice(0, mostTold) }),
    ...(lastRemoved === undefined ? {} : { lastRemoved }),
  };
  const isEmpty = Object.keys(cleanup).length === 0;
  return applyOwn(snapshot, conditionOf(snapshot, told), isEmpty ? null : cleanup, now);
}

/** For a look that knows nothing new of the records: what was told of them stays. */
export function conditionEffects(
  snapshot: CleanupSnapshot,
  condition: OwnCondition,
  now: Instant,
): Effect<'applyStatus'>[] {
  return applyOwn(snapshot, condition, snapshot.shard.cleanup, now);
}

function applyOwn(
  { shard }: CleanupSnapshot,
  condition: OwnCondition,
  cleanup: CleanupStatus | null,
  now: Instant,
): Effect<'applyStatus'>[] {
  const existing = shard.condition === null ? [] : [shard.condition];
  const own = [{ type: 'TopologyClean', ...condition }];
  const conditions = applyConditions(existing, own, shard.generation, now);
  const isSame = hasConditions(existing, conditions) && textOf(shard.cleanup) === textOf(cleanup);
  const status: object = { conditions, ...(cleanup === null ? {} : { cleanup }) };
  return isSame
    ? []
    : [
        {
          kind: 'applyStatus',
          status: status as JsonObject,
          guard: { uid: shard.uid, resourceVersion: shard.resourceVersion },
        },
      ];
}

/** What people have to look at comes first. */
function toldOf(
  { topology }: CleanupSnapshot,
  stale: readonly Stale[],
  { seen }: CleanupData,
): readonly Told[] {
  const undecodable = topology.kind === 'present' ? topology.value.undecodable : [];
  const told = stale.map(({ record, cause }): Told => {
    const hash = hashOf(record);
    const entry = seen.find(([known, rev]) => known === hash && rev === record.modRevision);
    return {
      pooler: idText(record.id),
      why: cause,
      ...(entry === undefined ? {} : { since: toText((entry[2] * 1000) as Instant) }),
    };
  });
  return [
    ...undecodable.map(({ key }): Told => ({ pooler: key, why: 'Undecodable' })),
    ...told.filter(({ why }) => left.has(why)),
    ...told.filter(({ why }) => !left.has(why)),
  ];
}

function conditionOf({ shard }: CleanupSnapshot, told: readonly Told[]): OwnCondition {
  if (told.length === 0) {
    const message = 'every pooler record has its member';
    return { status: 'True', reason: 'TopologyClean', message };
  }
  const forPeople = told.filter(({ why }) => left.has(why));
  if (forPeople.length > 0) {
    const message = `${countText(forPeople)} left to people: ${namesText(forPeople)}`;
    return { status: 'False', reason: 'RecordsLeft', message };
  }
  const message = `${countText(told)} without a member: ${namesText(told)}`;
  return shard.isEnabled
    ? { status: 'False', reason: 'StaleRecords', message }
    : { status: 'False', reason: 'CleanupOff', message: `${message}; cleanup is not enabled` };
}

function countText({ length }: readonly Told[]): string {
  return length === 1 ? '1 pooler record' : `${length} pooler records`;
}

function namesText(told: readonly Told[]): string {
  const names = told.slice(0, mostNamed).map(({ pooler, why }) => `${pooler} (${why})`);
  const more = told.length - names.length;
  return more > 0 ? `${names.join(', ')} and ${more} more` : names.join(', ');
}

/** The API server orders the fields of what it stores as it likes. */
function textOf(cleanup: CleanupStatus | null): string {
  const { candidates = [], lastRemoved } = cleanup ?? {};
  return JSON.stringify([
    candidates.map(({ pooler, why, since }) => [pooler, why, since]),
    lastRemoved === undefined ? null : [lastRemoved.pooler, lastRemoved.at],
  ]);
}
