import { isSamePooler } from '#shared/topology/topology.ts';
import { dropWrites, publish } from './outbox.ts';
import { recordOf } from './records.ts';
import {
  type DataPlaneState,
  type Member,
  type PodOnNode,
  type Turn,
  addCell,
  after,
  cancelTimers,
  durationMs,
  isAlive,
  isReachable,
  membersOf,
  takeOrder,
} from './state.ts';
import { timing } from './timing.ts';

/*
 * The life of one pooler: it starts, comes up on its data (its own, restored, or made by the bootstrap), becomes ACTIVE
 * once it follows a leader or is one, and ends: on request with its last record written, otherwise without a word.
 */

/** The containers of a pod begin to start. A pod that is known already is left as it is. */
export function startPod({ state }: Turn, pod: PodOnNode): void {
  if (state.members[pod.uid] !== undefined) {
    return;
  }
  if (!state.cells.some(({ name }) => name === pod.cell)) {
    addCell(state, pod.cell);
  }
  const address = takeOrder(state);
  state.members[pod.uid] = {
    pod,
    id: { cell: pod.cell, name: pod.poolerName },
    ip: `10.244.${(address >> 8) & 0xff}.${address & 0xff}`,
    process: 'booting',
    lifecycle: 'starting',
    lifecycleSinceMs: state.nowMs,
    serving: 'disabled',
    role: 'none',
    roleRule: null,
    isPostgresUp: false,
    isStreaming: false,
    hasResigned: false,
    isActivating: false,
    isFirstAnswerLost: false,
    published: null,
    leaves: null,
  };
  after(state, timing.containerStartMs, { kind: 'startContainers', podUid: pod.uid });
}

/** The pooler runs: it registers, and goes on by what it finds on its claim. */
export function startContainers(turn: Turn, member: Member): void {
  const { state } = turn;
  if (member.process !== 'booting') {
    return;
  }
  const podUid = member.pod.uid;
  member.process = 'running';
  member.lifecycleSinceMs = state.nowMs;
  member.isFirstAnswerLost = recordOf(state, member.id).kind !== 'absent';
  publish(turn, member);
  if (state.volumes[member.pod.volume] !== undefined) {
    after(state, timing.returnMs, { kind: 'raisePostgres', podUid });
  } else if (state.consensus.decision !== null) {
    after(state, timing.restoreMs, { kind: 'raisePostgres', podUid });
  } else {
    state.consensus.bootstrap.lastRegisteredAtMs = state.nowMs;
  }
}

/** PostgreSQL is up as a standby. Without data of its own it must have got some from a leader first. */
export function raisePostgres(turn: Turn, member: Member): void {
  const { state } = turn;
  const { decision, lsn } = state.consensus;
  if (member.process !== 'running' || member.isPostgresUp) {
    return;
  }
  const leader = currentLeader(state);
  if (state.volumes[member.pod.volume] === undefined) {
    if (decision === null || leader === undefined || !isReachable(state, member)) {
      after(state, timing.restoreRetryMs, { kind: 'raisePostgres', podUid: member.pod.uid });
      return;
    }
    state.volumes[member.pod.volume] = { decision, lsn };
  }
  member.isPostgresUp = true;
  member.role = 'replica';
  if (leader !== undefined && isReachable(state, member)) {
    follow(turn, member);
  }
  publish(turn, member);
}

/** Receives from the leader from now on. */
export function follow(turn: Turn, member: Member): void {
  const { state } = turn;
  member.isStreaming = true;
  member.hasResigned = false;
  if (member.lifecycle === 'active') {
    member.serving = 'serving';
  } else {
    beginActivation(state, member, timing.streamingToActiveMs);
  }
  publish(turn, member);
}

export function beginActivation(
  state: DataPlaneState,
  member: Member,
  delay: number | readonly [number, number],
): void {
  if (member.lifecycle === 'starting' && !member.isActivating) {
    member.isActivating = true;
    after(state, delay, { kind: 'activate', podUid: member.pod.uid });
  }
}

export function activate(turn: Turn, member: Member): void {
  if (member.process === 'running' && member.lifecycle === 'starting') {
    setLifecycle(turn.state, member, 'active');
    member.serving = 'serving';
    publish(turn, member);
  }
}

/**
 * SIGTERM, and SIGKILL after the grace. The grace is in milliseconds at speed 1, as the pod's own
 * terminationGracePeriodSeconds says it.
 */
export function stopPod({ state }: Turn, member: Member, graceMs: number): void {
  const podUid = member.pod.uid;
  if (member.process === 'booting') {
    member.process = 'ended';
    return;
  }
  if (member.process !== 'running') {
    return;
  }
  member.process = 'stopping';
  const shutdownMs =
    member.role === 'primary' ? timing.primaryShutdownMs : timing.replicaShutdownMs;
  after(state, timing.stopAnnouncedMs, { kind: 'announceStop', podUid });
  after(state, shutdownMs, { kind: 'shutDown', podUid });
  after(state, graceMs, { kind: 'endGrace', podUid });
}

export function announceStop(turn: Turn, member: Member): void {
  if (member.process === 'stopping') {
    setLifecycle(turn.state, member, 'stopping');
    member.serving = 'disabled';
    publish(turn, member);
  }
}

export function shutDown(turn: Turn, member: Member): void {
  const { state } = turn;
  if (member.process !== 'stopping') {
    return;
  }
  lowerPostgres(state, member);
  setLifecycle(state, member, 'shutdown');
  member.role = 'none';
  member.roleRule = null;
  publish(turn, member);
  const giveUpAtMs = state.nowMs + durationMs(state, timing.lastWriteMs);
  after(state, timing.processEndMs, { kind: 'endProcess', podUid: member.pod.uid, giveUpAtMs });
}

/** The process ends with its last record written, or without when etcd took too long. */
export function endProcess({ state }: Turn, member: Member, giveUpAtMs: number): void {
  const podUid = member.pod.uid;
  if (member.process !== 'stopping') {
    return;
  }
  const isWriting = state.outbox.some((write) => write.podUid === podUid);
  if (isWriting && state.nowMs < giveUpAtMs) {
    after(state, timing.lastWriteRetryMs, { kind: 'endProcess', podUid, giveUpAtMs });
    return;
  }
  end(state, member, 'ended');
}

/** SIGKILL after the grace: whatever was not written is not written. */
export function endGrace({ state }: Turn, member: Member): void {
  if (member.process === 'stopping') {
    end(state, member, 'ended');
  }
}

/** Killed without a word. */
export function killPod({ state }: Turn, member: Member, leaves: 'failed' | 'nothing'): void {
  if (member.process !== 'ended' && member.process !== 'died') {
    end(state, member, 'died');
    member.leaves = leaves;
  }
}

/** The pod's object is gone, and with it whatever still ran. */
export function forgetPod({ state }: Turn, member: Member): void {
  end(state, member, 'died');
  delete state.members[member.pod.uid];
}

function end(state: DataPlaneState, member: Member, as: 'ended' | 'died'): void {
  const podUid = member.pod.uid;
  lowerPostgres(state, member);
  member.process = as;
  dropWrites(state, podUid);
  cancelTimers(state, (task) => 'podUid' in task && task.podUid === podUid);
}

/** PostgreSQL of this member stops; who received from it receives nothing more. */
export function lowerPostgres(state: DataPlaneState, member: Member): void {
  const wasLeader = currentLeader(state) === member;
  member.isPostgresUp = false;
  member.isStreaming = false;
  if (wasLeader) {
    for (const follower of membersOf(state)) {
      follower.isStreaming = false;
    }
  }
}

function setLifecycle(state: DataPlaneState, member: Member, lifecycle: Member['lifecycle']): void {
  member.lifecycle = lifecycle;
  member.lifecycleSinceMs = state.nowMs;
}

/** The leader of the decided rule, while it leads and the others reach it. */
export function currentLeader(state: DataPlaneState): Member | undefined {
  const { decision } = state.consensus;
  return membersOf(state).find(
    (member) =>
      decision !== null &&
      isSamePooler(member.id, decision.leader) &&
      isAlive(member) &&
      isReachable(state, member) &&
      member.isPostgresUp &&
      member.role === 'primary' &&
      member.roleRule?.term === decision.rule.term,
  );
}

/** Moves all that waits by this much: nothing happened in between. */
export function shiftTime(state: DataPlaneState, byMs: number): void {
  state.timers = state.timers.map((timer) => ({
    ...timer,
    atMs: timer.atMs + byMs,
    task:
      timer.task.kind === 'endProcess'
        ? { ...timer.task, giveUpAtMs: timer.task.giveUpAtMs + byMs }
        : timer.task,
  }));
  if (state.consensus.loss !== null) {
    state.consensus.loss.sinceMs += byMs;
  }
  state.consensus.bootstrap.lastRegisteredAtMs += byMs;
}
