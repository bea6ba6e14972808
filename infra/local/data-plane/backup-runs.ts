import { changeJob, failJob } from './backup-jobs.ts';
import { removeLease, writeForeignLease, writeLease } from './backup-lease.ts';
import { answerQuestion, failQuestion } from './backup-questions.ts';
import { isBackupType, withBackup } from './backup-repository.ts';
import {
  type DataPlaneState,
  type LockTurn,
  type Member,
  type RunningBackup,
  type Turn,
  type WaitingBackup,
  after,
  cancelTimers,
  hasFault,
  isAlive,
} from './state.ts';
import { type Range, timing } from './timing.ts';

/*
 * Backups at their poolers. Whoever wants to back up, or to know the repository, stands in line for the pooler's action
 * lock. A backup at the front takes the lease of the shard from whoever has it, runs, and is the repository's newest when
 * it ends; one that is killed leaves an orphan behind, on which the next one there fails.
 */

type Outcome = { readonly backupId: string } | { readonly error: string };

/** Where nobody is before it in the line, it has its turn at once. */
export function standInLine(turn: Turn, lockTurn: LockTurn): void {
  setLine(turn.state, [...turn.state.backups.line, lockTurn]);
  serveLine(turn, lockTurn.podUid);
}

function setLine(state: DataPlaneState, line: readonly LockTurn[]): void {
  state.backups = { ...state.backups, line };
}

/** One after the other, until somebody has the lock for longer. */
function serveLine(turn: Turn, podUid: string): void {
  const { state } = turn;
  for (;;) {
    const first = state.backups.line.find((lockTurn) => lockTurn.podUid === podUid);
    const member = state.members[podUid];
    if (first === undefined || first.kind === 'running' || member === undefined) {
      return;
    }
    if (first.kind === 'question') {
      leaveLine(state, first);
      answerQuestion(turn, first);
    } else {
      begin(state, member, first);
    }
  }
}

function leaveLine(state: DataPlaneState, gone: LockTurn): void {
  setLine(
    state,
    state.backups.line.filter((lockTurn) => lockTurn !== gone),
  );
}

function replaceInLine(state: DataPlaneState, before: LockTurn, next: LockTurn): void {
  setLine(
    state,
    state.backups.line.map((lockTurn) => (lockTurn === before ? next : lockTurn)),
  );
}

function runningBackups({ backups }: DataPlaneState): RunningBackup[] {
  return backups.line.filter((lockTurn) => lockTurn.kind === 'running');
}

function runningBackup(state: DataPlaneState, jobId: string | null): RunningBackup | undefined {
  return runningBackups(state).find((run) => run.jobId === jobId);
}

/** The lease comes first, even to a backup that cannot begin: the one that had it is lost all the same. */
function begin(state: DataPlaneState, member: Member, waiting: WaitingBackup): void {
  const { type, jobId, podUid } = waiting;
  takeLease(state, member, jobId);
  const obstacle = obstacleTo(state, member, waiting);
  if (obstacle !== undefined || !isBackupType(type)) {
    settle(state, waiting, { error: obstacle ?? `there is no backup of type ${type}` });
    return;
  }
  replaceInLine(state, waiting, {
    kind: 'running',
    podUid,
    jobId,
    type,
    stage: 'begun',
    pooler: member.id,
    role: member.role === 'primary' ? 'primary' : 'replica',
    beganAtMs: state.nowMs,
    startLsn: state.consensus.lsn,
  });
  after(state, (state.config.backupMs ?? timing.backupMs)[type], { kind: 'endBackup', jobId });
  if (hasFault(state, 'leaseHeld')) {
    loseLease(state);
  }
}

function obstacleTo(
  { backups }: DataPlaneState,
  member: Member,
  { podUid, isPrimaryForced }: WaitingBackup,
): string | undefined {
  if (member.process !== 'running' || !member.isPostgresUp) {
    return 'PostgreSQL does not run';
  }
  if (member.role === 'primary' && !isPrimaryForced) {
    return 'a primary is backed up only if that is forced';
  }
  return backups.orphans.includes(podUid) ? '[050] unable to acquire lock' : undefined;
}

function takeLease(state: DataPlaneState, member: Member, jobId: string): void {
  rob(state);
  state.backups = { ...state.backups, leaseOf: jobId };
  if (!hasFault(state, 'leaseHeld')) {
    writeLease(state, member);
  }
}

/** For the fault in which somebody else has the lease: whoever has it loses it. */
export function loseLease(state: DataPlaneState): void {
  rob(state);
  state.backups = { ...state.backups, leaseOf: null };
  writeForeignLease(state);
}

/** The backup that has the lease is lost, though it runs on until its pooler notices. */
function rob(state: DataPlaneState): void {
  const robbed = runningBackup(state, state.backups.leaseOf);
  if (robbed?.stage === 'begun' || robbed?.stage === 'overdue') {
    killLater(state, robbed, 'robbed', timing.robbedBackupMs);
  }
}

function killLater(
  state: DataPlaneState,
  run: RunningBackup,
  stage: 'robbed' | 'aborted',
  delay: number | Range,
): void {
  const { jobId } = run;
  replaceInLine(state, run, { ...run, stage });
  cancelTimers(state, (task) => task.kind === 'endBackup' && task.jobId === jobId);
  after(state, delay, { kind: 'endBackup', jobId });
}

/** Its time is over, or the time for which somebody who was to be killed still ran. */
export function endBackup(turn: Turn, jobId: string): void {
  const { state } = turn;
  const run = runningBackup(state, jobId);
  switch (run?.stage) {
    case 'begun':
    case 'overdue':
      if (hasFault(state, 'backupHangs')) {
        replaceInLine(state, run, { ...run, stage: 'overdue' });
      } else {
        endRun(turn, run, doesFail(state) ? { error: 'exit status 82' } : store(state, run));
      }
      return;
    case 'robbed':
      leaveOrphan(state, run);
      endRun(turn, run, { error: 'the lease is lost: exit status 63' });
      return;
    case 'aborted':
      leaveOrphan(state, run);
      endRun(turn, run, { error: 'nobody asks for it any more' });
      return;
    case undefined:
  }
}

function doesFail(state: DataPlaneState): boolean {
  const failing = state.faults.find(({ kind }) => kind === 'backupFails');
  if (failing?.kind === 'backupFails' && failing.times === 'once') {
    state.faults = state.faults.filter((fault) => fault !== failing);
  }
  return failing !== undefined;
}

function store(state: DataPlaneState, run: RunningBackup): Outcome {
  const { jobId, pooler, role, beganAtMs, startLsn, type } = run;
  const stored = withBackup(
    state.backups.stored,
    {
      jobId,
      pooler,
      role,
      startedAtMs: beganAtMs,
      stoppedAtMs: state.nowMs,
      startLsn,
      stopLsn: state.consensus.lsn,
    },
    type,
  );
  state.backups = { ...state.backups, stored };
  return { backupId: stored.at(-1)?.id ?? '' };
}

/** The next in line has its turn. */
function endRun(turn: Turn, run: RunningBackup, outcome: Outcome): void {
  settle(turn.state, run, outcome);
  serveLine(turn, run.podUid);
}

/** It is over, and its lease free. */
function settle(
  state: DataPlaneState,
  backup: WaitingBackup | RunningBackup,
  outcome: Outcome,
): void {
  close(state, backup, outcome);
  expireLease(state, backup.jobId);
}

/** It is over, whatever becomes of its lease. */
function close(
  state: DataPlaneState,
  backup: WaitingBackup | RunningBackup,
  outcome: Outcome,
): void {
  const { jobId } = backup;
  leaveLine(state, backup);
  cancelTimers(state, (task) => task.kind === 'endBackup' && task.jobId === jobId);
  if ('error' in outcome) {
    failJob(state, jobId, `pooler backup failed: ${outcome.error}`);
  } else {
    const { backupId } = outcome;
    changeJob(state, jobId, { status: 'completed', backupId, endedAtMs: state.nowMs });
  }
}

/** Only the lease of this job: that of another stays. */
export function expireLease(state: DataPlaneState, jobId: string): void {
  if (state.backups.leaseOf === jobId) {
    state.backups = { ...state.backups, leaseOf: null };
    removeLease(state);
  }
}

/** A process of the backup outlives it, and keeps the lock that the next one there needs. */
function leaveOrphan(state: DataPlaneState, { podUid }: RunningBackup): void {
  state.backups = { ...state.backups, orphans: [...state.backups.orphans, podUid] };
  after(state, timing.orphanMs, { kind: 'endOrphan', podUid });
}

export function endOrphan(state: DataPlaneState, podUid: string): void {
  const orphans = state.backups.orphans.filter((other) => other !== podUid);
  state.backups = { ...state.backups, orphans };
}

/** What would have ended already, but hung, ends now. */
export function endOverdueBackups(turn: Turn): void {
  for (const { stage, jobId } of runningBackups(turn.state)) {
    if (stage === 'overdue') {
      endBackup(turn, jobId);
    }
  }
}

/** multiadmin is gone, and with it all its calls to poolers: what waits never begins, what runs is killed. */
export function abortBackups(state: DataPlaneState): void {
  const running = runningBackups(state);
  setLine(state, running);
  for (const run of running) {
    killLater(state, run, 'aborted', timing.abortedBackupMs);
  }
}

/** The connections of who asked are gone. */
export function forgetQuestions(state: DataPlaneState): void {
  setLine(
    state,
    state.backups.line.filter(({ kind }) => kind !== 'question'),
  );
}

/**
 * A pooler that is gone backs up nothing more, and one whose PostgreSQL stops neither. The one can still give its lease
 * back; that of the other stays until it expires.
 */
export function endBackupsOfGone(turn: Turn): void {
  const { state } = turn;
  for (const lockTurn of state.backups.line) {
    const member = state.members[lockTurn.podUid];
    if (member === undefined || !isAlive(member)) {
      breakOff(turn, lockTurn);
    } else if (lockTurn.kind === 'running' && !member.isPostgresUp) {
      endRun(turn, lockTurn, { error: 'PostgreSQL has stopped' });
    }
  }
  for (const podUid of state.backups.orphans) {
    const member = state.members[podUid];
    if (member === undefined || !isAlive(member)) {
      endOrphan(state, podUid);
    }
  }
}

function breakOff(turn: Turn, lockTurn: LockTurn): void {
  const { state } = turn;
  if (lockTurn.kind === 'question') {
    leaveLine(state, lockTurn);
    failQuestion(turn, lockTurn);
    return;
  }
  const { jobId } = lockTurn;
  close(state, lockTurn, { error: 'code = Unavailable' });
  if (state.backups.leaseOf === jobId) {
    after(state, timing.leaseExpiryMs, { kind: 'expireLease', jobId });
  }
}
