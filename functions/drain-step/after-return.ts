import { acting } from '#shared/kernel/decision.ts';
import { type Instant, toText } from '#shared/kernel/instant.ts';
import { recordText } from '#shared/kernel/record.ts';
import { hasStopped } from '#shared/topology/topology.ts';
import { hasVote, primaryOf } from './gates.ts';
import {
  type DrainDecision,
  advance,
  claimOf,
  databaseOf,
  event,
  forceText,
  hold,
  isClaimOnly,
  isLeader,
  isReplaced,
  isUsedByAnother,
  leaving,
  memberOf,
  mirror,
  policyOf,
  recordOf,
  wakeSeconds,
  whyOf,
  releaseMark,
  statusEffects,
  stillAnswers,
} from './moves.ts';
import { isOfOthers } from './leaving.ts';
import type { DrainSnapshot } from './snapshot.ts';

/** Before the delete, not after: what is being deleted already is waited for, whoever deletes it. */
export function keepOffOthers(snapshot: DrainSnapshot, now: Instant): DrainDecision | undefined {
  const { leaver } = leaving(snapshot);
  const member = memberOf(snapshot, leaver);
  return member?.isBeingDeleted === false && isOfOthers(member)
    ? hold(
        snapshot,
        now,
        'MemberOfOthers',
        `${leaver.pod} may go, but is in somebody else’s hands`,
        'take their marks or ownership off the pod, or delete it yourself',
      )
    : undefined;
}

/**
 * The one backward edge: while its pod still stands, a leader is not deleted. Without knowledge nothing happens.
 *
 * The pod is written before the record moves: another handler that still holds the older view deletes under the version
 * of the pod it read, so one of the two writes fails.
 */
export function becamePrimary(snapshot: DrainSnapshot, now: Instant): DrainDecision | undefined {
  const { record, leaver } = leaving(snapshot);
  const member = memberOf(snapshot, leaver);
  if (member === undefined || member.isBeingDeleted) {
    return undefined;
  }
  const primary = primaryOf(snapshot);
  if (primary.kind === 'agreed' && isLeader(primary, leaver)) {
    const message = `${leaver.pod} became primary and is not deleted`;
    return acting('BecamePrimary', message, [
      ...mirror(snapshot, leaver, member.mirror === null ? 'draining' : null),
      advance(snapshot, {
        ...record,
        state: 'requested',
        since: toText(now),
        reason: 'BecamePrimary',
        wake: { every: wakeSeconds },
      }),
      event('Warning', 'BecamePrimary', message),
    ]);
  }
  return primary.kind === 'agreed' || leaver.forced
    ? undefined
    : hold(
        snapshot,
        now,
        'NoAgreedPrimary',
        `${leaver.pod} may go once there is an agreed primary: ${primary.why}`,
      );
}

/** Whoever waits in the pod for its word gets it before the pod is asked to stop, also where a crash came between. */
export function sayFinished(snapshot: DrainSnapshot): DrainDecision | undefined {
  const { leaver } = leaving(snapshot);
  const member = memberOf(snapshot, leaver);
  return member === undefined || member.isBeingDeleted || member.mirror === 'finished'
    ? undefined
    : acting('MemberMayGo', `${leaver.pod} may go`, mirror(snapshot, leaver, 'finished'));
}

export function deleteMember(snapshot: DrainSnapshot): DrainDecision | undefined {
  const { record, leaver } = leaving(snapshot);
  const member = memberOf(snapshot, leaver);
  if (member === undefined || member.isBeingDeleted) {
    return undefined;
  }
  return acting('MemberDeleted', `${leaver.pod} is deleted`, [], {
    kind: 'deleteObject',
    object: { kind: 'Pod', namespace: snapshot.shard.namespace, name: leaver.pod },
    guard: {
      uid: leaver.podUid,
      resourceVersion: member.resourceVersion,
      recordKey: record.key,
    },
  });
}

/** A pod that stays Terminating may still run: it is waited for, never force-deleted. */
export function waitForPodGone(snapshot: DrainSnapshot, now: Instant): DrainDecision | undefined {
  const { leaver } = leaving(snapshot);
  return memberOf(snapshot, leaver) === undefined
    ? undefined
    : hold(
        snapshot,
        now,
        'AwaitingPodGone',
        `${leaver.pod} is stopping`,
        undefined,
        `find out why its containers do not end; where its node ${leaver.node} is off for good, delete the Node`,
      );
}

/** A pod object that is gone proves nothing about a node nobody hears from. */
export function waitForNodeProof(snapshot: DrainSnapshot, now: Instant): DrainDecision | undefined {
  const { leaver } = leaving(snapshot);
  const node = snapshot.nodes[leaver.node];
  if (
    leaver.forced ||
    leaver.node === '' ||
    node?.kind === 'absent' ||
    (node?.kind === 'present' && node.value.isReady)
  ) {
    return undefined;
  }
  const why =
    node?.kind === 'present'
      ? 'is not Ready'
      : `cannot be read: ${node === undefined ? 'it was not asked' : whyOf(node)}`;
  return hold(
    snapshot,
    now,
    'NodeUnproven',
    `${leaver.pod} is gone, but its node ${leaver.node} ${why}: the member may still run`,
    `make sure the node is off, then delete the Node or set ${forceText(leaver)}`,
  );
}

/**
 * Where a member ran whose claim alone is left, nobody knows, so no node proves that it has stopped. Its pooler must be
 * silent while the primary's answers: then it is not the way to them that is broken.
 */
export function waitForSilence(snapshot: DrainSnapshot, now: Instant): DrainDecision | undefined {
  const { leaver } = leaving(snapshot);
  const pooler = recordOf(snapshot, leaver);
  const isOver = pooler === undefined || hasStopped(pooler) || isReplaced(snapshot, pooler);
  if (leaver.forced || !isClaimOnly(leaver) || isOver) {
    return undefined;
  }
  const primary = primaryOf(snapshot);
  if (primary.kind !== 'agreed') {
    return hold(
      snapshot,
      now,
      'NoAgreedPrimary',
      `${leaver.pod} is gone; there is no agreed primary: ${primary.why}`,
    );
  }
  return stillAnswers(snapshot, leaver)
    ? hold(
        snapshot,
        now,
        'NodeUnproven',
        `${leaver.pod} is gone, but its pooler still answers: the member may still run`,
        `find where it runs and stop it, or set ${forceText(leaver)}`,
      )
    : undefined;
}

/** It died without a word: its record gets what a graceful stop would have written, by compare-and-swap. */
export function retireSilentRecord(snapshot: DrainSnapshot): DrainDecision | undefined {
  const { record, leaver } = leaving(snapshot);
  const pooler = recordOf(snapshot, leaver);
  if (pooler === undefined || hasStopped(pooler) || isReplaced(snapshot, pooler)) {
    return undefined;
  }
  return acting(
    'SilentMemberRetired',
    `${leaver.pod} left without a word: its pooler record is retired`,
    [],
    {
      kind: 'topologyTxn',
      database: databaseOf(snapshot).ref,
      operation: { kind: 'retirePooler', cell: pooler.storeCell, key: pooler.key },
      guard: { modRevision: pooler.modRevision, recordKey: record.key },
    },
  );
}

export function waitForCohortExit(
  snapshot: DrainSnapshot,
  now: Instant,
): DrainDecision | undefined {
  const { leaver } = leaving(snapshot);
  const pooler = recordOf(snapshot, leaver);
  if (leaver.forced || pooler === undefined || isReplaced(snapshot, pooler)) {
    return undefined;
  }
  const primary = primaryOf(snapshot);
  if (primary.kind !== 'agreed') {
    return hold(
      snapshot,
      now,
      'NoAgreedPrimary',
      `${leaver.pod} is gone; there is no agreed primary: ${primary.why}`,
    );
  }
  return hasVote(primary.rule, leaver.pooler)
    ? hold(snapshot, now, 'AwaitingCohortExit', `${leaver.pod} is gone and still in the cohort`)
    : undefined;
}

/** A surplus member's claim goes by policy, and only when nothing mounts it; a kept one is marked free. */
export function releaseClaim(snapshot: DrainSnapshot, now: Instant): DrainDecision | undefined {
  const { record, leaver } = leaving(snapshot);
  if (leaver.cause !== 'surplus' || leaver.claimUid === '') {
    return undefined;
  }
  if (snapshot.claims.kind === 'unknown') {
    return hold(
      snapshot,
      now,
      'ClaimsUnknown',
      `the claim of ${leaver.pod} cannot be read: ${snapshot.claims.why}`,
    );
  }
  const claim = claimOf(snapshot, leaver);
  // Who was forced out passed over the gates that would have shown its data to be elsewhere.
  const isKept = leaver.forced || policyOf(snapshot, leaver) === 'Retain';
  if (claim === undefined || claim.isBeingDeleted || isKept) {
    return undefined;
  }
  // A pod of ours was made on it meanwhile. Where that is one too many, it leaves by a drain of its own.
  if (isUsedByAnother(snapshot, leaver, claim)) {
    return undefined;
  }
  if (snapshot.claimsInUse.kind !== 'present') {
    return hold(
      snapshot,
      now,
      'ClaimsUnknown',
      `whether a pod uses ${claim.name} is unknown: ${whyOf(snapshot.claimsInUse)}`,
    );
  }
  if (snapshot.claimsInUse.value.includes(claim.name)) {
    return hold(
      snapshot,
      now,
      'ClaimInUse',
      `a pod still uses the claim ${claim.name}`,
      `delete the pod that mounts ${claim.name}`,
    );
  }
  return acting(
    'ClaimDeleted',
    `the claim ${claim.name} is deleted, as the pool's policy says`,
    [],
    {
      kind: 'deleteObject',
      object: {
        kind: 'PersistentVolumeClaim',
        namespace: snapshot.shard.namespace,
        name: claim.name,
      },
      guard: {
        uid: claim.uid,
        resourceVersion: claim.resourceVersion,
        recordKey: record.key,
      },
    },
  );
}

/**
 * The claim's mark stands between two writes of the record. The first changes nothing: it shows that this record is still in
 * force after the claim was read, so that no pod is made on the claim meanwhile. The second clears it, and only then may one be.
 */
export function finishDrain(snapshot: DrainSnapshot, now: Instant): DrainDecision {
  const { record, leaver } = leaving(snapshot);
  const message = `${leaver.pod} has left`;
  const mark = releaseMark(snapshot, leaver);
  return acting('MemberLeft', message, [
    ...(mark.length === 0
      ? [advance(snapshot, null)]
      : [advance(snapshot, record), ...mark, advance(snapshot, null, recordText(record))]),
    ...statusEffects(snapshot, now, { status: 'True', reason: 'MemberLeft', message }, null),
    event(
      'Normal',
      'MemberLeft',
      `${message}: ${leaver.cause}${leaver.forced ? ', forced by a person' : ''}`,
    ),
  ]);
}
