import { drainRequest, forceDrain } from '#shared/api/annotations.ts';
import type { Leaver, LeavingRecord } from '#shared/api/drain-record.ts';
import { readDrainRecord } from '#shared/api/drain-record.ts';
import type { Reason } from '#shared/api/reasons.ts';
import { type Instant, parseInstant, plusSeconds, toText } from '#shared/kernel/instant.ts';
import { meaningOf } from './catalogue/catalogue.ts';
import type { Todo } from './model.ts';
import { type Finding, type Scene, namesOf } from './scene.ts';
import { type SeenCondition, type SeenPod, conditionOf, secondsOf } from './seen.ts';
import { distanceText, isOverdue, sentence, withoutAdvice } from './words.ts';

const defaultDeadlineSeconds = 300;

/** What drain-step is at, from its record, its condition and the pod that leaves. */
export function drainFinding(scene: Scene): Finding {
  const { target } = scene;
  const drained = conditionOf(target, 'Drained');
  const read = readDrainRecord(target);
  if (read.kind === 'ours' && read.record.state !== 'choosing') {
    return leaving(scene, read.record, drained);
  }
  if (read.kind === 'ours') {
    const { reason, since } = read.record;
    const message = drained?.reason === reason ? drained.message : undefined;
    return { reason, message, since, isSettled: false, lookedAt: drained?.observedGeneration };
  }
  return drained?.status === 'True'
    ? nobodyLeaves(drained)
    : {
        reason: drained?.reason ?? '',
        message: drained?.message,
        since: drained?.lastTransitionTime,
        isSettled: false,
        lookedAt: drained?.observedGeneration,
      };
}

/** The condition goes on to tell how the last leaving ended, which may not have been by leaving. */
function nobodyLeaves(drained: SeenCondition): Finding {
  const { reason, message, lastTransitionTime: since, observedGeneration: lookedAt } = drained;
  const { brief, means: meaning, next } = meaningOf('NobodyLeaves', 'drain-step');
  const isOrdinary = reason === 'NobodyLeaves' || reason === 'MemberLeft';
  return {
    reason,
    since,
    isSettled: true,
    lookedAt,
    brief,
    meaning,
    next,
    waitsFor: null,
    notes: isOrdinary ? [] : [`How the last one ended: ${message}.`],
  };
}

/**
 * While a member leaves the step writes only when something moves on, when a person is needed, or once the deadline has
 * passed. A slow wake says that the condition has the newest word; a fast one that the record has.
 */
function leaving(scene: Scene, record: LeavingRecord, drained: SeenCondition | undefined): Finding {
  const { data, wake } = record;
  const isSlow = wake !== undefined && 'every' in wake && wake.every > 5;
  const isHeld = isSlow && drained !== undefined && drained.status !== 'True';
  const reason = isHeld && drained.reason !== 'Draining' ? drained.reason : record.reason;
  const { told, advice } = withoutAdvice(isHeld ? drained.message : '');
  const meaning = meaningOf(reason, 'drain-step');
  // Past the deadline the reason says no more than that; what it is held by stands in its words.
  const cause = reason === 'DrainStuck' ? heldBy(told) : undefined;
  const stopping = stoppingText(scene, record, cause ?? reason);
  const means = cause === undefined ? meaning.means : meaningOf(cause, 'drain-step').means;
  return {
    reason,
    // Of a pod that stops its own object tells more.
    message: told === '' || stopping !== undefined ? undefined : told,
    since: data.startedAt,
    isSettled: false,
    ...(cause === undefined ? {} : { brief: meaningOf(cause, 'drain-step').brief }),
    meaning: `${sentence(whoText(scene, data))} ${stopping?.meaning ?? means}${stuckText(scene, record, reason)}`,
    waitsFor:
      stopping?.waitsFor ??
      (cause === undefined ? meaning.waitsFor : meaningOf(cause, 'drain-step').waitsFor) ??
      null,
    todo: meaning.attention === 'needed' ? waysOut(scene, record, advice) : [],
    next: `${meaning.next}${deadlineText(scene, record, reason)}`,
    notes: notesOf(record),
    overdue: overdueText(scene, record, reason),
  };
}

/** How each thing is told that a member can be held by. */
const holds: readonly (readonly [RegExp, Reason])[] = [
  [/^the shard's pods cannot be listed/, 'MembersUnknown'],
  [/the Database \S+ does not exist/, 'DatabaseMissing'],
  [/^the Database cannot be read/, 'DatabaseUnknown'],
  [/^the topology cannot be read/, 'TopologyUnknown'],
  [/^the pooler record .* cannot be decoded/, 'PoolerRecordUnreadable'],
  [/was asked to hand over its lead/, 'AwaitingNewPrimary'],
  [/there is no agreed primary|once there is an agreed primary/, 'NoAgreedPrimary'],
  [/is proposed and not decided/, 'ProposalUndecided'],
  [/healthy .* remain|durability policy/, 'QuorumTooSmall'],
  [/no standby is ready/, 'NoStandbyReady'],
  [/is in somebody else’s hands/, 'MemberOfOthers'],
  [/the member may still run/, 'NodeUnproven'],
  [/is gone and still in the cohort/, 'AwaitingCohortExit'],
  [/a pod still uses the claim/, 'ClaimInUse'],
  [/ claim .* (?:cannot be read|is unknown)|uses .* is unknown|in use is unknown/, 'ClaimsUnknown'],
  [/ is stopping$/, 'AwaitingPodGone'],
];

/** What a stuck drain is held by, by what the step says of it. */
export function heldBy(told: string): Reason | undefined {
  return holds.find(([pattern]) => pattern.test(told))?.[1];
}

function stuckText(scene: Scene, { data }: LeavingRecord, reason: string): string {
  const deadline = reason === 'DrainStuck' ? deadlineOf(scene, data) : undefined;
  return deadline === undefined || deadline > scene.now
    ? ''
    : ` It should have left by ${toText(deadline)}, ${distanceText(deadline, scene.now)} (spec.drain.deadline); it is not given up.`;
}

const causes = {
  surplus: 'its pool has more members than wanted',
  requested: 'a person asked',
  failed: 'its pod has failed',
} as const;

function whoText(scene: Scene, leaver: Leaver): string {
  const { pod, cause } = leaver;
  if (isClaimOnly(leaver)) {
    return `what is left of ${pod}, its claim data-${pod}, is to go because its pool has as many members as wanted`;
  }
  const request = podOf(scene, leaver)?.annotations[drainRequest];
  const why = cause === 'requested' && request !== undefined ? ` (${request})` : '';
  return `the pod ${pod} is to leave because ${causes[cause]}${why}`;
}

function isClaimOnly({ podUid, claimUid }: Leaver): boolean {
  return podUid === claimUid;
}

function podOf({ pods }: Scene, { podUid }: Leaver): SeenPod | undefined {
  return pods?.find(({ uid }) => uid === podUid);
}

/** Once it is decided, the pod itself shows how far it is. */
function stoppingText(
  scene: Scene,
  { state, data }: LeavingRecord,
  reason: string,
): { readonly meaning: string; readonly waitsFor: string } | undefined {
  const isStopping = reason === 'MemberMayGo' || reason === 'AwaitingPodGone';
  if (state !== 'finished' || !isStopping || scene.pods === undefined) {
    return undefined;
  }
  const pod = podOf(scene, data);
  if (pod === undefined) {
    return {
      meaning:
        'Its pod is gone. What is left is the proof that it has stopped, its place in the data plane, and its claim.',
      waitsFor: 'its node and the data plane to show that it has stopped',
    };
  }
  if (pod.deletedAt === null) {
    return undefined;
  }
  const held =
    pod.finalizers.length === 0
      ? ''
      : ` Others hold its object by their finalizers: ${pod.finalizers.join(', ')}.`;
  return {
    meaning: `${stoppingSince(pod.deletedAt, scene.now)}${held}`,
    waitsFor: `its pod to be gone${pod.finalizers.length === 0 ? '' : `, which the finalizer ${pod.finalizers.join(', ')} holds`}`,
  };
}

/** A pod's deletion carries the moment by which it is to be gone. */
function stoppingSince(goneBy: Instant, now: Instant): string {
  const when = `${toText(goneBy)} (${distanceText(goneBy, now)})`;
  return goneBy > now
    ? `Its pod was deleted and has until ${when} to stop.`
    : `Its pod was deleted and should have ended by ${when}. It may still run, so it is waited for and never killed by force.`;
}

function deadlineOf({ target }: Scene, { startedAt }: Leaver): Instant | undefined {
  const start = parseInstant(startedAt);
  return start === undefined
    ? undefined
    : plusSeconds(start, secondsOf(target.spec.drain?.deadline, defaultDeadlineSeconds));
}

function deadlineText(scene: Scene, { data }: LeavingRecord, reason: string): string {
  const deadline = deadlineOf(scene, data);
  return deadline === undefined || reason === 'DrainStuck' || deadline < scene.now
    ? ''
    : ` Its deadline is ${toText(deadline)} (${distanceText(deadline, scene.now)}); after it this counts as stuck, and the member still stays.`;
}

/** Past its deadline whoever looks says so, unless something has just moved. */
function overdueText(
  scene: Scene,
  { since, data }: LeavingRecord,
  reason: string,
): string | undefined {
  const deadline = deadlineOf(scene, data);
  const moved = parseInstant(since);
  return reason !== 'DrainStuck' &&
    deadline !== undefined &&
    moved !== undefined &&
    isOverdue(deadline, scene.now) &&
    isOverdue(moved, scene.now)
    ? `its deadline passed ${distanceText(deadline, scene.now)} and nobody has said so`
    : undefined;
}

function notesOf({ state, data }: LeavingRecord): readonly string[] {
  return [
    ...(data.forced ? ['A person has forced it out: checks are passed over.'] : []),
    ...(state === 'finished' ? ['This can no longer be taken back.'] : []),
  ];
}

/** What a person can do, from the harmless to the last resort. */
function waysOut(scene: Scene, record: LeavingRecord, advice: string | null): readonly Todo[] {
  const { data: leaver, state } = record;
  const first = withoutOwnWords(advice ?? '');
  const advised = first === '' ? [] : [{ text: first }];
  const look = lookAtIt(scene, record);
  return [
    // What holds a pod's object is seen, and why its containers do not end is not.
    ...(podOf(scene, leaver)?.finalizers.length ? [...look, ...advised] : [...advised, ...look]),
    ...(state === 'finished' ? [] : keepIt(scene, leaver)),
    ...(advice !== null && forcing.test(advice) && !leaver.forced ? [forceIt(scene, leaver)] : []),
  ];
}

/** How the step names the way by force, and what is said here in words of our own, with a command each. */
const forcing = /set the annotation millrace\.dev\/force-drain=\S+ on the Shard/;
const ownWords = [
  / ?or set the annotation millrace\.dev\/force-drain=\S+ on the Shard(?: to go on regardless)?/,
  /bring up more members, take the request back/,
  /bring up a standby, or take the request back/,
  /^repair that/,
];

function withoutOwnWords(advice: string): string {
  return ownWords
    .reduce((text, words) => text.replace(words, ''), advice)
    .replaceAll(/^[\s,]+|[\s,]+$/g, '');
}

function lookAtIt(scene: Scene, { state, data: { pod } }: LeavingRecord): readonly Todo[] {
  const { namespace } = namesOf(scene, 'drain-step');
  const isThere = scene.pods?.some(({ name }) => name === pod) ?? true;
  const finalizers = scene.pods?.find(({ name }) => name === pod)?.finalizers ?? [];
  if (state === 'finished') {
    return isThere
      ? [
          {
            text:
              finalizers.length === 0
                ? 'see what holds its pod'
                : `see what holds its pod; whoever set ${finalizers.join(', ')} has to take it off`,
            command: `kubectl describe pod -n ${namespace} ${pod}`,
          },
        ]
      : [];
  }
  return [
    {
      text: 'bring the other members back to health, or add members (replicasPerCell); see which are not ready, and what their logs say',
      command: `kubectl get pods -n ${namespace} -l millrace.dev/shard=${scene.target.name}`,
    },
  ];
}

function keepIt(scene: Scene, { cause, pod, pool }: Leaver): readonly Todo[] {
  const { namespace } = namesOf(scene, 'drain-step');
  switch (cause) {
    case 'requested':
      return [
        {
          text: 'or keep the member: take the request off its pod',
          command: `kubectl annotate -n ${namespace} pod/${pod} ${drainRequest}-`,
        },
      ];
    case 'surplus':
      return [{ text: `or keep the member: raise replicasPerCell of the pool ${pool} again` }];
    case 'failed':
      return [];
  }
}

function forceIt(scene: Scene, { podUid }: Leaver): Todo {
  const { namespace, resource } = namesOf(scene, 'drain-step');
  const isGone = scene.pods?.every(({ uid }) => uid !== podUid) ?? false;
  return {
    text: isGone
      ? 'only if you are certain that it has stopped: go on without the proof'
      : 'as a last resort, order it out all the same: if the others are too few, the database stops taking writes, and what only this member has is lost (a member that leads is kept even so)',
    command: `kubectl annotate -n ${namespace} ${resource} --overwrite ${forceDrain}=${podUid}`,
  };
}
