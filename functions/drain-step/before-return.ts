import type { Leaver, LeavingRecord } from '#shared/api/drain-record.ts';
import { acting } from '#shared/kernel/decision.ts';
import {
  type Instant,
  parseInstant,
  plusSeconds,
  secondsBetween,
  toText,
} from '#shared/kernel/instant.ts';
import { compareRules } from '#shared/topology/topology.ts';
import { hasVote, idText, openProposal, primaryOf, quorumWithout, readyStandby } from './gates.ts';
import {
  claimsLeftBehind,
  hasFailed,
  isOfOthers,
  mayHaveLeavers,
  whoShouldLeave,
} from './leaving.ts';
import {
  type DrainDecision,
  advance,
  claimOf,
  databaseOf,
  drainingCondition,
  event,
  forceText,
  hold,
  isClaimOnly,
  isLeader,
  leaving,
  mirror,
  moveOn,
  podOf,
  policyOf,
  ruleText,
  stillAnswers,
  subjectOf,
  takeBack,
  wakeSeconds,
  whyNotWantedAnyMore,
  statusEffects,
  memberOf,
  whyOf,
} from './moves.ts';
import type { DrainSnapshot } from './snapshot.ts';

/** How long the gates must hold before a member may go, in seconds: two looks at least so far apart. */
export const settleSeconds = 5;

/** How long after its intent a switchover may still be sent, and when it may be asked for again, in seconds. */
const sendWithinSeconds = 10;
const askAgainSeconds = 75;

/** The spec or the person no longer wants it: the member stays, with nothing of ours on it. */
export function cancelled(snapshot: DrainSnapshot, now: Instant): DrainDecision | undefined {
  const { leaver } = leaving(snapshot);
  const why = whyNotWantedAnyMore(snapshot, leaver);
  if (why === undefined) {
    return undefined;
  }
  return takeBack(snapshot, now, 'DrainCancelled', `${subjectOf(leaver)} stays: ${why}`);
}

/** Only a claim leaves, which no member ever waits for. */
export function membersFirst(snapshot: DrainSnapshot, now: Instant): DrainDecision | undefined {
  const { leaver } = leaving(snapshot);
  return isClaimOnly(leaver) && mayHaveLeavers(snapshot)
    ? takeBack(
        snapshot,
        now,
        'DrainCancelled',
        `${subjectOf(leaver)} stays until the members that have to leave have left`,
      )
    : undefined;
}

/** Only a claim leaves, and it is no longer one that nobody needs; or its member turns out to live. */
export function claimWanted(snapshot: DrainSnapshot, now: Instant): DrainDecision | undefined {
  const { leaver } = leaving(snapshot);
  if (!isClaimOnly(leaver)) {
    return undefined;
  }
  const left = claimsLeftBehind(snapshot);
  if (left.kind !== 'present') {
    const message = `whether ${subjectOf(leaver)} is in use is unknown: ${whyOf(left)}`;
    return hold(snapshot, now, 'ClaimsUnknown', message);
  }
  const isLeft = left.value.some(({ claim }) => claim.uid === leaver.claimUid);
  return isLeft && !stillAnswers(snapshot, leaver)
    ? undefined
    : takeBack(
        snapshot,
        now,
        'DrainCancelled',
        `${subjectOf(leaver)} stays: ${whyClaimStays(snapshot, leaver)}`,
      );
}

/** Its pod has come into somebody else's hands: whoever that is drains it, or keeps it. */
export function handedOver(snapshot: DrainSnapshot, now: Instant): DrainDecision | undefined {
  const { leaver } = leaving(snapshot);
  return isOfOthers(memberOf(snapshot, leaver))
    ? takeBack(snapshot, now, 'MemberOfOthers', `${leaver.pod} is in somebody else’s hands now`)
    : undefined;
}

/** Someone put this pod's uid into `force-drain`: recorded first, and loudly, before any gate is passed over. */
export function forcedByPerson(snapshot: DrainSnapshot): DrainDecision | undefined {
  const { record, leaver } = leaving(snapshot);
  if (leaver.forced || snapshot.shard.forcedPodUid !== leaver.podUid) {
    return undefined;
  }
  const message = `a person forces ${subjectOf(leaver)} out: unmet gates are passed over from here`;
  return acting('DrainForced', message, [
    advance(snapshot, {
      ...record,
      reason: 'DrainForced',
      wake: { every: wakeSeconds },
      data: { ...leaver, forced: true },
    }),
    event('Warning', 'DrainForced', message),
  ]);
}

/**
 * The leaver leads. A surplus member then goes last, so the place is given back while another can leave; and whoever
 * came to lead after its gates had held starts again from its request, since what was seen is no longer true.
 */
export function betterNow(snapshot: DrainSnapshot, now: Instant): DrainDecision | undefined {
  const { record, leaver } = leaving(snapshot);
  const primary = primaryOf(snapshot);
  if (primary.kind !== 'agreed' || !isLeader(primary, leaver)) {
    return undefined;
  }
  if (record.state !== 'requested') {
    return takeBack(
      snapshot,
      now,
      'BecamePrimary',
      `${leaver.pod} became primary; its drain starts again`,
    );
  }
  const [first] = whoShouldLeave(snapshot, podOf(snapshot, primary)).filter(
    ({ member }) => member.pool === leaver.pool && member.cell === leaver.cell,
  );
  return leaver.cause !== 'surplus' || first === undefined || first.member.uid === leaver.podUid
    ? undefined
    : takeBack(
        snapshot,
        now,
        'BecamePrimary',
        `${leaver.pod} became primary; ${first.member.pod} leaves instead`,
      );
}

/** A switchover was asked for: nothing else happens until a different leader stands, or the window has passed. */
export function awaitSwitchover(snapshot: DrainSnapshot, now: Instant): DrainDecision | undefined {
  const { record, leaver } = leaving(snapshot);
  const { intent } = leaver;
  if (intent === undefined) {
    return undefined;
  }
  const primary = primaryOf(snapshot);
  if (
    primary.kind === 'agreed' &&
    !isLeader(primary, leaver) &&
    compareRules(primary.rule.rule, intent.rule) > 0
  ) {
    const { intent: _done, ...rest } = leaver;
    const message = `${idText(primary.status.id)} is primary now under rule ${ruleText(primary.rule.rule)}`;
    return acting('PrimarySwitched', message, [
      advance(snapshot, {
        ...record,
        reason: 'PrimarySwitched',
        wake: { every: wakeSeconds },
        data: rest,
      }),
      ...statusEffects(snapshot, now, drainingCondition(snapshot, rest), rest),
      event('Normal', 'PrimarySwitched', message),
    ]);
  }
  const asked = parseInstant(intent.at);
  const isWindowOpen = asked === undefined || secondsBetween(asked, now) < askAgainSeconds;
  const isStillLeader = primary.kind === 'agreed' && isLeader(primary, leaver);
  if (!isWindowOpen && (isStillLeader || leaver.forced)) {
    return undefined;
  }
  const why =
    primary.kind === 'agreed' ? 'no different leader stands under a newer rule yet' : primary.why;
  return hold(
    snapshot,
    now,
    'AwaitingNewPrimary',
    `${leaver.pod} was asked to hand over its lead: ${why}`,
  );
}

export function waitForPrimary(snapshot: DrainSnapshot, now: Instant): DrainDecision | undefined {
  const { leaver } = leaving(snapshot);
  const primary = primaryOf(snapshot);
  return leaver.forced || primary.kind === 'agreed'
    ? undefined
    : hold(snapshot, now, 'NoAgreedPrimary', `there is no agreed primary: ${primary.why}`);
}

/** An undecided rule may change everything below. */
export function waitForProposal(snapshot: DrainSnapshot, now: Instant): DrainDecision | undefined {
  const primary = primaryOf(snapshot);
  const proposal = primary.kind === 'agreed' ? openProposal(snapshot, primary.rule) : null;
  return proposal === null || leaving(snapshot).leaver.forced
    ? undefined
    : hold(
        snapshot,
        now,
        'ProposalUndecided',
        `rule ${ruleText(proposal.rule)} is proposed and not decided`,
      );
}

/**
 * The others are too few while one of them has failed: it gets the place, since its replacement is what makes them
 * enough again. The leaver is asked anew once it is back.
 */
export function failedMemberFirst(
  snapshot: DrainSnapshot,
  now: Instant,
): DrainDecision | undefined {
  const { leaver } = leaving(snapshot);
  const primary = primaryOf(snapshot);
  if (leaver.forced || leaver.cause === 'failed' || primary.kind !== 'agreed') {
    return undefined;
  }
  const { needed, healthy } = quorumWithout(snapshot, primary.rule, leaver.pooler);
  const failed = whoShouldLeave(snapshot, podOf(snapshot, primary)).find(({ member }) =>
    hasFailed(member, snapshot.nodes),
  );
  return needed === null ||
    healthy >= needed ||
    failed === undefined ||
    failed.member.uid === leaver.podUid
    ? undefined
    : takeBack(
        snapshot,
        now,
        'FailedMemberFirst',
        `${leaver.pod} stays until ${failed.member.pod}, which has failed, is replaced`,
      );
}

export function waitForQuorum(snapshot: DrainSnapshot, now: Instant): DrainDecision | undefined {
  const { leaver } = leaving(snapshot);
  const primary = primaryOf(snapshot);
  if (leaver.forced || primary.kind !== 'agreed') {
    return undefined;
  }
  const { needed, healthy, unit } = quorumWithout(snapshot, primary.rule, leaver.pooler);
  if (needed !== null && healthy >= needed) {
    return undefined;
  }
  const message =
    needed === null
      ? 'the durability policy is one this version does not know'
      : `without ${leaver.pod} only ${healthy} healthy ${unit}${healthy === 1 ? ' remains' : 's remain'}, and a commit needs ${needed}`;
  const others = `bring up more members, take the request back, or set ${forceText(leaver)} to go on regardless`;
  return hasVote(primary.rule, primary.status.id)
    ? hold(snapshot, now, 'QuorumTooSmall', message, others)
    : hold(
        snapshot,
        now,
        'QuorumTooSmall',
        `${message}; the leader ${idText(primary.status.id)} has no vote`,
        `hand the lead to a member that has one, ${others}`,
      );
}

/** The leader resigns before it goes. The other side takes no precondition: the intent is recorded first. */
export function switchOver(snapshot: DrainSnapshot, now: Instant): DrainDecision | undefined {
  const { record, leaver } = leaving(snapshot);
  const primary = primaryOf(snapshot);
  if (primary.kind !== 'agreed' || !isLeader(primary, leaver)) {
    return undefined;
  }
  const standby = readyStandby(snapshot, primary.rule, primary.status.id);
  if (standby === null) {
    return hold(
      snapshot,
      now,
      'NoStandbyReady',
      `${leaver.pod} leads and no standby is ready to take over`,
      'bring up a standby, or take the request back',
    );
  }
  const intent = { rule: primary.rule.rule, at: toText(now) };
  const next: LeavingRecord = {
    ...record,
    reason: 'SwitchoverAsked',
    wake: { every: wakeSeconds },
    data: { ...leaver, intent },
  };
  return acting(
    'SwitchoverAsked',
    `${leaver.pod} leads and is asked to hand over to a standby`,
    [
      advance(snapshot, next),
      ...statusEffects(snapshot, now, drainingCondition(snapshot, leaver), leaver),
    ],
    {
      kind: 'switchPrimary',
      database: databaseOf(snapshot).ref,
      shard: databaseOf(snapshot).shard,
      reason: `millrace: ${leaver.pod} is to leave (${leaver.cause})`,
      guard: { recordKey: record.key, sendBy: plusSeconds(now, sendWithinSeconds) },
    },
  );
}

export function startDraining(snapshot: DrainSnapshot, now: Instant): DrainDecision | undefined {
  const { record, leaver } = leaving(snapshot);
  return record.state === 'requested'
    ? moveOn(
        snapshot,
        now,
        'draining',
        'GatesHold',
        `${subjectOf(leaver)} can be spared`,
        mirror(snapshot, leaver, 'draining'),
      )
    : undefined;
}

/**
 * The gates held once; they must hold again after the settle time. One that begins later than the next look was written by
 * a clock that is wrong, and begins anew.
 */
export function waitForSettle(snapshot: DrainSnapshot, now: Instant): DrainDecision | undefined {
  const { record, leaver } = leaving(snapshot);
  if (record.state !== 'draining' || leaver.forced) {
    return undefined;
  }
  const since = parseInstant(record.since);
  if (since !== undefined && secondsBetween(now, since) > settleSeconds) {
    return moveOn(
      snapshot,
      now,
      'draining',
      'GatesHold',
      `${subjectOf(leaver)} can be spared; since when, ${record.since}, is still to come, so it is counted from now`,
      [],
    );
  }
  return since !== undefined && secondsBetween(since, now) >= settleSeconds
    ? undefined
    : hold(
        snapshot,
        now,
        'Settling',
        `the gates hold for ${subjectOf(leaver)}; they are looked at again`,
      );
}

export function acknowledge(snapshot: DrainSnapshot, now: Instant): DrainDecision | undefined {
  const { record, leaver } = leaving(snapshot);
  return record.state === 'draining'
    ? moveOn(
        snapshot,
        now,
        'acknowledged',
        'GatesHeld',
        `the gates held for ${subjectOf(leaver)} over the settle time`,
        [],
      )
    : undefined;
}

/** The gates hold on a further look: the compare-and-swap into `finished` is the point of no return. */
export function authoriseDeletion(
  snapshot: DrainSnapshot,
  now: Instant,
): DrainDecision | undefined {
  const { record, leaver } = leaving(snapshot);
  return record.state === 'acknowledged'
    ? moveOn(
        snapshot,
        now,
        'finished',
        'MemberMayGo',
        `${subjectOf(leaver)} may go`,
        mirror(snapshot, leaver, 'finished'),
      )
    : undefined;
}

function whyClaimStays(snapshot: DrainSnapshot, leaver: Leaver): string {
  const claim = claimOf(snapshot, leaver);
  if (claim === undefined || claim.isBeingDeleted) {
    return 'it is going already';
  }
  if (policyOf(snapshot, leaver) === 'Retain') {
    return 'its pool keeps the claims of surplus members';
  }
  if (claim.released !== null) {
    return 'it is marked as kept';
  }
  if (claim.member === null) {
    return 'its labels say that it is somebody else’s';
  }
  return stillAnswers(snapshot, leaver)
    ? 'its pooler answers, so its member may still run'
    : 'a pod uses it again';
}
