import { type Routing, routing as everyRoute, watchedKinds } from '#events/routes.ts';
import type { StepName } from '#shared/api/steps.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import { type Read, absent, present, unknown } from '#shared/kernel/read.ts';
import type { Tracer } from '#shared/kernel/trace.ts';
import type { ResourceKind } from '#shared/kube/resources.ts';
import type { QueueSender } from '#shared/queue/queue.ts';
import { DirtySet, type Mark, type Target } from './dirty-set.ts';
import { type Findings, KnownWorld } from './known-world.ts';
import type { ListMode, ReflectedResource, ReflectorNews, ReflectorSink } from './reflector.ts';
import { Sender, type SenderLimits, type SenderNews, senderLimits } from './sender.ts';
import type { Timers } from './timers.ts';
import { Wakes } from './wakes.ts';

export interface RelayLimits {
  readonly sender: SenderLimits;
  /** Every target is dirty once within this time at most, in milliseconds; jittered down by up to a fifth. */
  readonly resyncMs: number;
  /** Heard nothing of a resource for so long: not ready. */
  readonly readyMs: number;
}

export const relayLimits: RelayLimits = {
  sender: senderLimits,
  resyncMs: 30 * 60_000,
  readyMs: 90_000,
};

/** What happens inside, for logs and metrics. */
export type RelayNews =
  | {
      readonly kind: 'reflector';
      readonly resource: ReflectedResource;
      readonly news: ReflectorNews;
    }
  /** A complete list is in. `gaps`: objects that no event had told of; 0 for the first list. */
  | {
      readonly kind: 'listed';
      readonly resource: ReflectedResource;
      readonly how: ListMode;
      readonly objects: number;
      readonly gaps: number;
    }
  | { readonly kind: 'sender'; readonly news: SenderNews }
  /** What a target's annotations say of its trace is not what they should. */
  | { readonly kind: 'ignored'; readonly target: Target; readonly why: string }
  /** A target hints too often: its next hint is held back. */
  | { readonly kind: 'slowed'; readonly mark: Mark }
  | { readonly kind: 'woke'; readonly step: StepName }
  | { readonly kind: 'resync'; readonly duties: number };

export interface RelayParts {
  readonly clusterId: string;
  readonly stage: string;
  /** Empty: all. */
  readonly namespaces: readonly string[];
  readonly queues: QueueSender;
  readonly timers: Timers;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly report: (news: RelayNews) => void;
  /** Where the spans of hints go; nowhere when absent. */
  readonly tracer?: Tracer;
  /** Whether this relay is the one that sends; always when absent. Each change is told by {@link Relay.leadershipChanged}. */
  readonly isLeading?: () => boolean;
  readonly routing?: Routing;
  readonly limits?: RelayLimits;
}

/** The state of one reflected resource, for health and metrics. */
export interface Hearing {
  readonly resource: ReflectedResource;
  readonly isListed: boolean;
  /** When the API server last said anything about it, on the monotonic clock; when the relay was made if it never did. */
  readonly lastHeardMs: number;
}

/** The same while it is kept. */
interface OpenHearing {
  readonly resource: ReflectedResource;
  isListed: boolean;
  lastHeardMs: number;
}

/** The longest the wake timer sleeps, in milliseconds, so that a wall clock that was set is noticed. */
const longestWakeSleepMs = 60_000;

/**
 * Turns what reflectors see into hints: bookkeeping, dirty set, wakes and sender in one, without a socket of its own.
 * Time, randomness and the queue are handed in, so that the same code runs in production and in a simulation.
 */
export class Relay {
  readonly #parts: RelayParts;
  readonly #limits: RelayLimits;
  readonly #world: KnownWorld;
  readonly #dirty: DirtySet;
  readonly #wakes = new Wakes();
  readonly #sender: Sender;
  readonly #steps: readonly StepName[];
  readonly #hearings: readonly OpenHearing[];
  /** When the wake timer runs out: the wall clock's time, and how to stop it. */
  #nextWake: { readonly due: Instant; readonly cancel: () => void } | undefined;
  /** When everything was last made dirty by this relay, on the monotonic clock. */
  #resyncedMs: number;
  #cancelResync: (() => void) | undefined;

  constructor(parts: RelayParts) {
    const { timers, report, routing = everyRoute, limits = relayLimits } = parts;
    this.#parts = parts;
    this.#limits = limits;
    this.#world = new KnownWorld(routing);
    this.#steps = [...new Set(routing.routes.map((route) => route.step))];
    this.#dirty = new DirtySet({
      timers,
      pace: limits.sender.pace,
      onHeld: ({ mark }) => report({ kind: 'slowed', mark }),
    });
    this.#sender = new Sender({
      ...parts,
      dirty: this.#dirty,
      steps: this.#steps,
      limits: limits.sender,
      isLeading: () => this.isLeading,
      report: (news) => report({ kind: 'sender', news }),
    });
    this.#hearings = resourcesOf(routing, parts.namespaces).map((resource) => ({
      resource,
      isListed: false,
      lastHeardMs: timers.monotonicMs(),
    }));
    this.#resyncedMs = timers.monotonicMs();
    this.#sleepUntilResync();
  }

  /** What has to be reflected, and where each reflector puts what it sees. */
  get sources(): readonly {
    resource: ReflectedResource;
    sink: ReflectorSink;
    report: (news: ReflectorNews) => void;
  }[] {
    return this.#hearings.map((hearing) => ({
      resource: hearing.resource,
      sink: this.#sinkOf(hearing),
      report: (news) => {
        if (news.kind === 'heard') {
          hearing.lastHeardMs = this.#parts.timers.monotonicMs();
        }
        this.#parts.report({ kind: 'reflector', resource: hearing.resource, news });
      },
    }));
  }

  /** Whether this relay is the one that sends, at this moment. */
  get isLeading(): boolean {
    return this.#parts.isLeading?.() ?? true;
  }

  /**
   * Another relay took over, or this one did.
   *
   * A relay that begins to lead knows nothing of what the one before has sent, so it kept every mark since it last led
   * itself, or since its own first lists, which mark every target: each look that anybody may still be owed is in the
   * dirty set. Beyond that everything is made dirty only if that is due anyhow, however often the lead changes hands.
   */
  leadershipChanged(): void {
    if (this.isLeading) {
      this.#dirty.oweFromNow();
      if (this.#parts.timers.monotonicMs() - this.#resyncedMs >= this.#limits.resyncMs) {
        this.resync();
      }
    }
    this.#sender.notice();
  }

  /** Every target is dirty once, for every step. Needed because changes in etcd or of permissions emit no event. */
  resync(): void {
    const duties = this.#world.duties();
    const token = String(this.#parts.timers.now());
    this.#resyncedMs = this.#parts.timers.monotonicMs();
    this.#mark(duties.map((duty) => ({ ...duty, cause: 'resync', token })));
    this.#parts.report({ kind: 'resync', duties: duties.length });
    this.#sleepUntilResync();
  }

  /**
   * Stops the clocks and sends what is owed, also what is held back, for at most so long. Resolves with whether all was
   * sent. Reflectors are to be stopped before.
   */
  async stop(graceMs: number): Promise<boolean> {
    this.#nextWake?.cancel();
    this.#cancelResync?.();
    return this.#sender.drain(graceMs);
  }

  /** Problems that make it unfit to be relied on; empty when ready. */
  notReady(): string[] {
    const nowMs = this.#parts.timers.monotonicMs();
    return this.#hearings.flatMap(({ resource, isListed, lastHeardMs }) => {
      const name = `${resource.kind} in ${resource.namespace ?? 'all namespaces'}`;
      if (!isListed) {
        return [`${name}: not listed yet`];
      }
      const silentMs = nowMs - lastHeardMs;
      return silentMs < this.#limits.readyMs
        ? []
        : [`${name}: heard nothing for ${Math.round(silentMs / 1000)} s`];
    });
  }

  get hearings(): readonly Hearing[] {
    return this.#hearings;
  }

  /** Numbers for metrics. A relay that stands by keeps dirty entries, but owes none of them. */
  state(): {
    readonly dirty: ReadonlyMap<StepName, number>;
    readonly held: ReadonlyMap<StepName, number>;
    readonly oldestUnsentSeconds: number;
    readonly wakes: number;
    readonly objects: ReadonlyMap<ResourceKind, number>;
  } {
    const nowMs = this.#parts.timers.monotonicMs();
    const oldestMs = this.isLeading ? this.#dirty.oldestMs() : undefined;
    const kinds = new Set(this.#hearings.map(({ resource }) => resource.kind));
    return {
      dirty: new Map(this.#steps.map((step) => [step, this.#dirty.size(step)])),
      held: new Map(this.#steps.map((step) => [step, this.#dirty.heldSize(step)])),
      oldestUnsentSeconds: (nowMs - (oldestMs ?? nowMs)) / 1000,
      wakes: this.#wakes.size,
      objects: new Map([...kinds].map((kind) => [kind, this.#world.count(kind)])),
    };
  }

  /** What the mirror annotation of a watched object says, `null` without one; unknown before its kind was listed. */
  mirrorOf(kind: ResourceKind, namespace: string, name: string): Read<string | null> {
    const isListed = this.#hearings
      .filter(({ resource }) => resource.kind === kind)
      .filter(({ resource }) => (resource.namespace ?? namespace) === namespace)
      .every((hearing) => hearing.isListed);
    if (!isListed) {
      return unknown('the first list is not in yet');
    }
    const mirror = this.#world.mirrorOf(kind, { namespace, name });
    return mirror === undefined ? absent : present(mirror);
  }

  #sinkOf(hearing: OpenHearing): ReflectorSink {
    const { resource } = hearing;
    const { kind, namespace, label } = resource;
    // What a list that broke off has told of is known by the time the next one is complete.
    let gaps = 0;
    return {
      began: () => this.#world.begin(resource),
      listed: (object) => {
        const cause = hearing.isListed ? 'changed' : 'resync';
        const findings = this.#world.see(kind, object, cause, label);
        gaps += hearing.isListed ? findings.differences : 0;
        this.#take(findings);
      },
      completed: (how) => {
        const findings = this.#world.complete(resource);
        gaps += hearing.isListed ? findings.differences : 0;
        hearing.isListed = true;
        this.#take(findings);
        const objects = this.#world.count(kind, namespace);
        this.#parts.report({ kind: 'listed', resource, how, objects, gaps });
        gaps = 0;
      },
      changed: (object) => this.#take(this.#world.see(kind, object, 'changed', label)),
      removed: (object) => this.#take(this.#world.lose(kind, object, label)),
    };
  }

  #take({ marks, wakes, ignored }: Findings): void {
    const now = this.#parts.timers.now();
    if (ignored !== undefined) {
      this.#parts.report({ kind: 'ignored', ...ignored });
    }
    for (const { sleeper, wake, version } of wakes) {
      this.#wakes.set(sleeper, wake, now, version);
    }
    this.#mark(marks);
    this.#sleepUntilWake();
  }

  #mark(marks: readonly Mark[]): void {
    if (marks.length === 0) {
      return;
    }
    for (const mark of marks) {
      this.#dirty.mark(mark);
    }
    this.#sender.notice();
  }

  /** Sets the timer for the next wake, unless it is set for that already: most events move none. */
  #sleepUntilWake(): void {
    const due = this.#wakes.nextDue();
    if (due === this.#nextWake?.due) {
      return;
    }
    this.#nextWake?.cancel();
    this.#nextWake = undefined;
    if (due !== undefined) {
      const { timers } = this.#parts;
      const delayMs = Math.min(longestWakeSleepMs, Math.max(0, due - timers.now()));
      this.#nextWake = { due, cancel: timers.after(delayMs, () => this.#wake()) };
    }
  }

  #wake(): void {
    this.#nextWake = undefined;
    const fired = this.#wakes.fire(this.#parts.timers.now());
    const marks = fired.flatMap(({ step, uid, due }): Mark[] => {
      const target = this.#world.target(uid);
      return target === undefined ? [] : [{ step, target, cause: 'wake', token: String(due) }];
    });
    this.#mark(marks);
    for (const { step } of marks) {
      this.#parts.report({ kind: 'woke', step });
    }
    this.#sleepUntilWake();
  }

  #sleepUntilResync(): void {
    this.#cancelResync?.();
    const delayMs = this.#limits.resyncMs * (1 - this.#parts.random() / 5);
    this.#cancelResync = this.#parts.timers.after(delayMs, () => this.#resyncIfLeading());
  }

  /** A relay that stands by has everything dirty as it is. What it does instead keeps its memory bounded by objects. */
  #resyncIfLeading(): void {
    if (this.isLeading) {
      this.resync();
      return;
    }
    // Targets come and go for as long as another one leads, which had all this time to tell of their end.
    this.#dirty.forgetDeleted(this.#limits.resyncMs);
    this.#sleepUntilResync();
  }
}

/** One resource per watched kind and namespace. A kind that is only ever a member is watched by metadata, and once for each label. */
function resourcesOf(routing: Routing, namespaces: readonly string[]): ReflectedResource[] {
  const { routes, memberships, references } = routing;
  return watchedKinds(routing).flatMap((kind) => {
    const isRead =
      routes.some(({ target }) => target === kind) ||
      references.some((reference) => reference.kind === kind);
    const labels = new Set(
      memberships.filter((membership) => membership.kind === kind).map(({ label }) => label),
    );
    const resources: readonly ReflectedResource[] = isRead
      ? [{ kind, isMetadataOnly: false }]
      : [...labels].map((label) => ({ kind, isMetadataOnly: true, label }));
    return namespaces.length === 0
      ? resources
      : resources.flatMap((resource) =>
          namespaces.map((namespace) => ({ ...resource, namespace })),
        );
  });
}
