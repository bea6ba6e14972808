import type { DataPlaneConfig } from '#infra/local/data-plane/state.ts';
import { releasedClaim } from '#shared/api/annotations.ts';
import type { StepName } from '#shared/api/steps.ts';
import { readDrainRecord } from '#shared/api/drain-record.ts';
import { cellLabel, poolLabel } from '#shared/api/labels.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import { collectionPath } from '#shared/kube/http-kube.ts';
import { isReady } from '#shared/kube/readiness.ts';
import type { KubeObject, ResourceKind } from '#shared/kube/resources.ts';
import { Multigres } from '#test/world/model/multigres.ts';
import { adminService, topologyService } from '#test/world/run/call.ts';
import { Oracles } from '#test/world/oracles/oracles.ts';
import type { Tally } from '#test/world/oracles/tally.ts';
import { worldNamespace } from '#test/world/run/handler.ts';
import type { Edit } from '#test/world/run/workload.ts';
import { edit, remove } from '#test/world/run/person.ts';
import { addNeighbour } from '#test/world/run/pooler-records.ts';
import { type Setup, World } from '#test/world/run/world.ts';
import { twoSteps } from '#test/builders/two-steps.ts';

/** 2026-01-01T00:00:00Z */
const usualStart = Date.UTC(2026, 0, 1) as Instant;

const namespace = worldNamespace;
const shardName = 'orders';

export interface ClusterOptions extends Pick<
  Setup,
  'versions' | 'memory' | 'tellsSpecTimes' | 'batch' | 'goverse'
> {
  readonly replicas: number;
  readonly cells?: readonly string[];
  readonly whenScaled?: 'Retain' | 'Delete';
  /** Members that must hold a write, the leader among them. */
  readonly requiredCount?: number;
  readonly seed?: number;
  /** The steps there are; drain-step and pool-pods when not given. */
  readonly steps?: readonly StepName[];
  /** 2026-01-01T00:00:00Z when not given. */
  readonly start?: Instant;
  /** How long backups run, in milliseconds. */
  readonly backupMs?: DataPlaneConfig['backupMs'];
  /** Pods whose poolers write the older record generation. */
  readonly legacyPods?: readonly string[];
  /** When pooler records of the dead are taken away. */
  readonly cleanup?: object;
}

const config: DataPlaneConfig = {
  speed: 1,
  shard: { database: 'postgres', tableGroup: 'default', shard: '0-inf' },
  globalRoot: '/multigres/global',
  cellRoot: '/multigres/{cell}',
  serverAddress: `${topologyService}:2379`,
  requiredCount: 2,
  legacyPods: [],
};

/** A world with a namespace, and nothing in it. */
export function anEmptyWorld(
  tally: Tally,
  options: Omit<ClusterOptions, 'replicas' | 'whenScaled'>,
): World {
  const { cells = ['zone-a'], requiredCount = 2, seed = 1, steps = twoSteps } = options;
  const { start = usualStart, backupMs, tellsSpecTimes = false, goverse } = options;
  const { legacyPods = [] } = options;
  const multigres = new Multigres({
    config: {
      ...config,
      requiredCount,
      legacyPods,
      ...(backupMs === undefined ? {} : { backupMs }),
    },
    seed,
    cells,
    nowMs: start,
  });
  const world = new World({
    multigres,
    start,
    steps,
    tally,
    witness: new Oracles(tally),
    versions: options.versions ?? 'object',
    tellsSpecTimes,
    ...(goverse === undefined ? {} : { goverse }),
    ...(options.batch === undefined ? {} : { batch: options.batch }),
    ...(options.memory === undefined ? {} : { memory: options.memory }),
  });
  make(world, 'Namespace', undefined, { metadata: { name: namespace } });
  return world;
}

/** A world with one Database and one Shard `orders`, whose pods and data plane have yet to come up. */
export function aWorld(tally: Tally, options: ClusterOptions): World {
  const { cells = ['zone-a'], cleanup } = options;
  const world = anEmptyWorld(tally, options);
  addNeighbour(world);
  make(world, 'Database', namespace, {
    metadata: { name: 'main' },
    spec: {
      name: 'postgres',
      dataPlane: {
        kind: 'multigres',
        topology: {
          service: { name: topologyService, port: 2379 },
          globalRoot: config.globalRoot,
        },
        admin: { service: { name: adminService, port: 18_000 } },
      },
    },
  });
  make(world, 'Shard', namespace, {
    metadata: { name: shardName },
    spec: {
      databaseRef: { name: 'main' },
      tableGroup: 'default',
      shard: '0-inf',
      pools: [aPool(cells, options)],
      drain: { deadline: '5m' },
      ...(cleanup === undefined ? {} : { cleanup }),
    },
  });
  return world;
}

function aPool(cells: readonly string[], { replicas, whenScaled = 'Retain' }: ClusterOptions) {
  const container = {
    name: 'pooler',
    image: 'pooler:1',
    volumeMounts: [{ name: 'data', mountPath: '/data' }],
  };
  return {
    name: 'main',
    cells,
    replicasPerCell: replicas,
    storage: { size: '10Gi' },
    podTemplate: { spec: { containers: [container] } },
    pvcPolicy: { whenScaled },
  };
}

export function make(
  world: World,
  kind: ResourceKind,
  place: string | undefined,
  object: { readonly metadata: object; readonly [field: string]: object },
): void {
  const apiVersion = kind === 'Namespace' || kind === 'Secret' ? 'v1' : 'millrace.dev/v1alpha1';
  const response = world.person({
    method: 'POST',
    path: collectionPath(kind, place),
    body: { apiVersion, kind, ...object },
  });
  if (response.status !== 201) {
    throw new Error(`the world refuses its ${kind}: ${JSON.stringify(response.body)}`);
  }
}

export function theShard(world: World): KubeObject<'Shard'> | undefined {
  return world.api.get('Shard', namespace, shardName);
}

/** A person sets how many members there should be in each cell. */
export function scale(world: World, replicasPerCell: number): void {
  editPool(world, { replicasPerCell });
}

export function editPool(world: World, change: object): void {
  const shard = theShard(world);
  const [pool] = shard?.spec.pools ?? [];
  if (pool !== undefined) {
    editShard(world, { spec: { pools: [{ ...pool, ...change }] } });
  }
}

export function editShard(world: World, body: object): void {
  edit(world, { kind: 'Shard', namespace, name: shardName }, body);
}

export function editPod(world: World, name: string, body: object): void {
  edit(world, { kind: 'Pod', namespace, name }, body);
}

export function editDatabase(world: World, body: object): void {
  edit(world, { kind: 'Database', namespace, name: 'main' }, body);
}

export function pods(world: World): readonly KubeObject<'Pod'>[] {
  return world.api.list('Pod');
}

/** The member with the highest index; the last cell's, where there are several. */
export function lastPod(world: World): string {
  const members = pods(world).filter(({ metadata }) => metadata.labels?.[poolLabel] !== undefined);
  return members.at(-1)?.metadata.name ?? '';
}

export function claims(world: World): readonly KubeObject<'PersistentVolumeClaim'>[] {
  return world.api.list('PersistentVolumeClaim');
}

/** S4: claims that no pod mounts, but for those that were kept on purpose. */
export function leftClaims(world: World): string[] {
  const mounted = new Set(
    pods(world).flatMap(({ spec }) =>
      (spec?.volumes ?? []).map(({ persistentVolumeClaim }) => persistentVolumeClaim?.claimName),
    ),
  );
  return claims(world)
    .filter(
      ({ metadata: { name, annotations } }) =>
        !mounted.has(name) && annotations?.[releasedClaim] === undefined,
    )
    .map(({ metadata: { name } }) => `the surplus claim ${name} is left`);
}

/** Somebody deletes a pod as a person does: its grace is kept. */
export function removePod(world: World, name: string): void {
  remove(world, { kind: 'Pod', namespace, name });
}

/** The pod that leads, as the data plane has it. */
export function leaderPod(world: World): string | undefined {
  const { members, consensus } = world.multigres.state;
  const leader = consensus.decision?.leader;
  return Object.values(members).find(({ id }) => id.name === leader?.name)?.pod.name;
}

/** What the shard's drain record says now. */
export function drainState(world: World): string {
  const shard = theShard(world);
  const read = shard === undefined ? undefined : readDrainRecord(shard.metadata);
  return read?.kind === 'ours' ? read.record.state : (read?.kind ?? 'none');
}

/** What is missing until every pool has as many healthy members as it wants, and nothing is under way. */
export function missingMembers(world: World): string[] {
  const shard = theShard(world);
  if (shard === undefined) {
    return ['the shard is gone'];
  }
  const all = pods(world);
  const { members, consensus } = world.multigres.state;
  const cohort = consensus.decision?.cohort ?? [];
  const problems = all
    .filter((pod) => pod.metadata.deletionTimestamp !== undefined)
    .map((pod) => `${pod.metadata.name} is still going`);
  for (const pool of shard.spec.pools) {
    for (const cell of pool.cells) {
      const ofGroup = all.filter(
        ({ metadata }) =>
          metadata.labels?.[poolLabel] === pool.name && metadata.labels?.[cellLabel] === cell,
      );
      const ready = ofGroup.filter((pod) => isReady(pod));
      if (ofGroup.length !== pool.replicasPerCell || ready.length !== pool.replicasPerCell) {
        problems.push(
          `${pool.name}/${cell} has ${ofGroup.length} pods, ${ready.length} of them ready, and wants ${pool.replicasPerCell}`,
        );
      }
    }
  }
  // A leader need not be in its cohort.
  const outside = Object.values(members).filter(
    ({ id, process, role }) =>
      process === 'running' &&
      role !== 'primary' &&
      !cohort.some(({ cell, name }) => cell === id.cell && name === id.name),
  );
  problems.push(...outside.map(({ pod }) => `${pod.name} runs and is not in the cohort`));
  if (leaderPod(world) === undefined) {
    problems.push('nobody leads');
  }
  if (drainState(world) !== 'none') {
    problems.push(`the drain record says ${drainState(world)}`);
  }
  return problems;
}

/** Of every step (F18). */
export const databasePausedForAWhile: Edit = {
  name: 'database paused for 20 s',
  act: (world) => {
    editDatabase(world, { spec: { paused: true } });
    world.later('nobody pauses the database any more', 20, (at) =>
      editDatabase(at, { spec: { paused: false } }),
    );
  },
};
