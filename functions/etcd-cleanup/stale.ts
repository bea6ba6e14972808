import type { PoolerStatus, ShardRule } from '#shared/admin/admin.ts';
import type { StaleCause } from '#shared/api/cleanup.ts';
import { fnv1a32, maxIndex, podName } from '#shared/api/names.ts';
import { isRecordOfPod, matchesAnyPod } from '#shared/topology/identity.ts';
import {
  type PoolerId,
  type PoolerRecord,
  compareRules,
  hasStopped,
  isRetired,
  isSamePooler,
  isSetAside,
} from '#shared/topology/topology.ts';
import { type SeenEntry, maxWatched } from './record.ts';
import type { CleanupSnapshot, ShardView } from './snapshot.ts';

/** A pooler record that no pod, no member to be made and no open drain explains. */
export interface Stale {
  readonly record: PoolerRecord;
  readonly cause: Exclude<StaleCause, 'Undecodable'>;
  /** Its entry in our record: since when it was seen in this revision, `null` at first sight. */
  readonly seen: SeenEntry | null;
}

/** Whose word it takes that the way to the poolers is open, and who is in the cohort. */
export type Witness =
  | { readonly kind: 'present'; readonly status: PoolerStatus; readonly rule: ShardRule }
  | { readonly kind: 'none'; readonly why: string };

const noRule = { term: '0', subterm: '0' };

/** Sorts behind whatever was seen before. */
const notSeen = Number.MAX_SAFE_INTEGER;

/** Records that none of the shard's labelled pods explains: for these the whole namespace has to be asked. */
export function unexplainedByMembers(snapshot: CleanupSnapshot): readonly PoolerRecord[] {
  const { members } = snapshot;
  return members.kind === 'present' && members.value.length > 0
    ? unexplained(snapshot, members.value)
    : [];
}

/**
 * The records that no member explains, those that may be removed first: in the order in which they are looked after.
 * A pooler that is not marked as stopped does harm, so it comes before one that is; then the one seen first.
 */
export function staleRecords(snapshot: CleanupSnapshot): readonly Stale[] {
  const { members, pods } = snapshot;
  if (unexplainedByMembers(snapshot).length === 0) {
    return [];
  }
  if (members.kind !== 'present' || pods.kind !== 'present') {
    throw new Error('records were compared with pods that nobody knows');
  }
  return unexplained(snapshot, [...members.value, ...pods.value])
    .map((record) => ({
      record,
      cause: causeOf(snapshot, record),
      seen: entryOf(snapshot, record),
    }))
    .toSorted(byUrgency);
}

/** Those that may be removed in their time, as many as our record has room for. */
export function watched(stale: readonly Stale[]): readonly Stale[] {
  return stale
    .filter(({ cause }) => cause === 'NoPod' || cause === 'Stopped' || cause === 'Answers')
    .slice(0, maxWatched);
}

/** Whether a pooler says anything of itself: then it lives, wherever that is. */
export function answers(snapshot: CleanupSnapshot, id: PoolerId): boolean {
  return statusOf(snapshot, id) !== undefined;
}

/**
 * Who is to be asked: records that were seen before in the revision they have now, and the one that leads. What is seen
 * for the first time is not removed at this look.
 */
export function poolersToAsk(snapshot: CleanupSnapshot): readonly PoolerId[] {
  if (snapshot.pods.kind !== 'present') {
    return [];
  }
  const seenAgain = watched(staleRecords(snapshot)).filter(({ seen }) => seen !== null);
  return seenAgain.length === 0
    ? []
    : [...leadingClaims(snapshot), ...seenAgain.map(({ record }) => record)].map(({ id }) => id);
}

/** Names a record in ours: short, and with its revision as good as the key. */
export function hashOf({ key }: PoolerRecord): string {
  return fnv1a32(key);
}

export function idText(id: PoolerId): string {
  return `${id.cell}/${id.name}`;
}

/**
 * The primary by its record and by its own words: a labelled pod is it, it alone claims to lead under the highest rule,
 * it answers, and the rule that was decided last, as far as anybody says, names it. Where it answers, a pooler that
 * does not is silent, and not out of our reach.
 */
export function witnessOf(snapshot: CleanupSnapshot): Witness {
  const [claim, rival] = leadingClaims(snapshot);
  if (claim === undefined) {
    return { kind: 'none', why: 'no pooler is PRIMARY' };
  }
  if (rival !== undefined) {
    const why = `both ${idText(claim.id)} and ${idText(rival.id)} claim to be PRIMARY`;
    return { kind: 'none', why };
  }
  const { members } = snapshot;
  if (members.kind !== 'present' || !members.value.some((pod) => isRecordOfPod(claim, pod))) {
    return { kind: 'none', why: `no pod of the shard is the PRIMARY ${idText(claim.id)}` };
  }
  const status = statusOf(snapshot, claim.id);
  const rule = status?.decision ?? null;
  if (status === undefined || rule === null) {
    return { kind: 'none', why: `the PRIMARY ${idText(claim.id)} does not answer` };
  }
  const isSure =
    status.role === 'primary' &&
    rule.leader !== null &&
    isSamePooler(rule.leader, claim.id) &&
    snapshot.statuses.every(
      (other) =>
        other.status.kind !== 'present' ||
        other.status.value.decision === null ||
        compareRules(other.status.value.decision.rule, rule.rule) <= 0,
    );
  return isSure
    ? { kind: 'present', status, rule }
    : { kind: 'none', why: `${idText(claim.id)} is recorded as PRIMARY and not sure of it itself` };
}

/** Whether a rule, decided or proposed, counts on this pooler. */
export function isNeeded({ status, rule }: Extract<Witness, { kind: 'present' }>, id: PoolerId) {
  const rules = status.proposal === null ? [rule] : [rule, status.proposal];
  return {
    toLead: rules.some(({ leader }) => leader !== null && isSamePooler(leader, id)),
    toVote: rules.some(({ cohort }) => cohort.some((voter) => isSamePooler(voter, id))),
  };
}

function unexplained(snapshot: CleanupSnapshot, pods: readonly string[]): readonly PoolerRecord[] {
  const { topology, members, shard, drain } = snapshot;
  if (topology.kind !== 'present' || members.kind !== 'present') {
    return [];
  }
  const isOfMember = matchesAnyPod([...pods, ...membersToBe(shard, members.value)]);
  const isOfDrain = (record: PoolerRecord) =>
    drain.kind === 'open' &&
    (isSamePooler(record.id, drain.pooler) || isRecordOfPod(record, drain.pod));
  return topology.value.poolers.filter((record) => !isOfMember(record) && !isOfDrain(record));
}

/**
 * A pool that lacks members in a cell may get one at any index of it: at the lowest that is free, or at one whose claim
 * is still there.
 */
function membersToBe({ groups }: ShardView, members: readonly string[]): readonly string[] {
  const there = new Set(members);
  return groups.flatMap(({ base, replicas }) => {
    const names = Array.from({ length: maxIndex + 1 }, (_, index) => podName(base, index));
    return names.filter((name) => there.has(name)).length < replicas ? names : [];
  });
}

function causeOf(snapshot: CleanupSnapshot, record: PoolerRecord): Stale['cause'] {
  if (isSetAside(record)) {
    return 'SetAside';
  }
  if (isLeading(snapshot, record)) {
    return 'Leads';
  }
  if (answers(snapshot, record.id)) {
    return 'Answers';
  }
  return isRetired(record) ? 'Stopped' : 'NoPod';
}

/** Nobody claims to lead under a higher rule. A role that this version does not know may be that of the primary. */
function isLeading(snapshot: CleanupSnapshot, record: PoolerRecord): boolean {
  const [highest] = leadingClaims(snapshot);
  return (
    !hasStopped(record) &&
    (record.role === 'primary' || record.role === 'unknown') &&
    (highest === undefined || compareRules(record.rule ?? noRule, highest.rule ?? noRule) >= 0)
  );
}

/** The records that claim to lead under the highest rule: more than one for a moment only. */
function leadingClaims({ topology }: CleanupSnapshot): readonly PoolerRecord[] {
  const claims =
    topology.kind === 'present'
      ? topology.value.poolers.filter((record) => record.role === 'primary' && !hasStopped(record))
      : [];
  return claims.filter((claim) =>
    claims.every((other) => compareRules(claim.rule ?? noRule, other.rule ?? noRule) >= 0),
  );
}

function statusOf({ statuses }: CleanupSnapshot, id: PoolerId): PoolerStatus | undefined {
  const found = statuses.find((candidate) => isSamePooler(candidate.id, id));
  return found?.status.kind === 'present' ? found.status.value : undefined;
}

function entryOf({ record: own }: CleanupSnapshot, record: PoolerRecord): SeenEntry | null {
  const entries = own.kind === 'ours' ? own.record.data.seen : [];
  const hash = hashOf(record);
  return entries.find(([known, rev]) => known === hash && rev === record.modRevision) ?? null;
}

function byUrgency(a: Stale, b: Stale): number {
  return (
    Number(isRetired(a.record)) - Number(isRetired(b.record)) ||
    (a.seen?.[2] ?? notSeen) - (b.seen?.[2] ?? notSeen) ||
    (a.record.key < b.record.key ? -1 : 1)
  );
}
