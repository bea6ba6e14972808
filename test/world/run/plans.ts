import { isPinned } from '#shared/goverse/shard-value.ts';
import { Oracles, type ObjectWrites } from '#test/world/oracles/oracles.ts';
import { type InvariantId, type Tally, Violation } from '#test/world/oracles/tally.ts';
import { hasStopped } from '#shared/topology/topology.ts';
import { deadRecords } from './dead-records.ts';
import { type Fault, faultsOf } from './faults.ts';
import { KnownMoments } from './known-moments.ts';
import { canBear } from './bearing.ts';
import { Random } from './random.ts';
import { type Strike, runToEnd, runToQuiet } from './run.ts';
import type { Workload } from './workload.ts';
import type { Operation, World } from './world.ts';

/** A plan by names, as it is printed, kept and given to a replay. */
export interface PlanName {
  readonly workload: string;
  readonly strikes: readonly { readonly at: number; readonly fault: string }[];
}

export interface PlanViolation {
  readonly invariant: InvariantId | 'defect';
  readonly plan: PlanName;
  readonly message: string;
}

export interface PlanReport {
  /** Runs made. */
  readonly plans: number;
  /** Plans there would be without leaving out those that say nothing new. */
  readonly raw: number;
  /** Plans among them that came to a moment from which an earlier one had shown the rest. */
  readonly known: number;
  readonly operations: number;
  readonly deliveries: number;
  /** The most deliveries any run needed, and how many the one without faults did. */
  readonly mostDeliveries: number;
  readonly baseDeliveries: number;
  /** The most writes any run made beyond those of the one without faults, per fault. */
  readonly mostWritesPerFault: number;
  readonly virtualSeconds: number;
  readonly violations: readonly PlanViolation[];
  /** `<drain state> × <fault>` pairs that were struck. */
  readonly covered: ReadonlySet<string>;
}

export interface PlanOptions {
  readonly tally: Tally;
  readonly seed: number;
  /** For each fault, at most so many second ones after it: a sample by seed where there are more. 0: none. */
  readonly pairsPerFault: number;
  /** Whether faults that strike the same kind of question in the same state of all records are one as first ones, too. */
  readonly isPruned?: boolean;
}

/** A moment at which a fault can strike: the question about to be served, and the world as it is then. */
interface Moment {
  readonly operation: Operation;
  readonly isFirst: boolean;
  readonly world: World;
}

/**
 * Writes more than without faults that one fault may cost, by what the data plane loses: a member that is lost leaves and
 * is made again, by two drains where it was the leader.
 */
const writesPerFault: { readonly [costs in Fault['costs']]: number } = {
  nothing: 24,
  'the lead': 24,
  'a member': 64,
  'a further member': 64,
  'every member': 64,
  'a node': 48,
};

/** Everything stands and the people have begun: the world in which question 0 is the first. */
export async function beginningOf(workload: Workload, tally: Tally): Promise<World> {
  tally.workload = workload.name;
  const world = workload.create(tally);
  await runToQuiet(world, { workload, strikes: [] }, setupDeliveries);
  const begun = world.fork();
  begun.activeSteps = new Set(workload.steps);
  workload.witnesses?.forEach((witness) => begun.accompany(witness(tally)));
  begun.startCounting();
  workload.begin(begun);
  return begun;
}

const setupDeliveries = 200;

/** Finds a plan's faults by their names. */
export function strikesOf(workload: Workload, { strikes }: PlanName): readonly Strike[] {
  const faults = faultsOf(workload);
  return strikes.map(({ at, fault: name }) => {
    const fault = faults.find((candidate) => candidate.name === name);
    if (fault === undefined) {
      throw new Error(`there is no fault ${JSON.stringify(name)} in the workload ${workload.name}`);
    }
    return { at, fault };
  });
}

/** One fault at one moment: the first of a plan. */
export interface Candidate {
  readonly moment: Moment;
  readonly fault: Fault;
}

/**
 * Runs a workload under its plans: once without a fault, then with each fault at each question of that run that it fits,
 * and, for pairs, with each further fault at each later question of those runs.
 *
 * A run with a fault begins at the moment the fault strikes, from a copy of the world that got there without it.
 */
export class PlanSearch {
  readonly #workload: Workload;
  readonly #options: PlanOptions;
  readonly #faults: readonly Fault[];
  readonly #violations: PlanViolation[] = [];
  readonly #covered = new Set<string>();
  readonly #random: Random;
  readonly #moments = new KnownMoments();
  #plans = 0;
  #known = 0;
  #raw = 0;
  #operations = 0;
  #deliveries = 0;
  #mostDeliveries = 0;
  #mostWritesPerFault = 0;
  #virtualMs = 0;
  #base: {
    readonly writes: ReadonlyMap<string, ObjectWrites>;
    readonly deliveries: number;
    readonly ours: number;
  } = { writes: new Map(), deliveries: 0, ours: 0 };

  constructor(workload: Workload, options: PlanOptions) {
    this.#workload = workload;
    this.#options = options;
    this.#faults = faultsOf(workload);
    this.#random = new Random(options.seed);
  }

  get report(): PlanReport {
    return {
      plans: this.#plans,
      raw: this.#raw,
      known: this.#known,
      operations: this.#operations,
      deliveries: this.#deliveries,
      mostDeliveries: this.#mostDeliveries,
      baseDeliveries: this.#base.deliveries,
      mostWritesPerFault: this.#mostWritesPerFault,
      virtualSeconds: this.#virtualMs / 1000,
      violations: this.#violations,
      covered: this.#covered,
    };
  }

  /** Runs the workload without a fault, and names every plan with one. */
  async candidates(): Promise<readonly Candidate[]> {
    const moments: Moment[] = [];
    const world = await this.#begin();
    if (world === undefined) {
      return [];
    }
    await this.#runOne(world, [], moments);
    this.#base = {
      writes: writesOf(world),
      deliveries: world.deliveries,
      ours: world.oursWritten,
    };
    return this.#options.isPruned === true ? this.#pruned(moments) : this.#all(moments);
  }

  #all(moments: readonly Moment[]): readonly Candidate[] {
    const all = moments.flatMap((moment) =>
      this.#fitting(moment).map((fault) => ({ moment, fault })),
    );
    this.#raw += all.length;
    return all;
  }

  /** Runs the plan with this fault, and where pairs are wanted those with a second one after it. */
  async explore({ moment, fault }: Candidate): Promise<void> {
    this.#options.tally.workload = this.#workload.name;
    const strike: Strike = { at: moment.operation.index, fault };
    this.#covered.add(`${stateOf(moment.world)} × ${fault.name}`);
    // Losses that the data plane cannot bear together end where nobody can demand anything.
    const isFollowed = this.#options.pairsPerFault > 0 && canBear(fault, moment.world);
    const moments: Moment[] | undefined = isFollowed ? [] : undefined;
    await this.#runOne(moment.world.fork(), [strike], moments);
    const bearable = this.#pruned(moments ?? []).filter((second) =>
      canBear(second.fault, second.moment.world),
    );
    for (const second of this.#random.sample(bearable, this.#options.pairsPerFault)) {
      const world = second.moment.world.fork();
      await this.#runOne(
        world,
        [strike, { at: second.moment.operation.index, fault: second.fault }],
        undefined,
      );
    }
  }

  /** Runs one plan by its name, from the beginning, after the run without a fault that it is compared with. */
  async again(plan: PlanName): Promise<void> {
    await this.candidates();
    const world = await this.#begin();
    if (world !== undefined) {
      await this.#runOne(world, strikesOf(this.#workload, plan), undefined);
    }
  }

  async #begin(): Promise<World | undefined> {
    try {
      return await beginningOf(this.#workload, this.#options.tally);
    } catch (error) {
      this.#take(error, []);
      return undefined;
    }
  }

  /** Of all moments and faults: one of each kind of question in each state of the records. */
  #pruned(moments: readonly Moment[]): readonly Candidate[] {
    const all = this.#all(moments);
    const byKey = all.map((candidate): [string, Candidate] => [keyOf(candidate), candidate]);
    return [...new Map(byKey.toReversed()).values()].toReversed();
  }

  async #runOne(
    world: World,
    strikes: readonly Strike[],
    moments: Moment[] | undefined,
  ): Promise<void> {
    const begun = { operations: world.operations, deliveries: world.deliveries, now: world.now };
    const lastStrike = strikes.at(-1)?.at ?? -1;
    const isCompared = strikes.every(({ fault }) => fault.isOnlyOurs);
    let isKnown = false;
    this.#moments.begin();
    try {
      await runToEnd(world, {
        workload: this.#workload,
        strikes,
        isUndisturbed: strikes.length === 0,
        isKnown: (at, stage) => {
          const course = { strikes: strikes.length, isCompared };
          isKnown = this.#moments.isKnown(at, stage, course);
          return isKnown;
        },
        onOperation: (operation, at) => {
          if (moments !== undefined && operation.index > lastStrike) {
            const isFirst = operation.by.seen.length === 0;
            moments.push({ operation, isFirst, world: at.fork() });
          }
        },
      });
      if (strikes.length === 0) {
        this.#checkUndisturbed(world);
      } else if (!isKnown) {
        this.#compare(world, strikes, isCompared);
      }
    } catch (error) {
      this.#take(error, strikes);
    }
    this.#plans += 1;
    this.#known += Number(isKnown);
    this.#operations += world.operations - begun.operations;
    this.#deliveries += world.deliveries - begun.deliveries;
    this.#mostDeliveries = Math.max(this.#mostDeliveries, world.deliveries);
    this.#virtualMs += world.now - begun.now;
  }

  /** P4, X8: where nothing goes wrong nothing is given back, and all ends as it is meant to. */
  #checkUndisturbed(world: World): void {
    const missing = this.#workload.missingUndisturbed?.(world) ?? [];
    this.#options.tally.check('X8', missing.length === 0, () => missing.join('; '));
    const { witness } = world;
    const givenBack = witness instanceof Oracles ? witness.givenBack : 0;
    this.#options.tally.check(
      'P4',
      givenBack === 0,
      () => `${givenBack} messages are given back though nothing goes wrong`,
    );
  }

  /** D10, P1: the same creates and deletes, object by object, as without the faults; and not many more writes. */
  #compare(world: World, strikes: readonly Strike[], isCompared: boolean): void {
    const { tally } = this.#options;
    const more = world.oursWritten - this.#base.ours;
    this.#mostWritesPerFault = Math.max(this.#mostWritesPerFault, more / strikes.length);
    tally.check(
      'X7',
      more <= strikes.reduce((sum, { fault }) => sum + writesPerFault[fault.costs], 0),
      () => `${world.oursWritten} writes, without faults ${this.#base.ours}`,
    );
    const { choicesDependOnTime } = this.#workload;
    if (choicesDependOnTime === 'how many go' || !isCompared) {
      return;
    }
    const isByKind = choicesDependOnTime === 'who goes';
    const here = countsOf(writesOf(world), isByKind);
    const there = countsOf(this.#base.writes, isByKind);
    for (const name of new Set([...here.keys(), ...there.keys()])) {
      const [now, then] = [here.get(name) ?? noCounts, there.get(name) ?? noCounts];
      tally.check('D10', now === then, () => `${name}: ${now}; without the faults ${then}`);
    }
    tally.count('P1');
    if (strikes.some(({ fault }) => fault.name.startsWith('F29'))) {
      tally.count('P7');
    }
  }

  #take(error: unknown, strikes: readonly Strike[]): void {
    const plan: PlanName = {
      workload: this.#workload.name,
      strikes: strikes.map(({ at, fault }) => ({ at, fault: fault.name })),
    };
    this.#violations.push(
      error instanceof Violation
        ? { invariant: error.id, plan, message: error.message }
        : {
            invariant: 'defect',
            plan,
            message: error instanceof Error ? (error.stack ?? error.message) : String(error),
          },
    );
  }

  #fitting({ operation, isFirst }: Moment): readonly Fault[] {
    return this.#faults.filter((fault) => fault.fits({ call: operation.call, isFirst }));
  }
}

function writesOf({ witness }: World): ReadonlyMap<string, ObjectWrites> {
  return witness instanceof Oracles ? witness.writes : new Map();
}

const noCounts = '0 created, 0 deleted';

/** Creates and deletes of each object, or of each kind; Events are best effort and not counted. */
function countsOf(
  writes: ReadonlyMap<string, ObjectWrites>,
  isByKind: boolean,
): ReadonlyMap<string, string> {
  const sums = new Map<string, { creates: number; deletes: number }>();
  for (const [object, { creates, deletes }] of writes) {
    const [kind = ''] = object.split(' ');
    const name = isByKind ? kind : object;
    const sum = sums.get(name) ?? { creates: 0, deletes: 0 };
    sums.set(name, { creates: sum.creates + creates, deletes: sum.deletes + deletes });
  }
  sums.delete('Event');
  // Which index a member is made at, and so whether on a claim that is there, depends on when.
  sums.delete('PersistentVolumeClaim');
  return new Map(
    [...sums]
      .filter(([name]) => !name.startsWith('Event '))
      .map(([name, { creates, deletes }]) => [name, `${creates} created, ${deletes} deleted`]),
  );
}

/**
 * Two candidates with the same key strike the same kind of question of the same step, after as many writes and decisions
 * of the same handler, in the same state of all records, while as many pods are there and as many are going, and as many
 * backups are made and under way, in the same state of what buckets hold and of what GoVerse has under way, and with as many
 * records of the dead.
 */
function keyOf({ moment: { operation, world, isFirst }, fault }: Candidate): string {
  const { by, call } = operation;
  const { writes, handler } = by;
  const moment = [writes, handler.looks.length, isFirst];
  const standing = [
    stateOf(world),
    podsIn(world),
    backupsIn(world),
    ownersIn(world),
    goverseIn(world),
    deadIn(world),
  ];
  return [...standing, by.step, call.name, ...moment, fault.name].join('/');
}

/** `3, 1 going` */
function podsIn(world: World): string {
  const pods = world.api.list('Pod');
  const going = pods.filter(({ metadata }) => metadata.deletionTimestamp !== undefined);
  return `${pods.length}, ${going.length} going`;
}

/** `2, running`: how many there are, and who backs up or waits to. */
function backupsIn({ multigres }: World): string {
  const { stored, line } = multigres.state.backups;
  return [stored.length, ...line.map(({ kind }) => kind)].join(', ');
}

/** `backups 1, elsewhere 0`: the objects in each bucket. */
function ownersIn({ buckets }: World): string {
  return Object.entries(buckets.all)
    .map(([name, { objects }]) => `${name} ${Object.keys(objects).length}`)
    .join(', ');
}

/** `3 nodes, pinned, moving`: who is registered, and whether shards are pinned, between two nodes, or with a dead one. */
function goverseIn(world: World): string {
  const view = world.goverse?.viewAt(world);
  if (view === undefined) {
    return '';
  }
  const shards = [...view.shards.values()];
  const standing = {
    pinned: shards.some(isPinned),
    moving: shards.some(({ target, current }) => target !== current),
    orphaned: shards.some(({ target }) => !view.nodes.has(target)),
    unled: !view.nodes.has(view.leader),
  };
  const found = Object.entries(standing).flatMap(([name, is]) => (is ? name : []));
  return [`${view.nodes.size} nodes`, ...found].join(', ');
}

/** `2, 1 stopped`: pooler records without a pooler, where somebody takes them away. */
function deadIn(world: World): string {
  const dead = world.activeSteps.has('etcd-cleanup') ? deadRecords(world) : [];
  const stopped = dead.filter(({ record }) => hasStopped(record));
  return dead.length === 0 ? '' : `${dead.length}, ${stopped.length} stopped`;
}

/** The states of all records, for telling moments apart. */
function stateOf(world: World): string {
  const { api } = world;
  const targets = [...api.list('Shard'), ...api.list('Database'), ...api.list('GoverseCluster')];
  const records = targets.flatMap(({ metadata }) =>
    Object.entries(metadata.annotations ?? {})
      .filter(([key]) => key.startsWith('step.millrace.dev/'))
      .map(([key, text]) => `${key.split('/')[1]}:${/"state":"([a-z]+)"/.exec(text)?.[1] ?? '?'}`),
  );
  return records.join(',') || 'no record';
}
