import type { Leaver } from '#shared/api/drain-record.ts';
import { acting, blocked, firstHit, settled } from '#shared/kernel/decision.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import { clearForeign, unreadableText } from '#shared/kernel/own-record.ts';
import {
  becamePrimary,
  keepOffOthers,
  deleteMember,
  finishDrain,
  releaseClaim,
  retireSilentRecord,
  sayFinished,
  waitForCohortExit,
  waitForNodeProof,
  waitForPodGone,
  waitForSilence,
} from './after-return.ts';
import {
  acknowledge,
  authoriseDeletion,
  awaitSwitchover,
  betterNow,
  cancelled,
  claimWanted,
  failedMemberFirst,
  handedOver,
  forcedByPerson,
  membersFirst,
  startDraining,
  switchOver,
  waitForPrimary,
  waitForProposal,
  waitForQuorum,
  waitForSettle,
} from './before-return.ts';
import { primaryOf } from './gates.ts';
import { claimsLeftBehind, mayHaveClaimsLeft, mayHaveLeavers, whoShouldLeave } from './leaving.ts';
import {
  type DrainCheck,
  type DrainDecision,
  advance,
  causeText,
  drainingCondition,
  event,
  isFinished,
  isForced,
  leaverOf,
  leaverOfClaim,
  leavingRecord,
  mayForce,
  newRecord,
  podOf,
  slowWakeSeconds,
  standStill,
  statusEffects,
  strayMirrors,
  stillAnswers,
  subjectOf,
  whyOf,
  type OwnCondition,
} from './moves.ts';
import type { DrainSnapshot } from './snapshot.ts';

/**
 * Decides the next move for the one member of a shard that may be leaving.
 *
 * Protocol, goals and the argument why two concurrent handlers cannot both delete: README.md beside this file.
 * Pure: same snapshot and instant, same decision.
 */
export function decide(snapshot: DrainSnapshot, now: Instant): DrainDecision {
  return (
    firstHit(beforeAnyone, snapshot, now) ??
    firstHit(isFinished(snapshot) ? afterNoReturn : beforeNoReturn, snapshot, now) ??
    settled('NobodyLeaves', 'no member has to leave')
  );
}

/** People and the unknown come first. */
export const beforeAnyone: readonly DrainCheck[] = [
  targetBeingDeleted,
  pausedByUser,
  pausedByDatabase,
  recordUnreadable,
  foreignRecord,
  membersUnknown,
  nobodyLeaves,
  databaseMissing,
  topologyUnknown,
  chooseClaim,
  chooseLeaver,
];

/** A member is picked; everything can still be taken back. */
export const beforeNoReturn: readonly DrainCheck[] = [
  cancelled,
  membersFirst,
  claimWanted,
  handedOver,
  forcedByPerson,
  betterNow,
  awaitSwitchover,
  waitForPrimary,
  waitForProposal,
  failedMemberFirst,
  waitForQuorum,
  switchOver,
  startDraining,
  waitForSettle,
  acknowledge,
  authoriseDeletion,
];

/** The member goes; what follows brings its leaving to its end. */
export const afterNoReturn: readonly DrainCheck[] = [
  forcedByPerson,
  keepOffOthers,
  becamePrimary,
  sayFinished,
  deleteMember,
  waitForPodGone,
  waitForNodeProof,
  waitForSilence,
  retireSilentRecord,
  waitForCohortExit,
  releaseClaim,
  finishDrain,
];

function targetBeingDeleted({ shard }: DrainSnapshot): DrainDecision | undefined {
  return shard.isBeingDeleted
    ? settled('TargetBeingDeleted', 'the shard is being deleted; its pods go with their owner')
    : undefined;
}

function pausedByUser({ shard }: DrainSnapshot): DrainDecision | undefined {
  return shard.isPaused
    ? settled('Paused', 'the shard is paused: everything is observed, nothing is done')
    : undefined;
}

function pausedByDatabase({ database }: DrainSnapshot): DrainDecision | undefined {
  return database.kind === 'present' && database.value.isPaused
    ? settled('Paused', 'the database is paused: everything is observed, nothing is done')
    : undefined;
}

/** From a newer version, or broken: hands off. `millrace reset` is the way out. */
function recordUnreadable(snapshot: DrainSnapshot, now: Instant): DrainDecision | undefined {
  const { record, shard } = snapshot;
  if (record.kind !== 'unreadable') {
    return undefined;
  }
  const { message, needs } = unreadableText('drain-step', 'Shard', shard, record.why);
  return blocked(
    'RecordUnreadable',
    message,
    needs,
    { every: slowWakeSeconds },
    statusEffects(snapshot, now, { status: 'Unknown', reason: 'RecordUnreadable', message }, null),
  );
}

function foreignRecord({ shard, record }: DrainSnapshot): DrainDecision | undefined {
  return clearForeign(shard, record);
}

function membersUnknown(snapshot: DrainSnapshot, now: Instant): DrainDecision | undefined {
  return snapshot.members.kind === 'present'
    ? undefined
    : standStill(
        snapshot,
        now,
        'MembersUnknown',
        `the shard's pods cannot be listed: ${whyOf(snapshot.members)}`,
      );
}

/** No record and nobody to leave: the converged state. Only the primary in status may still have to follow. */
function nobodyLeaves(snapshot: DrainSnapshot, now: Instant): DrainDecision | undefined {
  if (leavingRecord(snapshot) !== null || mayHaveLeavers(snapshot) || mayHaveClaimsLeft(snapshot)) {
    return undefined;
  }
  const message = 'no member has to leave';
  const { drained, generation } = snapshot.shard;
  const isSaid = drained?.status === 'True' && drained.observedGeneration === generation;
  const condition: OwnCondition = isSaid
    ? { status: 'True', reason: drained.reason, message: drained.message }
    : { status: 'True', reason: 'NobodyLeaves', message };
  return settled('NobodyLeaves', message, [
    ...(snapshot.record.kind === 'ours' ? [advance(snapshot, null)] : []),
    ...strayMirrors(snapshot),
    ...statusEffects(snapshot, now, condition, null),
  ]);
}

function databaseMissing(snapshot: DrainSnapshot, now: Instant): DrainDecision | undefined {
  const { database, shard } = snapshot;
  switch (database.kind) {
    case 'present':
      return undefined;
    case 'absent':
      return standStill(
        snapshot,
        now,
        'DatabaseMissing',
        `${whatIsDue(snapshot)}, but the Database ${shard.databaseName} does not exist`,
        `create the Database ${shard.databaseName} in namespace ${shard.namespace}`,
      );
    case 'unknown':
      return standStill(
        snapshot,
        now,
        'DatabaseUnknown',
        `the Database cannot be read: ${database.why}`,
      );
  }
}

/** Unknown is never safe; only a person may go on without the topology, and only for the member they named. */
function topologyUnknown(snapshot: DrainSnapshot, now: Instant): DrainDecision | undefined {
  const { topology } = snapshot;
  if (isForced(snapshot) || mayForce(snapshot)) {
    return undefined;
  }
  if (topology.kind !== 'present') {
    return standStill(
      snapshot,
      now,
      'TopologyUnknown',
      `the topology cannot be read: ${whyOf(topology)}`,
    );
  }
  const [undecodable] = topology.value.undecodable;
  return undecodable === undefined
    ? undefined
    : standStill(
        snapshot,
        now,
        'PoolerRecordUnreadable',
        `the pooler record ${undecodable.key} cannot be decoded: ${undecodable.why}`,
        'repair or remove that record, or use a Millrace version that knows it',
      );
}

/**
 * Members come first. Where none has to leave, what is left of one that went unseen does: through the same record and the
 * same gates, since nobody saw whether the others could spare it.
 */
function chooseClaim(snapshot: DrainSnapshot, now: Instant): DrainDecision | undefined {
  if (leavingRecord(snapshot) !== null || mayHaveLeavers(snapshot)) {
    return undefined;
  }
  const left = claimsLeftBehind(snapshot);
  if (left.kind !== 'present') {
    return standStill(
      snapshot,
      now,
      'ClaimsUnknown',
      `whether a surplus member has left its claim is unknown: ${whyOf(left)}`,
    );
  }
  const leavers = left.value.map((claim) => leaverOfClaim(snapshot, claim, now));
  const leaver = leavers.find((candidate) => !stillAnswers(snapshot, candidate)) ?? leavers[0];
  if (leaver === undefined) {
    return undefined;
  }
  return stillAnswers(snapshot, leaver)
    ? standStill(
        snapshot,
        now,
        'NobodySafeToChoose',
        `${subjectOf(leaver)} cannot go: its pooler answers, so the member may still run`,
        `find where ${leaver.pod} runs and stop it`,
      )
    : claimPlace(
        snapshot,
        now,
        leaver,
        `${subjectOf(leaver)} is to leave: its pool has as many members as wanted`,
      );
}

/** Claims the shard's one place for the member that should leave first. The record is the lock. */
function chooseLeaver(snapshot: DrainSnapshot, now: Instant): DrainDecision | undefined {
  if (leavingRecord(snapshot) !== null) {
    return undefined;
  }
  const primary = primaryOf(snapshot);
  const candidates = whoShouldLeave(
    snapshot,
    primary.kind === 'agreed' ? podOf(snapshot, primary) : null,
  );
  const chosen =
    candidates.find(({ member }) => member.uid === snapshot.shard.forcedPodUid) ?? candidates[0];
  if (chosen === undefined) {
    const why = primary.kind === 'agreed' ? 'every candidate is somebody else’s' : primary.why;
    return standStill(
      snapshot,
      now,
      'NobodySafeToChoose',
      `a member has to leave and none can be chosen: ${why}`,
    );
  }
  if (snapshot.claims.kind === 'unknown') {
    return standStill(
      snapshot,
      now,
      'ClaimsUnknown',
      `the shard's claims cannot be listed: ${snapshot.claims.why}`,
    );
  }
  const leaver = leaverOf(snapshot, chosen, now);
  return claimPlace(snapshot, now, leaver, `${leaver.pod} is to leave: ${causeText(chosen)}`);
}

function claimPlace(
  snapshot: DrainSnapshot,
  now: Instant,
  leaver: Leaver,
  message: string,
): DrainDecision {
  const record = newRecord(snapshot, 'requested', leaver, 'MemberChosen', now);
  return acting('MemberChosen', message, [
    advance(snapshot, record),
    ...statusEffects(snapshot, now, drainingCondition(snapshot, leaver), leaver),
    event('Normal', 'MemberChosen', message),
  ]);
}

/** Why nothing can rest, in words. */
function whatIsDue(snapshot: DrainSnapshot): string {
  return leavingRecord(snapshot) !== null || mayHaveLeavers(snapshot)
    ? 'a member has to leave'
    : 'a surplus member may have left its claim';
}
