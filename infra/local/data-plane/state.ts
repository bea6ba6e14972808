import type { PoolerId, ShardKey } from '#shared/topology/topology.ts';
import type { Fault, FaultKind } from './fault.ts';
import { type Range, timing } from './timing.ts';

/** What stays the same over a run. */
export interface DataPlaneConfig {
  /** Divides every duration: 10 makes ten seconds pass in one. */
  readonly speed: number;
  readonly shard: ShardKey;
  /** For example `/multigres/global`. */
  readonly globalRoot: string;
  /** Where a cell's records are; `{cell}` stands for its name. Without it all cells share one root. */
  readonly cellRoot: string;
  /** `host:port` of the etcd that a Cell record names. */
  readonly serverAddress: string;
  /** Its further members, `host:port` each. */
  readonly otherServerAddresses?: readonly string[];
  /** Members that must hold a write before it counts, the leader among them: AT_LEAST_N. */
  readonly requiredCount: number;
  /** Pods whose pooler writes the older record generation. */
  readonly legacyPods: readonly string[];
  /** How long a backup of each type runs, in milliseconds at speed 1; without it as `timing` says. */
  readonly backupMs?: Readonly<Record<BackupType, number>>;
}

/** As a request names them; the list of backups has the last two as `diff` and `incr`. */
export type BackupType = 'full' | 'differential' | 'incremental';

/** A consensus rule's number. Far below 2^53, so plain numbers here. */
export interface Rule {
  readonly term: number;
  readonly subterm: number;
}

export interface ShardRule {
  readonly rule: Rule;
  readonly leader: PoolerId;
  readonly cohort: readonly PoolerId[];
  readonly coordinator: PoolerId;
  readonly createdAtMs: number;
  /** When and by whom its term began, and which rule that ended. */
  readonly revocation: { readonly atMs: number; readonly by: PoolerId; readonly outgoing: Rule };
}

/** A pod that this node may start: its claims are there. */
export interface PodOnNode {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  readonly cell: string;
  /** The id under which its pooler registers. */
  readonly poolerName: string;
  readonly hostname: string;
  /** The uid of the claim that holds its data, or the pod's own where it has no claim. */
  readonly volume: string;
}

/**
 * booting: its containers start. running, stopping: the pooler lives. ended: it stopped as it was asked to. died: it was
 * killed, and wrote nothing.
 */
export type ProcessState = 'booting' | 'running' | 'stopping' | 'ended' | 'died';

/** A pod, the pooler in it, and what that pooler believes of itself. */
export interface Member {
  readonly pod: PodOnNode;
  readonly id: PoolerId;
  readonly ip: string;
  process: ProcessState;
  lifecycle: 'starting' | 'active' | 'stopping' | 'shutdown';
  /** When `lifecycle` last changed: the record says so. */
  lifecycleSinceMs: number;
  serving: 'serving' | 'disabled' | 'draining';
  role: 'none' | 'primary' | 'replica';
  /** The rule under which it became primary. */
  roleRule: Rule | null;
  isPostgresUp: boolean;
  /** It receives from the leader. */
  isStreaming: boolean;
  /** It was asked to resign, and has not followed another leader since. */
  hasResigned: boolean;
  /** On its way to ACTIVE. */
  isActivating: boolean;
  /** The first question after its pod was made again goes to the old address and fails. */
  isFirstAnswerLost: boolean;
  /** The record it wrote last, in base64; compared before it writes again, and with nothing else. */
  published: string | null;
  /** What its death leaves of the pod. */
  leaves: 'failed' | 'nothing' | null;
}

/** What is on a claim. It outlives the pod. */
export interface Volume {
  /** The last rule in this data directory's write-ahead log. */
  readonly decision: ShardRule;
  /** Where that log ends, in bytes. */
  readonly lsn: number;
}

export interface Consensus {
  /** `null` before the shard's first rule. */
  decision: ShardRule | null;
  proposal: ShardRule | null;
  /** The end of the leader's write-ahead log, in bytes. */
  lsn: number;
  loss: LeaderLoss | null;
  bootstrap: { lastRegisteredAtMs: number; isFirstRuleScheduled: boolean };
}

export interface LeaderLoss {
  sinceMs: number;
  /** The grace runs. */
  isScheduled: boolean;
  /** The grace is over, and nobody could be appointed yet. */
  isOverdue: boolean;
}

export interface Cell {
  readonly name: string;
  readonly orch: string;
  readonly gateway: string;
  readonly pidPrefix: number;
}

export interface TopologyEntry {
  readonly key: string;
  /** base64. */
  readonly value: string;
  readonly modRevision: string;
}

export interface PendingWrite {
  readonly id: number;
  readonly key: string;
  /** base64; `null` removes the key. */
  readonly value: string | null;
  /** The key must still be at this mod revision, `'0'` = must not be there; `null` = whatever is there. */
  readonly onlyAt: string | null;
  /** The pod whose pooler writes; it writes nothing once it is dead. */
  readonly podUid: string | null;
  isSent: boolean;
}

export interface AdminRequest {
  readonly id: number;
  readonly method: string;
  readonly path: string;
  readonly query: { readonly [name: string]: readonly string[] };
  readonly body: string;
}

export interface AdminReply {
  readonly status: number;
  /** A string is sent as text, anything else as JSON. */
  readonly body: unknown;
}

/** A leader's resignation in progress, and who waits for its end. */
export interface Switchover {
  readonly podUid: string;
  readonly oldLeader: PoolerId;
  readonly requestIds: number[];
}

/** A backup that multiadmin was asked for, as it remembers it: in memory, so only until it restarts. */
export interface BackupJob {
  readonly jobId: string;
  /** The pooler that was chosen when the job began. */
  readonly pooler: PoolerId;
  readonly shard: ShardKey;
  /** Whatever was asked for: the pooler says whether there is such a type. */
  readonly type: string;
  readonly isPrimaryForced: boolean;
  readonly status: 'pending' | 'running' | 'completed' | 'failed';
  /** The backup that came of it. */
  readonly backupId: string | null;
  readonly error: string | null;
  readonly endedAtMs: number | null;
}

/** Who stands in line for the action lock of a pooler. The first of each pod has the lock. */
export type LockTurn = WaitingBackup | RunningBackup | RepositoryQuestion;

export interface WaitingBackup {
  readonly kind: 'waiting';
  readonly podUid: string;
  readonly jobId: string;
  readonly type: string;
  readonly isPrimaryForced: boolean;
}

export interface RunningBackup {
  readonly kind: 'running';
  readonly podUid: string;
  readonly jobId: string;
  readonly type: BackupType;
  /**
   * overdue: it would have ended, but hangs. robbed: it lost its lease, and will notice. aborted: who asked for it is gone,
   * and it is about to be killed.
   */
  readonly stage: 'begun' | 'overdue' | 'robbed' | 'aborted';
  readonly pooler: PoolerId;
  readonly role: StoredBackup['role'];
  readonly beganAtMs: number;
  /** Where the write-ahead log ended then. */
  readonly startLsn: number;
}

/** A question about the repository: poolers answer it one at a time, and not while they back up. */
export interface RepositoryQuestion {
  readonly kind: 'question';
  readonly podUid: string;
  readonly requestId: number;
  readonly about:
    | { readonly kind: 'list'; readonly limit: number }
    | { readonly kind: 'job'; readonly shard: ShardKey; readonly jobId: string };
}

/** What the repository says of one backup. There is no data behind it. */
export interface StoredBackup {
  readonly id: string;
  readonly type: 'full' | 'diff' | 'incr';
  /** The backup that it continues, and goes with. */
  readonly parent: string | null;
  readonly jobId: string;
  readonly pooler: PoolerId;
  readonly role: 'primary' | 'replica';
  readonly startedAtMs: number;
  readonly stoppedAtMs: number;
  /** Positions in the write-ahead log, in bytes. */
  readonly startLsn: number;
  readonly stopLsn: number;
}

/** Never changed, only replaced as a whole: copies of a state share it. */
export interface Backups {
  readonly jobs: readonly BackupJob[];
  /** Of all pods, by arrival. */
  readonly line: readonly LockTurn[];
  /** The job whose backup holds the shard's lease, or held it when its pooler died. */
  readonly leaseOf: string | null;
  /** Pods in which what is left of a killed backup keeps the repository locked. */
  readonly orphans: readonly string[];
  /** Oldest first. */
  readonly stored: readonly StoredBackup[];
}

export const noBackups: Backups = { jobs: [], line: [], leaseOf: null, orphans: [], stored: [] };

export type TimerTask =
  | { readonly kind: 'cycle' }
  | { readonly kind: 'firstRule' }
  | { readonly kind: 'appoint' }
  | { readonly kind: 'startContainers'; readonly podUid: string }
  | { readonly kind: 'raisePostgres'; readonly podUid: string }
  | { readonly kind: 'activate'; readonly podUid: string }
  | { readonly kind: 'announceStop'; readonly podUid: string }
  | { readonly kind: 'shutDown'; readonly podUid: string }
  | { readonly kind: 'endProcess'; readonly podUid: string; readonly giveUpAtMs: number }
  | { readonly kind: 'endGrace'; readonly podUid: string }
  | { readonly kind: 'resign'; readonly podUid: string; readonly to: ResignStage }
  | { readonly kind: 'beginSwitchover'; readonly requestId: number }
  | { readonly kind: 'callPooler'; readonly jobId: string }
  | { readonly kind: 'endBackup'; readonly jobId: string }
  | { readonly kind: 'expireLease'; readonly jobId: string }
  | { readonly kind: 'endOrphan'; readonly podUid: string }
  | { readonly kind: 'reply'; readonly requestId: number; readonly reply: AdminReply };

export type ResignStage = 'draining' | 'stopped' | 'standby' | 'answered';

export interface Timer {
  readonly atMs: number;
  /** Timers of one instant fire in the order they were set. */
  readonly order: number;
  readonly task: TimerTask;
}

/** The whole data plane as plain JSON: it can be kept in a file and gone on with. */
export interface DataPlaneState {
  config: DataPlaneConfig;
  nowMs: number;
  /** Of the generator of pseudo-random numbers. */
  random: number;
  /** Of timers, writes and addresses. */
  nextOrder: number;
  timers: Timer[];
  cells: Cell[];
  /** By pod uid. */
  members: { [podUid: string]: Member };
  /** By claim uid. */
  volumes: { [claimUid: string]: Volume };
  consensus: Consensus;
  /** etcd as it was last read, and what was written since; `null` before the first read. */
  topology: readonly TopologyEntry[] | null;
  outbox: PendingWrite[];
  /** multiorch's look at the shard waits for etcd. */
  isCycleWaiting: boolean;
  /** Questions to the admin service, each with the read of etcd that it waits for, or a later one. */
  parked: { readonly request: AdminRequest; readonly readId: number }[];
  switchover: Switchover | null;
  backups: Backups;
  faults: readonly Fault[];
}

export type DataPlaneOutput =
  /** Answer with `topologyRead` or `topologyUnreachable`. A later one may be answered for all before it. */
  | { readonly kind: 'readTopology'; readonly id: number; readonly prefixes: readonly string[] }
  /** Answer with `recordWritten` or `recordRefused`; repeat it until one of them is true. */
  | {
      readonly kind: 'writeRecord';
      readonly id: number;
      readonly key: string;
      /** `null`: remove the key. */
      readonly value: string | null;
      readonly onlyAt: string | null;
    }
  /** What `podViews` says of this pod has changed. */
  | { readonly kind: 'podChanged'; readonly podUid: string }
  /** The node became ready, or ceased to be. */
  | { readonly kind: 'nodeChanged' }
  | { readonly kind: 'adminReply'; readonly requestId: number; readonly reply: AdminReply }
  /** Reset the connection instead of answering. */
  | { readonly kind: 'adminDrop'; readonly requestId: number };

/** One step under way: the state that it changes, and what came out so far. */
export interface Turn {
  readonly state: DataPlaneState;
  readonly outputs: DataPlaneOutput[];
}

/** A number from the range, both ends included; advances the generator (mulberry32). */
export function draw(state: DataPlaneState, [low, high]: Range): number {
  state.random = (state.random + 0x6d2b79f5) | 0;
  let mixed = Math.imul(state.random ^ (state.random >>> 15), 1 | state.random);
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
  const fraction = ((mixed ^ (mixed >>> 14)) >>> 0) / 0xffff_ffff;
  return low + fraction * (high - low);
}

/** One of them, `undefined` where there is none. */
export function pick<T>(state: DataPlaneState, items: readonly T[]): T | undefined {
  return items[Math.min(items.length - 1, Math.floor(draw(state, [0, items.length])))];
}

export function shuffled<T>(state: DataPlaneState, items: readonly T[]): T[] {
  const rest = [...items];
  const result: T[] = [];
  while (rest.length > 0) {
    const index = Math.min(rest.length - 1, Math.floor(draw(state, [0, rest.length])));
    result.push(...rest.splice(index, 1));
  }
  return result;
}

/** How long this takes here: divided by the speed, drawn where it is a range; whole milliseconds, at least one. */
export function durationMs(state: DataPlaneState, duration: number | Range): number {
  const atSpeedOne = typeof duration === 'number' ? duration : draw(state, duration);
  return Math.max(1, Math.round(atSpeedOne / state.config.speed));
}

export function after(state: DataPlaneState, duration: number | Range, task: TimerTask): void {
  setTimer(state, state.nowMs + durationMs(state, duration), task);
}

export function setTimer(state: DataPlaneState, atMs: number, task: TimerTask): void {
  state.timers.push({ atMs, order: takeOrder(state), task });
}

export function cancelTimers(state: DataPlaneState, isMeant: (task: TimerTask) => boolean): void {
  state.timers = state.timers.filter(({ task }) => !isMeant(task));
}

export function takeOrder(state: DataPlaneState): number {
  state.nextOrder += 1;
  return state.nextOrder;
}

export function hasFault(state: DataPlaneState, kind: FaultKind, pod?: string): boolean {
  return state.faults.some(
    (fault) => fault.kind === kind && (pod === undefined || ('pod' in fault && fault.pod === pod)),
  );
}

export function membersOf(state: DataPlaneState): Member[] {
  return Object.values(state.members);
}

export function isAlive({ process }: Member): boolean {
  return process === 'running' || process === 'stopping';
}

/** Whether the other members, and who appoints leaders, reach this one. */
export function isReachable(state: DataPlaneState, member: Member): boolean {
  return isAlive(member) && !hasFault(state, 'cutOff', member.pod.name);
}

export function isCutOffFromEveryone(state: DataPlaneState, { pod }: Member): boolean {
  return state.faults.some(
    (fault) => fault.kind === 'cutOff' && fault.pod === pod.name && fault.from === 'everyone',
  );
}

/** The state of a data plane that nothing runs on yet. */
export function createState(
  config: DataPlaneConfig,
  options: { readonly nowMs: number; readonly seed: number; readonly cells: readonly string[] },
): DataPlaneState {
  const state: DataPlaneState = {
    config,
    nowMs: options.nowMs,
    random: options.seed | 0,
    nextOrder: 0,
    timers: [],
    cells: [],
    members: {},
    volumes: {},
    consensus: {
      decision: null,
      proposal: null,
      lsn: 0x200_0028,
      loss: null,
      bootstrap: { lastRegisteredAtMs: options.nowMs, isFirstRuleScheduled: false },
    },
    topology: null,
    outbox: [],
    isCycleWaiting: false,
    parked: [],
    switchover: null,
    backups: noBackups,
    faults: [],
  };
  for (const cell of options.cells) {
    addCell(state, cell);
  }
  after(state, [0, timing.cycleMs], { kind: 'cycle' });
  return state;
}

/**
 * A copy that shares only what never changes: a change of one of the two leaves the other as it is. By hand, because
 * whoever tries many futures of one state copies it more often than anything happens in it.
 */
export function copyState(state: DataPlaneState): DataPlaneState {
  const { consensus, switchover } = state;
  return {
    ...state,
    timers: [...state.timers],
    cells: [...state.cells],
    members: copyEach(state.members),
    volumes: { ...state.volumes },
    consensus: {
      ...consensus,
      loss: consensus.loss === null ? null : { ...consensus.loss },
      bootstrap: { ...consensus.bootstrap },
    },
    outbox: state.outbox.map((write) => ({ ...write })),
    parked: [...state.parked],
    switchover:
      switchover === null ? null : { ...switchover, requestIds: [...switchover.requestIds] },
  };
}

function copyEach<T extends object>(items: { readonly [key: string]: T }): { [key: string]: T } {
  const copy: { [key: string]: T } = {};
  for (const key in items) {
    copy[key] = { ...items[key]! };
  }
  return copy;
}

const nameLetters = '23456789bcdfghjklmnpqrstvwxz'.split('');

/** @returns the id of the read */
export function askForTopology({ state, outputs }: Turn, prefixes: readonly string[]): number {
  const id = takeOrder(state);
  outputs.push({ kind: 'readTopology', id, prefixes });
  return id;
}

/** A cell with the services that run in each. */
export function addCell(state: DataPlaneState, name: string): void {
  const serviceName = () =>
    Array.from({ length: 8 }, () => pick(state, nameLetters) ?? '').join('');
  state.cells.push({
    name,
    orch: serviceName(),
    gateway: serviceName(),
    pidPrefix: 100 + Math.floor(draw(state, [0, 899])),
  });
}
