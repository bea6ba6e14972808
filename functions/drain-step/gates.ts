import type { PoolerStatus, ShardRule } from '#shared/admin/admin.ts';
import { isRecordOfPod } from '#shared/topology/identity.ts';
import {
  type PoolerId,
  type PoolerRecord,
  compareRules,
  isSamePooler,
  hasStopped,
} from '#shared/topology/topology.ts';
import { hasFailed, isOfOthers } from './leaving.ts';
import type { DrainSnapshot } from './snapshot.ts';

/** What the data plane says about who leads. Only `agreed` lets anything happen. */
export type PrimaryView =
  | { readonly kind: 'agreed'; readonly status: PoolerStatus; readonly rule: ShardRule }
  /** Nobody claims to lead: normal for seconds after a switchover. */
  | { readonly kind: 'none'; readonly why: string }
  | { readonly kind: 'disputed'; readonly why: string }
  | { readonly kind: 'unknown'; readonly why: string };

/**
 * The primary both sources agree on: the pooler whose record claims PRIMARY under the highest rule, and who says so
 * itself under that or a higher rule that names it leader.
 *
 * An older claim is passed over only where no pod is behind it any more, or one whose containers have ended for good: a
 * primary that was killed leaves its claim behind, and nobody else would ever take it back.
 */
export function primaryOf(snapshot: DrainSnapshot): PrimaryView {
  const { topology, members } = snapshot;
  if (topology.kind !== 'present' || members.kind !== 'present') {
    return { kind: 'unknown', why: 'the pooler records cannot be read' };
  }
  if (topology.value.undecodable.length > 0) {
    return {
      kind: 'unknown',
      why: `the record ${topology.value.undecodable[0]?.key} cannot be decoded`,
    };
  }
  const live = topology.value.poolers.filter((pooler) => !hasStopped(pooler));
  const odd = live.find((pooler) => pooler.role === 'unknown');
  if (odd !== undefined) {
    return {
      kind: 'unknown',
      why: `pooler ${idText(odd.id)} has a role this version does not know`,
    };
  }
  const claims = live.filter((pooler) => pooler.role === 'primary').toSorted(byRuleDescending);
  const [highest, ...older] = claims;
  if (highest === undefined) {
    return { kind: 'none', why: 'no pooler is PRIMARY' };
  }
  const rival = older.find(
    (claim) =>
      isSameRule(claim, highest) ||
      members.value.some(
        (member) => isRecordOfPod(claim, member.pod) && !hasFailed(member, snapshot.nodes),
      ),
  );
  if (rival !== undefined) {
    return {
      kind: 'disputed',
      why: `both ${idText(highest.id)} and ${idText(rival.id)} claim to be PRIMARY`,
    };
  }
  return confirm(snapshot, highest);
}

/** The pod of the primary as the records have it; for status only, and never confirmed by the pooler itself. */
export function claimedPrimary(
  snapshot: DrainSnapshot,
): { record: PoolerRecord; pod: string } | null {
  if (snapshot.topology.kind !== 'present' || snapshot.members.kind !== 'present') {
    return null;
  }
  const claims = snapshot.topology.value.poolers.filter(
    (pooler) => pooler.role === 'primary' && !hasStopped(pooler),
  );
  const [record] = claims.toSorted(byRuleDescending);
  const member = snapshot.members.value.find(
    (candidate) => record !== undefined && isRecordOfPod(record, candidate.pod),
  );
  return record === undefined || member === undefined ? null : { record, pod: member.pod };
}

/** A rule that was proposed and not yet decided, `null` when there is none. */
export function openProposal(snapshot: DrainSnapshot, rule: ShardRule): ShardRule | null {
  for (const { status } of snapshot.statuses) {
    const proposal = status.kind === 'present' ? status.value.proposal : null;
    if (proposal !== null && compareRules(proposal.rule, rule.rule) > 0) {
      return proposal;
    }
  }
  return null;
}

/** What durability asks for and what is there without the leaver. */
export interface QuorumView {
  /** Members, or distinct cells, that must acknowledge a commit; `null` for a policy this version does not know. */
  readonly needed: number | null;
  readonly healthy: number;
  readonly unit: 'member' | 'cell';
}

/** Counts the voting members that work right now, the leaver aside. Whatever is not known to work does not count. */
export function quorumWithout(
  snapshot: DrainSnapshot,
  rule: ShardRule,
  leaver: PoolerId,
): QuorumView {
  const healthy = healthyVoters(snapshot, rule).filter((id) => !isSamePooler(id, leaver));
  switch (rule.policy.kind) {
    case 'at-least-n':
      return { needed: rule.policy.requiredCount, healthy: healthy.length, unit: 'member' };
    case 'multi-cell-at-least-n':
      return {
        needed: rule.policy.requiredCount,
        healthy: new Set(healthy.map((id) => id.cell)).size,
        unit: 'cell',
      };
    case 'unknown':
      return { needed: null, healthy: healthy.length, unit: 'member' };
  }
}

/** The leader is followed by its cohort and need not be in it, so it may have no vote. */
export function hasVote({ cohort }: ShardRule, id: PoolerId): boolean {
  return cohort.some((voter) => isSamePooler(voter, id));
}

/** A standby that could lead at once if the leader resigned, `null` when there is none. */
export function readyStandby(
  snapshot: DrainSnapshot,
  rule: ShardRule,
  leader: PoolerId,
): PoolerId | null {
  return healthyVoters(snapshot, rule).find((id) => !isSamePooler(id, leader)) ?? null;
}

/** Whether the pooler says anything of itself: then it runs, wherever that is. */
export function isAnswering(snapshot: DrainSnapshot, id: PoolerId): boolean {
  return statusOf(snapshot, id) !== undefined;
}

export function idText(id: PoolerId): string {
  return `${id.cell}/${id.name}`;
}

/** Members of the decided cohort that are registered as active, serving, answering, replicating, and not going. */
function healthyVoters(snapshot: DrainSnapshot, rule: ShardRule): readonly PoolerId[] {
  const poolers = snapshot.topology.kind === 'present' ? snapshot.topology.value.poolers : [];
  const members = snapshot.members.kind === 'present' ? snapshot.members.value : [];
  return rule.cohort.filter((id) => {
    const record = poolers.find((pooler) => isSamePooler(pooler.id, id));
    const status = statusOf(snapshot, id);
    const pod = members.find((member) => record !== undefined && isRecordOfPod(record, member.pod));
    return (
      record?.lifecycle === 'active' &&
      record.serving === 'serving' &&
      status?.isReady === true &&
      (status.role === 'primary' || (status.role === 'replica' && status.isStreaming)) &&
      pod !== undefined &&
      !pod.isBeingDeleted &&
      !pod.hasEnded &&
      !isOfOthers(pod)
    );
  });
}

function confirm(snapshot: DrainSnapshot, claim: PoolerRecord): PrimaryView {
  const status = statusOf(snapshot, claim.id);
  if (status === undefined) {
    return { kind: 'unknown', why: `the primary ${idText(claim.id)} does not answer` };
  }
  const decision = status.decision;
  if (status.role !== 'primary' || decision === null || decision.leader === null) {
    return {
      kind: 'none',
      why: `${idText(claim.id)} is recorded as PRIMARY and does not say so itself`,
    };
  }
  if (!isSamePooler(decision.leader, claim.id)) {
    return {
      kind: 'disputed',
      why: `${idText(claim.id)} claims to be PRIMARY under a rule of ${idText(decision.leader)}`,
    };
  }
  const newer = snapshot.statuses.find(
    (other) =>
      other.status.kind === 'present' &&
      other.status.value.decision !== null &&
      compareRules(other.status.value.decision.rule, decision.rule) > 0,
  );
  if (newer !== undefined) {
    return {
      kind: 'disputed',
      why: `${idText(newer.id)} knows a newer rule than the primary ${idText(claim.id)}`,
    };
  }
  return { kind: 'agreed', status, rule: decision };
}

function statusOf(snapshot: DrainSnapshot, id: PoolerId): PoolerStatus | undefined {
  const found = snapshot.statuses.find((candidate) => isSamePooler(candidate.id, id));
  return found?.status.kind === 'present' ? found.status.value : undefined;
}

const noRule = { term: '0', subterm: '0' };

function byRuleDescending(a: PoolerRecord, b: PoolerRecord): number {
  return compareRules(b.rule ?? noRule, a.rule ?? noRule);
}

function isSameRule(a: PoolerRecord, b: PoolerRecord): boolean {
  return compareRules(a.rule ?? noRule, b.rule ?? noRule) === 0;
}
