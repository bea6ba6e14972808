import type { Routing } from '#events/routes.ts';
import { drainMirror, recordAnnotation, releaseMirror } from '#shared/api/annotations.ts';
import type { StepName } from '#shared/api/steps.ts';
import { fnv1a32 } from '#shared/api/names.ts';
import { type Wake, wakeOf } from '#shared/kernel/record.ts';
import type { ResourceKind } from '#shared/kube/resources.ts';
import { type Audience, type Concern, concernsOf } from './digest.ts';
import type { Mark, Target } from './dirty-set.ts';
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
}

/** All that is kept of an object. */
interface Known {
  readonly object: Target;
  /** By audience, see {@link audienceKey}. */
  readonly concerns: ReadonlyMap<string, Concern>;
  /** The objects it names in its spec, as `<kind>/<name>`. */
  readonly references: readonly string[];
  /** What its mirror annotation says. */
  readonly mirror: string | undefined;
}

interface Place {
  readonly namespace: string;
  readonly name: string;
}

/**
 * What the relay remembers of the cluster: per object its identity and small digests, never the object.
 *
 * Bookkeeping without I/O or time: what is seen goes in, the hints and wakes that follow come out. Two objects of the
 * same name and different uids are two objects, whether or not the first one's deletion was seen.
 */
export class KnownWorld {
  readonly #routing: Routing;
  readonly #known = new Map<ResourceKind, Map<string, Known>>();
  readonly #targets = new Map<string, Target>();

  constructor(routing: Routing) {
    this.#routing = routing;
  }

  /**
   * The complete list of a kind in one namespace (in all when absent): what is known and not in it has vanished.
   *
   * @param cause why hints about differences are sent: `resync` for the first list, `changed` for later ones
   */
  replace(
    kind: ResourceKind,
    namespace: string | undefined,
    objects: readonly WatchedObject[],
    cause: 'changed' | 'resync',
  ): Findings {
    const findings: Findings = { marks: [], wakes: [], differences: 0 };
    const listed = new Set(objects.map(({ metadata }) => keyOf(metadata)));
    for (const [key, { object }] of this.#shelf(kind)) {
      if ((namespace === undefined || object.namespace === namespace) && !listed.has(key)) {
        this.#forget(kind, object, undefined, findings);
      }
    }
    for (const object of objects) {
      this.#learn(kind, object, cause, findings);
    }
    return findings;
  }

  /** An object appeared or was written. */
  see(kind: ResourceKind, object: WatchedObject): Findings {
    const findings: Findings = { marks: [], wakes: [], differences: 0 };
    this.#learn(kind, object, 'changed', findings);
    return findings;
  }

  /** An object was deleted. Late news of one that has a successor by now is no news of the successor. */
  lose(kind: ResourceKind, object: WatchedObject): Findings {
    const findings: Findings = { marks: [], wakes: [], differences: 0 };
    const known = this.#shelf(kind).get(keyOf(object.metadata));
    if (known?.object.uid === object.metadata.uid) {
      this.#forget(kind, object.metadata, object.metadata.resourceVersion, findings);
    }
    return findings;
  }

  /** Every target with each step that reconciles it. */
  duties(): { readonly step: StepName; readonly target: Target }[] {
    return this.#routing.routes.flatMap(({ step, target: kind }) =>
      [...this.#shelf(kind).values()].map(({ object }) => ({ step, target: object })),
    );
  }

  /** The target with this uid as it was last seen. */
  target(uid: string): Target | undefined {
    return this.#targets.get(uid);
  }

  /** What the mirror annotation of an object says: `null` without one, `undefined` where the object is not known. */
  mirrorOf(kind: ResourceKind, place: Place): string | null | undefined {
    const known = this.#shelf(kind).get(keyOf(place));
    return known === undefined ? undefined : (known.mirror ?? null);
  }

  count(kind: ResourceKind): number {
    return this.#shelf(kind).size;
  }

  #learn(
    kind: ResourceKind,
    object: WatchedObject,
    cause: 'changed' | 'resync',
    findings: Findings,
  ): void {
    const { namespace, name, uid, resourceVersion, annotations = {} } = object.metadata;
    let before = this.#shelf(kind).get(keyOf(object.metadata));
    if (before !== undefined && before.object.uid !== uid) {
      this.#forget(kind, object.metadata, undefined, findings);
      before = undefined;
    }
    const now: Known = {
      object: { kind, namespace, name, uid, resourceVersion },
      concerns: new Map(
        concernsOf(this.#routing, kind, object).map((each) => [audienceKey(each.audience), each]),
      ),
      references: this.#routing.references
        .filter((reference) => reference.target === kind)
        .map((reference) => `${reference.kind}/${textAt(object, reference.path) ?? ''}`),
      mirror: annotations[drainMirror] ?? annotations[releaseMirror],
    };
    this.#shelf(kind).set(keyOf(object.metadata), now);
    for (const { step, target } of this.#routing.routes) {
      if (target === kind) {
        this.#targets.set(uid, now.object);
        const record = annotations[recordAnnotation(step)];
        const wake = record === undefined ? undefined : wakeOf(record);
        findings.wakes.push({ sleeper: { step, uid }, wake, version: fnv1a32(record ?? '') });
      }
    }
    const changed = changedConcerns(before?.concerns, now.concerns);
    for (const { audience } of changed) {
      this.#tell(audience, now.object, cause, resourceVersion, findings);
    }
    findings.differences += changed.length > 0 ? 1 : 0;
  }

  /** @param version the deletion's own, where it was seen; else the object's last one stands for it */
  #forget(kind: ResourceKind, place: Place, version: string | undefined, findings: Findings): void {
    const known = this.#shelf(kind).get(keyOf(place));
    if (known === undefined) {
      return;
    }
    const { object } = known;
    this.#shelf(kind).delete(keyOf(place));
    this.#targets.delete(object.uid);
    for (const { audience } of known.concerns.values()) {
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
          findings.marks.push({ step: route.step, target, cause, token });
        }
      }
    }
  }

  #recipients(audience: Exclude<Audience, { to: 'itself' }>, about: Target): Target[] {
    const shelf = this.#shelf(audience.kind);
    if (audience.to === 'owner') {
      const owner = shelf.get(keyOf({ namespace: about.namespace, name: audience.name }));
      return owner === undefined ? [] : [owner.object];
    }
    const reference = `${about.kind}/${about.name}`;
    return [...shelf.values()]
      .filter(({ object, references }) => {
        return object.namespace === about.namespace && references.includes(reference);
      })
      .map(({ object }) => object);
  }

  #shelf(kind: ResourceKind): Map<string, Known> {
    let shelf = this.#known.get(kind);
    if (shelf === undefined) {
      shelf = new Map();
      this.#known.set(kind, shelf);
    }
    return shelf;
  }
}

/** Those that are new, gone or different. A member that moved is news to the target it left and to its new one. */
function changedConcerns(
  before: ReadonlyMap<string, Concern> | undefined,
  now: ReadonlyMap<string, Concern>,
): Concern[] {
  const gone = [...(before ?? [])].filter(([key]) => !now.has(key));
  const different = [...now].filter(([key, { digest }]) => before?.get(key)?.digest !== digest);
  return [...gone, ...different].map(([, concern]) => concern);
}

function audienceKey(audience: Audience): string {
  if (audience.to === 'itself') {
    return audience.step;
  }
  return audience.to === 'owner' ? `${audience.kind}/${audience.name}` : `${audience.kind}/`;
}

function keyOf({ namespace, name }: Place): string {
  return `${namespace}/${name}`;
}
