import { type PoolerId, isSamePooler } from '#shared/topology/topology.ts';
import { storeFirstBackup } from './first-backup.ts';
import { enqueue, publish } from './outbox.ts';
import { beginActivation, currentLeader, follow } from './poolers.ts';
import { canAppoint, canCommit, includes, isRemovalSafe, without } from './quorum.ts';
import {
  addCells,
  cellKey,
  claimKey,
  databaseKey,
  decodeClaim,
  encodeCell,
  encodeClaim,
  encodeDatabase,
  fromBase64,
  recordOf,
  toBase64,
} from './records.ts';
import {
  type DataPlaneState,
  type Member,
  type Rule,
  type ShardRule,
  type TopologyEntry,
  type Turn,
  after,
  cancelTimers,
  durationMs,
  hasFault,
  isReachable,
  membersOf,
  pick,
  shuffled,
} from './state.ts';
import { timing } from './timing.ts';

/** What writes go on between two looks, in bytes. */
const writesPerCycle = 0x1b0;

/**
 * multiorch's look at the shard, once a second: it makes the first rule of a fresh shard, keeps the cohort to those that
 * can vote, and replaces a leader that is lost.
 */
export function runCycle(turn: Turn): void {
  const { state } = turn;
  const { consensus } = state;
  provision(state);
  if (consensus.decision === null) {
    bootstrap(state);
    return;
  }
  const leader = currentLeader(state);
  if (leader === undefined || isMarkedGone(state, leader)) {
    noticeLoss(turn, leader);
    return;
  }
  forgetLoss(state);
  tendFollowers(turn, leader);
  settleProposal(state);
  if (consensus.proposal === null) {
    addToCohort(state, leader);
    removeFromCohort(state, leader);
  }
  if (canCommit(quorum(state), leader.id, followersOf(state))) {
    consensus.lsn += writesPerCycle;
  }
  keepVolumes(state, leader);
}

/** A live leader whose record somebody overwrote is as good as gone for who reads the record. */
function isMarkedGone(state: DataPlaneState, member: Member): boolean {
  return recordOf(state, member.id).kind === 'shutdown';
}

function forgetLoss(state: DataPlaneState): void {
  if (state.consensus.loss !== null) {
    state.consensus.loss = null;
    cancelTimers(state, ({ kind }) => kind === 'appoint');
  }
}

/** Cells and the database are in etcd, as whoever installs a cluster puts them there. What is there is kept. */
function provision(state: DataPlaneState): void {
  const { config, topology } = state;
  if (topology === null) {
    return;
  }
  const cells = state.cells.map(({ name }) => name);
  for (const cell of cells) {
    createOnce(state, cellKey(config, cell), () => encodeCell(config, cell));
  }
  const key = databaseKey(config);
  const database = entryOf(state, key);
  if (database === undefined) {
    if (cells.length > 0) {
      createOnce(state, key, () => encodeDatabase(config, cells));
    }
    return;
  }
  const extended = addCells(database.value, cells);
  if (extended !== undefined && !isPending(state, key)) {
    enqueue(state, {
      key,
      value: extended,
      onlyAt: database.modRevision,
      podUid: null,
    });
  }
}

function createOnce(state: DataPlaneState, key: string, encode: () => Uint8Array): void {
  if (entryOf(state, key) === undefined && !isPending(state, key)) {
    enqueue(state, { key, value: toBase64(encode()), onlyAt: '0', podUid: null });
  }
}

function entryOf(state: DataPlaneState, key: string): TopologyEntry | undefined {
  return state.topology?.find((entry) => entry.key === key);
}

function isPending(state: DataPlaneState, key: string): boolean {
  return state.outbox.some((write) => write.key === key);
}

/** A fresh shard is claimed once enough poolers have registered and no more come; its first rule follows. */
function bootstrap(state: DataPlaneState): void {
  const { config, consensus } = state;
  const ready = membersOf(state).filter(
    (member) => isReachable(state, member) && recordOf(state, member.id).kind === 'live',
  );
  const settledAtMs =
    consensus.bootstrap.lastRegisteredAtMs + durationMs(state, timing.bootstrapSettleMs);
  if (ready.length < config.requiredCount || state.nowMs < settledAtMs) {
    return;
  }
  const key = claimKey(config);
  if (entryOf(state, key) === undefined) {
    const cohort = shuffled(
      state,
      ready.map(({ id }) => id),
    );
    const claimer = orchestratorOf(state);
    createOnce(state, key, () => encodeClaim(claimer, cohort));
  } else if (!consensus.bootstrap.isFirstRuleScheduled) {
    consensus.bootstrap.isFirstRuleScheduled = true;
    after(state, timing.firstRuleMs, { kind: 'firstRule' });
  }
}

/** The claimed members that still run are initialised, and one of them, nobody knows which, leads. */
export function makeFirstRule(turn: Turn): void {
  const { state } = turn;
  const { config, consensus } = state;
  consensus.bootstrap.isFirstRuleScheduled = false;
  const running = membersOf(state).filter(
    (member) => member.process === 'running' && isReachable(state, member),
  );
  const cohort = claimOrder(state, running);
  const leader = pick(state, cohort);
  if (leader === undefined || cohort.length < config.requiredCount) {
    return;
  }
  storeFirstBackup(state, leader);
  beginTerm(state, {
    rule: { term: 1, subterm: 0 },
    outgoing: { term: 0, subterm: 1 },
    leader: leader.id,
    cohort: cohort.map(({ id }) => id),
  });
  for (const member of cohort) {
    member.isPostgresUp = true;
    becomeMember(turn, member, leader);
    beginActivation(
      state,
      member,
      member === leader ? timing.firstLeaderActiveMs : timing.firstReplicaActiveMs,
    );
  }
  keepVolumes(state, leader);
  for (const late of running.filter((member) => !cohort.includes(member))) {
    after(state, timing.restoreMs, { kind: 'raisePostgres', podUid: late.pod.uid });
  }
}

function claimOrder(state: DataPlaneState, running: readonly Member[]): Member[] {
  const claim = entryOf(state, claimKey(state.config));
  const ids = claim === undefined ? [] : decodeClaim(fromBase64(claim.value));
  const claimed = ids.flatMap((id) => running.filter((member) => isSamePooler(member.id, id)));
  // A claim of members that are gone would otherwise keep a shard without data from ever starting.
  return claimed.length >= state.config.requiredCount ? claimed : [...running];
}

function becomeMember(turn: Turn, member: Member, leader: Member): void {
  const isLeader = member === leader;
  member.role = isLeader ? 'primary' : 'replica';
  member.roleRule = isLeader ? (turn.state.consensus.decision?.rule ?? null) : null;
  member.hasResigned = false;
  member.isStreaming = !isLeader;
  publish(turn, member);
}

function beginTerm(
  state: DataPlaneState,
  term: {
    readonly rule: Rule;
    readonly outgoing: Rule;
    readonly leader: PoolerId;
    readonly cohort: readonly PoolerId[];
  },
): void {
  const { consensus } = state;
  const coordinator = orchestratorOf(state);
  const { rule, leader, cohort } = term;
  consensus.decision = {
    rule,
    leader,
    cohort,
    coordinator,
    createdAtMs: state.nowMs,
    revocation: { atMs: state.nowMs, by: coordinator, outgoing: term.outgoing },
  };
  consensus.proposal = null;
  forgetLoss(state);
}

function orchestratorOf(state: DataPlaneState): PoolerId {
  const cell = pick(state, state.cells);
  return { cell: cell?.name ?? '', name: cell?.orch ?? '' };
}

/** Who is up follows the leader; who still thinks that it leads learns that it does not. */
function tendFollowers(turn: Turn, leader: Member): void {
  const { state } = turn;
  for (const member of membersOf(state)) {
    if (member === leader || member.process !== 'running' || !member.isPostgresUp) {
      continue;
    }
    if (!isReachable(state, member)) {
      member.isStreaming = false;
      continue;
    }
    if (member.role === 'primary') {
      member.role = 'replica';
      member.roleRule = null;
    }
    if (!member.isStreaming) {
      follow(turn, member);
    }
  }
}

/** While the fault lasts there is a proposal; afterwards it is decided. */
function settleProposal(state: DataPlaneState): void {
  const { consensus } = state;
  const { decision, proposal } = consensus;
  if (hasFault(state, 'undecidedProposal')) {
    consensus.proposal ??= decision === null ? null : nextRule(state, decision, decision.cohort);
  } else if (proposal !== null) {
    consensus.decision = proposal;
    consensus.proposal = null;
  }
}

/** Lets a proposal appear at once, so that who injects the fault need not wait for a look. */
export function proposeNow(state: DataPlaneState): void {
  if (currentLeader(state) !== undefined) {
    settleProposal(state);
  }
}

function nextRule(
  state: DataPlaneState,
  outgoing: ShardRule,
  cohort: readonly PoolerId[],
): ShardRule {
  const { term, subterm } = outgoing.rule;
  return {
    ...outgoing,
    rule: { term, subterm: subterm + 1 },
    cohort,
    createdAtMs: state.nowMs,
  };
}

function quorum(state: DataPlaneState, cohort = state.consensus.decision?.cohort ?? []) {
  return { requiredCount: state.config.requiredCount, cohort };
}

function followersOf(state: DataPlaneState): PoolerId[] {
  return membersOf(state)
    .filter((member) => member.isStreaming && isReachable(state, member))
    .map(({ id }) => id);
}

function isEligible(state: DataPlaneState, member: Member): boolean {
  return member.process === 'running' && !hasFault(state, 'ineligible', member.pod.name);
}

/**
 * Everybody who is healthy, follows and may vote is added, in one change. A leader follows nobody: one that is outside
 * the cohort stays outside while it leads.
 */
function addToCohort(state: DataPlaneState, leader: Member): void {
  const { decision } = state.consensus;
  const cohort = decision?.cohort ?? [];
  const missing = membersOf(state)
    .filter(
      (member) =>
        member.isStreaming &&
        isReachable(state, member) &&
        isEligible(state, member) &&
        recordOf(state, member.id).kind === 'live',
    )
    .map(({ id }) => id)
    .filter((id) => !includes(cohort, id));
  changeCohort(state, leader, missing.length === 0 ? cohort : [...cohort, ...missing]);
}

/** One removal per look: who has said that it is gone, else who may not vote where another loss is survivable. */
function removeFromCohort(state: DataPlaneState, leader: Member): void {
  const cohort = state.consensus.decision?.cohort ?? [];
  if (hasFault(state, 'leaderOutsideCohort') && includes(cohort, leader.id)) {
    changeCohort(state, leader, without(cohort, leader.id));
    return;
  }
  const others = without(cohort, leader.id);
  const gone = others.find((id) => recordOf(state, id).kind === 'shutdown');
  const ineligible = others.find((id) =>
    membersOf(state).some(
      (member) =>
        isSamePooler(member.id, id) &&
        isReachable(state, member) &&
        !isEligible(state, member) &&
        isRemovalSafe(quorum(state), id, leader.id, followersOf(state)),
    ),
  );
  const removed = gone ?? ineligible;
  if (removed !== undefined) {
    changeCohort(state, leader, without(cohort, removed));
  }
}

/** A change of the cohort is a write as any other: below the quorum it does not happen. */
function changeCohort(state: DataPlaneState, leader: Member, cohort: readonly PoolerId[]): void {
  const { consensus } = state;
  const followers = followersOf(state);
  if (
    consensus.decision === null ||
    cohort === consensus.decision.cohort ||
    !canCommit(quorum(state), leader.id, followers) ||
    !canCommit(quorum(state, cohort), leader.id, followers)
  ) {
    return;
  }
  consensus.decision = nextRule(state, consensus.decision, cohort);
}

/** What the leader and those that follow it have on disk. */
function keepVolumes(state: DataPlaneState, leader: Member): void {
  const { decision, lsn } = state.consensus;
  for (const member of membersOf(state)) {
    const isFollowing = member.isStreaming && isReachable(state, member);
    if (decision !== null && (member === leader || isFollowing)) {
      state.volumes[member.pod.volume] = { decision, lsn };
    }
  }
}

/**
 * A leader that says it is gone, or whose process came back as a standby, is replaced after the grace; one that merely
 * does not answer, after the threshold for that and the grace.
 *
 * @param evicted the leader where it still leads, but its record says SHUTDOWN
 */
function noticeLoss(turn: Turn, evicted: Member | undefined): void {
  const { state } = turn;
  const { consensus } = state;
  if (evicted === undefined) {
    for (const member of membersOf(state)) {
      member.isStreaming = false;
    }
  }
  const loss = (consensus.loss ??= {
    sinceMs: state.nowMs,
    isScheduled: false,
    isOverdue: false,
  });
  const silentForMs = state.nowMs - loss.sinceMs;
  if (loss.isOverdue) {
    appoint(turn);
  } else if (
    !loss.isScheduled &&
    (isLossKnown(state) || silentForMs >= durationMs(state, timing.silentLeaderMs))
  ) {
    loss.isScheduled = true;
    after(state, timing.appointmentMs, { kind: 'appoint' });
  }
}

function isLossKnown(state: DataPlaneState): boolean {
  const { decision } = state.consensus;
  if (decision === null) {
    return false;
  }
  const isStandby = membersOf(state).some(
    (member) =>
      isSamePooler(member.id, decision.leader) &&
      isReachable(state, member) &&
      member.isPostgresUp &&
      member.role !== 'primary',
  );
  return isStandby || recordOf(state, decision.leader).kind === 'shutdown';
}

/** The grace is over: a leader is appointed now, or in the first look in which one can be. */
export function endGraceForLeader(turn: Turn): void {
  const { state } = turn;
  const { loss } = state.consensus;
  const leader = currentLeader(state);
  const isBack = leader !== undefined && !isMarkedGone(state, leader);
  if (loss !== null && !isBack) {
    loss.isOverdue = true;
    appoint(turn);
  }
}

function appoint(turn: Turn): void {
  const { state } = turn;
  const { decision } = state.consensus;
  if (decision === null || hasFault(state, 'noPrimary')) {
    return;
  }
  const recruits = membersOf(state).filter(
    (member) => member.process === 'running' && member.isPostgresUp && isReachable(state, member),
  );
  const recruitIds = recruits.map(({ id }) => id);
  const candidates = recruits.filter(
    (member) =>
      isEligible(state, member) &&
      recordOf(state, member.id).kind === 'live' &&
      canAppoint(quorum(state), member.id, recruitIds),
  );
  const leader = chooseLeader(state, candidates);
  if (leader === undefined) {
    return;
  }
  const { rule, cohort } = decision;
  beginTerm(state, {
    rule: { term: rule.term + 1, subterm: 0 },
    outgoing: rule,
    leader: leader.id,
    cohort,
  });
  for (const member of recruits) {
    becomeMember(turn, member, leader);
    // Followers connect at the next look.
    member.isStreaming = false;
  }
  if (leader.lifecycle === 'active') {
    leader.serving = 'serving';
  }
  beginActivation(state, leader, timing.firstLeaderActiveMs);
  publish(turn, leader);
  keepVolumes(state, leader);
}

/** The most advanced; among equals anybody, though not the one that was just asked to resign while there is another. */
function chooseLeader(state: DataPlaneState, candidates: readonly Member[]): Member | undefined {
  const willing = candidates.filter(({ hasResigned }) => !hasResigned);
  const eligible = willing.length > 0 ? willing : candidates;
  const lsnOf = (member: Member) => state.volumes[member.pod.volume]?.lsn ?? 0;
  const highest = Math.max(...eligible.map(lsnOf));
  return pick(
    state,
    eligible.filter((member) => lsnOf(member) === highest),
  );
}
