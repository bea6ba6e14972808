import { drainRequest } from '#shared/api/annotations.ts';
import { plusSeconds } from '#shared/kernel/instant.ts';
import { isSamePooler } from '#shared/topology/topology.ts';
import { type InvariantId, type Tally, Violation } from '#test/world/oracles/tally.ts';
import {
  type ClusterOptions,
  aWorld,
  editPod,
  editShard,
  missingMembers,
  pods,
  removePod,
  scale,
} from '#test/world/workloads/cluster.ts';
import { canBear } from './bearing.ts';
import { Chronicle } from './chronicle.ts';
import { type Fault, faultsOf } from './faults.ts';
import { Random } from './random.ts';
import { runToEnd, runToQuiet } from './run.ts';
import { truthOf } from './truth.ts';
import type { Workload } from './workload.ts';
import { type World, rightClocks } from './world.ts';

export interface SwarmEnd {
  readonly seed: number;
  /** Of everything that happened, in order, with its time. The same for the same seed and the same code. */
  readonly traceHash: string;
  readonly operations: number;
  readonly deliveries: number;
  /** Deliveries after the last fault until all was as wanted. */
  readonly deliveriesToConverge: number;
  readonly virtualSeconds: number;
  readonly faults: readonly string[];
  /** More members were lost at once than the data plane can bear, and it has no quorum: only a person could go on. */
  readonly isBeyondRepair: boolean;
  readonly violation:
    | { readonly invariant: InvariantId | 'defect'; readonly message: string }
    | undefined;
}

/** How a seed's run goes: how large the cluster, how often something goes wrong, how much happens at once. */
interface Mix {
  readonly cluster: ClusterOptions;
  readonly faultProbability: number;
  readonly handlersAtOnce: number;
  /** How likely time passes although a handler has something to ask. */
  readonly slowness: number;
  readonly acts: number;
  readonly faults: readonly Fault[];
  /** Whether members are lost only where the others are a quorum without them. Then all must be well in the end. */
  readonly isBearable: boolean;
}

/** The published bound of convergence: deliveries after the last fault, per member that exists or is wanted, and once. */
export const convergenceBound = { perMember: 60, once: 100 };

const workload: Workload = {
  name: 'swarm',
  steps: ['drain-step', 'pool-pods'],
  create: (tally) => aWorld(tally, { replicas: 1, requiredCount: 1 }),
  begin: () => undefined,
  missing: missingMembers,
  bound: { deliveries: 1_000, perFault: 0 },
};

/**
 * One run drawn from a seed: people scale, pause, ask and delete at random moments while handlers run side by side in
 * a random order and things go wrong. Then nothing goes wrong any more, and all must come to rest as it is wanted.
 */
export async function runSeed(
  seed: number,
  tally: Tally,
  onLine?: (line: string) => void,
): Promise<SwarmEnd> {
  tally.workload = 'swarm';
  const random = new Random(seed);
  const mix = drawMix(random);
  const world = aWorld(tally, mix.cluster);
  const chronicle = new Chronicle(onLine);
  world.listen(chronicle);
  const begun = world.now;
  const struck: string[] = [];
  let calmAt = 0;
  let violation: SwarmEnd['violation'];
  let isBeyondRepair = false;
  try {
    await runToQuiet(world, { workload, strikes: [] }, 500);
    world.startCounting();
    await storm(world, mix, random, struck);
    calm(world);
    calmAt = world.deliveries;
    const members = pods(world).length + mix.cluster.replicas * 3;
    const most = convergenceBound.once + convergenceBound.perMember * members;
    await runToEnd(world, {
      workload: { ...workload, bound: { deliveries: most, perFault: 0 } },
      strikes: [],
    });
  } catch (error) {
    isBeyondRepair =
      !mix.isBearable && error instanceof Violation && error.id === 'X8' && !hasQuorum(world);
    violation = isBeyondRepair
      ? undefined
      : {
          invariant: error instanceof Violation ? error.id : 'defect',
          message: error instanceof Error ? (error.stack ?? error.message) : String(error),
        };
  }
  return {
    seed,
    traceHash: chronicle.digest(),
    operations: world.operations,
    deliveries: world.deliveries,
    deliveriesToConverge: world.deliveries - calmAt,
    virtualSeconds: (world.now - begun) / 1000,
    faults: struck,
    isBeyondRepair,
    violation,
  };
}

function hasQuorum({ multigres }: World): boolean {
  const { leader, healthy, requiredCount } = truthOf(multigres.state);
  const isLed = leader !== null && healthy.some((id) => isSamePooler(id, leader));
  return isLed && healthy.length >= requiredCount;
}

function drawMix(random: Random): Mix {
  const cells = random.pick([['zone-a'], ['zone-a', 'zone-b'], ['zone-a', 'zone-b', 'zone-c']]);
  const replicas = random.between(1, cells.length === 1 ? 5 : 2);
  const all = faultsOf(workload);
  const some = all.filter(() => random.isLucky(0.4));
  return {
    cluster: {
      versions: 'cluster',
      replicas,
      cells,
      requiredCount: replicas * cells.length >= 3 ? random.between(1, 2) : 1,
      whenScaled: random.pick(['Retain', 'Delete']),
      seed: random.between(1, 1_000_000),
    },
    faultProbability: random.pick([0.002, 0.01, 0.03]),
    handlersAtOnce: random.between(1, 3),
    slowness: random.pick([0, 0.02, 0.1]),
    acts: random.between(1, 5),
    faults: some.length === 0 ? all : some,
    isBearable: random.isLucky(0.8),
  };
}

/** People act and faults strike, until the people have had enough. */
async function storm(world: World, mix: Mix, random: Random, struck: string[]): Promise<void> {
  for (let act = 0; act < mix.acts; act += 1) {
    actOfAPerson(world, mix, random);
    const until = plusSeconds(world.now, random.between(0, 60));
    while (world.now < until) {
      await oneStep(world, mix, random, struck);
    }
  }
}

function actOfAPerson(world: World, mix: Mix, random: Random): void {
  const all = pods(world).map(({ metadata }) => metadata.name);
  const { cells = [], requiredCount = 1 } = mix.cluster;
  // Fewer members than a commit needs can be asked for and are never given; and the leader need not be in its cohort.
  const fewest = Math.ceil((requiredCount + 1) / cells.length);
  const acts: (() => void)[] = [
    () => scale(world, random.between(fewest, 4)),
    () => scale(world, random.between(fewest, 4)),
    () => {
      editShard(world, { spec: { paused: true } });
      world.later('nobody pauses the shard any more', random.between(1, 40), (at) =>
        editShard(at, { spec: { paused: false } }),
      );
    },
  ];
  if (all.length > 0) {
    const pod = random.pick(all);
    acts.push(
      () => editPod(world, pod, { metadata: { annotations: { [drainRequest]: 'maintenance' } } }),
      () => {
        if (!mix.isBearable || canBear({ costs: 'a member' }, world)) {
          removePod(world, pod);
        }
      },
    );
  }
  random.pick(acts)();
}

/** Whatever can happen next, one thing of it. */
async function oneStep(world: World, mix: Mix, random: Random, struck: string[]): Promise<void> {
  const operations = world.allOperations();
  const mayDeliver = world.inFlight.length < mix.handlersAtOnce;
  if (operations.length > 0 && !random.isLucky(mix.slowness)) {
    const operation = random.pick(operations);
    if (random.isLucky(mix.faultProbability)) {
      const isFirst = operation.by.seen.length === 0;
      const fitting = mix.faults.filter(
        (fault) =>
          fault.fits({ call: operation.call, isFirst }) &&
          (!mix.isBearable || canBear(fault, world)),
      );
      if (fitting.length > 0) {
        const fault = random.pick(fitting);
        struck.push(fault.name);
        world.tell(() => `— ${fault.name} —`);
        const blow = await fault.strike(operation, world);
        if (blow === 'not served') {
          world.skip();
        } else if (world.isInFlight(operation)) {
          await world.serve(operation, blow === 'served' ? undefined : blow);
        }
        return;
      }
    }
    await world.serve(operation);
    return;
  }
  world.settle();
  if ((await world.hearReplies()) || (mayDeliver && (await world.deliverNext()))) {
    return;
  }
  world.passTo(world.nextInstant());
}

/** Nothing goes wrong any more: what lasts is over, what is planned still happens. */
function calm(world: World): void {
  world.tell(() => '— from here on nothing goes wrong —');
  world.version = 'shipped';
  world.clocks = rightClocks;
}
