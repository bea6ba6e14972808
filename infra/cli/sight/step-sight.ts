import { recordAnnotation } from '#shared/api/annotations.ts';
import type { StepName } from '#shared/api/steps.ts';
import { isStalled } from '#shared/api/reasons.ts';
import { toText } from '#shared/kernel/instant.ts';
import { wakeOf } from '#shared/kernel/record.ts';
import { backupFinding } from './backups.ts';
import { meaningOf } from './catalogue/catalogue.ts';
import { cleanupFinding } from './cleanup.ts';
import { drainFinding } from './drain.ts';
import type { Attention, NextLook, StepSight, Todo } from './model.ts';
import { poolPodsFinding } from './pods.ts';
import { ownRecord } from './records.ts';
import { releaseFinding } from './release.ts';
import { repositoryFinding } from './repository.ts';
import { type Finding, type Scene, namesOf, tellingCondition } from './scene.ts';
import { distanceText, isOverdue, lookOf, sentence, withoutAdvice } from './words.ts';

const findings: { readonly [S in StepName]: (scene: Scene) => Finding } = {
  'drain-step': drainFinding,
  'pool-pods': poolPodsFinding,
  'backup-config': repositoryFinding,
  'backup-trigger': backupFinding,
  'etcd-cleanup': cleanupFinding,
  'shard-release': releaseFinding,
};

const duties: { readonly [S in StepName]: string } = {
  'drain-step': 'lets members leave',
  'pool-pods': 'makes members',
  'backup-config': 'says where backups go',
  'backup-trigger': 'begins backups',
  'etcd-cleanup': 'tidies records of the dead',
  'shard-release': 'hands shards over',
};

/** What one step last decided about the target, and whether anybody still looks. */
export function stepSight(step: StepName, scene: Scene): StepSight {
  const standing = beforeAnything
    .map((check) => check(step, scene))
    .find((found) => found !== undefined);
  return standing ?? found(step, scene, findings[step](scene));
}

type Check = (step: StepName, scene: Scene) => StepSight | undefined;

/** In the order in which the steps themselves look at it. */
const beforeAnything: readonly Check[] = [
  targetBeingDeleted,
  paused,
  recordUnreadable,
  recordForeign,
  neverLooked,
];

function targetBeingDeleted(step: StepName, scene: Scene): StepSight | undefined {
  const { deletedAt } = scene.target;
  return deletedAt === null
    ? undefined
    : sight(step, scene, {
        standing: 'leaving',
        reason: 'TargetBeingDeleted',
        since: toText(deletedAt),
        look: null,
      });
}

/** By the spec, not by what a step last said: some steps say nothing at all while they are held. */
function paused(step: StepName, scene: Scene): StepSight | undefined {
  const { target, database } = scene;
  const byDatabase = database?.spec.paused === true;
  if (!target.spec.paused && !byDatabase) {
    return undefined;
  }
  const { namespace, resource, database: ofShard } = namesOf(scene, step);
  const held = target.spec.paused ? resource : (ofShard ?? '');
  return sight(step, scene, {
    standing: 'paused',
    reason: 'Paused',
    since: null,
    brief: target.spec.paused ? 'paused by a person' : `${held} is paused by a person`,
    meaning: `A person has paused ${held}: every step may look and none acts. What had begun before stays as it is.`,
    waitsFor: 'a person to end the pause',
    todo: [
      {
        text: 'to end the pause, set spec.paused to false where your manifests are kept, or at once',
        command: `kubectl patch -n ${namespace} ${held} --type merge -p '{"spec":{"paused":false}}'`,
      },
    ],
    notes: openWork(step, scene),
    look: null,
  });
}

/** What a pause holds in the middle. */
function openWork(step: StepName, scene: Scene): readonly string[] {
  const { target, database } = scene;
  const freed = { ...target, spec: { ...target.spec, paused: false } };
  if (ownRecord(step, target).kind !== 'ours') {
    return [];
  }
  const free: Scene = {
    ...scene,
    target: freed,
    ...(database === undefined || database === null
      ? {}
      : { database: { ...database, spec: { ...database.spec, paused: false } } }),
  };
  const { brief, standing } = stepSight(step, free);
  return standing === 'settled' ? [] : [`Held in the middle: ${brief}.`];
}

function recordUnreadable(step: StepName, scene: Scene): StepSight | undefined {
  const record = ownRecord(step, scene.target);
  return record.kind === 'unreadable'
    ? sight(step, scene, {
        standing: 'stuck',
        reason: 'RecordUnreadable',
        told: `the annotation ${recordAnnotation(step)} cannot be read: ${record.why}`,
        since: tellingCondition(scene, step)?.lastTransitionTime ?? null,
      })
    : undefined;
}

function recordForeign(step: StepName, scene: Scene): StepSight | undefined {
  const record = ownRecord(step, scene.target);
  return record.kind === 'foreign'
    ? sight(step, scene, {
        standing: 'working',
        reason: 'RecordForeign',
        told: `the annotation ${recordAnnotation(step)} belongs to the object with the uid ${record.uid}`,
        since: null,
        look: null,
      })
    : undefined;
}

function neverLooked(step: StepName, scene: Scene): StepSight | undefined {
  const { target, now } = scene;
  if (
    tellingCondition(scene, step) !== undefined ||
    target.annotations[recordAnnotation(step)] !== undefined
  ) {
    return undefined;
  }
  const since = target.createdAt;
  const isLate = since !== null && isOverdue(since, now);
  return {
    step,
    duty: duties[step],
    standing: isLate ? 'stuck' : 'working',
    attention: isLate ? 'needed' : 'none',
    reason: null,
    brief: isLate ? 'nobody has ever looked at it' : 'is about to be looked at for the first time',
    meaning: isLate
      ? 'The step has written nothing about it yet, although it has been there for a while: nobody tells the step, or the step does not run, or is refused.'
      : 'It is new. The step looks at it within seconds.',
    told: null,
    waitsFor: "the step's first look",
    since: since === null ? null : toText(since),
    todo: isLate ? silenceTodo(step, scene) : [],
    next: 'It is looked at as soon as a hint gets through; the sweep tries every few minutes.',
    look: null,
    notes: [],
  };
}

/** What a step wrote, whether it has seen the present spec, and whether its next look is overdue. */
function found(step: StepName, scene: Scene, finding: Finding): StepSight {
  const told = withoutAdvice(finding.message ?? '');
  const { attention: usual, todo: advised } = meaningOf(finding.reason, step);
  const attention = finding.attention ?? attentionOf(finding, usual);
  const advice = told.advice === null ? [] : todosOf(told.advice);
  const base = sight(step, scene, {
    standing: attention === 'needed' ? 'stuck' : finding.isSettled ? 'settled' : 'working',
    attention,
    reason: finding.reason,
    told: told.told === '' ? null : told.told,
    since: finding.since ?? null,
    // Whose notes cannot be read the step says itself: they need not be its own.
    todo:
      finding.todo ??
      (finding.reason === 'RecordUnreadable' && advice.length > 0
        ? advice
        : [...advice, ...(advised?.(namesOf(scene, step)) ?? [])]),
    ...(finding.brief === undefined ? {} : { brief: finding.brief }),
    ...(finding.meaning === undefined ? {} : { meaning: finding.meaning }),
    ...(finding.waitsFor === undefined ? {} : { waitsFor: finding.waitsFor }),
    ...(finding.next === undefined ? {} : { next: finding.next }),
    ...(finding.notes === undefined ? {} : { notes: finding.notes }),
  });
  return unheard(step, scene, finding, unseen(step, scene, finding, base));
}

/** Nobody is needed where all is well, whatever it was that came before. */
function attentionOf({ reason, isSettled }: Finding, usual: Attention): Attention {
  if (isSettled) {
    return usual === 'needed' ? 'none' : usual;
  }
  return isStalled(reason) ? 'needed' : usual;
}

/** The spec has changed and the step has not looked since. */
function unseen(step: StepName, scene: Scene, finding: Finding, base: StepSight): StepSight {
  const { target, now } = scene;
  const { lookedAt } = finding;
  if (lookedAt === undefined || lookedAt >= target.generation) {
    return base;
  }
  const since = target.changedAt;
  const isLate = since !== null && isOverdue(since, now);
  const note = `What it wrote is about generation ${lookedAt} of the spec; the present one is ${target.generation}${since === null ? '' : `, of ${toText(since)} (${distanceText(since, now)})`}.`;
  const notes = [note, ...base.notes];
  if (base.standing === 'stuck' && !isLate) {
    return { ...base, notes };
  }
  return isLate
    ? silent(step, scene, { ...base, notes }, 'the last change of the spec was not looked at')
    : {
        ...base,
        standing: 'working',
        brief: 'a change of the spec is about to be looked at',
        waitsFor: 'a look at the present spec, within seconds',
        notes,
      };
}

/** It was to look again, and did not. */
function unheard(step: StepName, scene: Scene, finding: Finding, base: StepSight): StepSight {
  const { look } = base;
  const why =
    finding.overdue ??
    (look?.isOverdue === true ? `it was to look again ${look.text}, and did not` : undefined);
  return why === undefined
    ? base
    : silent(
        step,
        scene,
        { ...base, notes: [sentence(why), ...base.notes] },
        finding.overdueBrief ?? 'its next look is overdue',
      );
}

function silent(step: StepName, scene: Scene, base: StepSight, brief: string): StepSight {
  return {
    ...base,
    standing: 'stuck',
    attention: 'needed',
    brief,
    waitsFor:
      'somebody to look: the relay, the sweep or the functions may be down, or their writes are refused',
    todo: [...silenceTodo(step, scene), ...(base.attention === 'needed' ? base.todo : [])],
  };
}

/** What to look at where nobody looks. */
function silenceTodo(step: StepName, scene: Scene): readonly Todo[] {
  const { namespace, resource } = namesOf(scene, step);
  return [
    {
      text: 'see whether the relay runs and is ready',
      command: 'kubectl get pods -A -l app.kubernetes.io/name=millrace-relay',
    },
    {
      text: 'see what refused the last writes, if any did: Events say so',
      command: `kubectl describe -n ${namespace} ${resource}`,
    },
    {
      text: 'see whether looks failed until their messages were set aside, and what they would come to now',
      command: `millrace replay --dlq ${step} --dry-run`,
    },
    {
      text: 'let doctor say what is refused or out of reach',
      command: `millrace doctor -n ${namespace}`,
    },
    {
      text: 'then have every step look at it once',
      command: `kubectl annotate -n ${namespace} ${resource} --overwrite millrace.dev/reconcile=${String(Math.floor(scene.now / 1000))}`,
    },
  ];
}

/** A step's advice: one thing after the other, and what ends in something to type has that as its command. */
function todosOf(advice: string): readonly Todo[] {
  return advice.split(/; or, |, or (?=move all the same:)/).map((one, place) => {
    const [, words, command] =
      /^(.*?)(?:, then)?(?::| run:?) ((?:kubectl|millrace) .+)$/s.exec(one) ?? [];
    const text = `${place === 0 ? '' : 'or '}${words ?? one}`;
    return command === undefined ? { text } : { text, command };
  });
}

type Given = Pick<StepSight, 'standing' | 'since'> & {
  readonly reason: string;
} & Partial<StepSight>;

/** What is not given follows from the reason. */
function sight(step: StepName, scene: Scene, given: Given): StepSight {
  const meaning = meaningOf(given.reason, step);
  return {
    step,
    duty: duties[step],
    attention: meaning.attention,
    brief: meaning.brief,
    meaning: meaning.means,
    told: null,
    waitsFor: meaning.waitsFor ?? null,
    todo: meaning.todo?.(namesOf(scene, step)) ?? [],
    next: meaning.next,
    look: lookAgain(step, scene),
    notes: [],
    ...given,
  };
}

function lookAgain(step: StepName, { target, now }: Scene): NextLook | null {
  const record = target.annotations[recordAnnotation(step)];
  return lookOf(record === undefined ? undefined : wakeOf(record), now);
}
