import type { Fault as DataPlaneFault } from '#infra/local/data-plane/fault.ts';
import { forceDrain, recordAnnotation } from '#shared/api/annotations.ts';
import { readDrainRecord } from '#shared/api/drain-record.ts';
import { shardLabel } from '#shared/api/labels.ts';
import type { StepName } from '#shared/api/steps.ts';
import type { KubeResponse } from '#shared/kube/connection.ts';
import { collectionPath } from '#shared/kube/http-kube.ts';
import { type KubeObject, type ObjectRef, resourceTypes } from '#shared/kube/resources.ts';
import { deadRecords, garbleRecord, hideCell } from './dead-records.ts';
import { rewriteDatabaseRecords } from './database-records.ts';
import { goverseNode, killNode, rewriteShards } from './goverse-keys.ts';
import { addField, garble, rewriteRecord } from './pooler-records.ts';
import { worldClusterId, worldNamespace } from './handler.ts';
import { edit, remove } from './person.ts';
import type { Edit, Workload } from './workload.ts';
import { type Interference, type Operation, type World, rightClocks } from './world.ts';
import { twoSteps } from '#test/builders/two-steps.ts';

/** What becomes of the struck question: served as usual, served otherwise, or not now and perhaps never. */
export type Blow = Interference | 'served' | 'not served';

/** One way in which something goes wrong at one question of one handler. */
export interface Fault {
  /** `F1 crash before`: the id is that of the list of faults in test/world/README.md. */
  readonly name: string;
  /** Whether the goal must be reached with the same creates and deletes as without it. */
  readonly isOnlyOurs: boolean;
  /** What it hides is seen at the next resync alone. */
  readonly needsResync?: true;
  /** What the data plane loses by it, for a while or for good. Members are only brought back by both steps together. */
  readonly costs:
    | 'nothing'
    | 'the lead'
    | 'a member'
    | 'a further member'
    | 'every member'
    /** Of GoVerse: another hand-over, or another round of one. */
    | 'a node';
  fits(operation: Pick<Operation, 'call'> & { readonly isFirst: boolean }): boolean;
  strike(operation: Operation, world: World): Promise<Blow> | Blow;
}

type Fits = Fault['fits'];

const onEffects: Fits = ({ call }) => call.isEffect && call.name !== 'create Event';
const onReads: Fits = ({ call }) => !call.isEffect && call.via !== 'queue';
const onApiReads: Fits = ({ call }) => !call.isEffect && call.via === 'api';
const onLists: Fits = ({ call }) => call.name.startsWith('list ');
const onApi: Fits = ({ call }) => call.via === 'api' && call.name !== 'create Event';
const onApiWrites: Fits = (at) => onEffects(at) && at.call.via === 'api';
const onBucket: Fits = ({ call }) => call.via === 'bucket';
const onTopology: Fits = ({ call }) => call.via === 'topology';
const onPuts: Fits = ({ call }) => call.name === 'put owner';
const onShardWrites: Fits = ({ call }) => call.name === 'write shards';
const onFirst: Fits = ({ isFirst }) => isFirst;
/** What happens to the world beside us matters only before something that looks or writes. */
const anywhere: Fits = ({ call }) => call.via !== 'queue' && call.name !== 'create Event';

/** An unfenced request that was asked for is on its way: what stands still then is the network, not the handler. */
const beforeSending: Fits = (at) => anywhere(at) && !unfenced.has(at.call.name);

const unfenced: ReadonlySet<string> = new Set(['switch', 'start backup']);

/** What the operator that Multigres brings along marks the pods with that it drains. */
export const markOfOthers = 'drain.multigres.com/state';

/** Every fault that is the same for all workloads. */
const commonFaults: readonly Fault[] = [
  ours('F1 crash before', onEffects, ({ by }, world) => {
    world.crash(by);
    return 'not served';
  }),
  ours('F2 crash after', onEffects, async (operation, world): Promise<Blow> => {
    await world.serve(operation, { kind: 'silence', isApplied: true });
    const left = world.inFlight.find(({ id }) => id === operation.by.id);
    if (left !== undefined) {
      world.crash(left);
    }
    return 'not served';
  }),
  ours('F3 reply lost, applied', onEffects, () => ({ kind: 'silence', isApplied: true })),
  ours('F4 reply lost, not applied', onEffects, () => ({ kind: 'silence', isApplied: false })),
  ours('F5 conflict', onEffects, (operation, world) => {
    touch(operation, world);
    return 'served';
  }),
  theirs('F6 stale read, 1 write', onApiReads, () => ({ kind: 'past', commits: 1 })),
  theirs('F6 stale read, 2 writes', onApiReads, () => ({ kind: 'past', commits: 2 })),
  ours('F8 read fails', onReads, () => ({ kind: 'silence', isApplied: false })),
  ours('F8 read forbidden', onApiReads, () => refused(403, 'Forbidden')),
  ours('F8 second page gone', onLists, () => ({ kind: 'half' })),
  ours('F9 delivered twice', onFirst, ({ by }, world) => {
    for (const { body } of by.received) {
      world.send(by.step, body);
    }
    return 'served';
  }),
  ours('F10 twin runs first', anywhere, async ({ by }, world): Promise<Blow> => {
    await world.runTwin(by);
    return 'served';
  }),
  ours('F11 hangs 12 s', beforeSending, ({ by }, world) => {
    world.hang(by, 12);
    return 'not served';
  }),
  ours('F11 hangs 29 s', beforeSending, ({ by }, world) => {
    world.hang(by, 29);
    return 'not served';
  }),
  ours('F11 zombie', beforeSending, ({ by }, world) => {
    world.hang(by, 200);
    return 'not served';
  }),
  {
    ...ours('F13 hint lost', onFirst, (_operation, world) => {
      world.hints.lose();
      return 'served';
    }),
    needsResync: true,
  },
  ours('F22 throttled', onApi, () => refused(429, 'TooManyRequests')),
  ours('F22 server error', onApi, () => refused(500, 'InternalError')),
  ours('F22 write forbidden', onApiWrites, () => refused(403, 'Forbidden')),
  ours('F23 API away', onFirst, outage('api')),
  ours('F23 multiadmin away', onFirst, outage('admin')),
  ours('F24 etcd away', onFirst, outage('topology')),
  ours('F24 etcd compacted', onTopology, (_operation, world) => {
    world.etcd.compact(world.etcd.revision);
    return 'served';
  }),
  theirs('F5 pooler record rewritten', onTopology, (_operation, world) => {
    rewriteRecord(world, leaverIn(world) ?? strickenPod(world)?.metadata.name ?? '');
    return 'served';
  }),
  theirs('F24 garbled record', onTopology, (_operation, world) => {
    garble(world, 30);
    return 'served';
  }),
  ours('F28 poison in the batch', onFirst, ({ by }, world) => {
    world.sendPoison(by.step, '{"no":"hint"}');
    return 'served';
  }),
  ours('F28 hint of another cluster', onFirst, ({ by }, world) => {
    const { body = '' } = by.received[0] ?? {};
    world.sendPoison(by.step, body.replace(`"source":"${worldClusterId}"`, '"source":"another"'));
    return 'served';
  }),
  ours('F28 hint of another namespace', onFirst, ({ by }, world) => {
    const { body = '' } = by.received[0] ?? {};
    const elsewhere = body.replace(`"namespace":"${worldNamespace}"`, '"namespace":"elsewhere"');
    world.sendPoison(by.step, elsewhere);
    return 'served';
  }),
  ours('F29 next version', onFirst, (_operation, world) => {
    world.version = 'next';
    world.later('the shipped version again', 30, (at) => (at.version = 'shipped'));
    return 'served';
  }),
  costly('F17 pod replaced', anywhere, (_operation, world) => {
    replacePod(world);
    return 'served';
  }),
  costly('F17 pod deleted', anywhere, (operation, world) => {
    deletePod(operation, world);
    return 'served';
  }),
  {
    ...costly('F17 another pod deleted', anywhere, (_operation, world) => {
      const pod = podOf(world, 'replica');
      if (pod !== undefined) {
        const ref: ObjectRef = { kind: 'Pod', namespace: worldNamespace, name: pod };
        remove(world, ref);
      }
      return 'served';
    }),
    costs: 'a further member',
  },
  costly('F17 pod gone', anywhere, (_operation, world) => {
    removeAtOnce(world);
    return 'served';
  }),
  {
    ...costly('F17 shard replaced', anywhere, (operation, world) => {
      replaceTarget(operation, world);
      return 'served';
    }),
    costs: 'every member',
  },
  theirs('F17 claim replaced', anywhere, (_operation, world) => {
    replaceClaim(world);
    return 'served';
  }),
  theirs(
    'F19 record removed',
    anywhere,
    editRecord(() => null),
  ),
  theirs(
    'F19 record malformed',
    anywhere,
    editRecord(() => '{"v":1,'),
  ),
  theirs(
    'F19 record of no time',
    anywhere,
    editRecord((text) => text.replace(/"since":"[^"]+"/, '"since":"soon"')),
  ),
  theirs(
    'F19 record of the future',
    anywhere,
    editRecord((text) => text.replace('"v":1', '"v":2')),
  ),
  theirs(
    'F19 record of another',
    anywhere,
    editRecord((text) => text.replaceAll(/"uid":"[^"]+"/g, '"uid":"another"')),
  ),
  costly('F19 force for another', anywhere, (operation, world) => {
    const leaver = leaverIn(world);
    const other = world.api.list('Pod').find(({ metadata }) => metadata.name !== leaver);
    if (leaver !== undefined && other !== undefined) {
      annotate(operation, world, { [forceDrain]: other.metadata.uid });
    }
    return 'served';
  }),
  theirs('F19 leaver taken over', anywhere, (_operation, world) => {
    const name = leaverIn(world);
    if (name !== undefined) {
      const ref: ObjectRef = { kind: 'Pod', namespace: worldNamespace, name };
      const mark = (at: World, value: string | null): void =>
        edit(at, ref, { metadata: { annotations: { [markOfOthers]: value } } });
      mark(world, 'draining');
      world.later('another operator gives the pod back', 40, (at) => mark(at, null));
    }
    return 'served';
  }),
  theirs('F19 annotations nearly full', onFirst, (operation, world) => {
    annotate(operation, world, { 'example.com/notes': 'x'.repeat(200 * 1024) });
    return 'served';
  }),
  shaky('F20 lead moves', anywhere, (_operation, world) => {
    moveLead(world);
    return 'served';
  }),
  shaky('F33 lead moves, records late', anywhere, (_operation, world) => {
    holdRecords(world);
    moveLead(world);
    return 'served';
  }),
  theirs('F21 node lost', anywhere, lasting({ kind: 'nodeNotReady' }, 40)),
  ours('F26 one clock ahead', onFirst, skew('handler', 3_600)),
  ours('F26 one clock behind', onFirst, skew('handler', -3_600)),
  theirs('F26 every clock ahead', onFirst, skew('every', 3_600)),
  theirs('F26 every clock behind', onFirst, skew('every', -3_600)),
  costly('F32 leader dies', anywhere, die('leader')),
  costly('F32 leaver dies', anywhere, die('leaver')),
  costly('F32 replica dies', anywhere, die('replica')),
  shaky('F33 two primaries', anywhere, (_operation, world) => {
    cutLeaderOff(world);
    return 'served';
  }),
  shaky('F33 two primaries, records late', anywhere, (_operation, world) => {
    holdRecords(world);
    cutLeaderOff(world);
    return 'served';
  }),
  theirs('F33 undecided proposal', anywhere, lasting({ kind: 'undecidedProposal' }, 15)),
  shaky('F33 nobody leads', anywhere, lasting({ kind: 'noPrimary' }, 15)),
];

const whoBacksUpDies = 'F32 who backs up dies';

/** What goes wrong with backups, and with schedules; only where backup-trigger runs. */
const backupFaults: readonly Fault[] = [
  theirs('F23 multiadmin restarts', anywhere, (_operation, world) => {
    world.fault({ kind: 'adminRestart' });
    return 'served';
  }),
  ours('F31 relay away for 70 s', onFirst, relayAway(70)),
  ours('F31 relay away for 400 s', onFirst, relayAway(400)),
  ours('F31 woken again and again', onFirst, ({ by }, world) => {
    for (const seconds of [1, 2, 4, 7, 11, 16, 22, 29, 37]) {
      world.later('it is woken again', seconds, (at) =>
        by.received.forEach(({ body }) => at.send(by.step, body)),
      );
    }
    return 'served';
  }),
  {
    ...theirs(whoBacksUpDies, anywhere, (_operation, world) => {
      const { line } = world.multigres.state.backups;
      const podUid = line.find(({ kind }) => kind === 'running')?.podUid ?? '';
      const member = world.multigres.state.members[podUid];
      if (member !== undefined) {
        world.fault({ kind: 'podDeath', pod: member.pod.name, leaves: 'failed' });
      }
      return 'served';
    }),
    costs: 'a member',
  },
  theirs('F33 lease held by others', anywhere, lasting({ kind: 'leaseHeld' }, 40)),
  theirs('F33 a backup fails', anywhere, lasting({ kind: 'backupFails', times: 'once' }, 60)),
  theirs('F33 backups hang', anywhere, lasting({ kind: 'backupHangs' }, 100)),
];

/** What becomes of the records that the dead have left, and of those who speak for them; only where etcd-cleanup runs. */
const recordFaults: readonly Fault[] = [
  theirs('F5 dead record rewritten', anywhere, (_operation, world) => {
    const [found] = deadRecords(world);
    if (found !== undefined) {
      addField(world, { key: Buffer.from(found.key), value: found.value });
    }
    return 'served';
  }),
  theirs('F17 pod of a dead name', anywhere, (_operation, world) => {
    makeNamesake(world, 40);
    return 'served';
  }),
  theirs('F23 multiadmin does not reach the leader', anywhere, (_operation, world) => {
    const pod = podOf(world, 'leader');
    if (pod !== undefined) {
      world.fault({ kind: 'poolerUnreachable', pod });
      world.later('multiadmin reaches it again', 40, (at) => at.lift('poolerUnreachable', pod));
    }
    return 'served';
  }),
  theirs('F24 dead record garbled', anywhere, (_operation, world) => {
    const [found] = deadRecords(world);
    if (found !== undefined) {
      garbleRecord(world, found, 30);
    }
    return 'served';
  }),
  theirs('F24 a cell is not found', anywhere, (_operation, world) => {
    hideCell(world, world.multigres.state.cells.at(-1)?.name ?? '', 40);
    return 'served';
  }),
];

/** Who makes pods makes new ones beside those that it cannot find. */
const labelFaults: readonly Fault[] = [
  theirs('F19 every label lost', anywhere, (_operation, world) => {
    loseLabels(world, () => true);
    return 'served';
  }),
  theirs('F19 one label lost', anywhere, (_operation, world) => {
    const leader = podOf(world, 'leader');
    const name = podOf(world, 'replica') ?? leader;
    loseLabels(world, (pod) => pod === name);
    return 'served';
  }),
];

/** What goes wrong with buckets; only where backup-config runs. */
const bucketFaults: readonly Fault[] = [
  ours('F22 bucket throttled', onBucket, () => refusedByBucket(503, 'SlowDown')),
  ours('F22 bucket fails', onBucket, () => refusedByBucket(500, 'InternalError')),
  ours('F22 bucket access denied', onBucket, () => refusedByBucket(403, 'AccessDenied')),
  ours('F25 conflict in the bucket', onPuts, () =>
    refusedByBucket(409, 'ConditionalRequestConflict'),
  ),
  ours('F25 bucket does not answer', onFirst, outage('bucket')),
  theirs('F25 bucket forbidden', anywhere, closedBuckets('isForbidden')),
  theirs('F25 bucket read-only', anywhere, closedBuckets('isReadOnly')),
  theirs('F25 bucket empty', anywhere, (_operation, world) => {
    emptyBuckets(world);
    return 'served';
  }),
  theirs('F25 bucket gone', anywhere, (_operation, world) => {
    const gone = world.buckets.all;
    Object.keys(gone).forEach((name) => world.buckets.remove(name));
    world.later('the buckets are there again', 40, (at) =>
      Object.entries(gone).forEach(([name, bucket]) =>
        at.buckets.set(name, { ...bucket, isForbidden: false, isReadOnly: false }),
      ),
    );
    return 'served';
  }),
  theirs('F17 database replaced', anywhere, (operation, world) => {
    replaceTarget(operation, world);
    return 'served';
  }),
  theirs("F5 the data plane's record rewritten", anywhere, (_operation, world) => {
    rewriteDatabaseRecords(world);
    return 'served';
  }),
];

/** What goes wrong with nodes of GoVerse, and what they do meanwhile; only where shard-release runs. */
const goverseFaults: readonly Fault[] = [
  theirs('F5 shards move', onShardWrites, (_operation, world) => {
    rewriteShards(world);
    return 'served';
  }),
  unsettling('F17 pod replaced', anywhere, (_operation, world) => {
    replacePod(world);
    return 'served';
  }),
  unsettling('F17 pod deleted', anywhere, (operation, world) => {
    deletePod(operation, world);
    return 'served';
  }),
  unsettling('F17 pod gone', anywhere, (_operation, world) => {
    removeAtOnce(world);
    return 'served';
  }),
  unsettling('F17 cluster replaced', anywhere, (operation, world) => {
    replaceTarget(operation, world);
    return 'served';
  }),
  unsettling('F20 a gate joins', anywhere, (_operation, world) => {
    world.goverse?.registerGate(`gate-${world.operations}:49000`, world.etcd);
    return 'served';
  }),
  unsettling('F20 a node joins', anywhere, (_operation, world) => {
    world.goverse?.scale(world.goverse.replicas + 1);
    return 'served';
  }),
  unsettling('F24 lease of the holder ends', anywhere, (_operation, world) => {
    world.goverse?.loseLease(goverseNode(world, 'holder'), world.etcd, world.now);
    return 'served';
  }),
  unsettling('F32 holder dies', anywhere, killNode('holder')),
  unsettling('F32 leading node dies', anywhere, killNode('leader')),
  unsettling('F32 leaving node dies', anywhere, killNode('leaver')),
];

/** Where there are no members, what becomes of them is nothing. */
const ofMembers: ReadonlySet<string> = new Set([
  'F5 pooler record rewritten',
  'F17 claim replaced',
  'F19 leaver taken over',
  'F21 node lost',
  'F23 multiadmin away',
  'F24 garbled record',
  'F33 undecided proposal',
]);

const withoutMembers: ReadonlySet<StepName> = new Set(['backup-config', 'shard-release']);

/** Every fault that may strike this workload: those that are the same for all, and its own edits (F18). */
export function faultsOf(workload: Workload): readonly Fault[] {
  const { steps, edits = [], losesMember } = workload;
  const ofBuckets = steps.includes('backup-config') ? bucketFaults : [];
  const ofGoverse = steps.includes('shard-release') ? goverseFaults : [];
  if (steps.every((step) => withoutMembers.has(step))) {
    const ofAll = commonFaults.filter(
      ({ name, costs }) => costs === 'nothing' && !ofMembers.has(name),
    );
    return [...ofAll, ...ofBuckets, ...ofGoverse, ...ownFaults(edits)];
  }
  const shared = [
    ...commonFaults,
    ...ofBuckets,
    ...(steps.includes('backup-trigger') ? backupFaults : []),
    ...(steps.includes('etcd-cleanup') ? recordFaults : []),
    ...(steps.every((step) => step === 'etcd-cleanup') ? labelFaults : []),
  ];
  const isAlone = steps.every((step) => step === 'backup-trigger');
  const common = shared.filter(
    ({ name, costs }) =>
      costs === 'nothing' ||
      costs === 'the lead' ||
      // Where nobody looks after members, nobody misses the one that backs up either.
      (isAlone && name === whoBacksUpDies) ||
      (twoSteps.every((step) => steps.includes(step)) &&
        (costs !== 'a further member' || losesMember !== true)),
  );
  return [...common, ...ownFaults(edits)];
}

function ownFaults(edits: readonly Edit[]): readonly Fault[] {
  return edits.map(({ name, act }) =>
    theirs(`F18 ${name}`, anywhere, (_operation, world) => {
      act(world);
      return 'served';
    }),
  );
}

function ours(name: string, fits: Fits, strike: Fault['strike']): Fault {
  return { name, isOnlyOurs: true, costs: 'nothing', fits, strike };
}

function theirs(name: string, fits: Fits, strike: Fault['strike']): Fault {
  return { name, isOnlyOurs: false, costs: 'nothing', fits, strike };
}

function unsettling(name: string, fits: Fits, strike: Fault['strike']): Fault {
  return { name, isOnlyOurs: false, costs: 'a node', fits, strike };
}

function shaky(name: string, fits: Fits, strike: Fault['strike']): Fault {
  return { name, isOnlyOurs: false, costs: 'the lead', fits, strike };
}

function costly(name: string, fits: Fits, strike: Fault['strike']): Fault {
  return { name, isOnlyOurs: false, costs: 'a member', fits, strike };
}

function refused(status: number, reason: string): { kind: 'refusal'; response: KubeResponse } {
  return {
    kind: 'refusal',
    response: {
      status,
      ...(status === 429 ? { retryAfterSeconds: 2 } : {}),
      body: {
        kind: 'Status',
        status: 'Failure',
        reason,
        message: `${reason} as a fault`,
        code: status,
      },
    },
  };
}

function refusedByBucket(
  status: number,
  code: string,
): { kind: 'refusal'; response: KubeResponse } {
  return { kind: 'refusal', response: { status, body: { code } } };
}

/** Every bucket for a while. */
function closedBuckets(how: 'isForbidden' | 'isReadOnly'): Fault['strike'] {
  const set = ({ buckets }: World, isClosed: boolean): void =>
    Object.keys(buckets.all).forEach((name) => buckets.set(name, { [how]: isClosed }));
  return (_operation, world) => {
    set(world, true);
    world.later('the buckets are open again', 40, (at) => set(at, false));
    return 'served';
  };
}

/** Somebody removes everything that is in them: whose they are is said nowhere any more. */
function emptyBuckets({ api, buckets }: World): void {
  if (api.list('Database').length > 1) {
    // Who says that a prefix is free gives it to whoever comes first.
    return;
  }
  Object.keys(buckets.all).forEach((name) => buckets.set(name, { objects: {} }));
}

function outage(via: 'api' | 'topology' | 'admin' | 'bucket'): Fault['strike'] {
  return (_operation, world) => {
    world.interrupt(via, 20);
    return 'served';
  };
}

function lasting(
  fault: Exclude<DataPlaneFault, { readonly pod: string }>,
  seconds: number,
): Fault['strike'] {
  return (_operation, world) => {
    world.fault(fault);
    world.later(`${fault.kind} is over`, seconds, (at) => at.lift(fault.kind));
    return 'served';
  };
}

function relayAway(seconds: number): Fault['strike'] {
  return (_operation, world) => {
    world.silenceRelay(seconds);
    return 'served';
  };
}

/** From the next delivery on: one for half a minute; every clock for less than the settle time, which shows afterwards. */
function skew(whose: 'handler' | 'every', seconds: number): Fault['strike'] {
  return (_operation, world) => {
    const offMs = seconds * 1_000;
    world.clocks = { handlerMs: offMs, apiServerMs: whose === 'every' ? offMs : 0 };
    world.later(
      'clocks are right again',
      whose === 'every' ? 4 : 30,
      (at) => (at.clocks = rightClocks),
    );
    return 'served';
  };
}

/** A person asks the data plane to let another member lead. */
export function moveLead(world: World): void {
  const { database, tableGroup, shard } = world.multigres.state.config.shard;
  const path = `/api/v1/shards/${database}/${tableGroup}/${shard}/switch-primary`;
  world.multigres.ask({ method: 'POST', path, body: { reason: 'a person' } }, world, world.now);
}

/** The others do not hear from the leader; it goes on in the belief that it leads. */
function cutLeaderOff(world: World): void {
  const pod = podOf(world, 'leader');
  if (pod !== undefined) {
    world.fault({ kind: 'cutOff', pod, from: 'members' });
    world.later('the network is whole again', 45, (at) => at.lift('cutOff', pod));
  }
}

/** A person's own pod, with none of our labels, has the name of one that is dead, for so many seconds. */
export function makeNamesake(world: World, seconds: number): void {
  const [found] = deadRecords(world);
  const name = found?.record.hostname.split('.')[0] ?? '';
  const ref: ObjectRef = { kind: 'Pod', namespace: worldNamespace, name };
  if (found === undefined || world.api.get('Pod', worldNamespace, name) !== undefined) {
    return;
  }
  world.person({
    method: 'POST',
    path: collectionPath('Pod', worldNamespace),
    body: {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name, namespace: worldNamespace },
      spec: { containers: [{ name: 'pooler', image: 'pooler:1' }] },
    },
  });
  world.later('the namesake goes', seconds, (at) => remove(at, ref, 0));
}

/** Somebody takes the shard's label off these pods, and puts it on again after a while. */
export function loseLabels(world: World, isMeant: (pod: string) => boolean): void {
  const found = world.api
    .list('Pod')
    .filter(
      ({ metadata: { name, labels } }) => labels?.[shardLabel] !== undefined && isMeant(name),
    );
  for (const pod of found) {
    const ref: ObjectRef = { kind: 'Pod', ...placeOf(pod) };
    const value = pod.metadata.labels?.[shardLabel];
    edit(world, ref, { metadata: { labels: { [shardLabel]: null } } });
    world.later(`${ref.name} has its label again`, 40, (at) =>
      edit(at, ref, { metadata: { labels: { [shardLabel]: value } } }),
    );
  }
}

/** What poolers are is not written down for a while. */
function holdRecords(world: World): void {
  world.fault({ kind: 'topologyPaused' });
  world.later('pooler records are written again', 40, (at) => at.lift('topologyPaused'));
}

function die(who: 'leader' | 'leaver' | 'replica'): Fault['strike'] {
  return (_operation, world) => {
    const pod = podOf(world, who);
    if (pod !== undefined) {
      world.fault({ kind: 'podDeath', pod, leaves: 'failed' });
    }
    return 'served';
  };
}

/** The pod that leads, that leaves, or that does neither. */
function podOf(world: World, who: 'leader' | 'leaver' | 'replica'): string | undefined {
  const { members, consensus } = world.multigres.state;
  const alive = Object.values(members).filter(({ process }) => process === 'running');
  const leaver = leaverIn(world);
  const leader = alive.find(({ id }) => id.name === consensus.decision?.leader?.name)?.pod.name;
  switch (who) {
    case 'leader':
      return leader;
    case 'leaver':
      return alive.find(({ pod }) => pod.name === leaver)?.pod.name;
    case 'replica':
      return alive.find(({ pod }) => pod.name !== leaver && pod.name !== leader)?.pod.name;
  }
}

/** The pod whose drain is open. */
export function leaverIn(world: World): string | undefined {
  const records = world.api.list('Shard').map(({ metadata }) => readDrainRecord(metadata));
  return records.flatMap((read) =>
    read.kind === 'ours' && read.record.state !== 'choosing' ? [read.record.data.pod] : [],
  )[0];
}

/** Somebody writes something harmless to the object that is about to be written. */
function touch({ call }: Operation, world: World): void {
  const name = call.object;
  if (call.via === 'api' && call.kind !== undefined && name !== undefined) {
    edit(
      world,
      { kind: call.kind, namespace: call.namespace ?? '', name },
      {
        metadata: { labels: { 'example.com/touched': String(world.operations) } },
      },
    );
  }
}

/** The object that the struck handler is about. */
function targetOf({ by }: Operation, world: World): Target | undefined {
  const [, plural = '', namespace, name = ''] =
    /"subject":"([a-z]+)\/([^/"]+)\/([^"]+)"/.exec(by.received[0]?.body ?? '') ?? [];
  const kind = targetKinds.find((each) => resourceTypes[each].plural === plural);
  return kind === undefined ? undefined : world.api.get(kind, namespace, name);
}

const targetKinds = ['Shard', 'Database', 'GoverseCluster'] as const;
type Target = KubeObject<'Shard'> | KubeObject<'Database'> | KubeObject<'GoverseCluster'>;

function annotate(operation: Operation, world: World, annotations: object): void {
  const target = targetOf(operation, world);
  if (target !== undefined) {
    edit(world, refOf(target), { metadata: { annotations } });
  }
}

/** Somebody without any business there changes the record. */
function editRecord(edit: (text: string) => string | null): Fault['strike'] {
  return (operation, world) => {
    const key = recordAnnotation(operation.by.step);
    const text = targetOf(operation, world)?.metadata.annotations?.[key];
    if (text !== undefined) {
      annotate(operation, world, { [key]: edit(text) });
    }
    return 'served';
  };
}

function refOf({ kind, metadata: { namespace, name } }: Target): ObjectRef {
  return { kind, namespace: namespace ?? '', name };
}

/** The pod that matters most just now: the leaver, else the last. */
function strickenPod(world: World): KubeObject<'Pod'> | undefined {
  const pods = world.api
    .list('Pod')
    .filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  return pods.find(({ metadata }) => metadata.name === leaverIn(world)) ?? pods.at(-1);
}

function deletePod(_operation: Operation, world: World): void {
  const pod = strickenPod(world);
  if (pod !== undefined) {
    remove(world, { kind: 'Pod', ...placeOf(pod) });
  }
}

/** The claim of a leaver whose pod is gone: deleted and made again under its name. */
function replaceClaim(world: World): void {
  const read = world.api.list('Shard').map(({ metadata }) => readDrainRecord(metadata))[0];
  const leaver =
    read?.kind === 'ours' && read.record.state === 'finished' ? read.record.data : undefined;
  const isGone = world.api.list('Pod').every(({ metadata }) => metadata.name !== leaver?.pod);
  const uid = leaver !== undefined && isGone ? leaver.claimUid : '';
  const claim = world.api
    .list('PersistentVolumeClaim')
    .find(({ metadata }) => metadata.uid === uid);
  if (claim !== undefined) {
    const { name, namespace = '', labels } = claim.metadata;
    const kind = 'PersistentVolumeClaim';
    remove(world, { kind, namespace, name });
    world.person({
      method: 'POST',
      path: collectionPath(kind, namespace),
      body: { apiVersion: 'v1', kind, metadata: { name, namespace, labels }, spec: claim.spec },
    });
  }
}

/** Force-deleted: no grace, and no object that says that it goes. */
function removeAtOnce(world: World): void {
  const pod = strickenPod(world);
  if (pod !== undefined) {
    remove(world, { kind: 'Pod', ...placeOf(pod) }, 0);
  }
}

/** Force-deleted and made again at once, by somebody else, under the same name and with the same owner. */
export function replacePod(world: World): void {
  const pod = strickenPod(world);
  if (pod === undefined) {
    return;
  }
  const { namespace, name } = placeOf(pod);
  removeAtOnce(world);
  const { nodeName: _node, ...spec } = pod.spec ?? { containers: [] };
  const { labels, annotations, ownerReferences } = pod.metadata;
  world.person({
    method: 'POST',
    path: collectionPath('Pod', namespace),
    body: {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name, labels, annotations, ownerReferences },
      spec,
    },
  });
}

/** Deleted and restored from a copy, record and all, under another uid. */
export function replaceTarget(operation: Operation, world: World): void {
  const target = targetOf(operation, world);
  if (target === undefined) {
    return;
  }
  const { name, namespace = '', annotations } = target.metadata;
  remove(world, refOf(target));
  world.person({
    method: 'POST',
    path: collectionPath(target.kind, namespace),
    body: {
      apiVersion: target.apiVersion,
      kind: target.kind,
      metadata: { name, ...(annotations === undefined ? {} : { annotations }) },
      spec: target.spec,
    },
  });
}

function placeOf({ metadata }: KubeObject<'Pod'>): { namespace: string; name: string } {
  return { namespace: metadata.namespace ?? '', name: metadata.name };
}
