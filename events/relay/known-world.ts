import type { Routing } from '#events/routes.ts';
import { drainMirror, recordAnnotation, releaseMirror } from '#shared/api/annotations.ts';
import type { StepName } from '#shared/api/steps.ts';
import { type Wake, wakeOf } from '#shared/kernel/record.ts';
import type { ResourceKind } from '#shared/kube/resources.ts';
import { type Audience, type Concern, concernsOf, digestOf } from './digest.ts';
import type { Mark, Target } from './dirty-set.ts';
import { type FoundContext, contextIn, laterOf } from './left-context.ts';
import type { Sleeper } from './wakes.ts';
import { type WatchedObject, textAt } from './watched-object.ts';

/** What follows from something that was seen. */
export interface Findings {
  /** Hints that are owed now. */
  readonly marks: Mark[];
  /** What each record that was looked at says about waking; `undefined` where it says nothing or is gone. */
  readonly wakes: {
    readonly sleeper: Sleeper;
    readonly wake: Wake | undefined;
    /** Of the record that asks for it. */
    readonly version: string;
  }[];
  /** Objects that appeared, vanished or concern somebody otherwise than before. */
  differences: number;
  /** What of a target's annotations about its trace is not what they should be. */
  ignored?: { readonly target: Target; readonly why: string };
}

/** All that is kept of an object. */
interface Known {
  readonly object: Target;
  readonly concerns: readonly Concern[];
  /** The objects it names in its spec, as `<kind>/<name>`. */
  readonly references: readonly string[];
  /** The label it was listed or watched by last, where its kind is told apart by labels. */
  readonly label: string | undefined;
  /** What its mirror annotation says. */
  readonly mirror: string | undefined;
  /** The value of {@link KnownWorld.#lists} when it was last seen. */
  readonly seenAt: number;
}

interface Place {
  readonly namespace: string;
  readonly name: string;
}

/** A part of the cluster that is listed on its own: all namespaces when none is named. */
export interface ListScope {
  readonly kind: ResourceKind;
  readonly namespace?: string;
  /** Only objects that carry it are in the list. */
  readonly label?: string;
}

/** Shared by the many objects that refer to nothing. */
const noReferences: readonly string[] = [];

/**
 * What the relay remembers of the cluster: per object its identity and small digests, never the object.
 *
 * Bookkeeping without I/O or time: what is seen goes in, the hints and wakes that follow come out. Two objects of the
 * same name and different uids are two objects, whether or not the first one's deletion was seen.
 *
 * A list is taken in object by object, so that it is never in memory as a whole. What counts as vanished when it is
 * complete is what was not seen since it began, in the list or in an event; a list that is not completed deletes nothing.
 */
export class KnownWorld {
  readonly #routing: Routing;
  /** By kind, namespace and name. */
  readonly #known = new Map<ResourceKind, Map<string, Map<string, Known>>>();
  readonly #targets = new Map<string, Target>();
  /** Lists that have begun so far, of whatever scope. */
  #lists = 0;
  /** The value of {@link KnownWorld.#lists} when the list in progress began, by scope. */
  readonly #beganAt = new Map<string, number>();

  constructor(routing: Routing) {
    this.#routing = routing;
  }

  /** A complete list begins. One of the same scope that was in progress is given up. */
  begin(scope: ListScope): void {
    this.#lists += 1;
    this.#beganAt.set(scopeKey(scope), this.#lists);
  }

  /**
   * An object appeared, was written, or is in a list.
   *
   * @param cause why hints about differences are sent: `resync` in a first list
   * @param label by which it was listed or watched
   */
  see(
    kind: ResourceKind,
    object: WatchedObject,
    cause: 'changed' | 'resync' = 'changed',
    label?: string,
  ): Findings {
    const findings: Findings = { marks: [], wakes: [], differences: 0 };
    this.#learn(kind, object, cause, label, findings);
    return findings;
  }

  /** The list in progress is complete: what was not seen since it began has vanished. */
  complete(scope: ListScope): Findings {
    const findings: Findings = { marks: [], wakes: [], differences: 0 };
    const beganAt = this.#beganAt.get(scopeKey(scope));
    if (beganAt === undefined) {
      return findings;
    }
    this.#beganAt.delete(scopeKey(scope));
    for (const { object, label, seenAt } of this.#listed(scope)) {
      if (seenAt < beganAt && label === scope.label) {
        this.#forget(scope.kind, object, undefined, findings);
      }
    }
    return findings;
  }

  /**
   * An object was deleted, or lost the label by which it was watched. Late news of one that has a successor by now is no
   * news of the successor; nor is what is no longer seen by one label gone where another one shows it.
   */
  lose(kind: ResourceKind, object: WatchedObject, label?: string): Findings {
    const findings: Findings = { marks: [], wakes: [], differences: 0 };
    const known = this.#find(kind, object.metadata);
    if (known?.object.uid === object.metadata.uid && known.label === label) {
      this.#forget(kind, object.metadata, object.metadata.resourceVersion, findings);
    }
    return findings;
  }

  /** Every target with each step that reconciles it. */
  duties(): { readonly step: StepName; readonly target: Target }[] {
    return this.#routing.routes.flatMap(({ step, target: kind }) =>
      [...this.#listed({ kind })].map(({ object }) => ({ step, target: object })),
    );
  }

  /** The target with this uid as it was last seen. */
  target(uid: string): Target | undefined {
    return this.#targets.get(uid);
  }

  /** What the mirror annotation of an object says: `null` without one, `undefined` where the object is not known. */
  mirrorOf(kind: ResourceKind, place: Place): string | null | undefined {
    const known = this.#find(kind, place);
    return known === undefined ? undefined : (known.mirror ?? null);
  }

  /** How many objects are known; in all namespaces when none is named. */
  count(kind: ResourceKind, namespace?: string): number {
    const shelves = this.#known.get(kind);
    return namespace === undefined
      ? [...(shelves?.values() ?? [])].reduce((sum, { size }) => sum + size, 0)
      : (shelves?.get(namespace)?.size ?? 0);
  }

  #learn(
    kind: ResourceKind,
    object: WatchedObject,
    cause: 'changed' | 'resync',
    label: string | undefined,
    findings: Findings,
  ): void {
    const { uid, resourceVersion, annotations = {} } = object.metadata;
    let before = this.#find(kind, object.metadata);
    if (before !== undefined && before.object.uid !== uid) {
      this.#forget(kind, object.metadata, undefined, findings);
      before = undefined;
    }
    // The strings that an object keeps for life are kept once, not anew with each of its events.
    const { namespace, name } = before?.object ?? object.metadata;
    const found = this.#contextOf(kind, annotations);
    const now: Known = {
      object: {
        kind,
        namespace,
        name,
        uid: before?.object.uid ?? uid,
        resourceVersion,
        ...(found?.kind === 'left' ? { left: found.left } : {}),
      },
      concerns: concernsOf(this.#routing, kind, object),
      references: this.#referencesOf(kind, object),
      label,
      mirror: annotations[drainMirror] ?? annotations[releaseMirror],
      seenAt: this.#lists,
    };
    this.#shelf(kind, namespace).set(name, now);
    if (found !== undefined && 'ignored' in found) {
      findings.ignored = { target: now.object, why: found.ignored };
    }
    for (const { step, target } of this.#routing.routes) {
      if (target === kind) {
        this.#targets.set(uid, now.object);
        const record = annotations[recordAnnotation(step)];
        findings.wakes.push({
          sleeper: { step, uid },
          wake: record === undefined ? undefined : wakeOf(record),
          version: record === undefined ? '' : digestOf(record),
        });
      }
    }
    const changed = changedConcerns(before?.concerns ?? [], now.concerns);
    for (const { audience } of changed) {
      this.#tell(audience, now.object, cause, resourceVersion, findings);
    }
    findings.differences += changed.length > 0 ? 1 : 0;
  }

  /** Of targets alone: they are what people and pipelines change. */
  #contextOf(
    kind: ResourceKind,
    annotations: Readonly<Record<string, string>>,
  ): FoundContext | undefined {
    return this.#routing.routes.some(({ target }) => target === kind)
      ? contextIn(annotations)
      : undefined;
  }

  #referencesOf(kind: ResourceKind, object: WatchedObject): readonly string[] {
    const references = this.#routing.references.filter(({ target }) => target === kind);
    return references.length === 0
      ? noReferences
      : references.map(({ kind: named, path }) => `${named}/${textAt(object, path) ?? ''}`);
  }

  /** @param version the deletion's own, where it was seen; else the object's last one stands for it */
  #forget(kind: ResourceKind, place: Place, version: string | undefined, findings: Findings): void {
    const known = this.#find(kind, place);
    if (known === undefined) {
      return;
    }
    const { object } = known;
    this.#remove(kind, object);
    for (const { audience } of known.concerns) {
      const cause = audience.to === 'itself' ? 'deleted' : 'changed';
      this.#tell(audience, object, cause, version ?? object.resourceVersion, findings);
      if (audience.to === 'itself') {
        findings.wakes.push({
          sleeper: { step: audience.step, uid: object.uid },
          wake: undefined,
          version: '',
        });
      }
    }
    findings.differences += 1;
  }

  #tell(
    audience: Audience,
    about: Target,
    cause: Mark['cause'],
    token: string,
    findings: Findings,
  ): void {
    if (audience.to === 'itself') {
      findings.marks.push({ step: audience.step, target: about, cause, token });
      return;
    }
    for (const target of this.#recipients(audience, about)) {
      for (const route of this.#routing.routes) {
        if (route.target === target.kind && (audience.to === 'referrers' || route.members)) {
          // A change of a Database is the cause of the looks at its Shards.
          const left = laterOf(target.left, about.left);
          findings.marks.push({
            step: route.step,
            target,
            cause,
            token,
            ...(left === undefined ? {} : { left }),
          });
        }
      }
    }
  }

  #recipients(audience: Exclude<Audience, { to: 'itself' }>, about: Target): Target[] {
    const { namespace } = about;
    if (audience.to === 'owner') {
      const owner = this.#find(audience.kind, { namespace, name: audience.name });
      return owner === undefined ? [] : [owner.object];
    }
    const reference = `${about.kind}/${about.name}`;
    return [...this.#listed({ kind: audience.kind, namespace })]
      .filter(({ references }) => references.includes(reference))
      .map(({ object }) => object);
  }

  #find(kind: ResourceKind, { namespace, name }: Place): Known | undefined {
    return this.#known.get(kind)?.get(namespace)?.get(name);
  }

  *#listed({ kind, namespace }: ListScope): Generator<Known> {
    const shelves = this.#known.get(kind);
    if (namespace !== undefined) {
      yield* shelves?.get(namespace)?.values() ?? [];
      return;
    }
    for (const shelf of shelves?.values() ?? []) {
      yield* shelf.values();
    }
  }

  #shelf(kind: ResourceKind, namespace: string): Map<string, Known> {
    const shelves = this.#known.get(kind) ?? new Map<string, Map<string, Known>>();
    this.#known.set(kind, shelves);
    const shelf = shelves.get(namespace) ?? new Map<string, Known>();
    shelves.set(namespace, shelf);
    return shelf;
  }

  #remove(kind: ResourceKind, { namespace, name, uid }: Target): void {
    this.#targets.delete(uid);
    const shelf = this.#shelf(kind, namespace);
    shelf.delete(name);
    if (shelf.size === 0) {
      this.#known.get(kind)?.delete(namespace);
    }
  }
}

/** Those that are new, gone or different. A member that moved is news to the target it left and to its new one. */
export function changedConcerns(
  before: readonly Concern[],
  now: readonly Concern[],
): readonly Concern[] {
  const gone = before.filter((old) => !now.some(({ audience }) => isSame(audience, old.audience)));
  const different = now.filter(
    ({ audience, digest }) =>
      before.find((old) => isSame(audience, old.audience))?.digest !== digest,
  );
  return [...gone, ...different];
}

function isSame(one: Audience, other: Audience): boolean {
  switch (one.to) {
    case 'itself':
      return other.to === 'itself' && one.step === other.step;
    case 'owner':
      return other.to === 'owner' && one.kind === other.kind && one.name === other.name;
    case 'referrers':
      return other.to === 'referrers' && one.kind === other.kind;
  }
}

function scopeKey({ kind, namespace, label }: ListScope): string {
  return `${kind}/${namespace ?? ''}/${label ?? ''}`;
}
