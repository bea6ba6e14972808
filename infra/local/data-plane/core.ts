import type { PoolerId, RuleNumber } from '#shared/topology/topology.ts';
import {
  answerParked,
  askAdmin,
  beginSwitchover,
  endSwitchover,
  failParked,
  failSwitchover,
  restartAdmin,
} from './admin.ts';
import { removeLease } from './backup-lease.ts';
import { askedAtOf } from './backup-jobs.ts';
import { callPooler } from './backup-requests.ts';
import {
  endBackup,
  endBackupsOfGone,
  endOrphan,
  endOverdueBackups,
  expireLease,
  forgetQuestions,
  loseLease,
} from './backup-runs.ts';
import { type Fault, type FaultKind, isSameFault } from './fault.ts';
import { endGraceForLeader, makeFirstRule, proposeNow, runCycle } from './orchestrator.ts';
import { abandonWrite, confirmWrite, enqueue, flush } from './outbox.ts';
import {
  activate,
  announceStop,
  endGrace,
  endProcess,
  forgetPod,
  killPod,
  raisePostgres,
  shiftTime,
  shutDown,
  startContainers,
  startPod,
  stopPod,
} from './poolers.ts';
import { poolerKey, toBase64, topologyPrefixes } from './records.ts';
import {
  type AdminRequest,
  type BackupJob,
  type DataPlaneConfig,
  type DataPlaneOutput,
  type DataPlaneState,
  type Member,
  type PodOnNode,
  type TimerTask,
  type TopologyEntry,
  type Turn,
  after,
  askForTopology,
  cancelTimers,
  copyState,
  hasFault,
  isAlive,
  membersOf,
} from './state.ts';
import { continueResignation, resignForFault } from './switchover.ts';
import { timing } from './timing.ts';

/*
 * The data plane as a function: a state and what happened in, a new state and what comes of it out. It knows no clock,
 * no I/O and no randomness but its seed, so that a process and a simulation can both be its shell:
 *
 *   - call `advance`, or `advanceInPlace`, when something happens, and when the time is `nextDueMs`;
 *   - carry out the outputs; a crash of the shell loses none that matters, because `resumed` hands them out again.
 */

export type DataPlaneEvent =
  /** Nothing but time. */
  | { readonly kind: 'timePassed' }
  /** A pod may start on this node. */
  | { readonly kind: 'podAssigned'; readonly pod: PodOnNode }
  /** A pod is to stop within a grace, in milliseconds at speed 1. */
  | { readonly kind: 'podDeletionAsked'; readonly podUid: string; readonly graceMs: number }
  /** The pod's object is gone. */
  | { readonly kind: 'podGone'; readonly podUid: string }
  /** All keys under the prefixes that were asked for; `id` is the read's. */
  | {
      readonly kind: 'topologyRead';
      readonly id: number;
      readonly entries: readonly TopologyEntry[];
    }
  | { readonly kind: 'topologyUnreachable'; readonly id: number }
  | { readonly kind: 'recordWritten'; readonly id: number; readonly modRevision: string }
  /** The key was not at the revision that the write demanded. */
  | { readonly kind: 'recordRefused'; readonly id: number }
  | { readonly kind: 'adminAsked'; readonly request: AdminRequest }
  | { readonly kind: 'faultInjected'; readonly fault: Fault }
  /** One fault, all of one kind, or all there are. */
  | { readonly kind: 'faultLifted'; readonly fault?: FaultKind; readonly pod?: string }
  /** The shell starts again on a state it kept. Nothing happened in between; open connections are gone. */
  | { readonly kind: 'resumed'; readonly config: DataPlaneConfig };

export interface Advance {
  readonly state: DataPlaneState;
  readonly outputs: readonly DataPlaneOutput[];
}

/**
 * Goes on from a state to an instant, fires what is due until then in its order, and then takes the event.
 *
 * @param before is left as it is
 * @param nowMs milliseconds since the Unix epoch; an instant before the state's own counts as that
 */
export function advance(before: DataPlaneState, nowMs: number, event: DataPlaneEvent): Advance {
  const state = copyState(before);
  return { state, outputs: advanceInPlace(state, nowMs, event) };
}

/** The same for a shell that nobody else has the state of: it is changed instead of copied. */
export function advanceInPlace(
  state: DataPlaneState,
  nowMs: number,
  event: DataPlaneEvent,
): readonly DataPlaneOutput[] {
  const turn: Turn = { state, outputs: [] };
  const podsBefore = visiblePods(state);
  const wasNodeLost = hasFault(state, 'nodeNotReady');
  if (event.kind === 'resumed') {
    resume(turn, nowMs, event.config);
  } else {
    fireTimers(turn, nowMs);
    take(turn, event);
  }
  failSwitchover(turn);
  endBackupsOfGone(turn);
  flush(turn);
  for (const podUid of changedPods(podsBefore, state)) {
    turn.outputs.push({ kind: 'podChanged', podUid });
  }
  if (wasNodeLost !== hasFault(state, 'nodeNotReady')) {
    turn.outputs.push({ kind: 'nodeChanged' });
  }
  return turn.outputs;
}

/** When `advance` is to be called at the latest; a state always has something due. */
export function nextDueMs({ timers }: DataPlaneState): number {
  return Math.min(...timers.map(({ atMs }) => atMs));
}

function fireTimers(turn: Turn, nowMs: number): void {
  const { state } = turn;
  for (;;) {
    const [due] = state.timers
      .filter(({ atMs }) => atMs <= nowMs)
      .toSorted((a, b) => a.atMs - b.atMs || a.order - b.order);
    if (due === undefined) {
      break;
    }
    state.timers = state.timers.filter((timer) => timer !== due);
    state.nowMs = Math.max(state.nowMs, due.atMs);
    fire(turn, due.task);
    flush(turn);
  }
  state.nowMs = Math.max(state.nowMs, nowMs);
}

function fire(turn: Turn, task: TimerTask): void {
  switch (task.kind) {
    case 'cycle':
      after(turn.state, timing.cycleMs, { kind: 'cycle' });
      if (!turn.state.isCycleWaiting) {
        turn.state.isCycleWaiting = true;
        askForTopology(turn, topologyPrefixes(turn.state));
      }
      return;
    case 'firstRule':
      makeFirstRule(turn);
      return;
    case 'appoint':
      endGraceForLeader(turn);
      return;
    case 'beginSwitchover':
      beginSwitchover(turn, task.requestId);
      return;
    case 'reply':
      turn.outputs.push({
        kind: 'adminReply',
        requestId: task.requestId,
        reply: task.reply,
      });
      return;
    case 'callPooler':
      callPooler(turn, task.jobId);
      return;
    case 'endBackup':
      endBackup(turn, task.jobId);
      return;
    case 'expireLease':
      expireLease(turn.state, task.jobId);
      return;
    case 'startContainers':
    case 'raisePostgres':
    case 'activate':
    case 'announceStop':
    case 'shutDown':
    case 'endProcess':
    case 'endGrace':
    case 'endOrphan':
    case 'resign':
      withMember(turn.state, task.podUid, (member) => fireForMember(turn, member, task));
  }
}

function fireForMember(
  turn: Turn,
  member: Member,
  task: Extract<TimerTask, { podUid: string }>,
): void {
  switch (task.kind) {
    case 'startContainers':
      startContainers(turn, member);
      return;
    case 'raisePostgres':
      raisePostgres(turn, member);
      return;
    case 'activate':
      activate(turn, member);
      return;
    case 'announceStop':
      announceStop(turn, member);
      return;
    case 'shutDown':
      shutDown(turn, member);
      return;
    case 'endProcess':
      endProcess(turn, member, task.giveUpAtMs);
      return;
    case 'endGrace':
      endGrace(turn, member);
      return;
    case 'endOrphan':
      endOrphan(turn.state, task.podUid);
      return;
    case 'resign':
      continueResignation(turn, member, task.to);
      if (task.to === 'answered') {
        endSwitchover(turn);
      }
  }
}

function take(turn: Turn, event: Exclude<DataPlaneEvent, { kind: 'resumed' }>): void {
  const { state } = turn;
  switch (event.kind) {
    case 'timePassed':
      return;
    case 'podAssigned':
      startPod(turn, event.pod);
      return;
    case 'podDeletionAsked':
      withMember(state, event.podUid, (member) => stopPod(turn, member, event.graceMs));
      return;
    case 'podGone':
      withMember(state, event.podUid, (member) => forgetPod(turn, member));
      return;
    case 'topologyRead':
      state.topology = event.entries;
      continueAfterRead(turn);
      answerParked(turn, event.id);
      return;
    case 'topologyUnreachable':
      // Rules are kept by the members themselves: what was last known of etcd is enough to appoint a leader.
      continueAfterRead(turn);
      failParked(turn, event.id);
      return;
    case 'recordWritten':
      confirmWrite(state, event.id, event.modRevision);
      return;
    case 'recordRefused':
      abandonWrite(state, event.id);
      return;
    case 'adminAsked':
      askAdmin(turn, event.request);
      return;
    case 'faultInjected':
      inject(turn, event.fault);
      return;
    case 'faultLifted':
      lift(turn, event.fault, event.pod);
  }
}

function withMember(state: DataPlaneState, podUid: string, run: (member: Member) => void): void {
  const member = state.members[podUid];
  if (member !== undefined) {
    run(member);
  }
}

function continueAfterRead(turn: Turn): void {
  if (turn.state.isCycleWaiting && turn.state.topology !== null) {
    runCycle(turn);
  }
  turn.state.isCycleWaiting = false;
}

function resume(turn: Turn, nowMs: number, config: DataPlaneConfig): void {
  const { state } = turn;
  shiftTime(state, nowMs - state.nowMs);
  state.nowMs = nowMs;
  state.config = config;
  state.parked = [];
  state.isCycleWaiting = false;
  if (state.switchover !== null) {
    state.switchover.requestIds.length = 0;
  }
  cancelTimers(state, ({ kind }) => kind === 'reply' || kind === 'beginSwitchover');
  forgetQuestions(state);
  for (const write of state.outbox) {
    write.isSent = false;
  }
}

/** Why this fault makes no sense now, or `undefined`. */
export function refuseFault(state: DataPlaneState, fault: Fault): string | undefined {
  const isOneOff = fault.kind === 'podDeath' || fault.kind === 'undecodableRecord';
  return isOneOff && memberOfPod(state, fault.pod) === undefined
    ? `no pod ${fault.pod} runs here`
    : undefined;
}

function memberOfPod(state: DataPlaneState, pod: string): Member | undefined {
  return membersOf(state).find((member) => member.pod.name === pod && isAlive(member));
}

function inject(turn: Turn, fault: Fault): void {
  const { state } = turn;
  if (fault.kind === 'podDeath') {
    const member = memberOfPod(state, fault.pod);
    if (member !== undefined) {
      killPod(turn, member, fault.leaves);
    }
    return;
  }
  if (fault.kind === 'undecodableRecord') {
    const member = memberOfPod(state, fault.pod);
    if (member !== undefined) {
      const key = poolerKey(state.config, member.id);
      enqueue(state, { key, value: toBase64(noRecord), onlyAt: null, podUid: null });
    }
    return;
  }
  if (fault.kind === 'adminRestart') {
    restartAdmin(turn);
    return;
  }
  state.faults = [...state.faults.filter((other) => !isSameFault(other, fault)), fault];
  proposeNow(state);
  resignForFault(state);
  if (fault.kind === 'leaseHeld') {
    loseLease(state);
  }
}

/** A field that says it is longer than what follows. */
const noRecord = new Uint8Array([0x0a, 0x7f, 0x01]);

function lift(turn: Turn, kind: FaultKind | undefined, pod: string | undefined): void {
  const { state } = turn;
  const wasLeaseHeld = hasFault(state, 'leaseHeld');
  state.faults = state.faults.filter(
    (fault) =>
      (kind !== undefined && fault.kind !== kind) ||
      (pod !== undefined && !('pod' in fault && fault.pod === pod)),
  );
  proposeNow(state);
  if (wasLeaseHeld) {
    removeLease(state);
  }
  endOverdueBackups(turn);
}

/** What the kubelet reports of a pod. */
export interface PodView {
  /** `ended`, `died`: the processes are gone; the object is to be removed, or marked Failed. */
  readonly phase: 'pending' | 'running' | 'ended' | 'failed' | 'vanished';
  readonly isReady: boolean;
  readonly ip: string;
}

export function podView(state: DataPlaneState, podUid: string): PodView | undefined {
  const member = state.members[podUid];
  return (
    member && {
      phase: podPhase(member),
      isReady: isReady(member, hasFault(state, 'nodeNotReady')),
      ip: member.ip,
    }
  );
}

function isReady({ process, lifecycle }: Member, isNodeLost: boolean): boolean {
  return process === 'running' && lifecycle === 'active' && !isNodeLost;
}

function podPhase({ process, leaves }: Member): PodView['phase'] {
  switch (process) {
    case 'booting':
      return 'pending';
    case 'ended':
      return 'ended';
    case 'died':
      return leaves === 'nothing' ? 'vanished' : 'failed';
    case 'running':
    case 'stopping':
    default:
      return 'running';
  }
}

/** By pod uid, what a kubelet sees of a member and may report. */
function visiblePods(state: DataPlaneState): ReadonlyMap<string, string> {
  const isNodeLost = hasFault(state, 'nodeNotReady');
  return new Map(membersOf(state).map((member) => [member.pod.uid, visible(member, isNodeLost)]));
}

function visible(member: Member, isNodeLost: boolean): string {
  return `${podPhase(member)} ${isReady(member, isNodeLost)}`;
}

function changedPods(before: ReadonlyMap<string, string>, now: DataPlaneState): string[] {
  const isNodeLost = hasFault(now, 'nodeNotReady');
  return membersOf(now)
    .filter((member) => before.get(member.pod.uid) !== visible(member, isNodeLost))
    .map(({ pod }) => pod.uid);
}

/** For people, and for the live display. */
export interface DataPlaneView {
  readonly members: readonly MemberView[];
  /** The decided rule; `null` before the first. */
  readonly rule: RuleNumber | null;
  readonly leader: PoolerId | null;
  readonly cohort: readonly PoolerId[];
  readonly faults: readonly Fault[];
  /** The backups that multiadmin was asked for and remembers, oldest first, whatever became of them. */
  readonly backupJobs: readonly BackupJobView[];
}

export interface BackupJobView {
  readonly job: string;
  readonly type: string;
  readonly status: BackupJob['status'];
  readonly askedAt: string;
}

export interface MemberView {
  readonly namespace: string;
  readonly pod: string;
  readonly podUid: string;
  readonly pooler: string;
  readonly cell: string;
  /** As the pooler itself sees it. */
  readonly role: Member['role'];
  readonly lifecycle: Member['lifecycle'];
  readonly process: Member['process'];
  readonly ready: boolean;
  /** The last rule this member knows. */
  readonly rule: RuleNumber | null;
}

export function viewOf(state: DataPlaneState): DataPlaneView {
  const { decision } = state.consensus;
  const members = membersOf(state).map((member): MemberView => {
    const known = state.volumes[member.pod.volume]?.decision.rule;
    return {
      namespace: member.pod.namespace,
      pod: member.pod.name,
      podUid: member.pod.uid,
      pooler: member.id.name,
      cell: member.id.cell,
      role: member.role,
      lifecycle: member.lifecycle,
      process: member.process,
      ready: podView(state, member.pod.uid)?.isReady ?? false,
      rule: known === undefined ? null : ruleText(known),
    };
  });
  return {
    members: members.toSorted((a, b) => (a.pod < b.pod ? -1 : 1)),
    rule: decision === null ? null : ruleText(decision.rule),
    leader: decision?.leader ?? null,
    cohort: decision?.cohort ?? [],
    faults: state.faults,
    backupJobs: state.backups.jobs.map(({ jobId, type, status }) => ({
      job: jobId,
      type,
      status,
      askedAt: askedAtOf(jobId),
    })),
  };
}

function ruleText({ term, subterm }: { term: number; subterm: number }): RuleNumber {
  return { term: String(term), subterm: String(subterm) };
}
