import { acting, blocked, firstHit, settled, waiting } from '#shared/kernel/decision.ts';
import { answerPlace } from '#shared/kernel/effect.ts';
import { type Instant, parseInstant, plusSeconds, toText } from '#shared/kernel/instant.ts';
import { clearForeign, unreadableText } from '#shared/kernel/own-record.ts';
import { type Due, accountsOf, requestSchedule, secondsOf } from './accounts.ts';
import { holdUpOf } from './hold-ups.ts';
import {
  type BackupCheck,
  type BackupDecision,
  type BackupInput,
  advanceTo,
  dataOf,
  databaseOf,
  event,
  idleRecord,
  nameOf,
  passedText,
  recordOf,
  runOf,
  runRecord,
  skipCount,
  slowWakeSeconds,
  wakeOf,
  waitSeconds,
} from './moves.ts';
import { type BackupData, type Run, maxSeenLength } from './record.ts';
import type { BackupSnapshot } from './snapshot.ts';
import { backupAges, conditionEffects, nothingScheduledEffects, statusEffects } from './status.ts';
import {
  answerAwaited,
  backupFailed,
  backupListed,
  jobRuns,
  leaseStillHeld,
  outcomeNotTold,
  outcomeUnknown,
  runOverdue,
  startRefused,
  stillRunsAtDeadline,
} from './watching.ts';

/**
 * Decides whether a backup is begun, and what became of the one that was.
 *
 * Protocol, goals and the argument why no slot starts twice: README.md beside this file.
 * Pure: same snapshot and instant, same decision.
 */
export function decide(snapshot: BackupSnapshot, now: Instant): BackupDecision {
  const first = firstHit(beforeAnything, snapshot, now);
  if (first !== undefined) {
    return first;
  }
  const holdUp = holdUpOf(snapshot);
  const input = { snapshot, holdUp, accounts: accountsOf(snapshot, holdUp?.why ?? null, now) };
  const rows = runOf(snapshot) === undefined ? betweenRuns : whileRunning;
  const decision =
    firstHit(rows, input, now) ?? settled('NothingScheduled', 'there is nothing to be done');
  return { ...decision, gauges: backupAges(snapshot, now) };
}

type EarlyCheck = (snapshot: BackupSnapshot, now: Instant) => BackupDecision | undefined;

/** People and the unreadable come first. */
export const beforeAnything: readonly EarlyCheck[] = [
  targetBeingDeleted,
  pausedByUser,
  recordUnreadable,
  foreignRecord,
  nothingScheduled,
  pausedByDatabase,
];

/** Nothing of ours runs: something is due, or not. */
export const betweenRuns: readonly BackupCheck[] = [passOver, nothingDue, waitToStart, start];

/** A backup was asked for and has not ended. */
export const whileRunning: readonly BackupCheck[] = [
  passOver,
  startRefused,
  backupListed,
  backupFailed,
  stillRunsAtDeadline,
  runOverdue,
  jobRuns,
  leaseStillHeld,
  outcomeNotTold,
  answerAwaited,
  outcomeUnknown,
];

function targetBeingDeleted({ shard }: BackupSnapshot): BackupDecision | undefined {
  return shard.isBeingDeleted
    ? settled('TargetBeingDeleted', 'the shard is being deleted; no backup is begun')
    : undefined;
}

function pausedByUser({ shard }: BackupSnapshot): BackupDecision | undefined {
  return shard.isPaused
    ? settled('Paused', 'the shard is paused: everything is observed, nothing is done')
    : undefined;
}

/** From a newer version, or broken: hands off. `millrace reset` is the way out. */
function recordUnreadable(snapshot: BackupSnapshot, now: Instant): BackupDecision | undefined {
  const { record, shard } = snapshot;
  if (record.kind !== 'unreadable') {
    return undefined;
  }
  const { message, needs } = unreadableText('backup-trigger', 'Shard', shard, record.why);
  return blocked(
    'RecordUnreadable',
    message,
    needs,
    { every: slowWakeSeconds },
    conditionEffects(snapshot, { status: 'Unknown', reason: 'RecordUnreadable', message }, now),
  );
}

function foreignRecord({ shard, record }: BackupSnapshot): BackupDecision | undefined {
  return clearForeign(shard, record);
}

/** The converged state of a shard without schedules. An earlier run that may go on is remembered. */
function nothingScheduled(snapshot: BackupSnapshot, now: Instant): BackupDecision | undefined {
  const { shard } = snapshot;
  const { run, left } = dataOf(snapshot);
  if (shard.schedules.length > 0 || shard.request.kind !== 'none' || run !== undefined) {
    return undefined;
  }
  const next =
    left === undefined
      ? null
      : idleRecord(snapshot, { schedules: {}, left }, 'NothingScheduled', undefined, now);
  return settled('NothingScheduled', 'no backups are scheduled', [
    ...advanceTo(snapshot, next),
    ...nothingScheduledEffects(snapshot, now),
  ]);
}

function pausedByDatabase({ database }: BackupSnapshot): BackupDecision | undefined {
  return database.kind === 'present' && database.value.isPaused
    ? settled('Paused', 'the database is paused: everything is observed, nothing is done')
    : undefined;
}

/** Slots that cannot begin any more end, all that are to end at once, in one write. */
function passOver(input: BackupInput, now: Instant): BackupDecision | undefined {
  const { snapshot, accounts } = input;
  const { passedOver, entries } = accounts;
  if (passedOver.length === 0) {
    return undefined;
  }
  const data: BackupData = { ...dataOf(snapshot), schedules: entries };
  const { run, ...idle } = data;
  const state = recordOf(snapshot)?.state ?? 'idle';
  const next =
    run === undefined || state === 'idle'
      ? idleRecord(snapshot, idle, 'SlotsSkipped', wakeOf(input, now), now)
      : runRecord(snapshot, state, { ...data, run }, 'SlotsSkipped', now);
  const texts = passedOver.map(passedText);
  return {
    ...acting('SlotsSkipped', texts.join('; '), [
      ...advanceTo(snapshot, next),
      ...statusEffects(input, data, now),
      ...texts.map((text) => event('Warning', 'SlotsSkipped', text)),
    ]),
    counts: passedOver.filter(({ result }) => result === 'skipped').map(skipCount),
  };
}

function nothingDue(input: BackupInput, now: Instant): BackupDecision | undefined {
  const { snapshot, accounts } = input;
  if (accounts.due.length > 0) {
    return undefined;
  }
  const data: BackupData = { ...dataOf(snapshot), schedules: accounts.entries };
  const wake = wakeOf(input, now);
  const effects = [
    ...advanceTo(snapshot, idleRecord(snapshot, data, 'AwaitingSlot', wake, now)),
    ...statusEffects(input, data, now),
  ];
  return wake === undefined
    ? settled('AwaitingSlot', 'no schedule is in force', effects)
    : waiting('AwaitingSlot', 'no backup is due', wake, effects);
}

function waitToStart(input: BackupInput, now: Instant): BackupDecision | undefined {
  const { snapshot, accounts, holdUp } = input;
  const [due] = accounts.due;
  if (holdUp === null || due === undefined) {
    return undefined;
  }
  const { reason, needs } = holdUp;
  const data: BackupData = { ...dataOf(snapshot), schedules: accounts.entries };
  const wake = { every: waitSeconds };
  const message = `${nameOf(due)} waits: ${holdUp.message}`;
  const effects = [
    ...advanceTo(snapshot, idleRecord(snapshot, data, reason, wake, now)),
    ...statusEffects(input, data, now),
  ];
  return needs === undefined
    ? waiting(reason, message, wake, effects)
    : blocked(reason, message, needs, wake, effects);
}

/** A start that is not sent by then, in seconds after its intent, is not sent. */
const sendWithinSeconds = 10;

/**
 * The intent is written down and sent in the same invocation, and by nobody else: who finds an intent never sends. Nothing
 * stands between the two writes, since whatever fails there would leave an intent that was never sent.
 */
function start({ snapshot, accounts }: BackupInput, now: Instant): BackupDecision | undefined {
  const [due] = accounts.due;
  if (due === undefined) {
    return undefined;
  }
  const { ref, shard } = databaseOf(snapshot);
  const run = runFor(snapshot, due, now);
  // An earlier run was seen to have ended, or something would hold this one up.
  const { left: _, ...kept } = dataOf(snapshot);
  const data = { ...kept, ...begun(snapshot, accounts.entries, due), run };
  const record = runRecord(snapshot, 'asked', data, 'BackupAsked', now);
  const answered = (state: 'running' | 'refused', part: Partial<Run>) => ({
    ...record,
    state,
    data: { ...data, run: { ...run, ...part } },
  });
  return acting(
    'BackupAsked',
    `${nameOf(due)}: a ${due.type} backup is asked for`,
    advanceTo(snapshot, record),
    {
      kind: 'startBackup',
      database: ref,
      shard,
      type: due.type,
      answered: {
        started: answered('running', { job: answerPlace }),
        refused: answered('refused', { refused: answerPlace }),
      },
      guard: { recordKey: record.key, sendBy: plusSeconds(now, sendWithinSeconds) },
    },
  );
}

function runFor({ backups }: BackupSnapshot, due: Due, now: Instant): Run {
  const newest = backups.kind === 'present' ? backups.value.at(-1)?.id : undefined;
  const seen = newest !== undefined && newest.length <= maxSeenLength ? newest : undefined;
  return {
    schedule: due.schedule,
    slot: due.slot,
    type: due.type,
    attempt: due.attempt,
    at: toText(now),
    until: toText(plusSeconds(now, due.runDeadlineSeconds)),
    ...(seen === undefined ? {} : { seen }),
  };
}

/** The slot is accounted for from here on, by its run; a request is obeyed. */
function begun(
  { shard }: BackupSnapshot,
  entries: BackupData['schedules'],
  due: Due,
): Pick<BackupData, 'schedules' | 'now'> {
  const entry = entries[due.schedule];
  if (due.schedule === requestSchedule || entry === undefined) {
    const { request } = shard;
    return {
      schedules: entries,
      ...(request.kind === 'valid' ? { now: { request: request.text } } : {}),
    };
  }
  const { again: _, end: __, why: ___, ...rest } = entry;
  const slot = secondsOf(parseInstant(due.slot) ?? (0 as Instant));
  return { schedules: { ...entries, [due.schedule]: { ...rest, at: slot, slot } } };
}
