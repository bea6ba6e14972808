import * as z from 'zod';
import type { PoolerId } from '#shared/topology/topology.ts';
import { askedFor, failure, parseJson, reply } from './admin-answers.ts';
import {
  cellBody,
  databaseBody,
  gatewaysBody,
  orchsBody,
  poolerBody,
  statusBody,
} from './admin-bodies.ts';
import {
  answeringAdmin,
  entries,
  isPoolerKey,
  poolersOnRecord,
  reachedByAdmin,
} from './admin-reach.ts';
import { acceptBackup, listBackups, showJob } from './backup-requests.ts';
import { abortBackups } from './backup-runs.ts';
import {
  cellKey,
  fromBase64,
  poolerKey,
  poolerRecord,
  recordOf,
  topologyPrefixes,
} from './records.ts';
import {
  type AdminReply,
  type AdminRequest,
  type DataPlaneState,
  type TimerTask,
  type Turn,
  askForTopology,
  cancelTimers,
  durationMs,
  hasFault,
  membersOf,
  setTimer,
} from './state.ts';
import { resign } from './switchover.ts';
import { timing } from './timing.ts';

const noRoute: AdminReply = { status: 404, body: '404 page not found\n' };

/** A question to multiadmin. It is answered by what etcd says once it was read. */
export function askAdmin(turn: Turn, request: AdminRequest): void {
  const { state, outputs } = turn;
  if (hasFault(state, 'adminDown')) {
    outputs.push({ kind: 'adminDrop', requestId: request.id });
  } else if (hasFault(state, 'adminUnauthorized')) {
    reply(turn, request.id, failure('unauthenticated', 'no valid credentials'));
  } else {
    state.parked.push({ request, readId: askForTopology(turn, topologyPrefixes(state)) });
  }
}

/** Answers what was asked before this read of etcd began. */
export function answerParked(turn: Turn, readId: number): void {
  for (const request of takeParked(turn.state, readId)) {
    answer(turn, request);
  }
}

export function failParked(turn: Turn, readId: number): void {
  for (const request of takeParked(turn.state, readId)) {
    reply(turn, request.id, failure('unavailable', 'the topology server does not answer'));
  }
}

function takeParked(state: DataPlaneState, readId: number): AdminRequest[] {
  const due = state.parked.filter((parked) => parked.readId <= readId);
  state.parked = state.parked.filter((parked) => parked.readId > readId);
  return due.map(({ request }) => request);
}

interface Route {
  readonly method: 'GET' | 'POST';
  readonly pattern: RegExp;
  /** `undefined`: the answer comes later. */
  readonly answer: (
    turn: Turn,
    request: AdminRequest,
    names: readonly string[],
  ) => AdminReply | undefined;
}

const routes: readonly Route[] = [
  {
    method: 'GET',
    pattern: /^\/api\/v1\/cells$/,
    answer: ({ state }) => listNames(state, `${state.config.globalRoot}/cells/`, '/Cell'),
  },
  {
    method: 'GET',
    pattern: /^\/api\/v1\/cells\/([^/]+)$/,
    answer: ({ state }, _, [cell = '']) =>
      showRecord(state, cellKey(state.config, cell), `cell ${cell}`, cellBody),
  },
  {
    method: 'GET',
    pattern: /^\/api\/v1\/databases$/,
    answer: ({ state }) => listNames(state, `${state.config.globalRoot}/databases/`, '/Database'),
  },
  {
    method: 'GET',
    pattern: /^\/api\/v1\/databases\/([^/]+)$/,
    answer: ({ state }, _, [database = '']) =>
      showRecord(
        state,
        `${state.config.globalRoot}/databases/${database}/Database`,
        `database ${database}`,
        databaseBody,
      ),
  },
  {
    method: 'GET',
    pattern: /^\/api\/v1\/poolers$/,
    answer: ({ state }, request) => listPoolers(state, request),
  },
  {
    method: 'GET',
    pattern: /^\/api\/v1\/gateways$/,
    answer: ({ state }, request) => ({
      status: 200,
      body: gatewaysBody(cellsAskedFor(state, request)),
    }),
  },
  {
    method: 'GET',
    pattern: /^\/api\/v1\/orchs$/,
    answer: ({ state }, request) => ({
      status: 200,
      body: orchsBody(cellsAskedFor(state, request)),
    }),
  },
  {
    method: 'GET',
    pattern: /^\/api\/v1\/poolers\/([^/]+)\/([^/]+)\/status$/,
    answer: ({ state }, _, [cell = '', name = '']) => showStatus(state, { cell, name }),
  },
  {
    method: 'POST',
    pattern: /^\/api\/v1\/shards\/([^/]+)\/([^/]+)\/([^/]+)\/switch-primary$/,
    answer: ({ state }, request, [database = '', tableGroup = '', shard = '']) => {
      const { config } = state;
      const isOurs =
        database === config.shard.database &&
        tableGroup === config.shard.tableGroup &&
        shard === config.shard.shard;
      return isOurs ? acceptSwitch(state, request) : failure('notFound', noPrimary);
    },
  },
  {
    method: 'POST',
    pattern: /^\/api\/v1\/backups$/,
    answer: acceptBackup,
  },
  {
    method: 'GET',
    pattern: /^\/api\/v1\/backups$/,
    answer: listBackups,
  },
  {
    method: 'GET',
    pattern: /^\/api\/v1\/jobs\/([^/]+)$/,
    answer: (turn, request, [jobId = '']) => showJob(turn, request, jobId),
  },
];

const noPrimary = 'no PRIMARY pooler found';

function answer(turn: Turn, request: AdminRequest): void {
  for (const { method, pattern, answer } of routes) {
    const match = pattern.exec(request.path);
    if (match !== null && method === request.method) {
      const result = answer(turn, request, match.slice(1));
      if (result !== undefined) {
        reply(turn, request.id, result);
      }
      return;
    }
  }
  reply(turn, request.id, noRoute);
}

function listNames(state: DataPlaneState, prefix: string, suffix: string): AdminReply {
  const names = entries(state)
    .filter(({ key }) => key.startsWith(prefix) && key.endsWith(suffix))
    .map(({ key }) => key.slice(prefix.length, -suffix.length))
    .filter((name) => !name.includes('/'));
  return { status: 200, body: names.length === 0 ? {} : { names } };
}

function showRecord(
  state: DataPlaneState,
  key: string,
  subject: string,
  body: (value: Uint8Array) => unknown,
): AdminReply {
  const entry = entries(state).find((candidate) => candidate.key === key);
  if (entry === undefined) {
    return failure('notFound', `${subject} not found`);
  }
  try {
    return { status: 200, body: body(fromBase64(entry.value)) };
  } catch {
    return failure('internal', `the record of ${subject} cannot be decoded`);
  }
}

function cellsAskedFor(state: DataPlaneState, request: AdminRequest) {
  const cells = askedFor(request, 'cells');
  return state.cells.filter(({ name }) => cells.length === 0 || cells.includes(name));
}

function listPoolers(state: DataPlaneState, request: AdminRequest): AdminReply {
  const cells = askedFor(request, 'cells');
  const [database] = askedFor(request, 'database');
  const [tableGroup] = askedFor(request, 'tableGroup');
  const [shard] = askedFor(request, 'shard');
  if (shard !== undefined && tableGroup === undefined) {
    return failure('invalidArgument', 'a shard can be asked for within a table group only');
  }
  const bodies: unknown[] = [];
  for (const entry of entries(state).filter(isPoolerKey)) {
    const decoded = poolerRecord(entry.value);
    if (decoded.kind === 'undecodable') {
      return failure('internal', `${entry.key} cannot be decoded: ${decoded.why}`);
    }
    const { record } = decoded;
    const isAskedFor =
      (cells.length === 0 || cells.includes(record.id.cell)) &&
      (database === undefined || database === record.shard.database) &&
      (tableGroup === undefined || tableGroup === record.shard.tableGroup) &&
      (shard === undefined || shard === record.shard.shard);
    if (isAskedFor) {
      bodies.push(poolerBody(fromBase64(entry.value)));
    }
  }
  return { status: 200, body: bodies.length === 0 ? {} : { poolers: bodies } };
}

/** The service finds a pooler by its record and asks it: without the one it knows none, without an answer it fails. */
function showStatus(state: DataPlaneState, id: PoolerId): AdminReply {
  const subject = `pooler ${id.cell}/${id.name}`;
  const key = poolerKey(state.config, id);
  const entry = entries(state).find((candidate) => candidate.key === key);
  if (entry === undefined) {
    return failure('notFound', `${subject} not found`);
  }
  if (poolerRecord(entry.value).kind === 'undecodable') {
    return failure('internal', `the record of ${subject} cannot be decoded`);
  }
  const member = answeringAdmin(state, id);
  if (member === undefined) {
    return failure('internal', `${subject} does not answer: code = Unavailable`);
  }
  return { status: 200, body: statusBody(state, member) };
}

const switchRequest = z.object({ reason: z.string().default('') });

/** Not yet answered: who asks waits for the leader's resignation, and before it for the end of an election's backoff. */
function acceptSwitch(state: DataPlaneState, request: AdminRequest): AdminReply | undefined {
  const isReadable = switchRequest.safeParse(parseJson(request.body)).success;
  if (!isReadable) {
    return failure('invalidArgument', 'the body is no switch-primary request');
  }
  const refusal = refuseSwitch(state);
  if (refusal !== undefined) {
    return refusal;
  }
  const electedAtMs = state.consensus.decision?.revocation.atMs ?? 0;
  const backoffEndMs = electedAtMs + durationMs(state, timing.electionBackoffMs);
  setTimer(state, Math.max(state.nowMs, backoffEndMs), {
    kind: 'beginSwitchover',
    requestId: request.id,
  });
  return undefined;
}

/**
 * By the records alone, as the service does it: a second record is a standby for it, whatever that record says. So it
 * asks even a last live node to resign.
 */
function refuseSwitch(state: DataPlaneState): AdminReply | undefined {
  const records = poolersOnRecord(state);
  if (!records.some(({ role }) => role === 'primary')) {
    return failure('notFound', noPrimary);
  }
  return records.length < 2
    ? failure('failedPrecondition', 'there is no standby to switch to')
    : undefined;
}

/** The leader that the records name is asked to resign; the highest rule's where two claim it. */
export function beginSwitchover(turn: Turn, requestId: number): void {
  const { state } = turn;
  const claimants = membersOf(state)
    .filter(({ id }) => {
      const record = recordOf(state, id);
      return record.kind === 'live' && record.isPrimary;
    })
    .toSorted((a, b) => (b.roleRule?.term ?? 0) - (a.roleRule?.term ?? 0));
  const [leader] = claimants;
  if (leader === undefined || reachedByAdmin(state, leader.id) !== leader) {
    reply(turn, requestId, failure('internal', 'the leader does not answer: code = Unavailable'));
    return;
  }
  resign(state, leader, requestId);
}

/** The leader has resigned: whoever asked for it is told, or loses the connection instead. */
export function endSwitchover(turn: Turn): void {
  const { state, outputs } = turn;
  const { switchover } = state;
  state.switchover = null;
  for (const requestId of switchover?.requestIds ?? []) {
    if (hasFault(state, 'lostSwitchReply')) {
      state.faults = state.faults.filter(({ kind }) => kind !== 'lostSwitchReply');
      outputs.push({ kind: 'adminDrop', requestId });
      continue;
    }
    const { cell, name } = switchover?.oldLeader ?? { cell: '', name: '' };
    const oldLeaderId = { component: 'MULTIPOOLER', cell, name };
    reply(turn, requestId, { status: 200, body: { oldLeaderId } });
  }
}

/** The leader died before it had resigned. */
export function failSwitchover(turn: Turn): void {
  const { state } = turn;
  const { switchover } = state;
  const leader = switchover === null ? undefined : state.members[switchover.podUid];
  if (switchover === null || leader?.process === 'running') {
    return;
  }
  state.switchover = null;
  cancelTimers(state, ({ kind }) => kind === 'resign');
  for (const requestId of switchover.requestIds) {
    reply(turn, requestId, failure('internal', 'the leader does not answer: code = Unavailable'));
  }
}

/** The service dies and is there again at once: who waits for an answer is cut off, and what it had in memory is gone. */
export function restartAdmin({ state, outputs }: Turn): void {
  for (const requestId of waitingRequests(state)) {
    outputs.push({ kind: 'adminDrop', requestId });
  }
  state.parked = [];
  if (state.switchover !== null) {
    state.switchover.requestIds.length = 0;
  }
  cancelTimers(state, ({ kind }) => ofTheService.has(kind));
  state.backups = { ...state.backups, jobs: [] };
  abortBackups(state);
}

/** What goes on in the service itself. */
const ofTheService: ReadonlySet<TimerTask['kind']> = new Set([
  'reply',
  'beginSwitchover',
  'callPooler',
]);

function waitingRequests({ parked, switchover, timers, backups }: DataPlaneState): number[] {
  return [
    ...parked.map(({ request }) => request.id),
    ...(switchover?.requestIds ?? []),
    ...timers.flatMap(({ task }) => ('requestId' in task ? [task.requestId] : [])),
    ...backups.line.flatMap((lockTurn) =>
      lockTurn.kind === 'question' ? [lockTurn.requestId] : [],
    ),
  ];
}
