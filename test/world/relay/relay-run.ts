import { type ReflectorLimits, reflectorLimits } from '#events/relay/reflector.ts';
import { queueName } from '#events/hint.ts';
import type { StepName } from '#shared/api/steps.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import type { QueueEntry } from '#shared/queue/queue.ts';
import { ApiServer, type Commit } from '#test/world/model/api-server.ts';
import { Queue } from '#test/world/model/queue.ts';
import { everythingWent } from '#test/world/run/turn.ts';
import { ClusterScript, scriptedNamespaces } from './cluster-script.ts';
import { OutsideApi } from './outside-api.ts';
import { OutsideQueues } from './outside-queues.ts';
import {
  type PointKind,
  type RelayFault,
  type RelayFaultName,
  faultNamed,
} from './relay-faults.ts';
import { RelayInWorld, type RelayProcess, relayStage } from './relay-in-world.ts';
import { type RelayLaw, RelayOracles, type RelayViolation } from './relay-oracles.ts';
import { type RelayWorkload, workloadNamed } from './relay-workloads.ts';
import type { ToldKind, ToldObject } from './told-world.ts';
import { Trace } from './trace.ts';
import { VirtualClock, worldStart } from './virtual-clock.ts';
import type { ToldEvent, Witness } from './witness.ts';
import { twoSteps } from '#test/builders/two-steps.ts';

/** A run that can be repeated: what happens in the cluster, and what goes wrong at which point. */
export interface RelayPlan {
  readonly workload: string;
  readonly seed: number;
  /** By the number of the point in the run. */
  readonly faults: readonly { readonly at: number; readonly fault: RelayFaultName }[];
}

/** A moment at which something can go wrong. */
export interface Point {
  readonly index: number;
  readonly kind: PointKind;
  /** Equal for two points at which everything that can be seen from outside is equal. */
  readonly state: string;
}

export interface RunOptions {
  /** Whether the points of the run tell their state, for further plans. */
  readonly isMapped?: boolean;
  /** Limits of the reflectors that differ from those that ship. */
  readonly limits?: Partial<ReflectorLimits>;
}

export interface RelayRun {
  readonly plan: RelayPlan;
  readonly violations: readonly RelayViolation[];
  readonly evaluated: ReadonlyMap<RelayLaw, number>;
  readonly points: readonly Point[];
  /** Every step and target that a hint was sent for, by the target's place and how often there was one at that place. */
  readonly hinted: ReadonlySet<string>;
  /** Everything that happened, in its order, and the hash over that. */
  readonly story: readonly string[];
  readonly trace: string;
}

/** Relays that agree by a Lease need so long until another one leads: its 15 s, a look, and a failed one before. */
const takeOverMs = 25_000;
/** From the start of a relay to the end of its first lists. */
const startMs = 200;
/** From the end of a relay that was asked to stop to the first hints of the next. */
const rollMs = 2_000;
/** Two objects a page, so that small worlds have several. */
const pageSize = 2;
/** Between the last thing that may be late and the end. */
const restMs = 3_000;

/** Runs one plan from its beginning to its end. The same plan goes the same way each time. */
export async function runRelayPlan(plan: RelayPlan, options: RunOptions = {}): Promise<RelayRun> {
  const world = new RelayWorld(plan, options);
  await world.run();
  return world.result();
}

class RelayWorld implements Witness<RelayProcess> {
  readonly #plan: RelayPlan;
  readonly #options: RunOptions;
  readonly #workload: RelayWorkload;
  readonly #faults: ReadonlyMap<number, RelayFault>;
  readonly #clock = new VirtualClock();
  readonly #trace: Trace;
  readonly #oracles: RelayOracles;
  readonly #api: OutsideApi<RelayProcess>;
  readonly #queues: OutsideQueues<RelayProcess>;
  readonly #cluster: ClusterScript;
  readonly #relays: RelayInWorld[] = [];
  readonly #points: Point[] = [];
  #lastAct = '';

  constructor(plan: RelayPlan, options: RunOptions) {
    this.#plan = plan;
    this.#options = options;
    this.#workload = workloadNamed(plan.workload);
    this.#faults = new Map(plan.faults.map(({ at, fault }) => [at, faultNamed(fault)]));
    const clock = this.#clock;
    const nowMs = (): number => clock.monotonicMs();
    this.#trace = new Trace(nowMs);
    const { slackMs } = this.#workload;
    this.#oracles = new RelayOracles({ nowMs, slackMs, isLeased: this.#isLeased });
    const { api, commits } = beginningOf(this.#workload);
    commits.forEach((commit) => this.committed(commit));
    const isStreaming = this.#workload.lists === 'streamed';
    this.#api = new OutsideApi({ clock, api, witness: this, isStreaming });
    const queues = new Map(twoSteps.map((step) => [queueName(relayStage, step), new Queue()]));
    this.#queues = new OutsideQueues({ clock, queues, witness: this });
    this.#cluster = new ClusterScript((request) => this.#api.write(request));
  }

  async run(): Promise<void> {
    const { acts, rollsAtMs, relays } = this.#workload;
    this.#oracles.loosen(0, startMs);
    for (let number = 0; number < (relays === 'one' ? 1 : 2); number += 1) {
      this.#relays.push(this.#startRelay(number));
    }
    for (const { atMs, words, act } of acts) {
      this.#clock.after(atMs, () => {
        this.#lastAct = words;
        this.#trace.note(`* ${words}`);
        act(this.#cluster);
      });
    }
    for (const atMs of rollsAtMs) {
      this.#clock.after(atMs, () => this.#roll());
    }
    await everythingWent();
    while (await this.#clock.step(this.#endMs())) {
      this.#oracles.check(this.#api.listening);
    }
    this.#clock.moveTo(this.#endMs());
    this.#oracles.check(this.#api.listening);
    this.#oracles.checkEnd();
    this.#relays.forEach((relay) => relay.crash());
    await everythingWent();
  }

  result(): RelayRun {
    const { violations, evaluated, deliveries } = this.#oracles;
    return {
      plan: this.#plan,
      violations,
      evaluated,
      points: this.#points,
      hinted: new Set(deliveries.map(({ target, step }) => `${step} ${target}`)),
      trace: this.#trace.digest(),
      story: this.#trace.lines,
    };
  }

  reached(process: RelayProcess, kind: PointKind, about: string): RelayFault | undefined {
    const index = this.#points.length;
    const state = this.#options.isMapped === true ? this.#stateAt(kind, about) : '';
    this.#points.push({ index, kind, state });
    this.#trace.note(`${index} ${process.name}: ${kind} ${about}`);
    const fault = this.#faults.get(index);
    if (fault === undefined || !fault.at.includes(kind)) {
      return undefined;
    }
    this.#trace.note(`! ${fault.name}`);
    this.#oracles.loosen(fault.lastsMs, fault.recoveryMs + this.#takeOverMs);
    if (fault.name.startsWith('queues')) {
      this.#oracles.loseQueues(fault.lastsMs);
    }
    if (fault.name.startsWith('crash') && fault.name !== 'crash after') {
      this.#crash(process, fault);
    }
    return fault;
  }

  crashed(process: RelayProcess, fault: RelayFaultName): void {
    if (process.isAlive) {
      this.#crash(process, faultNamed(fault));
    }
  }

  committed(commit: Commit): void {
    const { kind, namespace = '', name, before, after } = commit;
    const { uid, resourceVersion } = (after ?? before)?.metadata ?? {};
    const what = before === null ? 'made' : after === null ? 'removed' : 'written';
    this.#trace.note(`  ${kind} ${namespace}/${name} ${uid} ${what}, version ${resourceVersion}`);
    this.#oracles.committed(commit);
  }

  listBegan(process: RelayProcess, kind: ToldKind): void {
    if (process.isAlive) {
      this.#trace.note(`  ${process.name} begins a list of ${kind}`);
      this.#oracles.listBegan(process, kind);
    }
  }

  told(process: RelayProcess, kind: ToldKind, event: ToldEvent): void {
    if (process.isAlive) {
      const { name, resourceVersion } = event.object.metadata;
      this.#trace.note(
        `  ${process.name} is told: ${event.type} ${kind} ${name} ${resourceVersion}`,
      );
      this.#oracles.told(process, kind, event);
    }
  }

  listEnded(process: RelayProcess, kind: ToldKind): void {
    if (process.isAlive) {
      this.#trace.note(`  ${process.name} has all of ${kind}`);
      this.#oracles.listEnded(process, kind);
    }
  }

  lost(process: RelayProcess, kind: ToldKind, object: ToldObject): void {
    this.#oracles.lost(process, kind, object);
  }

  gaveUp(process: RelayProcess, kind: ToldKind): void {
    this.#trace.note(`  ${process.name} gives up its watch of ${kind}`);
    this.#oracles.gaveUp(process, kind);
  }

  asked(process: RelayProcess, queue: string, entries: readonly QueueEntry[]): void {
    this.#trace.note(`  ${process.name} sends ${entries.length} to ${queue}`);
    this.#oracles.asked(entries);
  }

  taken(process: RelayProcess, queue: string, entry: QueueEntry): void {
    this.#trace.note(`  ${queue} takes ${entry.body}`);
    this.#oracles.taken(process.name, stepOfQueue(queue), entry);
  }

  answered(
    process: RelayProcess,
    queue: string,
    entries: readonly QueueEntry[],
    ids: readonly string[],
  ): void {
    if (process.isAlive) {
      this.#trace.note(`  ${process.name} hears from ${queue}: ${ids.length} of ${entries.length}`);
      this.#oracles.answered(process, stepOfQueue(queue), entries, ids);
    }
  }

  /** It goes on until whatever a fault made late has to have come. */
  #endMs(): number {
    return Math.max(this.#workload.endMs, this.#oracles.calmMs + this.#workload.slackMs + restMs);
  }

  get #isLeased(): boolean {
    return this.#workload.relays === 'two with a lease';
  }

  get #takeOverMs(): number {
    return this.#isLeased ? takeOverMs : 0;
  }

  #startRelay(number: number): RelayInWorld {
    return RelayInWorld.create({
      clock: this.#clock,
      connect: (process) => this.#api.connect(process),
      sender: (process) => this.#queues.connect(process),
      hangUp: (process) => this.#api.hangUp(process),
      started: (process) => {
        this.#trace.note(`  ${process.name} starts`);
        this.#oracles.started(process);
      },
      broke: (process, error) => this.#oracles.broke(process, error),
      stopped: (process) => {
        this.#trace.note(`  ${process.name} has stopped`);
        this.#oracles.stopped(process);
      },
      ended: (process) => {
        this.#trace.note(`  ${process.name} ends`);
        this.#oracles.ended(process);
      },
      seed: this.#plan.seed,
      number,
      isLeased: this.#isLeased,
      limits: { ...reflectorLimits, pageSize, ...this.#options.limits },
    });
  }

  #crash(process: RelayProcess, { lastsMs }: RelayFault): void {
    const relay = this.#relays.find((candidate) => candidate.process === process);
    relay?.crash();
    this.#clock.after(lastsMs, () => {
      if (relay?.process === undefined) {
        relay?.restart();
      }
    });
  }

  #roll(): void {
    this.#oracles.stopping();
    this.#oracles.loosen(0, rollMs + this.#takeOverMs);
    void this.#relays[0]?.roll();
  }

  #stateAt(kind: PointKind, about: string): string {
    const relays = this.#relays.map(({ process }) => {
      if (process === undefined) {
        return 'none';
      }
      const { dirty, held, wakes } = process.state();
      const isCurrent = this.#oracles.isCurrent(process);
      return [...dirty.values(), ...held.values(), wakes, process.isLeading, isCurrent].join(' ');
    });
    const listening = [...this.#api.listening].map(
      ({ process, kind }) => `${process.name} ${kind}`,
    );
    return [kind, about, this.#lastAct, ...relays, ...listening.toSorted()].join('|');
  }
}

interface Beginning {
  readonly api: ApiServer;
  readonly commits: readonly Commit[];
}

/** By story: what is there before a relay starts is made once. */
const beginnings = new Map<string, Beginning>();

function beginningOf({ story, before }: RelayWorkload): Beginning {
  let made = beginnings.get(story);
  if (made === undefined) {
    const api = new ApiServer({ namespaces: ['millrace', ...scriptedNamespaces] });
    const commits: Commit[] = [];
    before(
      new ClusterScript((request) => {
        const { response, commits: made } = api.handle(request, worldStart as Instant);
        if (response.status >= 300) {
          throw new Error(`${request.method} ${request.path}: ${JSON.stringify(response.body)}`);
        }
        commits.push(...made);
      }),
    );
    made = { api, commits };
    beginnings.set(story, made);
  }
  return { api: made.api.fork(), commits: made.commits };
}

function stepOfQueue(queue: string): StepName {
  const step = twoSteps.find((candidate) => queueName(relayStage, candidate) === queue);
  if (step === undefined) {
    throw new Error(`a relay sends to ${queue}`);
  }
  return step;
}
