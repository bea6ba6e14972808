import { drainRequest, recordAnnotation } from '#shared/api/annotations.ts';
import { podBaseName, podName } from '#shared/api/names.ts';
import { type PoolerId, isSamePooler } from '#shared/topology/topology.ts';
import { CleanupOracles } from '#test/world/oracles/cleanup-oracles.ts';
import {
  type Remains,
  deadRecords,
  hideCell,
  leaveRecord,
  standingRecords,
} from '#test/world/run/dead-records.ts';
import { worldNamespace } from '#test/world/run/handler.ts';
import { remove } from '#test/world/run/person.ts';
import { addField } from '#test/world/run/pooler-records.ts';
import type { Edit, Workload } from '#test/world/run/workload.ts';
import type { World } from '#test/world/run/world.ts';
import {
  type ClusterOptions,
  aWorld,
  databasePausedForAWhile,
  drainState,
  editPod,
  editShard,
  lastPod,
  leaderPod,
  missingMembers,
  pods,
  scale,
  theShard,
} from './cluster.ts';

const cleanup = { enabled: true, quietFor: '10s', deleteAfter: '20s', maxPerPass: 2 };

/** All steps there are for members, so that everything stands before one of them is looked at alone. */
const everyStep = ['drain-step', 'pool-pods', 'etcd-cleanup'] as const;

function aCluster(options: Partial<ClusterOptions> = {}): Workload['create'] {
  return (tally) => aWorld(tally, { replicas: 3, steps: everyStep, cleanup, ...options });
}

function setCleanup(world: World, change: object): void {
  editShard(world, { spec: { cleanup: change } });
}

/** A pod's processes end without a word, and its object with them. */
function kill(world: World, pod: string): void {
  world.fault({ kind: 'podDeath', pod, leaves: 'nothing' });
}

/** A member that has no pod from now on, and that nobody wants again. */
function loseMember(world: World, pod: string): void {
  kill(world, pod);
  scale(world, 2);
}

/** One that does not lead. */
function aReplica(world: World): string {
  const leader = leaderPod(world);
  return pods(world).find(({ metadata }) => metadata.name !== leader)?.metadata.name ?? '';
}

/** What somebody looks at again though nothing of the shard has changed. */
function askForLook(world: World): void {
  editShard(world, { metadata: { annotations: { 'millrace.dev/reconcile': String(world.now) } } });
}

function leaveRecords(world: World, remains: readonly Remains[]): void {
  remains.forEach((each) => leaveRecord(world, each));
  askForLook(world);
}

/** What etcd-cleanup's record says: `none`, `watching`, `retiring`, `deleting`. */
function cleanupState(world: World): string {
  const text = theShard(world)?.metadata.annotations?.[recordAnnotation('etcd-cleanup')];
  return text === undefined ? 'none' : (/"state":"([a-z]+)"/.exec(text)?.[1] ?? 'unreadable');
}

function isAnyMarked(world: World): boolean {
  return deadRecords(world).some(({ record }) => record.lifecycle === 'shutdown');
}

function condition(world: World) {
  return theShard(world)?.status?.conditions?.find(({ type }) => type === 'TopologyClean');
}

/** What is to be there in the end beside the records of those who live. */
interface Left {
  /** Records of the dead that stay, as they are. */
  readonly kept?: readonly PoolerId[];
  /** What the condition then says. */
  readonly reason?: string;
}

/** What is missing until the records are those of the living, and all that is told says so. */
function missingRecords(
  world: World,
  { kept = [], reason = 'TopologyClean' }: Left = {},
): string[] {
  const standing = standingRecords(world);
  const { members, config, consensus } = world.multigres.state;
  const running = Object.values(members).filter(({ process }) => process === 'running');
  const isKept = (id: PoolerId): boolean => kept.some((other) => isSamePooler(id, other));
  const state = cleanupState(world);
  const told = condition(world);
  return [
    ...running
      .filter(
        ({ id }) =>
          !standing.some(
            ({ record }) => isSamePooler(record.id, id) && record.lifecycle !== 'shutdown',
          ),
      )
      .map(({ pod }) => `the record of ${pod.name} is gone, or marked`),
    ...deadRecords(world)
      .filter(({ record }) => !isKept(record.id))
      .map(({ key }) => `${key} is left`),
    ...kept
      .filter(
        (id) =>
          !standing.some(
            ({ record }) => isSamePooler(record.id, id) && record.lifecycle !== 'shutdown',
          ),
      )
      .map((id) => `the record of ${id.name} is gone, or marked`),
    ...(standing.some(
      ({ record }) => record.shard.shard !== config.shard.shard && record.role === 'replica',
    )
      ? []
      : ['the record of another shard is gone']),
    ...(consensus.decision?.cohort ?? [])
      .filter((id) => !isKept(id) && !running.some((member) => isSamePooler(member.id, id)))
      .map((id) => `${id.name} is still in the cohort`),
    ...(told?.reason === reason ? [] : [`TopologyClean says ${told?.reason}: ${told?.message}`]),
    ...(state === 'none' || reason === 'CleanupOff' ? [] : [`the record says ${state}`]),
  ];
}

const offForAWhile: Edit = {
  name: 'cleanup off for 20 s',
  act: (world) => {
    setCleanup(world, { enabled: false });
    world.later('cleanup is on again', 20, (at) => setCleanup(at, { enabled: true }));
  },
};
const morePatience: Edit = {
  name: 'quietFor and deleteAfter longer',
  act: (world) => setCleanup(world, { quietFor: '25s', deleteAfter: '40s' }),
};
const lessPatience: Edit = {
  name: 'quietFor and deleteAfter shorter',
  act: (world) => setCleanup(world, { quietFor: '5s', deleteAfter: '5s' }),
};
const pausedForAWhile: Edit = {
  name: 'paused for 20 s',
  act: (world) => {
    editShard(world, { spec: { paused: true } });
    world.later('nobody pauses it any more', 20, (at) =>
      editShard(at, { spec: { paused: false } }),
    );
  },
};

const common = {
  witnesses: [(tally) => new CleanupOracles(tally)],
  bound: { deliveries: 150, perFault: 120 },
  firstFaultsInCi: 90,
} satisfies Partial<Workload>;

const alone = {
  ...common,
  steps: ['etcd-cleanup'],
  create: aCluster(),
  edits: [offForAWhile, morePatience, lessPatience, pausedForAWhile, databasePausedForAWhile],
  missing: (world) => missingRecords(world),
} satisfies Partial<Workload>;

const base = podBaseName('orders', 'main', 'zone-a');

/** Of another shard, a replica that nobody leads: nobody here is to count or change it. */
const ofOthers: Remains = { name: 'replica-of-others', shard: '8-inf' };

/** A cell whose name makes a pooler's id a hash: its record names the pod by the hostname alone. */
const longCell = 'zone-of-a-rather-long-cell';

/** One record of a pooler that nobody has: small enough for every order in which handlers can go about it. */
export function oneDeadRecord(options: Partial<ClusterOptions>): Omit<Workload, 'name'> {
  return {
    ...common,
    steps: ['etcd-cleanup'],
    create: aCluster({
      replicas: 1,
      requiredCount: 1,
      cleanup: { ...cleanup, quietFor: '5s', deleteAfter: '5s' },
      ...options,
    }),
    begin: (world) => leaveRecords(world, [ofOthers, { name: 'gone' }]),
    missing: (world) => missingRecords(world),
    bound: { deliveries: 300, perFault: 0 },
  };
}

/** Somebody of a later version writes every record of the dead: it says the same, and one thing more. */
export function writeDeadRecords(world: World): void {
  for (const { key, value } of deadRecords(world)) {
    addField(world, { key: Buffer.from(key), value });
  }
}

/** Records whose poolers were killed, of all kinds, beside those of the living. */
export const workloads: readonly Workload[] = [
  {
    ...alone,
    name: 'a killed replica leaves its record',
    // Deleted as soon as it has been quiet once more: the cohort may not have done without it yet.
    create: aCluster({ cleanup: { ...cleanup, deleteAfter: '10s' } }),
    begin: (world) => {
      leaveRecord(world, ofOthers);
      loseMember(world, aReplica(world));
    },
  },
  {
    ...alone,
    name: 'a killed leader leaves its record',
    begin: (world) => {
      leaveRecord(world, ofOthers);
      loseMember(world, leaderPod(world) ?? '');
    },
    // As long as nobody else claims to lead, the record is for people, and nobody waits for anything.
    needsResync: true,
  },
  {
    ...alone,
    name: 'the dead are named like the living',
    // More than a third of the records.
    create: aCluster({ replicas: 2, cleanup: { ...cleanup, maxPerPass: 8 } }),
    begin: (world) =>
      leaveRecords(world, [
        ofOthers,
        { name: `${podName(base, 1)}0` },
        { name: `${podName(base, 1)}-svc`, hostname: `${podName(base, 1)}-svc.orders.db` },
        { name: base, hostname: `old.${podName(base, 0)}` },
      ]),
  },
  {
    ...alone,
    name: 'the living are named otherwise than their pods',
    create: aCluster({
      cells: [longCell],
      legacyPods: [podName(podBaseName('orders', 'main', longCell), 1)],
    }),
    begin: (world) => {
      leaveRecord(world, ofOthers);
      leaveRecord(world, { name: 'alias', hostname: `${lastPod(world)}.elsewhere` });
      leaveRecord(world, { name: 'gone', generation: 'legacy' });
      askForLook(world);
    },
    missing: (world) => missingRecords(world, { kept: [{ cell: longCell, name: 'alias' }] }),
  },
  {
    ...alone,
    name: 'several dead ones, one at a time',
    create: aCluster({ replicas: 2, cleanup: { ...cleanup, quietFor: '5s', maxPerPass: 1 } }),
    begin: (world) =>
      leaveRecords(world, [
        ofOthers,
        ...['one', 'two', 'three', 'four'].map((name) => ({ name })),
        { name: 'old-leader', as: 'primary of old' as const },
      ]),
    bound: { deliveries: 250, perFault: 150 },
  },
  {
    ...alone,
    name: 'those put aside stay, in either generation',
    begin: (world) =>
      leaveRecords(world, [
        ofOthers,
        { name: 'quarantined', as: 'set aside' },
        { name: 'drained', as: 'set aside', generation: 'legacy' },
        { name: 'gone' },
      ]),
    missing: (world) =>
      missingRecords(world, {
        kept: ['quarantined', 'drained'].map((name) => ({ cell: 'zone-a', name })),
        reason: 'RecordsLeft',
      }),
  },
  {
    ...alone,
    name: 'a dead record is written once more',
    begin: (world) => {
      leaveRecords(world, [ofOthers, { name: 'gone' }]);
      world.later('somebody of a later version writes it', 6, writeDeadRecords);
      world.plan({ name: 'and when it is marked', when: isAnyMarked, act: writeDeadRecords });
    },
  },
  {
    ...alone,
    name: 'a cell is not found for a while',
    create: aCluster({ replicas: 1, cells: ['zone-a', 'zone-b', 'zone-c'] }),
    begin: (world) => {
      leaveRecords(world, [ofOthers, { name: 'gone' }, { name: 'gone', cell: 'zone-b' }]);
      world.later('a cell is not found', 5, (at) => hideCell(at, 'zone-b', 30));
    },
    bound: { deliveries: 200, perFault: 150 },
  },
  {
    ...alone,
    name: 'a member that is wanted has no pod',
    begin: (world) => {
      leaveRecord(world, ofOthers);
      kill(world, aReplica(world));
      leaveRecords(world, [{ name: 'gone' }]);
    },
    missing: (world) => {
      const ofMembers = deadRecords(world).filter(({ record }) => record.id.name.startsWith(base));
      return [
        ...missingRecords(world, { kept: ofMembers.map(({ record }) => record.id) }),
        ...(ofMembers.length === 1 ? [] : ['the record of the member that is wanted is gone']),
      ];
    },
  },
  {
    ...alone,
    name: 'cleanup is off',
    create: aCluster({ cleanup: { ...cleanup, enabled: false } }),
    begin: (world) => leaveRecords(world, [ofOthers, { name: 'gone' }, { name: 'lost' }]),
    edits: [pausedForAWhile, databasePausedForAWhile, morePatience],
    missing: (world) => [
      ...missingRecords(world, {
        kept: ['gone', 'lost'].map((name) => ({ cell: 'zone-a', name })),
        reason: 'CleanupOff',
      }),
      ...missingCandidates(world, ['zone-a/gone', 'zone-a/lost']),
    ],
  },
  {
    ...alone,
    name: 'cleanup is turned off when a record may be changed',
    begin: (world) => {
      leaveRecords(world, [ofOthers, { name: 'gone' }]);
      world.plan({
        name: 'a person turns cleanup off, and then wants more patience',
        when: (at) => cleanupState(at) === 'retiring' || cleanupState(at) === 'deleting',
        act: (at) => {
          setCleanup(at, { enabled: false });
          at.later('cleanup is on again', 30, (later) =>
            setCleanup(later, { enabled: true, deleteAfter: '40s' }),
          );
        },
      });
    },
    edits: [morePatience, lessPatience],
  },
  {
    ...alone,
    name: 'a pooler runs on without its pod',
    begin: (world) => {
      leaveRecord(world, ofOthers);
      const name = aReplica(world);
      world.fault({ kind: 'nodeNotReady' });
      remove(world, { kind: 'Pod', namespace: worldNamespace, name }, 0);
      scale(world, 2);
      world.later('the node is heard of again', 60, (at) => at.lift('nodeNotReady'));
    },
  },
  {
    ...common,
    name: 'the pod returns in the quiet time',
    steps: ['pool-pods', 'etcd-cleanup'],
    create: aCluster(),
    begin: (world) => {
      leaveRecord(world, ofOthers);
      loseMember(world, aReplica(world));
      world.later('a person scales back to 3', 5, (at) => scale(at, 3));
    },
    missing: (world) => [...missingMembers(world), ...missingRecords(world)],
    bound: { deliveries: 200, perFault: 150 },
  },
  {
    ...common,
    name: 'the pod returns between mark and deletion',
    steps: ['pool-pods', 'etcd-cleanup'],
    create: aCluster(),
    begin: (world) => {
      leaveRecord(world, ofOthers);
      loseMember(world, aReplica(world));
      world.plan({
        name: 'a person scales back to 3',
        when: (at) => cleanupState(at) === 'retiring' || isAnyMarked(at),
        act: (at) => scale(at, 3),
      });
    },
    missing: (world) => [...missingMembers(world), ...missingRecords(world)],
    bound: { deliveries: 200, perFault: 150 },
  },
  {
    ...common,
    name: 'a member leaves beside a dead one',
    steps: everyStep,
    create: aCluster({ replicas: 4 }),
    begin: (world) => {
      leaveRecords(world, [ofOthers, { name: 'gone' }]);
      scale(world, 3);
    },
    edits: [offForAWhile, { name: 'scaled to 4', act: (world) => scale(world, 4) }],
    missing: (world) => [...missingMembers(world), ...missingRecords(world)],
    bound: { deliveries: 300, perFault: 300 },
  },
  {
    ...common,
    name: 'a member is asked to leave, and the request taken back',
    choicesDependOnTime: 'who goes',
    steps: everyStep,
    create: aCluster(),
    begin: (world) => {
      leaveRecords(world, [ofOthers, { name: 'gone' }]);
      const pod = aReplica(world);
      const ask = (at: World, why: string | null): void =>
        editPod(at, pod, { metadata: { annotations: { [drainRequest]: why } } });
      ask(world, 'maintenance');
      world.plan({
        name: 'the request is taken back',
        when: (at) => drainState(at) === 'draining',
        act: (at) => ask(at, null),
      });
    },
    missing: (world) => [...missingMembers(world), ...missingRecords(world)],
    bound: { deliveries: 300, perFault: 300 },
  },
];

/** What the status tells of records that stay. */
function missingCandidates(world: World, wanted: readonly string[]): string[] {
  const told = (theShard(world)?.status?.cleanup?.candidates ?? []).map(({ pooler }) => pooler);
  return new Set(wanted).symmetricDifference(new Set(told)).size === 0
    ? []
    : [`the status tells of ${told.join(', ') || 'nobody'}`];
}
