import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import type { ControlPlane } from '#infra/local/control-plane/control-plane.ts';
import { FaultyProxy, type ProxiedRequest, type Rule, type Treatment } from './faulty-proxy.ts';
import type { Herd } from './herd.ts';
import { HintLedger } from './hint-ledger.ts';
import { missingControlPlane } from './local-control-plane.ts';
import { messagesIn, useQueueProcess } from './queue-contents.ts';
import {
  RelayScene,
  eventually,
  untilAllTold,
  useCluster,
  watchedResources,
} from './relay-scene.ts';
import { type RelayOptions, RelayUnderTest } from './relay-under-test.ts';

/**
 * What can happen between the relay and the API server, on a real one with a real etcd, and what the relay does about
 * it. Each row is a test: changes are made while the fault is on, it heals, and then the count of final states without
 * a hint must be 0, nothing that exists may have been called deleted, and the metrics and the log line must show it.
 */
interface ApiFault {
  readonly fault: string;
  /** What the relay does. */
  readonly reaction: string;
  /** Metrics that have grown afterwards, without their prefix. */
  readonly grown: readonly string[];
  /** Metrics that have not. */
  readonly still?: readonly string[];
  /** Log lines that tell of it; `why` is looked for in the line's field of that name. */
  readonly says: { readonly msg: string; readonly why?: RegExp };
  /** Usually the one `asInProduction`. */
  readonly relay?: RelayOptions['kind'];
  /** What the API server's stand-in does from the relay's start on. */
  readonly fromStart?: Rule;
  /** Whether the relay has caught up before the fault begins; usually it has. */
  readonly isCalmFirst?: false;
  /** From the fault's begin until it has healed. */
  readonly play: (scene: RelayScene) => Promise<void>;
}

const faults: readonly ApiFault[] = [
  {
    fault: 'the connection to the API server is refused',
    reaction: 'tries again after 0.1 s to 5 s and goes on from its version',
    grown: ['watch_failures_total'],
    still: ['lists_total'],
    says: { msg: 'watch failed', why: /ECONNREFUSED|closed|hang up|ECONNRESET/ },
    play: refusedConnection,
  },
  {
    fault: 'open watches and new requests are silent (L4)',
    reaction: 'gives them up after the silence limit and goes on from its version',
    grown: ['silent_total{kind="Shard"}', 'silent_total{kind="Pod"}'],
    says: { msg: 'watch went silent' },
    relay: 'impatient',
    play: silence,
  },
  {
    fault: 'streamed lists are never answered, from the relay’s start',
    reaction: 'is not ready, gives each up after the silence limit, and starts over',
    grown: ['silent_total', 'lists_total'],
    says: { msg: 'watch went silent' },
    relay: 'impatient',
    fromStart: () => ({ kind: 'withholdReply' }),
    isCalmFirst: false,
    play: silentStart,
  },
  {
    fault: 'pages of a list are never answered, from the relay’s start',
    reaction: 'is not ready, gives each up after its limit, and starts over',
    grown: ['watch_failures_total', 'lists_total{how="pages"}'],
    says: { msg: 'watch failed', why: /no answer/ },
    relay: 'impatient',
    fromStart: (request) => withoutStreamingLists(request) ?? { kind: 'withholdReply' },
    isCalmFirst: false,
    play: silentStart,
  },
  {
    fault: 'watches are refused with 429 and Retry-After',
    reaction: 'waits as long as it was asked, and keeps its version',
    grown: ['watch_failures_total'],
    still: ['lists_total', 'gone_total'],
    says: { msg: 'watch failed', why: /429/ },
    play: busyForWatches,
  },
  {
    fault: 'lists are refused with 429 and Retry-After',
    reaction: 'waits as long as it was asked before it lists again',
    grown: ['watch_failures_total', 'lists_total', 'gone_total{kind="Shard",where="watch"}'],
    says: { msg: 'watch failed', why: /429/ },
    play: busyForLists,
  },
  {
    fault: 'a paged list fails after its first page (F8)',
    reaction: 'forgets what it had of it and starts over',
    grown: ['watch_failures_total', 'lists_total{how="pages"}'],
    says: { msg: 'watch failed', why: /500/ },
    relay: 'withSmallPages',
    fromStart: withoutStreamingLists,
    play: failingPages,
  },
  {
    fault: 'a streamed list breaks off half-way (F8)',
    reaction: 'forgets what it had of it and starts over',
    grown: ['watch_failures_total', 'lists_total{how="stream"}'],
    says: { msg: 'watch failed' },
    play: brokenLists,
  },
  {
    fault: 'watches break in the middle of a line',
    reaction: 'does not read the half line and goes on from the last whole one',
    grown: ['watch_failures_total'],
    still: ['lists_total'],
    says: { msg: 'watch failed' },
    play: brokenLines,
  },
  {
    fault: 'the relay is killed three times (F14)',
    reaction: 'the next one hints at everything once',
    grown: ['hints_total{step="drain-step",why="resync"}', 'lists_total'],
    says: { msg: 'listed' },
    play: killedRelay,
  },
  {
    fault: 'two relays run, until one of them is killed (F15)',
    reaction: 'tells of everything, as the other does, and goes on alone (L5)',
    grown: [
      'hints_total{step="drain-step",why="changed"}',
      'hints_total{step="pool-pods",why="deleted"}',
    ],
    still: ['send_failures_total'],
    says: { msg: 'listed' },
    play: twoRelays,
  },
];

/** These break the API server for everybody, so they run one after the other. */
const faultsForAll: readonly ApiFault[] = [
  {
    fault: 'the API server is killed and started again on the same data',
    reaction: 'keeps trying, and lists anew where its version is unknown',
    grown: ['watch_failures_total'],
    says: { msg: 'watch failed', why: /aborted|ECONNREFUSED|closed|hang up|ECONNRESET/ },
    play: killedApiServer,
  },
];

/** On an API server without a watch cache, where the history is etcd's own and ends where etcd was compacted. */
const faultsOfHistory: readonly ApiFault[] = [
  {
    fault: 'etcd was compacted while the relay was cut off (F16, F24)',
    reaction:
      'is told that its version is gone, lists anew, and finds the deletions by comparing (L3)',
    grown: [
      'gone_total{kind="Shard",where="stream"}',
      'gone_total{kind="Pod",where="stream"}',
      'lists_total',
      'gaps_total',
    ],
    says: { msg: 'history is gone, listing anew' },
    play: compactedHistory,
  },
  {
    fault: 'etcd is compacted between two pages of a list (F8)',
    reaction: 'is told that the list’s version is gone, forgets the first page and lists anew',
    grown: ['gone_total{kind="Shard",where="list"}', 'lists_total'],
    says: { msg: 'history is gone, listing anew' },
    relay: 'withSmallPages',
    fromStart: withoutStreamingLists,
    play: compactedPages,
  },
];

/** One that knows its answer at once, so that it can be one of several. */
type PromptRule = (request: ProxiedRequest) => Treatment | undefined;

const stage = 'api-faults';
const targets = 12;

/** Changes while a fault is on, besides the targets and pods that come and go. */
const changes = 60;

/** What the stand-in asks for with its 429, in seconds. */
const retryAfterSeconds = 2;

const ledgers: HintLedger[] = [];

describe.skipIf(missingControlPlane !== undefined)('between relay and API server', () => {
  const queue = useQueueProcess(stage);

  describe('with its usual watch cache', () => {
    const controlPlane = useCluster();

    test.concurrent.for(faults)('$fault: it $reaction', { timeout: 180_000 }, (row) =>
      playRow(row, controlPlane(), queue().url),
    );

    test.for(faultsForAll)('$fault: it $reaction', { timeout: 180_000 }, (row) =>
      playRow(row, controlPlane(), queue().url),
    );
  });

  describe('with etcd’s own history', () => {
    const controlPlane = useCluster(['--watch-cache=false']);

    test.for(faultsOfHistory)('$fault: it $reaction', { timeout: 180_000 }, (row) =>
      playRow(row, controlPlane(), queue().url),
    );
  });

  test('every hint that was counted is in the queue, and no other', async () => {
    const counted = ledgers.reduce((sum, { hints }) => sum + hints.length, 0);

    expect(await messagesIn(queue().url, stage)).toBe(counted);
    expect(counted).toBeGreaterThan(0);
  });
});

async function playRow(row: ApiFault, controlPlane: ControlPlane, queueUrl: string): Promise<void> {
  await using scene = await RelayScene.open({
    controlPlane,
    queueUrl,
    stage,
    namespace: namespaceOf(row.fault),
    targets,
    relay: row.relay ?? 'asInProduction',
    ...(row.fromStart === undefined ? {} : { rule: row.fromStart }),
  });
  ledgers.push(scene.ledger, scene.otherLedger);
  await (row.isCalmFirst === false ? undefined : scene.untilCalm());
  const { relay } = scene;
  const metrics = [...row.grown, ...(row.still ?? [])];
  const before = row.isCalmFirst === false ? metrics.map(() => 0) : await read(relay, metrics);
  const written = scene.ledger.writes;

  await row.play(scene);
  await scene.untilCalm();

  const statesWithoutHint = scene.ledger.withoutHint().length;
  expect(statesWithoutHint).toBe(0);
  expect(scene.ledger.falselyDeleted()).toEqual([]);
  expect(scene.ledger.writes - written).toBeGreaterThanOrEqual(changes);
  const after = await read(scene.relay, metrics);
  const grew = metrics.filter((_, place) => {
    // Another relay in its place has counted from 0.
    const start = scene.relay === relay ? (before[place] ?? 0) : 0;
    return (after[place] ?? 0) > start;
  });
  expect(grew).toEqual(row.grown);
  const { msg, why = /^/ } = row.says;
  const said = scene.relay.log.where({ msg }).map((line) => JSON.stringify(line['why'] ?? ''));
  expect(
    said.filter((text) => why.test(text)),
    said.join('; '),
  ).not.toEqual([]);
}

async function changeEverything(herd: Herd): Promise<void> {
  await herd.change(changes);
  await herd.turnOver();
}

async function refusedConnection({ apiServer, herd, relay }: RelayScene): Promise<void> {
  apiServer.refuse();
  await changeEverything(herd);
  await untilMore(relay, 'watch_failures_total', 2 * watchedResources);
  await apiServer.heal();
}

async function silence({ apiServer, herd, relay }: RelayScene): Promise<void> {
  apiServer.fallSilent();
  await changeEverything(herd);
  // The first is the open watch, which stops; the second the request for another, which nobody answers.
  for (const kind of ['Shard', 'Pod']) {
    await untilMore(relay, `silent_total{kind="${kind}"}`, 1);
  }
  await apiServer.heal();
}

/** Nothing is taken away meanwhile: a relay that never knew a target owes nobody news of its end. */
async function silentStart({ apiServer, herd, relay }: RelayScene): Promise<void> {
  await herd.change(changes);
  await eventually(
    'it serves its health',
    () => relay.readiness(),
    (status) => status !== 0,
  );
  const givenUp = async () =>
    (await relay.metric('watch_failures_total')) + (await relay.metric('silent_total'));
  await eventually(
    'each list was given up twice',
    givenUp,
    (times) => times >= 2 * watchedResources,
  );
  expect(await relay.readiness()).toBe(503);
  expect(await relay.metric('lists_total')).toBe(0);
  await apiServer.heal();
  await relay.ready;
  expect(await relay.readiness()).toBe(200);
}

function busyForWatches(scene: RelayScene): Promise<void> {
  return refuseAsBusy(scene, isWatch);
}

function busyForLists(scene: RelayScene): Promise<void> {
  return refuseAsBusy(scene, isList, loseHistoryOnce());
}

/** Each resource's first two requests of a sort are refused, unless a rule before it has another answer. */
async function refuseAsBusy(
  scene: RelayScene,
  isAlike: (request: ProxiedRequest) => boolean,
  ...before: readonly PromptRule[]
): Promise<void> {
  const refused: ProxiedRequest[] = [];
  const refuse = times(2, isAlike, (request) => {
    refused.push(request);
    return tooManyRequests;
  });
  scene.apiServer.treat(firstOf(...before, refuse));
  scene.apiServer.endAnswers();
  await changeEverything(scene.herd);
  await untilWaitedOut(scene, refused, 2 * watchedResources, isAlike);
}

/** The next request of its kind came only after the time that each refusal asked for. */
async function untilWaitedOut(
  { apiServer }: RelayScene,
  refused: readonly ProxiedRequest[],
  count: number,
  isAlike: (request: ProxiedRequest) => boolean,
): Promise<void> {
  const next = (refusal: ProxiedRequest) =>
    apiServer.requests.find(
      (request) =>
        resourceOf(request) === resourceOf(refusal) &&
        request.atMs > refusal.atMs &&
        isAlike(request),
    );
  await eventually(
    `${count} refusals were followed by another request`,
    () => refused.filter(next).length,
    (followed) => followed === count,
  );
  const waitsMs = refused.map((refusal) => (next(refusal)?.atMs ?? 0) - refusal.atMs);
  expect(Math.min(...waitsMs)).toBeGreaterThanOrEqual(retryAfterSeconds * 1000);
}

function failingPages(scene: RelayScene): Promise<void> {
  const failing = times(2, isLaterPage, () => ({
    kind: 'answer',
    status: 500,
    body: { kind: 'Status', code: 500 },
  }));
  return listAgainThrough(scene, firstOf(withoutStreamingLists, loseHistoryOnce(), failing));
}

function brokenLists(scene: RelayScene): Promise<void> {
  const broken = times(2, isList, () => ({ kind: 'cut', afterLines: 3 }));
  return listAgainThrough(scene, firstOf(loseHistoryOnce(), broken));
}

async function listAgainThrough(
  { apiServer, herd, relay }: RelayScene,
  rule: PromptRule,
): Promise<void> {
  apiServer.treat(rule);
  const lists = await relay.metric('lists_total');
  apiServer.endAnswers();
  await changeEverything(herd);
  await untilMore(relay, 'lists_total', lists + 2);
  await apiServer.heal();
}

async function brokenLines(scene: RelayScene): Promise<void> {
  const { apiServer, herd, relay } = scene;
  for (let round = 1; round <= 3; round += 1) {
    const open = ['Shard', 'Pod'].map((kind) => `watch_failures_total{kind="${kind}"}`);
    const before = await read(relay, open);
    await scene.untilWatching();
    apiServer.breakAnswers();
    await herd.change(2 * herd.size);
    for (const [place, metric] of open.entries()) {
      await untilMore(relay, metric, before[place] ?? 0);
    }
  }
  await herd.turnOver();
}

/** Nothing is taken away meanwhile: what was deleted while no relay lived nobody remembers, and no step needs to. */
async function killedRelay(scene: RelayScene): Promise<void> {
  const start = scene.ledger.writes;
  const killThrice = async () => {
    for (const share of [0.2, 0.4, 0.6]) {
      await untilWritten(scene, start + share * 2 * changes);
      await scene.killAndReplaceRelay();
    }
  };
  await Promise.all([scene.herd.change(2 * changes), killThrice()]);
}

async function killedApiServer(scene: RelayScene): Promise<void> {
  const { controlPlane, herd, ledger, relay } = scene;
  const start = ledger.writes;
  const failures = await relay.metric('watch_failures_total');
  const killAndRestart = async () => {
    await untilWritten(scene, start + changes / 2);
    await controlPlane.kill('apiServer');
    await untilMore(relay, 'watch_failures_total', failures + 3);
    await controlPlane.restart('apiServer');
  };
  await Promise.all([herd.change(2 * changes), killAndRestart()]);
  await herd.turnOver();
}

async function compactedHistory({ apiServer, herd, controlPlane }: RelayScene): Promise<void> {
  apiServer.refuse();
  await changeEverything(herd);
  await compact(controlPlane.etcdEndpoint);
  await apiServer.heal();
}

async function compactedPages(scene: RelayScene): Promise<void> {
  const { apiServer, herd, controlPlane, relay } = scene;
  const lists = await relay.metric('lists_total');
  const begun = Promise.withResolvers<void>();
  const compacted = Promise.withResolvers<void>();
  const refuse = firstOf(withoutStreamingLists, loseHistoryOnce());
  apiServer.treat(async (request) => {
    const refusal = refuse(request);
    if (refusal === undefined && isLaterPage(request) && request.path.endsWith('/shards')) {
      begun.resolve();
      await compacted.promise;
    }
    return refusal ?? { kind: 'pass' };
  });
  apiServer.endAnswers();
  await begun.promise;
  // The list's version must be older than the newest write: what is compacted ends before that one.
  await herd.change(1);
  await compact(controlPlane.etcdEndpoint);
  compacted.resolve();
  await changeEverything(herd);
  await untilMore(relay, 'lists_total', lists + 2);
  await apiServer.heal();
}

async function twoRelays(scene: RelayScene): Promise<void> {
  const { herd, relay, ledger, otherLedger } = scene;
  await using queue = await FaultyProxy.start({
    target: scene.queue.target,
    onAnswer: otherLedger.observe,
  });
  await using other = await scene.startAnotherRelay(queue.url);
  await other.ready;
  await untilAllTold(otherLedger);
  const before = await read(relay, ['hints_total']);

  await changeEverything(herd);
  await scene.untilCalm();
  await untilAllTold(otherLedger);
  const [sent, sentByOther] = await Promise.all(
    [relay, other].map((each) => each.metric('hints_total')),
  );
  const removals = [ledger, otherLedger].map((each) => each.removals());
  await Promise.all([herd.change(changes), other.kill()]);
  await herd.turnOver();

  // Each has told of everything, the ends included: together they are duplicates, and nothing else.
  expect(sent).toBeGreaterThan(before[0] ?? 0);
  expect(sentByOther).toBeGreaterThan(2 * targets);
  expect(removals[0]).toEqual(removals[1]);
  expect(otherLedger.falselyDeleted()).toEqual([]);
}

const tooManyRequests: Treatment = {
  kind: 'answer',
  status: 429,
  headers: { 'retry-after': String(retryAfterSeconds) },
  body: { kind: 'Status', code: 429, reason: 'TooManyRequests' },
};

/** What a server answers that cannot stream lists; the relay has to read pages then. */
function withoutStreamingLists({ query }: ProxiedRequest): Treatment | undefined {
  const message = 'sendInitialEvents is forbidden for watch unless the WatchList feature is on';
  return query.has('sendInitialEvents')
    ? {
        kind: 'answer',
        status: 422,
        body: { kind: 'Status', status: 'Failure', code: 422, reason: 'Invalid', message },
      }
    : undefined;
}

/** Every resource's next watch is told that its version is gone, so that everything is listed. */
function loseHistoryOnce(): PromptRule {
  return times(1, isWatch, () => ({
    kind: 'answer',
    status: 410,
    body: { kind: 'Status', status: 'Failure', code: 410, reason: 'Expired' },
  }));
}

/** Pods are two resources: those with the label of each kind of target. */
function resourceOf({ path, query }: ProxiedRequest): string {
  return `${path}?${query.get('labelSelector') ?? ''}`;
}

/** Treats the first so many requests of a sort to each resource. */
function times(
  limit: number,
  isMeant: (request: ProxiedRequest) => boolean,
  treat: (request: ProxiedRequest) => Treatment,
): PromptRule {
  const counts = new Map<string, number>();
  return (request) => {
    const resource = resourceOf(request);
    const count = counts.get(resource) ?? 0;
    if (!isMeant(request) || count >= limit) {
      return undefined;
    }
    counts.set(resource, count + 1);
    return treat(request);
  };
}

function firstOf(...rules: readonly PromptRule[]): PromptRule {
  return (request) => {
    for (const rule of rules) {
      const treatment = rule(request);
      if (treatment !== undefined) {
        return treatment;
      }
    }
    return undefined;
  };
}

function isWatch({ query }: ProxiedRequest): boolean {
  return query.has('watch') && !query.has('sendInitialEvents');
}

function isList(request: ProxiedRequest): boolean {
  return !isWatch(request);
}

function isLaterPage({ query }: ProxiedRequest): boolean {
  return query.has('continue');
}

const rangeSchema = z.object({ header: z.object({ revision: z.string() }) });

/** Drops all of etcd's history up to now, through its JSON gateway. */
async function compact(endpoint: string): Promise<void> {
  const ask = async (path: string, body: object): Promise<unknown> => {
    const response = await fetch(`${endpoint}${path}`, {
      method: 'POST',
      body: JSON.stringify(body),
    });
    expect(response.status).toBe(200);
    return response.json();
  };
  const key = Buffer.from('/').toString('base64');
  const { header } = rangeSchema.parse(await ask('/v3/kv/range', { key }));
  await ask('/v3/kv/compaction', { revision: header.revision, physical: true });
}

async function untilMore(relay: RelayUnderTest, metric: string, than: number): Promise<void> {
  await eventually(
    `${metric} is more than ${than}`,
    () => relay.metric(metric),
    (value) => value > than,
  );
}

async function untilWritten({ ledger }: RelayScene, count: number): Promise<void> {
  await eventually(
    `${count} writes are answered`,
    () => ledger.writes,
    (writes) => writes > count,
  );
}

function read(relay: RelayUnderTest, metrics: readonly string[]): Promise<number[]> {
  return Promise.all(metrics.map((metric) => relay.metric(metric)));
}

function namespaceOf(fault: string): string {
  return fault
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .slice(0, 50)
    .replaceAll(/^-+|-+$/g, '');
}
