import { drainRequest } from '#shared/api/annotations.ts';
import type { Leaver, LeavingRecord } from '#shared/api/drain-record.ts';
import { readDrainRecord } from '#shared/api/drain-record.ts';
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
  return {
    reason: drained?.reason ?? '',
    message: drained?.message,
    since: drained?.lastTransitionTime,
    isSettled: drained?.status === 'True',
    lookedAt: drained?.observedGeneration,
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
  const stopping = stoppingText(scene, record);
  return {
    reason,
    message: told === '' ? undefined : told,
    since: data.startedAt,
    isSettled: false,
    meaning: `${sentence(whoText(scene, data))} ${stopping?.meaning ?? meaning.means}`,
    waitsFor:
      reason === 'DrainStuck' && told !== ''
        ? told
        : (stopping?.waitsFor ?? meaning.waitsFor ?? null),
    todo: meaning.attention === 'needed' ? waysOut(scene, record, advice) : [],
    next: `${meaning.next}${deadlineText(scene, record, reason)}`,
    notes: notesOf(record),
    overdue: overdueText(scene, record, reason),
  };
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
  return `${pod} is to leave because ${causes[cause]}${why}`;
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
  { state, reason, data }: LeavingRecord,
): { readonly meaning: string; readonly waitsFor: string } | undefined {
  if (state !== 'finished' || reason !== 'MemberMayGo' || scene.pods === undefined) {
    return undefined;
  }
  const pod = podOf(scene, data);
  if (pod === undefined) {
    return {
      meaning:
        'Its pod is gone. What is left is to prove that it has stopped, its place in the data plane, and its claim.',
      waitsFor: `its node ${data.node} to prove that it has stopped, and the data plane to let it go`,
    };
  }
  return pod.deletedAt === null
    ? undefined
    : {
        meaning: `Its pod was deleted ${distanceText(pod.deletedAt, scene.now)} and is stopping.`,
        waitsFor: 'its pod to stop',
      };
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

/** `, or set the annotation millrace.dev/force-drain=… on the Shard to go on regardless`: said at the end, with its risk. */
const forceAdvice =
  /(,)? or set the annotation millrace\.dev\/force-drain=\S+ on the Shard(?: to go on regardless)?/;

function waysOut(scene: Scene, record: LeavingRecord, advice: string | null): readonly Todo[] {
  const { namespace, resource } = namesOf(scene, 'drain-step');
  const { data: leaver, state } = record;
  const first = (advice ?? '')
    .replace(forceAdvice, '')
    .replace(/^repair that,?$/, '')
    .trim();
  return [
    ...(first === '' ? [] : [{ text: first }]),
    {
      text: 'see how the members are',
      command: `kubectl get pods -n ${namespace} -l millrace.dev/shard=${scene.target.name}`,
    },
    ...(state === 'finished' ? [] : keepIt(scene, leaver)),
    ...(leaver.forced
      ? []
      : [
          {
            text:
              state === 'finished'
                ? 'only if you are certain that it has stopped: go on without the proof'
                : 'as a last resort, order it out all the same: if the others are too few, the database stops taking writes, and what only this member has is lost',
            command: `kubectl annotate -n ${namespace} ${resource} --overwrite millrace.dev/force-drain=${leaver.podUid}`,
          },
        ]),
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
