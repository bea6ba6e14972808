import { type Audience, concernsOf } from '#events/relay/digest.ts';
import { changedConcerns } from '#events/relay/known-world.ts';
import { readObject } from '#events/relay/watched-object.ts';
import { type Routing, routing, watchedKinds } from '#events/routes.ts';
import { recordAnnotation } from '#shared/api/annotations.ts';
import type { StepName } from '#shared/api/steps.ts';
import { type Instant, parseInstant, plusSeconds } from '#shared/kernel/instant.ts';
import { wakeOf } from '#shared/kernel/record.ts';
import type { KubeObject, ResourceKind } from '#shared/kube/resources.ts';
import type { ApiServer, Commit } from '#test/world/model/api-server.ts';

/** A target and the step that has to look at it: `drain-step Shard/db/orders`. */
export interface Due {
  readonly step: StepName;
  readonly kind: ResourceKind;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

interface Alarm {
  readonly due: Due;
  readonly record: string;
  readonly at: Instant;
  readonly everySeconds: number;
}

/** An `at` that fired and is still recorded fires again after this many seconds, as with the relay. */
const overdueAgainSeconds = 300;

/**
 * Hints as a relay without delay and without losses would send them: what concerns whom is asked of the relay's own
 * code. It remembers alarms only, so that a world can be copied. The relay itself, with all it can go through, runs in
 * test/world/relay.
 */
export class DirectHints {
  readonly #steps: readonly StepName[];
  readonly #routing: Routing;
  readonly #watched: ReadonlySet<ResourceKind>;
  #due: readonly Due[] = [];
  #alarms: readonly Alarm[] = [];
  /** Nobody sends anything; what becomes due meanwhile is not forgotten, as no list of a relay that begins anew forgets it. */
  #awayUntil: Instant | undefined;

  /** @param steps those that hints are sent to */
  constructor(steps: readonly StepName[]) {
    this.#steps = steps;
    this.#routing = {
      ...routing,
      routes: routing.routes.filter(({ step }) => steps.includes(step)),
    };
    this.#watched = new Set(watchedKinds(this.#routing));
  }

  fork(): DirectHints {
    const copy = new DirectHints(this.#steps);
    copy.#due = this.#due;
    copy.#alarms = this.#alarms;
    copy.#awayUntil = this.#awayUntil;
    return copy;
  }

  /** From here on nothing is sent, until {@link DirectHints.comeBack} at that instant, or at the latest one given. */
  goAway(until: Instant): void {
    this.#awayUntil = Math.max(until, this.#awayUntil ?? until) as Instant;
  }

  /** What begins anew looks at everything once. */
  comeBack(api: ApiServer, now: Instant): void {
    if (this.#awayUntil !== undefined && now >= this.#awayUntil) {
      this.#awayUntil = undefined;
      this.resync(api);
    }
  }

  /** Takes in a write. */
  see(commit: Commit, api: ApiServer, now: Instant): void {
    if (!this.#watched.has(commit.kind)) {
      return;
    }
    const before = concernsIn(commit, commit.before, this.#routing);
    const after = concernsIn(commit, commit.after, this.#routing);
    const isSameObject = commit.before?.metadata.uid === commit.after?.metadata.uid;
    const changed = isSameObject ? changedConcerns(before, after) : [...before, ...after];
    for (const { audience } of changed) {
      this.#tell(audience, commit, api);
    }
    if (this.#routing.routes.some(({ target }) => target === commit.kind)) {
      this.#followRecords(commit, now);
    }
  }

  /** Everything once, as the relay does every half hour. */
  resync(api: ApiServer): void {
    for (const { step, target } of this.#routing.routes) {
      for (const object of api.list(target)) {
        this.#mark(dueOf(step, target, object));
      }
    }
  }

  /** Makes due whose time has come. */
  wake(now: Instant): void {
    for (const alarm of this.#alarms.filter(({ at }) => at <= now)) {
      this.#mark(alarm.due);
      this.#alarms = this.#alarms.map((other) =>
        other === alarm ? { ...other, at: plusSeconds(now, other.everySeconds) } : other,
      );
    }
  }

  /** When {@link DirectHints.wake} has something next. */
  nextWake(): Instant | undefined {
    return this.#alarms.length === 0
      ? undefined
      : (Math.min(...this.#alarms.map(({ at }) => at)) as Instant);
  }

  /** Hands out what is due, for one step or for all; each at most once however often it changed. */
  take(step?: StepName): readonly Due[] {
    if (this.#awayUntil !== undefined) {
      return [];
    }
    const due = this.#due.filter((each) => step === undefined || each.step === step);
    this.#due = step === undefined ? [] : this.#due.filter((each) => each.step !== step);
    return due;
  }

  /** What is due now. */
  get due(): readonly Due[] {
    return this.#due;
  }

  /** Everything it remembers, for telling states apart. */
  get remembered(): {
    readonly due: readonly Due[];
    readonly alarms: readonly object[];
    readonly awayUntil: Instant | undefined;
  } {
    return { due: this.#due, alarms: this.#alarms, awayUntil: this.#awayUntil };
  }

  get isQuiet(): boolean {
    return this.#due.length === 0 && this.#alarms.length === 0;
  }

  /** Loses what is due: events that nobody heard. */
  lose(): number {
    return this.take().length;
  }

  #tell(
    audience: Audience,
    { kind, namespace, name, before, after }: Commit,
    api: ApiServer,
  ): void {
    const metadata = after?.metadata ?? before?.metadata;
    if (metadata === undefined) {
      return;
    }
    switch (audience.to) {
      case 'itself':
        this.#mark(dueOf(audience.step, kind, { metadata }));
        return;
      case 'owner':
        this.#markMembersOf(audience.kind, api.get(audience.kind, namespace, audience.name));
        return;
      case 'referrers':
        for (const target of api.list(audience.kind)) {
          if (target.metadata.namespace === namespace && names(target, name)) {
            this.#markAll(audience.kind, target);
          }
        }
    }
  }

  #markMembersOf(kind: ResourceKind, target: KubeObject<ResourceKind> | undefined): void {
    for (const route of this.#routing.routes) {
      if (target !== undefined && route.target === kind && route.members) {
        this.#mark(dueOf(route.step, kind, target));
      }
    }
  }

  #markAll(kind: ResourceKind, target: KubeObject<ResourceKind>): void {
    for (const route of this.#routing.routes) {
      if (route.target === kind) {
        this.#mark(dueOf(route.step, kind, target));
      }
    }
  }

  #mark(due: Due): void {
    if (!this.#due.some((other) => other.step === due.step && other.uid === due.uid)) {
      this.#due = [...this.#due, due];
    }
  }

  #followRecords({ kind, before, after }: Commit, now: Instant): void {
    const gone = before !== null && before.metadata.uid !== after?.metadata.uid ? before : null;
    this.#alarms = this.#alarms.filter(({ due }) => due.uid !== gone?.metadata.uid);
    if (after === null) {
      return;
    }
    for (const step of this.#steps) {
      const record = after.metadata.annotations?.[recordAnnotation(step)] ?? '';
      const isOf = ({ due }: Alarm): boolean => due.step === step && due.uid === after.metadata.uid;
      const known = this.#alarms.find(isOf);
      if (known?.record === record) {
        continue;
      }
      const wake = record === '' ? undefined : wakeOf(record);
      const others = this.#alarms.filter((alarm) => !isOf(alarm));
      if (wake === undefined) {
        this.#alarms = others;
        continue;
      }
      const everySeconds = 'every' in wake ? wake.every : overdueAgainSeconds;
      const at = 'every' in wake ? plusSeconds(now, wake.every) : (parseInstant(wake.at) ?? now);
      this.#alarms = [...others, { due: dueOf(step, kind, after), record, at, everySeconds }];
    }
  }
}

function concernsIn({ kind }: Commit, object: Commit['after'], routes: Routing) {
  const read = object === null ? undefined : readObject(object);
  return read === undefined ? [] : concernsOf(routes, kind, read);
}

function dueOf(
  step: StepName,
  kind: ResourceKind,
  { metadata }: { readonly metadata: { readonly namespace?: string; name: string; uid: string } },
): Due {
  return {
    step,
    kind,
    namespace: metadata.namespace ?? '',
    name: metadata.name,
    uid: metadata.uid,
  };
}

function names(target: KubeObject<ResourceKind>, database: string): boolean {
  return 'spec' in target && JSON.stringify(target.spec).includes(JSON.stringify(database));
}
