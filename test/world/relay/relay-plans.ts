import { realNowMs } from '#test/world/run/poison.ts';
import { Random } from '#test/world/run/random.ts';
import { type RelayFault, type RelayFaultName, faultNamed, faultsAt } from './relay-faults.ts';
import { type RelayLaw, type RelayViolation, relayLaws } from './relay-oracles.ts';
import { type RelayPlan, type RelayRun, type RunOptions, runRelayPlan } from './relay-run.ts';
import { type RelayWorkload, relayWorkloads, workloadNamed } from './relay-workloads.ts';

export interface RelayPlansOptions extends Pick<RunOptions, 'limits'> {
  /** In one plan. */
  readonly maxFaults: 0 | 1 | 2;
  readonly seed: number;
  /** No plan begins after so many milliseconds of real time; all are run when absent. */
  readonly budgetMs?: number;
  /** Names; every workload when absent. */
  readonly workloads?: readonly string[];
  /** Stops at the first violation. */
  readonly isHunt?: boolean;
  readonly onPlan?: (plans: number) => void;
}

/** How many plans with so many faults there are for one workload. */
export interface PlanCounts {
  readonly workload: string;
  readonly faults: 1 | 2;
  /** Every fault at every point that comes after those before it. */
  readonly raw: number;
  /** Without those that go the same way as another one. */
  readonly pruned: number;
  readonly run: number;
}

export interface FoundViolation extends RelayViolation {
  readonly plan: RelayPlan;
  /** Plans that were run before. */
  readonly after: number;
}

export interface RelayPlansReport {
  readonly plans: number;
  readonly seconds: number;
  readonly violations: readonly FoundViolation[];
  readonly evaluated: ReadonlyMap<RelayLaw, number>;
  readonly counts: readonly PlanCounts[];
}

/**
 * Runs every workload without a fault, then with every single fault, then with pairs of faults, and looks after every
 * event whether an invariant of the relay was broken.
 *
 * Pruned are, of the points at which everything that can be seen from outside is equal, all but the first; and, for the
 * second of two faults, all points at which everything is as it is without the first: there that one has left no trace,
 * and the second has had a plan of its own.
 */
export async function runRelayPlans(options: RelayPlansOptions): Promise<RelayPlansReport> {
  const campaign = new Campaign(options);
  await campaign.run();
  return campaign.report();
}

/** Runs a plan again and tells what happened, event by event. */
export async function replayRelayPlan(plan: RelayPlan): Promise<string> {
  const { story, violations, trace } = await runRelayPlan(plan);
  const faults = plan.faults.map(({ at, fault }) => `${fault} at ${at}`);
  return [
    `workload ${plan.workload}, seed ${plan.seed}, ${faults.join(', ') || 'no fault'}`,
    ...story,
    ...violations.map(
      ({ law, atMs, message }) => `${law} is broken at ${atMs / 1_000} s: ${message}`,
    ),
    `trace ${trace}`,
  ].join('\n');
}

/** Plans of one workload, and how many there would be without pruning. */
interface PlanList {
  readonly workload: string;
  readonly raw: number;
  readonly plans: readonly RelayPlan[];
}

/** The plans of two faults of one workload, while they are found. */
interface Pairs extends PlanList {
  /** See {@link plansAfter}. */
  readonly known: ReadonlySet<string>;
  readonly seen: Set<string>;
  raw: number;
  readonly plans: RelayPlan[];
}

class Campaign {
  readonly #options: RelayPlansOptions;
  readonly #workloads: readonly RelayWorkload[];
  readonly #startedMs = realNowMs();
  readonly #evaluated = new Map<RelayLaw, number>(relayLaws.map((law) => [law, 0]));
  readonly #violations: FoundViolation[] = [];
  readonly #counts: PlanCounts[] = [];
  /** By story, what one relay without faults sends hints about. */
  readonly #hinted = new Map<string, ReadonlySet<string>>();
  #plans = 0;

  constructor(options: RelayPlansOptions) {
    this.#options = options;
    this.#workloads = options.workloads?.map(workloadNamed) ?? relayWorkloads;
  }

  async run(): Promise<void> {
    const { maxFaults, seed } = this.#options;
    const calm: RelayRun[] = [];
    for (const { name: workload } of this.#workloads) {
      const run = await this.#runPlan({ workload, seed, faults: [] }, maxFaults > 0);
      calm.push(...(run === undefined ? [] : [run]));
    }
    if (maxFaults > 0) {
      await this.#runAfter(calm);
    }
  }

  report(): RelayPlansReport {
    return {
      plans: this.#plans,
      seconds: (realNowMs() - this.#startedMs) / 1_000,
      violations: this.#violations,
      evaluated: this.#evaluated,
      counts: this.#counts,
    };
  }

  /** Plans of one fault, then those of two that follow from them. */
  async #runAfter(calm: readonly RelayRun[]): Promise<void> {
    const singles = calm.map((run) => {
      const { workload } = run.plan;
      const known = new Set(run.points.map(({ state }) => state));
      const plans = plansAfter(run, new Set(), new Set());
      const pairs: Pairs = { workload, known, seen: new Set(), raw: 0, plans: [] };
      return { workload, raw: rawCount(run), plans, pairs };
    });
    const isPairing = this.#options.maxFaults === 2;
    const runs = await this.#runInTurn(singles, isPairing, (run, { pairs }) => {
      if (isPairing && run.plan.faults.every(({ fault }) => isPaired(fault))) {
        pairs.raw += rawCount(run);
        pairs.plans.push(...plansAfter(run, pairs.known, pairs.seen));
      }
    });
    this.#countPlans(1, singles, runs);
    if (isPairing) {
      const pairs = singles.map((lane) => lane.pairs);
      this.#countPlans(2, pairs, await this.#runInTurn(pairs, false, () => {}));
    }
  }

  /**
   * Workload by workload in turn, and each in an order of the seed, so that a short budget reaches a part of all. Returns
   * how many plans of each were run.
   */
  async #runInTurn<L extends PlanList>(
    lists: readonly L[],
    isMapped: boolean,
    onRun: (run: RelayRun, list: L) => void,
  ): Promise<readonly number[]> {
    const random = new Random(this.#options.seed);
    const lanes = lists.map((list) => ({ list, plans: shuffled(list.plans, random), runs: 0 }));
    const most = Math.max(...lanes.map(({ plans }) => plans.length));
    for (let place = 0; place < most; place += 1) {
      for (const lane of lanes) {
        const plan = lane.plans[place];
        const run = plan === undefined ? undefined : await this.#runPlan(plan, isMapped);
        if (run !== undefined) {
          lane.runs += 1;
          onRun(run, lane.list);
        }
      }
    }
    return lanes.map(({ runs }) => runs);
  }

  #countPlans(faults: 1 | 2, lists: readonly PlanList[], runs: readonly number[]): void {
    for (const [place, { workload, raw, plans }] of lists.entries()) {
      this.#counts.push({ workload, faults, raw, pruned: plans.length, run: runs[place] ?? 0 });
    }
  }

  /** `undefined` when there is no time left for it, or no need. */
  async #runPlan(plan: RelayPlan, isMapped: boolean): Promise<RelayRun | undefined> {
    const { budgetMs = Number.POSITIVE_INFINITY, isHunt = false, limits, onPlan } = this.#options;
    const isDone = isHunt && this.#violations.length > 0;
    if (isDone || realNowMs() - this.#startedMs > budgetMs) {
      return undefined;
    }
    const run = await runRelayPlan(plan, { isMapped, ...(limits === undefined ? {} : { limits }) });
    const found = [...run.violations, ...(await this.#compare(run))];
    this.#violations.push(...found.map((each) => ({ ...each, plan, after: this.#plans })));
    for (const [law, times] of run.evaluated) {
      this.#evaluated.set(law, (this.#evaluated.get(law) ?? 0) + times);
    }
    this.#plans += 1;
    onPlan?.(this.#plans);
    return run;
  }

  /** Relays, restarts and faults change how many hints there are, and never what they are about. */
  async #compare({ plan, hinted }: RelayRun): Promise<readonly RelayViolation[]> {
    const { story } = workloadNamed(plan.workload);
    let expected = this.#hinted.get(story);
    if (expected === undefined) {
      expected = (await runRelayPlan({ workload: story, seed: plan.seed, faults: [] })).hinted;
      this.#hinted.set(story, expected);
    }
    const reference = expected;
    const missing = [...reference].filter((key) => plan.faults.length === 0 && !hinted.has(key));
    const added = [...hinted].filter((key) => !reference.has(key));
    this.#evaluated.set('L5', (this.#evaluated.get('L5') ?? 0) + 1);
    return [...missing, ...added].map((key) => ({
      law: 'L5',
      atMs: 0,
      message: `${key} is hinted at by one relay without faults, or here, and not by both`,
    }));
  }
}

/**
 * Plans with one fault more than a run had, at points that come after those. Different faults can leave states that look
 * equal and are not, because relays count their failures: only after the same fault is one state like another.
 *
 * @param known states in which each fault has had its plan, whatever was before
 * @param seen states in which it has had its plan after the fault that is named before it; those that are new are added
 */
function plansAfter(
  { plan, points }: RelayRun,
  known: ReadonlySet<string>,
  seen: Set<string>,
): readonly RelayPlan[] {
  const last = plan.faults.at(-1);
  const isUsed = ({ name }: RelayFault): boolean => last === undefined || isPaired(name);
  return points.slice((last?.at ?? -1) + 1).flatMap(({ index, kind, state }) => {
    const place = `${last?.fault ?? ''}|${state}`;
    if (known.has(state) || seen.has(place)) {
      return [];
    }
    seen.add(place);
    return faultsAt(kind)
      .filter(isUsed)
      .map(({ name }) => ({ ...plan, faults: [...plan.faults, { at: index, fault: name }] }));
  });
}

function rawCount({ plan, points }: RelayRun): number {
  const first = plan.faults.at(-1);
  return points
    .slice((first?.at ?? -1) + 1)
    .reduce((sum, { kind }) => sum + faultsAt(kind).length, 0);
}

function isPaired(name: RelayFaultName): boolean {
  return faultNamed(name).isAlone !== true;
}

function shuffled<T>(list: readonly T[], random: Random): readonly T[] {
  return list
    .map((item) => ({ item, place: random.next() }))
    .toSorted((a, b) => a.place - b.place)
    .map(({ item }) => item);
}
