import { type Routing, routing as everyRoute, watchedKinds } from '#events/routes.ts';
import type { StepName } from '#shared/api/steps.ts';
import { type Instant, secondsBetween } from '#shared/kernel/instant.ts';
import { type Read, absent, present, unknown } from '#shared/kernel/read.ts';
import type { ResourceKind } from '#shared/kube/resources.ts';
import type { QueueSender } from '#shared/queue/queue.ts';
import { DirtySet, type Mark } from './dirty-set.ts';
import { type Findings, KnownWorld } from './known-world.ts';
import type { ReflectedResource, ReflectorNews, ReflectorSink } from './reflector.ts';
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
      readonly objects: number;
      readonly gaps: number;
    }
  | { readonly kind: 'sender'; readonly news: SenderNews }
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
  readonly routing?: Routing;
  readonly limits?: RelayLimits;
}

/** The state of one reflected resource, for health and metrics. */
export interface Hearing {
  readonly resource: ReflectedResource;
  readonly isListed: boolean;
  /** When the API server last said anything about it; when the relay was made if it never did. */
  readonly lastHeard: Instant;
}

/** The same while it is kept. */
interface OpenHearing {
  readonly resource: ReflectedResource;
  isListed: boolean;
  lastHeard: Instant;
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
  readonly #dirty = new DirtySet();
  readonly #wakes = new Wakes();
  readonly #sender: Sender;
  readonly #steps: readonly StepName[];
  readonly #hearings: readonly OpenHearing[];
  #cancelWake: (() => void) | undefined;
  #cancelResync: (() => void) | undefined;

  constructor(parts: RelayParts) {
    const { timers, report, routing = everyRoute, limits = relayLimits } = parts;
    this.#parts = parts;
    this.#limits = limits;
    this.#world = new KnownWorld(routing);
    this.#steps = [...new Set(routing.routes.map((route) => route.step))];
    this.#sender = new Sender({
      ...parts,
      dirty: this.#dirty,
      steps: this.#steps,
      limits: limits.sender,
      report: (news) => report({ kind: 'sender', news }),
    });
    this.#hearings = resourcesOf(routing, parts.namespaces).map((resource) => ({
      resource,
      isListed: false,
      lastHeard: timers.now(),
    }));
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
          hearing.lastHeard = this.#parts.timers.now();
        }
        this.#parts.report({ kind: 'reflector', resource: hearing.resource, news });
      },
    }));
  }

  /** Every target is dirty once, for every step. Needed because changes in etcd or of permissions emit no event. */
  resync(): void {
    const duties = this.#world.duties();
    const token = String(this.#parts.timers.now());
    this.#mark(duties.map((duty) => ({ ...duty, cause: 'resync', token })));
    this.#parts.report({ kind: 'resync', duties: duties.length });
    this.#sleepUntilResync();
  }

  /** Stops the clocks and sends what is owed, for at most so long. Reflectors are to be stopped before. */
  async stop(graceMs: number): Promise<boolean> {
    this.#cancelWake?.();
    this.#cancelResync?.();
    return this.#sender.drain(graceMs);
  }

  /** Problems that make it unfit to be relied on; empty when ready. */
  notReady(): string[] {
    const now = this.#parts.timers.now();
    return this.#hearings.flatMap(({ resource, isListed, lastHeard }) => {
      const name = `${resource.kind} in ${resource.namespace ?? 'all namespaces'}`;
      if (!isListed) {
        return [`${name}: not listed yet`];
      }
      return now - lastHeard < this.#limits.readyMs
        ? []
        : [`${name}: heard nothing for ${Math.round(secondsBetween(lastHeard, now))} s`];
    });
  }

  get hearings(): readonly Hearing[] {
    return this.#hearings;
  }

  /** Numbers for metrics. */
  state(): {
    readonly dirty: ReadonlyMap<StepName, number>;
    readonly oldestUnsentSeconds: number;
    readonly wakes: number;
    readonly objects: ReadonlyMap<ResourceKind, number>;
  } {
    const oldest = this.#dirty.oldest();
    const kinds = new Set(this.#hearings.map(({ resource }) => resource.kind));
    return {
      dirty: new Map(this.#steps.map((step) => [step, this.#dirty.size(step)])),
      oldestUnsentSeconds:
        oldest === undefined ? 0 : Math.max(0, secondsBetween(oldest, this.#parts.timers.now())),
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
    const { kind, namespace } = resource;
    return {
      replaced: (objects) => {
        const cause = hearing.isListed ? 'changed' : 'resync';
        const findings = this.#world.replace(kind, namespace, objects, cause);
        const gaps = hearing.isListed ? findings.differences : 0;
        hearing.isListed = true;
        this.#take(findings);
        this.#parts.report({ kind: 'listed', resource, objects: objects.length, gaps });
      },
      changed: (object) => this.#take(this.#world.see(kind, object)),
      removed: (object) => this.#take(this.#world.lose(kind, object)),
    };
  }

  #take({ marks, wakes }: Findings): void {
    const now = this.#parts.timers.now();
    for (const { sleeper, wake, version } of wakes) {
      this.#wakes.set(sleeper, wake, now, version);
    }
    this.#mark(marks);
    this.#sleepUntilWake();
  }

  #mark(marks: readonly Mark[]): void {
    const now = this.#parts.timers.now();
    for (const mark of marks) {
      this.#dirty.mark(mark, now);
    }
    this.#sender.notice();
  }

  #sleepUntilWake(): void {
    this.#cancelWake?.();
    this.#cancelWake = undefined;
    const due = this.#wakes.nextDue();
    if (due !== undefined) {
      const delayMs = Math.min(longestWakeSleepMs, Math.max(0, due - this.#parts.timers.now()));
      this.#cancelWake = this.#parts.timers.after(delayMs, () => this.#wake());
    }
  }

  #wake(): void {
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
    this.#cancelResync = this.#parts.timers.after(delayMs, () => this.resync());
  }
}

/** One resource per watched kind and namespace. A kind that is only ever a member is watched by metadata and label. */
function resourcesOf(routing: Routing, namespaces: readonly string[]): ReflectedResource[] {
  const { routes, memberships, references } = routing;
  return watchedKinds(routing).flatMap((kind) => {
    const isRead =
      routes.some(({ target }) => target === kind) ||
      references.some((reference) => reference.kind === kind);
    const labels = new Set(
      memberships.filter((membership) => membership.kind === kind).map(({ label }) => label),
    );
    const [label] = labels;
    const resource: ReflectedResource = {
      kind,
      isMetadataOnly: !isRead,
      ...(isRead || labels.size !== 1 || label === undefined ? {} : { label }),
    };
    return namespaces.length === 0
      ? [resource]
      : namespaces.map((namespace) => ({ ...resource, namespace }));
  });
}
