import type { Backup } from '#shared/admin/admin.ts';
import type { SlotResult } from '#shared/api/backup.ts';
import type { Reason } from '#shared/api/reasons.ts';
import { acting, waiting } from '#shared/kernel/decision.ts';
import { type Instant, parseInstant, plusSeconds, toText } from '#shared/kernel/instant.ts';
import type { Wake } from '#shared/kernel/record.ts';
import { mayRepeat, requestSchedule, secondsOf } from './accounts.ts';
import {
  type BackupDecision,
  type BackupInput,
  advanceTo,
  event,
  idleRecord,
  nameOf,
  runCount,
  runRecord,
  running,
  waitSeconds,
  wakeOf,
} from './moves.ts';
import { jobRef } from './job.ts';
import type { BackupData, Run, ScheduleEntry, SlotReason } from './record.ts';
import { statusEffects } from './status.ts';

/*
 * What becomes of a backup that was asked for. It is watched, never ended from here, and nothing counts as its end but what
 * the data plane shows.
 */

/**
 * How long nothing may show that a backup runs before it counts as unknown, in seconds. The function that asked for it may
 * live for 30 s more, a killed backup keeps its lease for 30 s and its pooler's lock for 63 s (measured), and a lease may be
 * between two holders once: twice the lease and the function are 90 s, and something more costs only patience.
 */
export const outcomeSeconds = 120;

/**
 * How long after its intent the answer may still be written into the record, in seconds: the request leaves within ten, and
 * is waited for another eight. A look that wrote anything of its own before would leave the answer no record to go into.
 */
const answerSeconds = 20;

/** How far the clocks of whoever asks and of whoever backs up may be apart when a backup is taken for ours, in seconds. */
const clockSlackSeconds = 60;

/** Tries after the first. */
const mostRepeats = 2;

export function startRefused(input: BackupInput, now: Instant): BackupDecision | undefined {
  const { run } = running(input);
  return run.refused === undefined
    ? undefined
    : end(input, now, {
        result: 'failed',
        why: 'Refused',
        reason: 'BackupRefused',
        message: run.refused,
      });
}

/** Only the list says that a backup is complete. One of whose job nobody knew the id is adopted. */
export function backupListed(input: BackupInput, now: Instant): BackupDecision | undefined {
  const { run } = running(input);
  const { backups, job } = input.snapshot;
  const made = job.kind === 'present' ? job.value.backup : null;
  const listed = backups.kind === 'present' ? backups.value : [];
  const candidates =
    run.engine === 'job'
      ? madeByJob(input, listed, now)
      : run.job === undefined
        ? begunSince(run, listed)
        : listed.filter(({ id, job: ofJob }) => ofJob === run.job || id === made);
  const backup = candidates.find(({ status }) => status === 'complete');
  if (backup === undefined) {
    return undefined;
  }
  const isOurs = run.engine === 'job' ? job.kind === 'present' : run.job !== undefined;
  return end(input, now, {
    result: isOurs ? 'succeeded' : 'adopted',
    reason: isOurs ? 'BackupSucceeded' : 'BackupAdopted',
    message: isOurs
      ? `backup ${backup.id} is complete`
      : `backup ${backup.id} was begun since it was asked for and is complete`,
    completeAt: parseInstant(backup.stoppedAt ?? undefined) ?? now,
  });
}

/**
 * The list does not say which Job made a backup, so it is one that was begun since, and only once the Job says that it is
 * complete. Where there is no Job one may still be made, as long as whoever wrote the intent may live.
 */
function madeByJob(input: BackupInput, listed: readonly Backup[], now: Instant): readonly Backup[] {
  const { run } = running(input);
  const { job } = input.snapshot;
  const isOver =
    job.kind === 'present'
      ? job.value.status === 'completed'
      : job.kind === 'absent' && now >= outcomeFrom(run, now);
  return isOver ? begunSince(run, listed) : [];
}

/** From when on it counts that nothing shows a run that was asked for. */
function outcomeFrom({ at }: Run, now: Instant): Instant {
  return plusSeconds(parseInstant(at) ?? now, outcomeSeconds);
}

/**
 * Those that the list has behind the newest one there was before: it is in the order in which they were begun, whatever the
 * clocks say. Where that one is not there any more, or there was none, those that are not from long before the intent.
 */
function begunSince({ at, seen }: Run, listed: readonly Backup[]): readonly Backup[] {
  const place = listed.findIndex(({ id }) => id === seen);
  if (place >= 0) {
    return listed.slice(place + 1);
  }
  const asked = parseInstant(at);
  return listed.filter(({ startedAt }) => {
    const start = parseInstant(startedAt ?? undefined);
    return start !== undefined && asked !== undefined && start >= asked - clockSlackSeconds * 1000;
  });
}

export function backupFailed(input: BackupInput, now: Instant): BackupDecision | undefined {
  const { run } = running(input);
  const { backups, job } = input.snapshot;
  const isListed =
    run.job !== undefined &&
    backups.kind === 'present' &&
    backups.value.some((backup) => backup.job === run.job && backup.status === 'failed');
  const hasFailed = job.kind === 'present' && job.value.status === 'failed';
  const why = job.kind === 'present' ? job.value.why : null;
  return hasFailed || isListed
    ? end(input, now, {
        result: 'failed',
        why: 'Failed',
        reason: 'BackupFailed',
        message: `the data plane says that it failed${why === null ? '' : `: ${why}`}`,
      })
    : undefined;
}

/** It took too long for its schedule. It is left alone, and the next one waits until it has ended. */
export function stillRunsAtDeadline(input: BackupInput, now: Instant): BackupDecision | undefined {
  return isPastDeadline(input, now) && isJobRunning(input)
    ? end(input, now, {
        result: 'failed',
        why: 'RunDeadline',
        reason: 'BackupOverdue',
        message: 'it still runs after its runDeadline; it is left alone',
        mayGoOn: true,
      })
    : undefined;
}

export function runOverdue(input: BackupInput, now: Instant): BackupDecision | undefined {
  return isPastDeadline(input, now)
    ? end(input, now, {
        result: 'unknown',
        why: 'RunDeadline',
        reason: 'BackupOverdue',
        message: 'its runDeadline has passed, and nobody can tell what became of it',
        mayGoOn: true,
      })
    : undefined;
}

export function jobRuns(input: BackupInput, now: Instant): BackupDecision | undefined {
  const run = found(input);
  return isJobRunning(input)
    ? watch(input, now, 'BackupRunning', `${run.job ?? ''} runs`, run)
    : undefined;
}

/** Whose it is cannot be told, but as long as somebody holds it, it may be ours. */
export function leaseStillHeld(input: BackupInput, now: Instant): BackupDecision | undefined {
  const { run } = running(input);
  const message = 'the lease of the backups is held, and which backup holds it cannot be told';
  return input.snapshot.lease.kind === 'present'
    ? watch(input, now, 'BackupOutcomeAwaited', message, withoutLoss(run))
    : undefined;
}

/** A question without an answer says nothing, so nothing is written down. */
export function outcomeNotTold(input: BackupInput, now: Instant): BackupDecision | undefined {
  const { run } = running(input);
  const { job, lease, backups } = input.snapshot;
  const hasNoJob = run.job === undefined && run.engine === undefined;
  const untold = [lease, backups, ...(hasNoJob ? [] : [job])].find(
    ({ kind }) => kind === 'unknown',
  );
  const isOddJob = job.kind === 'present' && job.value.status === 'unknown';
  if (untold === undefined && !isOddJob) {
    return undefined;
  }
  const why = untold?.kind === 'unknown' ? untold.why : 'its job has a status that is not known';
  return watch(input, now, 'BackupOutcomeAwaited', why, run);
}

/** Everybody answers, and nothing shows a backup. That counts only once it has been so for a while. */
export function answerAwaited(input: BackupInput, now: Instant): BackupDecision | undefined {
  const { record, run } = running(input);
  const lostAt = parseInstant(run.lost);
  const message = 'nothing shows that it runs';
  const asked = parseInstant(run.at) ?? now;
  if (record.state === 'asked' && Math.abs(now - asked) < answerSeconds * 1000) {
    return watch(input, now, 'BackupOutcomeAwaited', message, run);
  }
  // A moment that is still to come was written by a clock that was wrong: of the loss as of the intent.
  if (lostAt === undefined || lostAt > now) {
    return watch(input, now, 'BackupOutcomeAwaited', message, { ...run, lost: toText(now) });
  }
  const from = asked > now ? lostAt : Math.max(lostAt, asked);
  return now < from + outcomeSeconds * 1000
    ? watch(input, now, 'BackupOutcomeAwaited', message, run)
    : undefined;
}

/** A container that ends well and made no backup has not made one. */
export function backupNotListed(input: BackupInput, now: Instant): BackupDecision | undefined {
  const { run } = running(input);
  const { job } = input.snapshot;
  return run.engine === 'job' && job.kind === 'present' && job.value.status === 'completed'
    ? end(input, now, {
        result: 'failed',
        why: 'NotListed',
        reason: 'BackupFailed',
        message: `its Job is complete, and for ${outcomeSeconds} s no new backup has been in the list`,
      })
    : undefined;
}

export function outcomeUnknown(input: BackupInput, now: Instant): BackupDecision {
  return end(input, now, {
    result: 'unknown',
    why: 'NoTrace',
    reason: 'BackupOutcomeUnknown',
    message: `nobody knows it, and nothing has shown that it runs for ${outcomeSeconds} s`,
  });
}

function isPastDeadline(input: BackupInput, now: Instant): boolean {
  const until = parseInstant(running(input).run.until);
  return until === undefined || now > until;
}

function isJobRunning({ snapshot: { job } }: BackupInput): boolean {
  return (
    job.kind === 'present' && (job.value.status === 'running' || job.value.status === 'pending')
  );
}

/** The run once it shows that it runs: a Job whose answer was lost is known from then on. */
function found(input: BackupInput): Run {
  const { run } = running(input);
  return run.engine === 'job'
    ? { ...withoutLoss(run), job: jobRef(input.snapshot.shard, run).name }
    : withoutLoss(run);
}

function withoutLoss(run: Run): Run {
  const { lost: _, ...rest } = run;
  return rest;
}

/** Nothing ends; the record is written only where it says something new. */
function watch(
  input: BackupInput,
  now: Instant,
  reason: Reason,
  message: string,
  run: Run,
): BackupDecision {
  const { record } = running(input);
  const { snapshot } = input;
  const state = run.job === undefined ? 'asked' : 'running';
  const data = { ...record.data, schedules: input.accounts.entries, run };
  const next = runRecord(snapshot, state, data, reason, now);
  return waiting(reason, `${nameOf(run)}: ${message}`, next.wake ?? { every: waitSeconds }, [
    ...advanceTo(snapshot, next),
    ...statusEffects(input, data, now),
  ]);
}

interface RunEnd {
  readonly result: Exclude<SlotResult, 'skipped'>;
  readonly why?: SlotReason;
  readonly reason: Reason;
  readonly message: string;
  readonly completeAt?: Instant;
  /** Its job may still run: nothing begins before that is known. */
  readonly mayGoOn?: boolean;
}

function end(input: BackupInput, now: Instant, how: RunEnd): BackupDecision {
  const { snapshot, accounts } = input;
  const { record, run } = running(input);
  const { run: _, now: request, ...kept } = record.data;
  const repeats = how.result === 'unknown' && isToRepeat(input, run, now);
  const entry = accounts.entries[run.schedule];
  const schedules =
    entry === undefined
      ? accounts.entries
      : { ...accounts.entries, [run.schedule]: entryAfter(entry, run, how, repeats) };
  const data: BackupData = {
    ...kept,
    schedules,
    ...leftAfter(input, run, how),
    ...(request === undefined
      ? {}
      : { now: run.schedule === requestSchedule ? { ...request, end: how.result } : request }),
  };
  const reason = repeats ? 'BackupToRepeat' : how.reason;
  const message = `${nameOf(run)} ${how.result}: ${how.message}${repeats ? '; it is begun once more' : ''}`;
  const wake: Wake | undefined = repeats ? { every: waitSeconds } : wakeOf(input, now);
  const isGood = how.completeAt !== undefined;
  return {
    ...acting(reason, message, [
      ...advanceTo(snapshot, idleRecord(snapshot, data, reason, wake, now)),
      // Before the status, which may lose its race: no later look would emit it.
      event(isGood ? 'Normal' : 'Warning', reason, message),
      ...statusEffects(input, data, now),
    ]),
    counts: [runCount(run, how.result)],
  };
}

/** What is to be looked at between runs: what may go on, and a Job that is there, until it has been released. */
function leftAfter(
  { snapshot: { shard, job } }: BackupInput,
  run: Run,
  { mayGoOn = false }: RunEnd,
): Pick<BackupData, 'left' | 'leftJob'> {
  if (run.engine === 'job') {
    return job.kind === 'absent' || run.refused !== undefined
      ? {}
      : { leftJob: jobRef(shard, run).name };
  }
  return mayGoOn && run.job !== undefined ? { left: run.job } : {};
}

function isToRepeat({ accounts }: BackupInput, run: Run, now: Instant): boolean {
  const state = accounts.states.find(({ view }) => view.name === run.schedule);
  const slot = parseInstant(run.slot);
  return (
    state !== undefined &&
    slot !== undefined &&
    accounts.entries[run.schedule]?.at === secondsOf(slot) &&
    run.attempt < mostRepeats &&
    (accounts.neverUpTo === null || slot > accounts.neverUpTo) &&
    mayRepeat(state, slot, now)
  );
}

function entryAfter(
  entry: ScheduleEntry,
  run: Run,
  { result, why, completeAt }: RunEnd,
  repeats: boolean,
): ScheduleEntry {
  const { why: _, ...rest } = entry;
  return {
    ...rest,
    ...(completeAt === undefined ? {} : { from: secondsOf(completeAt), good: true as const }),
    ...(repeats ? { again: run.attempt + 1 } : {}),
    slot: secondsOf(parseInstant(run.slot) ?? (0 as Instant)),
    end: result,
    ...(why === undefined ? {} : { why }),
  };
}
