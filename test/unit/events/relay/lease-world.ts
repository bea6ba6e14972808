import type { LeaseClaim, LeaseStore, StoredLease } from '#events/relay/lease-store.ts';
import { Candidate, type LeaseNews, leaseLimitsOf } from '#events/relay/lease.ts';
import type { Timers } from '#events/relay/timers.ts';
import { VirtualTimers } from './virtual-timers.ts';

export const limits = leaseLimitsOf(15);

/** Time as one process sees it: it goes on while the process is stopped, and what was due then runs afterwards. */
class ProcessTimers implements Timers {
  readonly #world: VirtualTimers;
  #late: (() => void)[] | undefined;

  constructor(world: VirtualTimers) {
    this.#world = world;
  }

  now() {
    return this.#world.now();
  }

  monotonicMs(): number {
    return this.#world.monotonicMs();
  }

  after(delayMs: number, run: () => void): () => void {
    let isCancelled = false;
    const runUnlessCancelled = (): void => {
      if (!isCancelled) {
        run();
      }
    };
    const cancel = this.#world.after(delayMs, () => {
      if (this.#late === undefined) {
        runUnlessCancelled();
      } else {
        this.#late.push(runUnlessCancelled);
      }
    });
    return () => {
      isCancelled = true;
      cancel();
    };
  }

  /** SIGSTOP. */
  freeze(): void {
    this.#late ??= [];
  }

  /** SIGCONT. What was due runs one after the other, each to its end. */
  async thaw(): Promise<void> {
    const late = this.#late ?? [];
    this.#late = undefined;
    for (const run of late) {
      run();
      await this.#world.pass(0);
    }
  }
}

/** One process that wants to lead, and its connection to the API server. */
export class Contender {
  readonly timers: ProcessTimers;
  readonly candidate: Candidate;
  readonly news: LeaseNews[] = [];
  /** The API server cannot be reached. */
  isCut = false;
  /** What is asked happens, but the answer never comes. */
  losesAnswers = false;
  /** It is stopped just when what it asks for happens, before it hears of it. */
  isFrozenByAnswer = false;
  /** Every request is refused. */
  refusal: Error | undefined;
  requests = 0;
  readonly #ending = new AbortController();
  readonly #running: Promise<void>;

  constructor(world: LeaseWorld, identity: string) {
    this.timers = new ProcessTimers(world.timers);
    this.candidate = new Candidate({
      store: world.storeOf(this),
      timers: this.timers,
      random: world.random,
      identity,
      limits,
      report: (news) => this.news.push(news),
    });
    this.#running = this.candidate.run(this.#ending.signal);
  }

  /** A graceful end. */
  async stop(): Promise<void> {
    this.#ending.abort();
    await this.#running;
    await this.candidate.release();
  }

  /** SIGKILL: nothing of it runs any more, and it says nothing to anybody. */
  kill(): void {
    this.isCut = true;
    this.timers.freeze();
  }

  pause(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.timers.after(ms, resolve);
    return promise;
  }
}

/** One Lease, as an API server keeps it, and those who compete for it over slow and broken connections. */
export class LeaseWorld {
  readonly timers = new VirtualTimers();
  readonly random: () => number;
  readonly contenders: Contender[] = [];
  lease: StoredLease | undefined;
  #version = 0;

  constructor(random: () => number = () => 0.5) {
    this.random = random;
  }

  enter(): Contender {
    const contender = new Contender(this, `relay-${this.contenders.length}`);
    this.contenders.push(contender);
    return contender;
  }

  /** Who may act as the leader now, dead and stopped processes included. */
  get leaders(): Contender[] {
    return this.contenders.filter(({ candidate }) => candidate.isLeading);
  }

  /** Lets time pass in small steps, and looks after each whether two lead. */
  async pass(ms: number): Promise<void> {
    for (let passedMs = 0; passedMs < ms; passedMs += 50) {
      await this.timers.pass(50);
      if (this.leaders.length > 1) {
        throw new Error(`two lead at ${this.timers.monotonicMs()} ms`);
      }
    }
  }

  storeOf(contender: Contender): LeaseStore {
    return {
      read: () => this.#ask(contender, () => this.lease),
      create: (claim) =>
        this.#ask(contender, () => {
          return this.lease === undefined
            ? this.#write({ metadata: { resourceVersion: '' } }, claim)
            : undefined;
        }),
      update: (lease, claim) =>
        this.#ask(contender, () => {
          const isCurrent = lease.metadata.resourceVersion === this.lease?.metadata.resourceVersion;
          return isCurrent ? this.#write(lease, claim) : undefined;
        }),
    };
  }

  #write(
    lease: Pick<StoredLease, 'metadata'> & Partial<StoredLease>,
    claim: LeaseClaim,
  ): StoredLease {
    this.#version += 1;
    const metadata = { ...lease.metadata, resourceVersion: String(this.#version) };
    this.lease = { ...lease, metadata, spec: { ...lease.spec, ...claim } };
    return this.lease;
  }

  /** The way there and the way back take their time, mostly little. */
  async #ask<T>(contender: Contender, act: () => T): Promise<T> {
    contender.requests += 1;
    const startMs = this.timers.monotonicMs();
    await contender.pause(800 * this.random() ** 8);
    if (contender.refusal !== undefined) {
      throw contender.refusal;
    }
    const isAnswered = !contender.isCut && !contender.losesAnswers;
    const answer = contender.isCut ? undefined : act();
    if (contender.isFrozenByAnswer) {
      contender.timers.freeze();
    }
    if (isAnswered) {
      await contender.pause(800 * this.random() ** 8);
      return answer as T;
    }
    await contender.pause(startMs + limits.requestTimeoutMs - this.timers.monotonicMs());
    throw new Error('no answer');
  }
}
