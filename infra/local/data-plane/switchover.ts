import { publish } from './outbox.ts';
import { currentLeader, lowerPostgres } from './poolers.ts';
import {
  type DataPlaneState,
  type Member,
  type ResignStage,
  type Turn,
  after,
  hasFault,
} from './state.ts';
import { timing } from './timing.ts';

const stages: readonly ResignStage[] = ['draining', 'stopped', 'standby', 'answered'];

const stageMs: Readonly<Record<ResignStage, number>> = {
  draining: timing.resignDrainMs,
  stopped: timing.resignStopMs,
  standby: timing.resignStandbyMs,
  answered: timing.resignAnswerMs,
};

/**
 * The leader resigns: it drains, its PostgreSQL stops and comes back as a standby. Nobody leads then, and who asked is
 * answered; the next leader is multiorch's business. A second request during that time waits for the same end.
 */
export function resign(state: DataPlaneState, leader: Member, requestId: number | null): void {
  const requestIds = requestId === null ? [] : [requestId];
  if (state.switchover?.podUid === leader.pod.uid) {
    state.switchover.requestIds.push(...requestIds);
    return;
  }
  state.switchover = { podUid: leader.pod.uid, oldLeader: leader.id, requestIds };
  for (const to of stages) {
    after(state, stageMs[to], { kind: 'resign', podUid: leader.pod.uid, to });
  }
}

/** For the fault that leaves the shard without a leader. */
export function resignForFault(state: DataPlaneState): void {
  const leader = currentLeader(state);
  if (leader !== undefined && hasFault(state, 'noPrimary')) {
    resign(state, leader, null);
  }
}

/** One stage of it. A member that is stopping meanwhile goes on stopping. */
export function continueResignation(turn: Turn, member: Member, to: ResignStage): void {
  if (member.process !== 'running') {
    return;
  }
  switch (to) {
    case 'draining':
      member.serving = 'draining';
      break;
    case 'stopped':
      lowerPostgres(turn.state, member);
      member.serving = 'disabled';
      break;
    case 'standby':
      member.isPostgresUp = true;
      member.role = 'replica';
      member.roleRule = null;
      member.hasResigned = true;
      break;
    case 'answered':
      return;
  }
  publish(turn, member);
}
