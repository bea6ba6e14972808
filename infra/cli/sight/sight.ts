import { stepsOf } from '#events/routes.ts';
import { drainMirror, drainRequest, releaseMirror } from '#shared/api/annotations.ts';
import { readDrainRecord } from '#shared/api/drain-record.ts';
import { type Instant, toText } from '#shared/kernel/instant.ts';
import { shortNames } from '#shared/kube/resources.ts';
import type { Explanation, MemberSight, Sight, Standing, StepSight, Todo } from './model.ts';
import type { Scene } from './scene.ts';
import { type SeenPod, type SeenTarget, conditionOf } from './seen.ts';
import { stepSight } from './step-sight.ts';
import { ageText, distanceText, sentence, spanText } from './words.ts';

/** One target in a few words. Pure: same scene, same sight; whatever stands in the object, it never throws. */
export function sightOf(scene: Scene): Sight {
  return rowOf(scene, sightsOfSteps(scene));
}

/** One target with all its steps, and what a person can do. */
export function explanationOf(scene: Scene): Explanation {
  const steps = sightsOfSteps(scene);
  const sight = rowOf(scene, steps);
  const { database, now } = scene;
  const databaseSight =
    database === undefined || database === null ? null : sightOf({ target: database, now });
  const todo = [
    ...distinct(
      steps
        .filter(({ attention, standing }) => attention === 'needed' || standing === 'paused')
        .flatMap((step) => step.todo),
    ),
    ...databaseTodo(databaseSight),
  ];
  return {
    at: toText(now),
    sight,
    summary: summaryOf(scene, sight, mostTelling(steps)),
    todo,
    notes: notesOf(scene, databaseSight),
    steps,
    members: membersOf(scene),
    database: databaseSight,
  };
}

function sightsOfSteps(scene: Scene): readonly StepSight[] {
  return stepsOf(scene.target.kind).map((step) => stepSight(step, scene));
}

/** What tells most comes first: who needs a person, then who waits. */
const byWeight: readonly Standing[] = ['stuck', 'leaving', 'paused', 'working', 'settled'];

function rowOf(scene: Scene, steps: readonly StepSight[]): Sight {
  const { target, now } = scene;
  const telling = mostTelling(steps);
  const standing = telling?.standing ?? 'settled';
  const members = membersCount(target);
  const isQuiet = standing === 'settled';
  return {
    target: targetText(target),
    kind: target.kind,
    namespace: target.namespace,
    name: target.name,
    uid: target.uid,
    standing,
    attention: attentionOf(steps),
    ready: readyOf(target),
    ...(members === undefined ? {} : { members }),
    step: telling?.step ?? null,
    reason: telling?.reason ?? null,
    brief: isQuiet ? (adviceBrief(steps) ?? 'nothing to do') : (telling?.brief ?? ''),
    waitsFor: isQuiet ? null : (telling?.waitsFor ?? null),
    since: isQuiet ? null : (telling?.since ?? null),
    look: soonestLook(steps, now),
    nextBackup: target.status.nextBackup ?? null,
  };
}

/** Of equals the first: drain-step, whose waiting the others' often follows from. */
function mostTelling(steps: readonly StepSight[]): StepSight | undefined {
  return byWeight
    .map((standing) => steps.find((step) => step.standing === standing))
    .find((step) => step !== undefined);
}

function attentionOf(steps: readonly StepSight[]) {
  const all = steps.map(({ attention }) => attention);
  return all.includes('needed') ? 'needed' : all.includes('advised') ? 'advised' : 'none';
}

function adviceBrief(steps: readonly StepSight[]): string | undefined {
  return steps.find(({ attention }) => attention === 'advised')?.brief;
}

function readyOf(target: SeenTarget): Sight['ready'] {
  switch (conditionOf(target, 'Ready')?.status) {
    case 'True':
      return 'yes';
    case 'False':
      return 'no';
    case 'Unknown':
    case undefined:
      return 'unknown';
  }
}

function membersCount({ status }: SeenTarget): Sight['members'] {
  const { pools } = status;
  return pools.length === 0
    ? undefined
    : {
        ready: pools.reduce((sum, { ready }) => sum + ready, 0),
        wanted: pools.reduce((sum, { desired }) => sum + desired, 0),
      };
}

function soonestLook(steps: readonly StepSight[], now: Instant): Sight['look'] {
  const looks = steps.flatMap(({ look }) => look ?? []);
  const [first] = looks.toSorted((one, other) => secondsTo(one, now) - secondsTo(other, now));
  return first ?? null;
}

function secondsTo({ wake }: NonNullable<Sight['look']>, now: Instant): number {
  return 'every' in wake ? wake.every : (Date.parse(wake.at) - now) / 1000;
}

/** `shd/db/orders-0` */
export function targetText({ kind, namespace, name }: SeenTarget): string {
  return `${shortNames[kind]}/${namespace}/${name}`;
}

function summaryOf({ target, now }: Scene, sight: Sight, telling: StepSight | undefined): string {
  const { standing, brief, waitsFor, since } = sight;
  const age = since === null ? '' : ` (for ${ageText(since, now)})`;
  const waits = waitsFor === null ? '' : ` It waits for ${waitsFor}.`;
  switch (standing) {
    case 'stuck':
      return `A person is needed: ${brief}${age}. ${telling?.meaning ?? ''}${detailOf(telling)}${waits}`;
    case 'working':
      return `It goes on by itself, nothing has to be done: ${brief}${age}.${waits}`;
    case 'paused':
      return `A person has paused ${target.spec.paused ? 'it' : 'its Database'}: Millrace looks and does nothing until the pause ends.`;
    case 'leaving':
      return `It is being deleted${target.deletedAt === null ? '' : `, for ${spanText((now - target.deletedAt) / 1000)} now`}: nothing more is done for it.`;
    case 'settled':
      return sight.attention === 'advised'
        ? `There is nothing to do for it. A remark: ${brief}.`
        : 'There is nothing to do for it: what is wanted is there.';
  }
}

/** What the step itself says, or what is to be known first. */
function detailOf(step: StepSight | undefined): string {
  const [note = ''] = step?.notes ?? [];
  const detail = step === undefined || step.told === null ? note : sentence(step.told);
  return detail === '' ? '' : ` ${detail}`;
}

function databaseTodo(database: Sight | null): readonly Todo[] {
  return database?.attention === 'needed'
    ? [
        {
          text: `see to its Database, which needs a person too: ${database.brief}`,
          command: `millrace explain mdb/${database.name} -n ${database.namespace}`,
        },
      ]
    : [];
}

function notesOf(scene: Scene, sight: Sight | null): readonly string[] {
  const { target, database, pods = [] } = scene;
  const name = target.spec.databaseRef?.name;
  const ofDatabase =
    database === null
      ? [`Its Database mdb/${name ?? ''} does not exist.`]
      : sight === null || sight.standing === 'settled' || sight.standing === 'paused'
        ? []
        : [`Its Database mdb/${sight.name}: ${sight.brief}.`];
  const finalizers = target.deletedAt === null ? [] : target.finalizers;
  const notReady = pods.filter(({ isReady, deletedAt }) => !isReady && deletedAt === null);
  return [
    ...ofDatabase,
    ...pauseNote(scene),
    ...(notReady.length === 0
      ? []
      : [`Not ready of its ${pods.length} pods: ${notReady.map(({ name }) => name).join(', ')}.`]),
    ...(finalizers.length === 0
      ? []
      : [`It stays until others have taken off their finalizers: ${finalizers.join(', ')}.`]),
  ];
}

/** Since when it is paused nobody writes down; the last change of the spec may have been that. */
function pauseNote({ target, database, now }: Scene): readonly string[] {
  const held = target.spec.paused ? target : database?.spec.paused === true ? database : undefined;
  const changedAt = held?.changedAt ?? null;
  return changedAt === null || target.deletedAt !== null
    ? []
    : [
        `The spec of ${shortNames[held?.kind ?? target.kind]}/${held?.name ?? ''} was last changed ${distanceText(changedAt, now)} (${toText(changedAt)}).`,
      ];
}

/** Who leaves, who was asked to and waits for its turn. */
function membersOf(scene: Scene): readonly MemberSight[] {
  const { target, pods = [] } = scene;
  const record = target.kind === 'Shard' ? readDrainRecord(target) : undefined;
  const leaver =
    record?.kind === 'ours' && record.record.state !== 'choosing' ? record.record.data : undefined;
  const told = pods.flatMap((pod) => {
    const says = memberText(target, pod, pod.uid === leaver?.podUid);
    const since = pod.uid === leaver?.podUid ? leaver.startedAt : null;
    return says === undefined ? [] : [{ pod: pod.name, says, since }];
  });
  return leaver === undefined || told.some(({ pod }) => pod === leaver.pod)
    ? told
    : [{ pod: leaver.pod, says: 'leaves; its pod is not there', since: leaver.startedAt }, ...told];
}

/** `undefined` of a pod that stays. */
function memberText(
  { kind }: SeenTarget,
  { annotations, deletedAt }: SeenPod,
  isLeaving: boolean,
): string | undefined {
  const mirror = annotations[drainMirror] ?? annotations[releaseMirror];
  const request = annotations[drainRequest];
  const asked =
    request === undefined ? '' : ` (asked: ${request === '' ? 'no word why' : request})`;
  if (deletedAt !== null) {
    return `was deleted and is to be gone by ${toText(deletedAt)}${asked}`;
  }
  if (isLeaving || mirror !== undefined) {
    return `is leaving${mirror === undefined ? '' : `: ${mirror}`}${asked}`;
  }
  const turn = kind === 'Shard' ? ' and waits its turn, since one leaves at a time' : '';
  return request === undefined ? undefined : `was asked to leave${turn}${asked}`;
}

function distinct(todo: readonly Todo[]): readonly Todo[] {
  const seen = new Set<string>();
  return todo.filter(({ text, command }) => {
    const key = `${text}\n${command ?? ''}`;
    const isNew = !seen.has(key);
    seen.add(key);
    return isNew;
  });
}
