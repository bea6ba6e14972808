import { applyConditions, hasConditions } from '#shared/api/condition.ts';
import { drainMirror, releasedClaim } from '#shared/api/annotations.ts';
import { claimName } from '#shared/api/names.ts';
import type {
  ChoosingRecord,
  DrainCause,
  DrainRecord,
  DrainState,
  Leaver,
  LeavingRecord,
} from '#shared/api/drain-record.ts';
import type { Reason } from '#shared/api/reasons.ts';
import { type Check, type Decision, acting, blocked, waiting } from '#shared/kernel/decision.ts';
import type { Effect } from '#shared/kernel/effect.ts';
import { type Instant, parseInstant, secondsBetween, toText } from '#shared/kernel/instant.ts';
import { advanceRecord, advanceWhereNew, restRecord } from '#shared/kernel/own-record.ts';
import { isRecordOfPod, poolerOfPod } from '#shared/topology/identity.ts';
import { type PoolerRecord, isSamePooler } from '#shared/topology/topology.ts';
import type { DatabaseView } from '#shared/kernel/shard-database.ts';
import {
  type PrimaryView,
  claimedPrimary,
  idText,
  isAnswering,
  primaryOf,
  quorumWithout,
} from './gates.ts';
import {
  type Candidate,
  type LeftClaim,
  hasFailed,
  surplusWith,
  whoShouldLeave,
} from './leaving.ts';
import type { ClaimView, DrainSnapshot, Member } from './snapshot.ts';

export type DrainEffect =
  | 'advance'
  | 'applyStatus'
  | 'patchObject'
  | 'emitEvent'
  | 'deleteObject'
  | 'topologyTxn'
  | 'switchPrimary';
export type DrainDecision = Decision<DrainEffect>;
export type DrainCheck = Check<DrainSnapshot, DrainEffect>;
type Tidy = Effect<'advance' | 'applyStatus' | 'patchObject' | 'emitEvent'>;

/** How often a drain looks again by itself, in seconds: while it moves, and while only a person can move it. */
export const wakeSeconds = 5;
export const slowWakeSeconds = 60;

export function isFinished(snapshot: DrainSnapshot): boolean {
  return leavingRecord(snapshot)?.state === 'finished';
}

export function leavingRecord({ record }: DrainSnapshot): LeavingRecord | null {
  return record.kind === 'ours' && record.record.state !== 'choosing' ? record.record : null;
}

/** The rows below the choice run only with a member picked. */
export function leaving(snapshot: DrainSnapshot): { record: LeavingRecord; leaver: Leaver } {
  const record = leavingRecord(snapshot);
  if (record === null) {
    throw new Error('a row about the leaver ran without one');
  }
  return { record, leaver: record.data };
}

export function isForced(snapshot: DrainSnapshot): boolean {
  return leavingRecord(snapshot)?.data.forced === true;
}

/** The pod a person named is the leaver, or could be: the row that records the force must be reached. */
export function mayForce(snapshot: DrainSnapshot): boolean {
  const { forcedPodUid } = snapshot.shard;
  const leaver = leavingRecord(snapshot)?.data;
  return (
    forcedPodUid !== null &&
    (leaver === undefined
      ? whoShouldLeave(snapshot, null).some(({ member }) => member.uid === forcedPodUid)
      : leaver.podUid === forcedPodUid)
  );
}

export function memberOf({ members }: DrainSnapshot, leaver: Leaver): Member | undefined {
  return members.kind === 'present'
    ? members.value.find((member) => member.uid === leaver.podUid)
    : undefined;
}

export function recordOf({ topology }: DrainSnapshot, leaver: Leaver): PoolerRecord | undefined {
  return topology.kind === 'present'
    ? topology.value.poolers.find(
        (pooler) => isSamePooler(pooler.id, leaver.pooler) || isRecordOfPod(pooler, leaver.pod),
      )
    : undefined;
}

/** Its pod went unseen, and its claim is what is left of it: the claim's uid stands for the pod's. */
export function isClaimOnly(leaver: Leaver): boolean {
  return leaver.podUid === leaver.claimUid;
}

/** Who or what leaves, in words. */
export function subjectOf(leaver: Leaver): string {
  return isClaimOnly(leaver)
    ? `the claim ${claimName(leaver.pod)} of a member that is gone`
    : leaver.pod;
}

/** A pod that nobody can see may still run: whose pooler answers has not gone. */
export function stillAnswers(snapshot: DrainSnapshot, leaver: Leaver): boolean {
  const pooler = recordOf(snapshot, leaver);
  return pooler !== undefined && isAnswering(snapshot, pooler.id);
}

/** A new pod of the same name uses the same record: it is the newcomer's now. */
export function isReplaced({ members }: DrainSnapshot, pooler: PoolerRecord): boolean {
  return (
    members.kind === 'present' && members.value.some((member) => isRecordOfPod(pooler, member.pod))
  );
}

export function claimOf({ claims }: DrainSnapshot, leaver: Leaver): ClaimView | undefined {
  return claims.kind === 'present'
    ? claims.value.find((claim) => claim.uid === leaver.claimUid)
    : undefined;
}

/** Another member of ours lives on the leaver's claim, under the same name or not. */
export function isUsedByAnother(
  { members }: DrainSnapshot,
  leaver: Leaver,
  claim: ClaimView,
): boolean {
  return (
    members.kind === 'present' &&
    members.value.some(
      (member) =>
        member.control === 'ours' && member.claim === claim.name && member.uid !== leaver.podUid,
    )
  );
}

export function policyOf({ shard }: DrainSnapshot, leaver: Leaver): 'Retain' | 'Delete' {
  return shard.pools.find((pool) => pool.name === leaver.pool)?.whenScaled ?? 'Retain';
}

export function isLeader(primary: PrimaryView & { kind: 'agreed' }, leaver: Leaver): boolean {
  return isSamePooler(primary.status.id, leaver.pooler);
}

export function podOf(
  { topology, members }: DrainSnapshot,
  primary: PrimaryView & { kind: 'agreed' },
): string | null {
  if (topology.kind !== 'present' || members.kind !== 'present') {
    return null;
  }
  const record = topology.value.poolers.find((pooler) =>
    isSamePooler(pooler.id, primary.status.id),
  );
  const member = members.value.find(
    (candidate) => record !== undefined && isRecordOfPod(record, candidate.pod),
  );
  // A primary whose pod is not among ours is known, and nobody's pod here.
  return member?.pod ?? '';
}

export function whyNotWantedAnyMore(snapshot: DrainSnapshot, leaver: Leaver): string | undefined {
  const member = memberOf(snapshot, leaver);
  switch (leaver.cause) {
    case 'surplus':
      return surplusWith(snapshot, leaver) <= 0 ? 'the shard wants it again' : undefined;
    case 'requested':
      return member?.request === null ? 'the request was taken back' : undefined;
    case 'failed':
      return member !== undefined && !hasFailed(member, snapshot.nodes)
        ? 'it has recovered'
        : undefined;
  }
}

export function leaverOf(
  snapshot: DrainSnapshot,
  { member, cause }: Candidate,
  now: Instant,
): Leaver {
  const poolers = snapshot.topology.kind === 'present' ? snapshot.topology.value.poolers : [];
  const claims = snapshot.claims.kind === 'present' ? snapshot.claims.value : [];
  return {
    pod: member.pod,
    podUid: member.uid,
    node: member.node,
    claimUid: claims.find((claim) => claim.name === member.claim)?.uid ?? '',
    pool: member.pool,
    cell: member.cell,
    index: member.index,
    pooler: poolerOfPod(poolers, member.cell, member.pod),
    cause,
    startedAt: toText(now),
    forced: false,
  };
}

/** What is known of a member that has left nothing but its claim. Which pod it was, and on which node, nobody saw. */
export function leaverOfClaim(
  snapshot: DrainSnapshot,
  { claim, member }: LeftClaim,
  now: Instant,
): Leaver {
  const poolers = snapshot.topology.kind === 'present' ? snapshot.topology.value.poolers : [];
  return {
    ...member,
    podUid: claim.uid,
    node: '',
    claimUid: claim.uid,
    pooler: poolerOfPod(poolers, member.cell, member.pod),
    cause: 'surplus',
    startedAt: toText(now),
    forced: false,
  };
}

export function newRecord(
  { shard }: DrainSnapshot,
  state: Exclude<DrainState, 'choosing'>,
  leaver: Leaver,
  reason: Reason,
  now: Instant,
): LeavingRecord {
  return {
    v: 1,
    uid: shard.uid,
    key: `drain-step/${shard.uid}/${leaver.podUid}`,
    state,
    generation: shard.generation,
    attempt: 0,
    since: toText(now),
    reason,
    wake: { every: wakeSeconds },
    data: leaver,
  };
}

/** @param previous the record's text as this look found it, or as an advance before this one leaves it */
export function advance(
  { shard, record }: DrainSnapshot,
  next: DrainRecord | null,
  previous = record.text,
): Effect<'advance'> {
  return advanceRecord(shard, next, previous);
}

export function moveOn(
  snapshot: DrainSnapshot,
  now: Instant,
  state: Exclude<DrainState, 'choosing'>,
  reason: Reason,
  message: string,
  marks: readonly Effect<'patchObject'>[],
): DrainDecision {
  const { record, leaver } = leaving(snapshot);
  const next: LeavingRecord = {
    ...record,
    state,
    since: toText(now),
    reason,
    attempt: 0,
    wake: { every: wakeSeconds },
  };
  return acting(reason, message, [
    advance(snapshot, next),
    ...marks,
    ...statusEffects(snapshot, now, drainingCondition(snapshot, leaver), leaver),
  ]);
}

export function takeBack(
  snapshot: DrainSnapshot,
  now: Instant,
  reason: Reason,
  message: string,
): DrainDecision {
  return acting(reason, message, [
    advance(snapshot, null),
    ...mirror(snapshot, leaving(snapshot).leaver, null),
    ...statusEffects(snapshot, now, { status: 'True', reason, message }, null),
    event('Normal', reason, message),
  ]);
}

/**
 * The picked member cannot move now. Past the deadline, or where a person is needed, that is written down once,
 * and the looks become rare; before that, waiting writes nothing.
 *
 * @param needs what a person has to do, where waiting alone does not help
 * @param wayOut what a person can do once the deadline has passed; to force the member out, if nothing else
 */
export function hold(
  snapshot: DrainSnapshot,
  now: Instant,
  reason: Reason,
  message: string,
  needs?: string,
  wayOut?: string,
): DrainDecision {
  const { record, leaver } = leaving(snapshot);
  const startedAt = parseInstant(leaver.startedAt);
  const isStuck =
    startedAt === undefined || secondsBetween(startedAt, now) > snapshot.shard.deadlineSeconds;
  const wake = { every: isStuck || needs !== undefined ? slowWakeSeconds : wakeSeconds };
  const shown: Reason = isStuck ? 'DrainStuck' : reason;
  const advice = needs ?? wayOut ?? `repair that, or set ${forceText(leaver)} to go on regardless`;
  const told =
    isStuck || needs !== undefined ? tellHeld(snapshot, now, shown, message, advice) : [];
  const slower = isSameWake(record, wake.every)
    ? []
    : [advance(snapshot, { ...record, reason: shown, wake })];
  return needs === undefined
    ? waiting(reason, message, wake, [...slower, ...told])
    : blocked(reason, message, needs, wake, [...slower, ...told]);
}

function tellHeld(
  snapshot: DrainSnapshot,
  now: Instant,
  reason: Reason,
  message: string,
  advice: string,
): Tidy[] {
  const { leaver } = leaving(snapshot);
  const text = `${message}; to go on: ${advice}`;
  const status = statusEffects(
    snapshot,
    now,
    { status: 'False', reason, message: text },
    leaver,
    message,
  );
  return status.length === 0 ? [] : [...status, event('Warning', reason, text)];
}

/** Nobody is picked and nothing can be done: a `choosing` record keeps the wake, and the condition says why. */
export function standStill(
  snapshot: DrainSnapshot,
  now: Instant,
  reason: Reason,
  message: string,
  needs?: string,
): DrainDecision {
  if (leavingRecord(snapshot) !== null) {
    return hold(snapshot, now, reason, message, needs);
  }
  const { shard, record } = snapshot;
  const wake = { every: slowWakeSeconds };
  const next: ChoosingRecord = restRecord(
    'drain-step',
    shard,
    { state: 'choosing', reason, wake, data: {} },
    now,
  );
  const text = needs === undefined ? message : `${message}; to go on: ${needs}`;
  const effects: Tidy[] = [
    ...advanceWhereNew(shard, record, next),
    ...statusEffects(snapshot, now, { status: 'False', reason, message: text }, null),
  ];
  return needs === undefined
    ? waiting(reason, message, wake, effects)
    : blocked(reason, message, needs, wake, effects);
}

export function isSameWake(record: LeavingRecord, seconds: number): boolean {
  return record.wake !== undefined && 'every' in record.wake && record.wake.every === seconds;
}

/** The pod's mirror annotation, for people and agents; nothing reads it back. */
export function mirror(
  snapshot: DrainSnapshot,
  leaver: Leaver,
  state: MirrorState,
): Effect<'patchObject'>[] {
  const member = memberOf(snapshot, leaver);
  return member === undefined ? [] : mirrorOn(snapshot, member, state);
}

/** What a drain left on its pod that ended between two writes, or what a copied pod brought along, is taken off. */
export function strayMirrors(snapshot: DrainSnapshot): Effect<'patchObject'>[] {
  const members = snapshot.members.kind === 'present' ? snapshot.members.value : [];
  return members
    .filter((member) => member.control !== 'foreign' && !member.isBeingDeleted)
    .flatMap((member) => mirrorOn(snapshot, member, null));
}

type MirrorState = 'draining' | 'finished' | null;

function mirrorOn(
  { shard }: DrainSnapshot,
  member: Member,
  state: MirrorState,
): Effect<'patchObject'>[] {
  return member.mirror === state
    ? []
    : [
        {
          kind: 'patchObject',
          object: { kind: 'Pod', namespace: shard.namespace, name: member.pod },
          patch: { metadata: { annotations: { [drainMirror]: state } } },
          guard: { uid: member.uid, resourceVersion: member.resourceVersion },
        },
      ];
}

export function releaseMark(snapshot: DrainSnapshot, leaver: Leaver): Effect<'patchObject'>[] {
  const claim = claimOf(snapshot, leaver);
  return leaver.cause !== 'surplus' ||
    claim === undefined ||
    claim.isBeingDeleted ||
    claim.released === leaver.podUid ||
    isUsedByAnother(snapshot, leaver, claim)
    ? []
    : [
        {
          kind: 'patchObject',
          object: {
            kind: 'PersistentVolumeClaim',
            namespace: snapshot.shard.namespace,
            name: claim.name,
          },
          patch: { metadata: { annotations: { [releasedClaim]: leaver.podUid } } },
          guard: { uid: claim.uid, resourceVersion: claim.resourceVersion },
        },
      ];
}

export interface OwnCondition {
  readonly status: 'True' | 'False' | 'Unknown';
  readonly reason: string;
  readonly message: string;
}

/** Says who leaves and, where it is so, that nobody further could be spared. */
export function drainingCondition(snapshot: DrainSnapshot, leaver: Leaver): OwnCondition {
  const primary = primaryOf(snapshot);
  const quorum =
    primary.kind === 'agreed' ? quorumWithout(snapshot, primary.rule, leaver.pooler) : null;
  const isLastSpare = quorum !== null && quorum.needed !== null && quorum.healthy === quorum.needed;
  const warning = isLastSpare ? '; no further loss would be survivable' : '';
  return {
    status: 'False',
    reason: 'Draining',
    message: `${subjectOf(leaver)} is leaving (${leaver.cause})${warning}`,
  };
}

/** drain-step's own status, only where it differs from what stands. A primary that is not known leaves it as it is. */
export function statusEffects(
  snapshot: DrainSnapshot,
  now: Instant,
  condition: OwnCondition,
  leaver: Leaver | null,
  waitsFor?: string,
): Effect<'applyStatus'>[] {
  const { shard } = snapshot;
  const claimed = claimedPrimary(snapshot);
  const primary =
    claimed === null
      ? shard.primary
      : {
          pod: claimed.pod,
          pooler: idText(claimed.record.id),
          rule: ruleText(claimed.record.rule ?? noRule),
        };
  const drain =
    leaver === null
      ? null
      : {
          pod: leaver.pod,
          cause: leaver.cause,
          since: leaver.startedAt,
          ...(waitsFor === undefined ? {} : { waitsFor }),
        };
  const existing = shard.drained === null ? [] : [shard.drained];
  const own = [{ type: 'Drained', ...condition }];
  const conditions = applyConditions(existing, own, shard.generation, now);
  const isSame =
    hasConditions(existing, conditions) &&
    isEqual(shard.primary, primary) &&
    isEqual(shard.drain, drain);
  return isSame
    ? []
    : [
        {
          kind: 'applyStatus',
          status: {
            conditions,
            ...(primary === null ? {} : { primary: { ...primary } }),
            ...(drain === null ? {} : { drain }),
          },
          guard: { uid: shard.uid, resourceVersion: shard.resourceVersion },
        },
      ];
}

function isEqual(a: object | null | undefined, b: object | null | undefined): boolean {
  const sorted = (value: object | null | undefined) =>
    JSON.stringify(
      Object.entries(value ?? {}).toSorted(([left], [right]) => (left < right ? -1 : 1)),
    );
  return sorted(a) === sorted(b);
}

export function event(
  type: 'Normal' | 'Warning',
  reason: Reason,
  message: string,
): Effect<'emitEvent'> {
  return { kind: 'emitEvent', type, reason, message };
}

export function databaseOf({ database }: DrainSnapshot): DatabaseView {
  if (database.kind !== 'present') {
    throw new Error('a row that needs the database ran without it');
  }
  return database.value;
}

const noRule = { term: '0', subterm: '0' };

export function ruleText(rule: { readonly term: string; readonly subterm: string }): string {
  return `${rule.term}.${rule.subterm}`;
}

export function causeText({ member, cause }: Candidate): string {
  const texts: { readonly [K in DrainCause]: string } = {
    surplus: 'its pool has more members than wanted',
    requested:
      member.request === null || member.request === ''
        ? 'a person asked'
        : `a person asked (${member.request})`,
    failed: 'its pod has failed',
  };
  return texts[cause];
}

export function forceText(leaver: Leaver): string {
  return `the annotation millrace.dev/force-drain=${leaver.podUid} on the Shard`;
}

export function whyOf(read: { readonly kind: string; readonly why?: string }): string {
  return read.why ?? 'it does not exist';
}
