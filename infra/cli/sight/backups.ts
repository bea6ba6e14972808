import {
  type BackupRecord,
  type Run,
  type SlotReason,
  readBackupRecord,
  slotReasons,
} from '#functions/backup-trigger/record.ts';
import { type Instant, parseInstant, toText } from '#shared/kernel/instant.ts';
import { meaningOf } from './catalogue/catalogue.ts';
import { slotMeanings } from './catalogue/slot-reasons.ts';
import type { Todo } from './model.ts';
import { type Finding, type Scene, namesOf } from './scene.ts';
import { type SeenSchedule, conditionOf } from './seen.ts';
import { distanceText, isOverdue } from './words.ts';

/** Why a backup that is due has not begun; what stands in the record of one that waits. */
const holdUps: ReadonlySet<string> = new Set([
  'DatabaseMissing',
  'DatabaseUnknown',
  'TopologyUnknown',
  'BackupsUnknown',
  'DrainUnknown',
  'AwaitingDrain',
  'BackupLeaseHeld',
  'EarlierBackupRuns',
  'BackupToRepeat',
]);

/** What backup-trigger is at: a backup that runs, one that waits, what was missed, and the next slot. */
export function backupFinding(scene: Scene): Finding {
  const { target, now } = scene;
  const condition = conditionOf(target, 'BackupsOnSchedule');
  const read = readBackupRecord(target);
  const record = read.kind === 'ours' ? read.record : undefined;
  const run = record?.data.run;
  const base = { lookedAt: condition?.observedGeneration, overdue: runOverdue(run, now) };
  const notes = notesOf(scene, record);
  if (condition !== undefined && condition.status !== 'True') {
    return {
      ...base,
      reason: condition.reason,
      message: condition.message,
      since: condition.lastTransitionTime,
      isSettled: false,
      notes,
      ...(condition.reason === 'BackupsMissed' ? missed(scene) : {}),
      // In better words behind it.
      ...(condition.reason === 'BackupsMissed' && badSchedules(scene).length > 0
        ? { message: undefined }
        : {}),
    };
  }
  if (record !== undefined && run !== undefined) {
    const { reason } = record;
    return { ...base, ...runningFinding(run, now), reason, isSettled: false, notes };
  }
  if (record !== undefined && isWaiting(record) && holdUps.has(record.reason)) {
    const { reason, since } = record;
    // It waits no longer than its startingDeadline, and what is missed then is told.
    const isLasting = meaningOf(reason, 'backup-trigger').attention === 'needed';
    const attention = isLasting ? 'advised' : 'none';
    return { ...base, reason, since, isSettled: false, attention, notes };
  }
  const reason =
    record === undefined ? (condition?.reason ?? '') : (condition?.reason ?? record.reason);
  return {
    ...base,
    reason,
    message: condition?.message,
    since: condition?.lastTransitionTime,
    isSettled: true,
    waitsFor:
      target.status.nextBackup === undefined ? null : nextText(target.status.nextBackup, now),
    notes,
  };
}

function nextText(text: string, now: Instant): string {
  const at = parseInstant(text);
  return at === undefined
    ? 'the next slot'
    : `the next slot, ${toText(at)} (${distanceText(at, now)})`;
}

/** Only what waits to begin is asked for every few seconds between runs. */
function isWaiting({ wake }: BackupRecord): boolean {
  return wake !== undefined && 'every' in wake;
}

function runningFinding(run: Run, now: Instant): Partial<Finding> {
  const until = parseInstant(run.until);
  const watched =
    until === undefined ? '' : `, watched until ${toText(until)} (${distanceText(until, now)})`;
  const which = run.schedule === '@now' ? 'that a person asked for' : `of ${run.schedule}`;
  return {
    since: run.at,
    waitsFor: `the ${run.type} backup ${which} to end${watched}`,
    ...(run.job === undefined ? {} : { message: `its job is ${run.job}` }),
  };
}

/** A look past its runDeadline would have ended it. */
function runOverdue(run: Run | undefined, now: Instant): string | undefined {
  const until = parseInstant(run?.until);
  return until !== undefined && isOverdue(until, now)
    ? `the backup's runDeadline passed ${distanceText(until, now)} and nobody has said so`
    : undefined;
}

/** The slots that went wrong say what has to be repaired. */
function missed(scene: Scene): Partial<Finding> {
  const { target, now } = scene;
  const { namespace, resource } = namesOf(scene, 'backup-trigger');
  const bad = badSchedules(scene);
  const meanings = bad.flatMap((schedule) => slotMeaning(schedule) ?? []);
  const advice = new Set(meanings.flatMap((meaning) => meaning.todo ?? []));
  const todo: readonly Todo[] = [
    ...[...advice].map((text) => ({ text })),
    {
      text: 'see what was said about it, as long as the Events are kept',
      command: `kubectl get events -n ${namespace} --field-selector involvedObject.kind=Shard,involvedObject.name=${target.name}`,
    },
    {
      text: 'then have a backup made at once, where the next slot is far; this stays until a slot of the schedule ends well',
      command: `kubectl annotate -n ${namespace} ${resource} --overwrite millrace.dev/backup-now=${typeOf(scene, bad[0])}/${tokenOf(now)}`,
    },
  ];
  const { nextBackup } = target.status;
  return {
    todo,
    ...(nextBackup === undefined
      ? {}
      : { waitsFor: `a slot that ends well; ${nextText(nextBackup, now).replace(', ', ' is ')}` }),
  };
}

/** Whose last slot made no good backup. */
function badSchedules({ target }: Scene): readonly SeenSchedule[] {
  return target.status.backups.filter(
    ({ lastResult }) =>
      lastResult !== undefined && !['succeeded', 'adopted', 'running'].includes(lastResult),
  );
}

function typeOf({ target }: Scene, schedule: SeenSchedule | undefined): string {
  const schedules = target.spec.backup?.schedules ?? [];
  return schedules.find(({ name }) => name === schedule?.schedule)?.type ?? 'full';
}

/** A new word for each minute: a request is obeyed once. */
function tokenOf(now: Instant): string {
  return toText(now).slice(0, 16).replace('T', '-');
}

function slotMeaning({ lastReason }: SeenSchedule) {
  return isSlotReason(lastReason) ? slotMeanings[lastReason] : undefined;
}

function isSlotReason(text: string | undefined): text is SlotReason {
  return text !== undefined && knownSlotReasons.has(text);
}

const knownSlotReasons: ReadonlySet<string> = new Set(slotReasons);

function notesOf(scene: Scene, record: BackupRecord | undefined): readonly string[] {
  const { target, now } = scene;
  const run = record?.data.run;
  const { lastBackup, backups } = target.status;
  const newest = parseInstant(lastBackup?.any);
  return [
    ...badSchedules(scene).map((schedule) => scheduleNote(schedule, now)),
    ...(newest === undefined || backups.length === 0
      ? []
      : [
          `The newest good backup in the repository, whoever made it, is of ${toText(newest)} (${distanceText(newest, now)}).`,
        ]),
    ...(run === undefined ? [] : [`A ${run.type} backup runs since ${run.at}.`]),
  ];
}

/** How the last slot of a schedule ended that did not end well. */
function scheduleNote(schedule: SeenSchedule, now: Instant): string {
  const { lastSlot, lastResult, lastSuccess } = schedule;
  const why = slotMeaning(schedule)?.means ?? schedule.lastReason;
  const good = parseInstant(lastSuccess);
  return `Schedule ${schedule.schedule}: its last slot, ${lastSlot ?? 'of an unknown time'}, ended as ${lastResult ?? 'unknown'}${why === undefined ? '' : `, since ${why}`}; ${good === undefined ? 'it has never had a good backup' : `its last good backup was ${distanceText(good, now)}`}.`;
}
