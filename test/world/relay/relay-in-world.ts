import { leaseOnServer } from '#events/relay/lease-store.ts';
import { Candidate, leaseLimitsOf } from '#events/relay/lease.ts';
import { Reflector, type ReflectorLimits } from '#events/relay/reflector.ts';
import { Relay } from '#events/relay/relay.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import type { QueueSender } from '#shared/queue/queue.ts';
import { twoRoutes } from '#test/builders/two-steps.ts';
import { Random } from '#test/world/run/random.ts';
import type { ObservedRelay } from './relay-oracles.ts';
import { ProcessTimers, type VirtualClock } from './virtual-clock.ts';

/** Cluster and stage that every relay of a world is configured with. */
export const relayClusterId = 'world';
export const relayStage = 'world';

/** The Lease that relays of a world agree by, where they do. */
const lease = { namespace: 'millrace', name: 'relay' } as const;
/** The default of a relay. */
const leaseSeconds = 15;

export interface RelayInWorldParts {
  readonly clock: VirtualClock;
  /** The API server and the queues as one process reaches them. */
  connect(process: RelayProcess): KubeConnection;
  sender(process: RelayProcess): QueueSender;
  /** What is on its way to the process never comes. */
  hangUp(process: RelayProcess): void;
  /** A process is there, and has done nothing yet. */
  started(process: RelayProcess): void;
  /** A part of a process broke in a way that ends it. */
  broke(process: RelayProcess, error: unknown): void;
  /** A process has done all that it does on SIGTERM. */
  stopped(process: RelayProcess): void;
  /** A process is no more. */
  ended(process: RelayProcess): void;
  readonly seed: number;
  /** Distinguishes relays of one world. */
  readonly number: number;
  /** Whether relays agree by a Lease on one that sends. */
  readonly isLeased: boolean;
  /** Of its reflectors. */
  readonly limits: ReflectorLimits;
}

/**
 * A relay in virtual time: the reflectors, the bookkeeping, the sender and the candidate that ship, put together as
 * `start.ts` does, over connections of the world. When it crashes all that it knows is lost and nothing it does
 * afterwards has an effect.
 */
export class RelayInWorld {
  readonly #parts: RelayInWorldParts;
  #starts = 0;
  #process: RelayProcess | undefined;

  private constructor(parts: RelayInWorldParts) {
    this.#parts = parts;
  }

  /** A relay whose first process has just started. */
  static create(parts: RelayInWorldParts): RelayInWorld {
    const relay = new RelayInWorld(parts);
    relay.restart();
    return relay;
  }

  /** The one that runs; absent between a crash and the restart. */
  get process(): RelayProcess | undefined {
    return this.#process;
  }

  crash(): void {
    const process = this.#process;
    this.#process = undefined;
    process?.kill();
  }

  restart(): void {
    this.crash();
    this.#starts += 1;
    const { number } = this.#parts;
    this.#process = new RelayProcess(this.#parts, `relay-${number}.${this.#starts}`, this.#starts);
    this.#process.start();
  }

  /** As on SIGTERM, and started again when it has ended by itself. */
  async roll(): Promise<void> {
    const stopped = this.#process;
    await stopped?.stop();
    if (stopped !== undefined && this.#process === stopped) {
      this.#parts.stopped(stopped);
      this.restart();
    }
  }
}

/** How long a stop may go on sending, in milliseconds; as in `main.ts`. */
const stopGraceMs = 10_000;

/** One process of a relay. */
export class RelayProcess implements ObservedRelay {
  readonly name: string;
  readonly #relay: Relay;
  readonly #timers: ProcessTimers;
  readonly #parts: RelayInWorldParts;
  readonly #random: () => number;
  readonly #stopping = new AbortController();
  readonly #ending = new AbortController();
  readonly #candidate: Candidate | undefined;
  #reflectors: readonly Promise<void>[] = [];
  #candidacy: Promise<void> | undefined;
  #isAlive = true;

  /** @param start counts the processes of its relay: no two of them draw the same numbers */
  constructor(parts: RelayInWorldParts, name: string, start: number) {
    this.name = name;
    this.#parts = parts;
    this.#timers = new ProcessTimers(parts.clock);
    const random = new Random(parts.seed + 1_000 * parts.number + start);
    this.#random = () => random.next();
    this.#candidate = parts.isLeased ? this.#makeCandidate() : undefined;
    this.#relay = new Relay({
      routing: twoRoutes,
      clusterId: relayClusterId,
      stage: relayStage,
      namespaces: [],
      queues: parts.sender(this),
      timers: this.#timers,
      random: this.#random,
      isLeading: () => this.#candidate?.isLeading ?? true,
      report: () => {},
    });
  }

  get isAlive(): boolean {
    return this.#isAlive;
  }

  get isLeading(): boolean {
    return this.#relay.isLeading;
  }

  get pendingTimers(): number {
    return this.#timers.pending;
  }

  state(): ReturnType<Relay['state']> {
    return this.#relay.state();
  }

  start(): void {
    this.#parts.started(this);
    this.#candidacy = this.#candidate?.run(this.#ending.signal);
    const { limits } = this.#parts;
    this.#reflectors = this.#relay.sources.map(({ resource, sink, report }) => {
      const connection = this.#parts.connect(this);
      const ports = { connection, timers: this.#timers, random: this.#random };
      const reflector = new Reflector(resource, ports, sink, report, limits);
      return reflector
        .run(this.#stopping.signal)
        .catch((error: unknown) => this.#parts.broke(this, error));
    });
  }

  /** SIGKILL. */
  kill(): void {
    this.#isAlive = false;
    this.#timers.kill();
    this.#parts.hangUp(this);
    this.#parts.ended(this);
  }

  /** SIGTERM. Resolves when all is done that is to be done before the process exits. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await Promise.allSettled(this.#reflectors);
    await this.#relay.stop(stopGraceMs);
    this.#ending.abort();
    await this.#candidacy;
    await this.#candidate?.release();
  }

  #makeCandidate(): Candidate {
    const limits = leaseLimitsOf(leaseSeconds);
    return new Candidate({
      store: leaseOnServer(this.#parts.connect(this), lease, limits.requestTimeoutMs),
      timers: this.#timers,
      random: this.#random,
      identity: this.name,
      limits,
      report: (news) => {
        if (news.kind !== 'failed') {
          this.#relay.leadershipChanged();
        }
      },
    });
  }
}
