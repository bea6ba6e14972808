import { readReleaseRecord } from '#functions/shard-release/record.ts';
import { drainRequest } from '#shared/api/annotations.ts';
import { goverseLabel } from '#shared/api/labels.ts';
import { defaultPrefix } from '#shared/goverse/keys.ts';
import type { ShardValue } from '#shared/goverse/shard-value.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import { GoverseNodes } from '#test/world/model/goverse-nodes.ts';
import { GoverseOracles, markOf } from '#test/world/oracles/goverse-oracles.ts';
import { topologyService } from '#test/world/run/call.ts';
import { goverseNode, placeShard } from '#test/world/run/goverse-keys.ts';
import { worldNamespace } from '#test/world/run/handler.ts';
import { edit, remove } from '#test/world/run/person.ts';
import type { Edit, Workload } from '#test/world/run/workload.ts';
import type { World } from '#test/world/run/world.ts';
import { anEmptyWorld, make } from './cluster.ts';

interface ClusterOptions {
  readonly nodes?: number;
  readonly shardCount?: number;
  readonly mode?: 'quick' | 'clean';
  readonly timeout?: string;
  readonly rebalance?: 'inside' | 'outside';
}

const namespace = worldNamespace;
const clusterName = 'world';
const clusterRef = { kind: 'GoverseCluster', namespace, name: clusterName } as const;
const mark = markOf(namespace, clusterName);

/** A cluster of GoVerse whose nodes are pods of a StatefulSet. */
function aCluster({
  nodes = 3,
  shardCount = 24,
  mode = 'clean',
  timeout = '60s',
  rebalance = 'inside',
}: ClusterOptions = {}): Workload['create'] {
  return (tally) => {
    const parts = {
      namespace,
      cluster: clusterName,
      prefix: defaultPrefix,
      shardCount,
      graceSeconds: 120,
    };
    const goverse = new GoverseNodes(parts, nodes);
    const world = anEmptyWorld(tally, { steps: ['shard-release'], goverse });
    make(world, 'GoverseCluster', namespace, {
      metadata: { name: clusterName },
      spec: {
        topology: { service: { name: topologyService, port: 2379 } },
        shards: shardCount,
        shutdown: { mode, timeout },
        rebalance,
      },
    });
    return world;
  };
}

function editCluster(world: World, body: object): void {
  edit(world, clusterRef, body);
}

function podName(place: number): string {
  return `${clusterName}-${place}`;
}

function deletePod(world: World, place: number): void {
  remove(world, { kind: 'Pod', namespace, name: podName(place) });
}

/** Somebody asks that a node be emptied, or takes that back with `null`. */
function ask(world: World, place: number, why: string | null = 'maintenance'): void {
  edit(
    world,
    { kind: 'Pod', namespace, name: podName(place) },
    { metadata: { annotations: { [drainRequest]: why } } },
  );
}

function scale(world: World, replicas: number): void {
  world.goverse?.scale(replicas);
}

function goversePods(world: World): readonly KubeObject<'Pod'>[] {
  return world.api
    .list('Pod')
    .filter(({ metadata }) => metadata.labels?.[goverseLabel] === clusterName);
}

/** What the cluster's record says now. */
function stateOf(world: World): string {
  const found = world.api.get('GoverseCluster', namespace, clusterName);
  const read = found === undefined ? undefined : readReleaseRecord(found.metadata);
  return read?.kind === 'ours' ? read.record.state : 'resting';
}

function shards(world: World): ReadonlyMap<number, ShardValue> {
  return world.goverse?.viewAt(world)?.shards ?? new Map();
}

function isMarked({ flags }: ShardValue): boolean {
  return flags.includes(mark);
}

function isForeign(shard: ShardValue): boolean {
  return shard.flags.includes('pinned') && !isMarked(shard);
}

/** What is missing until every pod is a node, and every shard is with a node that is meant to have it, unpinned by us. */
function missingShards(world: World): string[] {
  const view = world.goverse?.viewAt(world);
  const pods = goversePods(world);
  const { replicas = 0 } = world.goverse ?? {};
  const open = [...shards(world).values()].filter(
    ({ target, current }) => target !== current || view?.nodes.has(current) !== true,
  );
  const stuck = open.filter(isForeign);
  const marked = [...shards(world).values()].filter(isMarked);
  const state = stateOf(world);
  return [
    ...(view?.nodes.size === replicas && pods.length === replicas
      ? []
      : [`${view?.nodes.size} nodes in ${pods.length} pods, and ${replicas} are wanted`]),
    ...(open.length === stuck.length
      ? []
      : [`${open.length - stuck.length} shards are on their way`]),
    ...(marked.length === 0 ? [] : [`${marked.length} shards are still marked`]),
    ...(state === 'resting' ? [] : [`the record says ${state}`]),
  ];
}

/** Where nobody dies, a shard is out of reach for two ticks of its nodes, and for one more where its leader was busy. */
const handOverSeconds = 20;

function longOutage({ goverse }: World): string[] {
  const { longestOutageSeconds = 0 } = goverse ?? {};
  return longestOutageSeconds <= handOverSeconds
    ? []
    : [`a shard could not be reached for ${longestOutageSeconds} s`];
}

const pausedForAWhile: Edit = {
  name: 'cluster paused for 20 s',
  act: (world) => {
    editCluster(world, { spec: { paused: true } });
    world.later('nobody pauses the cluster any more', 20, (at) =>
      editCluster(at, { spec: { paused: false } }),
    );
  },
};
const quickFromNowOn: Edit = {
  name: 'quick from now on',
  act: (world) => editCluster(world, { spec: { shutdown: { mode: 'quick' } } }),
};
const levelledFromOutside: Edit = {
  name: 'levelled from outside',
  act: (world) => editCluster(world, { spec: { rebalance: 'outside' } }),
};

const common = {
  steps: ['shard-release'],
  edits: [pausedForAWhile, quickFromNowOn, levelledFromOutside],
  witnesses: [(tally) => new GoverseOracles(tally)],
  missing: missingShards,
  bound: { deliveries: 150, perFault: 150 },
  firstFaultsInCi: 40,
} satisfies Partial<Workload>;

const usual = { ...common, create: aCluster() };

/** As soon as shards are pinned and on their way. */
function onceMoving(world: World, name: string, act: (at: World) => void): void {
  world.plan({
    name,
    when: (at) =>
      [...shards(at).values()].some((shard) => isMarked(shard) && shard.target !== shard.current),
    act,
  });
}

function onceState(world: World, state: string, name: string, act: (at: World) => void): void {
  world.plan({ name, when: (at) => stateOf(at) === state, act });
}

/** shard-release alone, on one cluster of GoVerse. */
export const workloads: readonly Workload[] = [
  {
    ...usual,
    name: 'a node of three goes cleanly',
    begin: (world) => scale(world, 2),
    missingUndisturbed: longOutage,
  },
  {
    ...usual,
    name: 'a node is restarted cleanly',
    begin: (world) => deletePod(world, 1),
  },
  {
    ...usual,
    name: 'the node that leads goes cleanly',
    begin: (world) => {
      const leader = goverseNode(world, 'leader');
      const place = [0, 1, 2].find((each) => leader.startsWith(`${podName(each)}:`)) ?? 0;
      deletePod(world, place);
    },
  },
  {
    ...usual,
    name: 'two nodes go at once',
    create: aCluster({ nodes: 4 }),
    begin: (world) => scale(world, 2),
    missingUndisturbed: longOutage,
  },
  {
    ...usual,
    name: 'a request is taken back while shards move',
    begin: (world) => {
      ask(world, 1);
      onceMoving(world, 'a person takes the request back', (at) => ask(at, 1, null));
    },
    missingUndisturbed: longOutage,
  },
  {
    ...usual,
    name: 'a request is met, and taken back',
    begin: (world) => {
      ask(world, 1);
      onceState(world, 'released', 'the node is empty', (at) =>
        at.later('a person takes the request back', 30, (later) => ask(later, 1, null)),
      );
    },
    missingUndisturbed: longOutage,
  },
  {
    ...usual,
    name: 'a request cannot be met in time',
    create: aCluster({ timeout: '5s' }),
    begin: (world) => {
      world.goverse?.registerGate('gate-0:49000', world.etcd);
      ask(world, 1);
      world.later('a person takes the request back', 60, (at) => ask(at, 1, null));
    },
  },
  {
    ...usual,
    name: 'a node goes before its hand-over is done',
    create: aCluster({ timeout: '5s' }),
    begin: (world) => scale(world, 2),
  },
  {
    ...usual,
    name: 'the holder dies while shards move',
    begin: (world) => {
      ask(world, 1);
      onceMoving(world, 'the holder is killed', (at) =>
        at.goverse?.kill(goverseNode(at, 'holder'), at.now),
      );
      world.later('a person takes the request back', 120, (at) => ask(at, 1, null));
    },
  },
  {
    ...usual,
    name: 'the holder dies when all is handed over',
    begin: (world) => {
      scale(world, 2);
      onceState(world, 'released', 'the holder is killed', (at) =>
        at.goverse?.kill(goverseNode(at, 'holder'), at.now),
      );
    },
  },
  {
    ...usual,
    name: 'a node that was emptied goes after the holder has died',
    begin: (world) => {
      ask(world, 1);
      onceState(world, 'released', 'the holder is killed', (at) => {
        at.goverse?.kill(goverseNode(at, 'holder'), at.now);
        at.later('the emptied node is deleted', 120, (later) => deletePod(later, 1));
      });
    },
  },
  {
    ...usual,
    name: 'a node joins while shards move',
    begin: (world) => {
      deletePod(world, 1);
      onceMoving(world, 'a node joins', (at) => scale(at, 4));
    },
  },
  {
    ...usual,
    name: 'a join is levelled from outside',
    create: aCluster({ rebalance: 'outside' }),
    begin: (world) => scale(world, 4),
  },
  {
    ...usual,
    name: 'the last node goes',
    create: aCluster({ nodes: 1, timeout: '20s' }),
    begin: (world) => deletePod(world, 0),
  },
  {
    ...usual,
    name: 'nobody leads when a node is to go',
    begin: (world) => {
      world.goverse?.kill(goverseNode(world, 'leader'), world.now);
      const leader = goverseNode(world, 'leader');
      deletePod(world, leader.startsWith(`${podName(1)}:`) ? 2 : 1);
    },
  },
  {
    ...usual,
    name: 'others have pinned shards of the node',
    begin: (world) => {
      pinForeign(world);
      ask(world, 1);
      world.later('a person takes the request back', 60, (at) => ask(at, 1, null));
    },
    missing: (world) => [...missingShards(world), ...missingPins(world)],
  },
  {
    ...usual,
    name: 'pins that nobody remembers',
    create: aCluster({ mode: 'quick' }),
    begin: (world) => {
      leaveMarks(world);
      editCluster(world, { spec: { shutdown: { mode: 'clean' } } });
    },
  },
  {
    ...usual,
    name: 'nodes go quickly',
    create: aCluster({ mode: 'quick' }),
    begin: (world) => {
      deletePod(world, 1);
      world.later('another goes', 40, (at) => scale(at, 2));
    },
    edits: [pausedForAWhile],
    witnesses: [(tally) => new GoverseOracles(tally, { isQuick: true })],
  },
  {
    ...usual,
    name: 'a hand-over of two transactions',
    create: aCluster({ shardCount: 240, rebalance: 'outside' }),
    begin: (world) => scale(world, 2),
    missingUndisturbed: longOutage,
    firstFaultsInCi: 10,
  },
];

const theirPins = [0, 1];

/** Somebody pins two of the node's shards where they are, with a word of their own. */
function pinForeign(world: World): void {
  const node = world.goverse?.addressOf(podName(1)) ?? '';
  const [first, second] = [...shards(world)].filter(([, { target }]) => target === node);
  for (const found of [first, second]) {
    if (found !== undefined) {
      const [shard, value] = found;
      placeShard(world, shard, { ...value, flags: ['pinned', 'theirs'] });
    }
  }
}

function missingPins(world: World): string[] {
  const node = world.goverse?.addressOf(podName(1)) ?? '';
  const kept = [...shards(world).values()].filter(
    ({ target, flags }) => target === node && flags.join() === 'pinned,theirs',
  );
  return kept.length === theirPins.length ? [] : [`${kept.length} pins of others are left`];
}

/** What a hand-over leaves of which nobody knows any more: all of a node's shards with another one, and its pins. */
function leaveMarks(world: World): void {
  const [from, to] = [2, 0].map((place) => world.goverse?.addressOf(podName(place)) ?? '');
  for (const [shard, value] of shards(world)) {
    if (value.target === from || value.target === to) {
      placeShard(world, shard, { ...value, target: to ?? '', flags: ['pinned', mark] });
    }
  }
}
