import type { StepName } from '#shared/api/steps.ts';
import type { ResourceKind } from '#shared/kube/resources.ts';
import { twoSteps } from '#test/builders/two-steps.ts';

/** The kinds that a relay watches. */
export const toldKinds = ['Shard', 'Pod', 'Database'] as const;
export type ToldKind = (typeof toldKinds)[number];

export function isToldKind(kind: ResourceKind): kind is ToldKind {
  return kind === 'Shard' || kind === 'Pod' || kind === 'Database';
}

/** The part of an object that says whom it concerns. */
export interface ToldObject {
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly uid: string;
    readonly resourceVersion: string;
    readonly generation?: number;
    readonly deletionTimestamp?: string;
    readonly labels?: { readonly [key: string]: string };
    readonly annotations?: { readonly [key: string]: string };
  };
  readonly [field: string]: unknown;
}

/** A step and the uid of a target: `drain-step 0f6b…`. */
export type Key = `${StepName} ${string}`;

export function keyOf(step: StepName, uid: string): Key {
  return `${step} ${uid}`;
}

export function stepOf(key: Key): StepName {
  return key.startsWith('drain-step ') ? 'drain-step' : 'pool-pods';
}

export function uidOf(key: Key): string {
  return key.slice(key.indexOf(' ') + 1);
}

/** What a record or a request asks for, by annotation key; written out again here, so that a changed route shows. */
const listeners: { readonly [annotation: string]: readonly StepName[] } = {
  'step.millrace.dev/drain-step': ['drain-step', 'pool-pods'],
  'step.millrace.dev/pool-pods': ['pool-pods'],
  'millrace.dev/force-drain': ['drain-step'],
  'millrace.dev/reconcile': twoSteps,
};

const shardLabel = 'millrace.dev/shard';

/**
 * Whom changes of objects concern, as the documents about the steps have it: an understanding of its own, beside the
 * relay's routes and digests, so that the two can be compared. Used with every write, it is the truth; used with what
 * one relay has been told, it is what that relay has to know.
 */
export class ToldWorld {
  readonly #objects = new Map<ToldKind, Map<string, ToldObject>>(
    toldKinds.map((kind) => [kind, new Map<string, ToldObject>()]),
  );
  /** By kind, what is not seen yet of the list in progress. */
  readonly #unseen = new Map<ToldKind, Set<string>>();
  #shape = 0;

  /** An object was made or changed. Returns whom that concerns. */
  see(kind: ToldKind, object: ToldObject): Set<Key> {
    const place = placeOf(object);
    const before = this.#objects.get(kind)?.get(place);
    const concerned = new Set<Key>();
    if (before !== undefined && before.metadata.uid !== object.metadata.uid) {
      this.#forget(kind, before, concerned);
    }
    const earlier = before?.metadata.uid === object.metadata.uid ? before : undefined;
    this.#objects.get(kind)?.set(place, object);
    this.#unseen.get(kind)?.delete(place);
    this.#shape ^= shapeOf(object) ^ (earlier === undefined ? 0 : shapeOf(earlier));
    this.#tell(kind, earlier, object, concerned);
    return concerned;
  }

  /** An object is gone. News of an earlier one of that name are no news. */
  lose(kind: ToldKind, object: ToldObject): Set<Key> {
    const concerned = new Set<Key>();
    const known = this.#objects.get(kind)?.get(placeOf(object));
    if (known?.metadata.uid === object.metadata.uid) {
      this.#forget(kind, known, concerned);
    }
    return concerned;
  }

  begin(kind: ToldKind): void {
    this.#unseen.set(kind, new Set(this.#objects.get(kind)?.keys()));
  }

  /** A list is complete. Returns whom it concerns that the rest is gone. */
  complete(kind: ToldKind): Set<Key> {
    const concerned = new Set<Key>();
    for (const place of this.#unseen.get(kind) ?? []) {
      const known = this.#objects.get(kind)?.get(place);
      if (known !== undefined) {
        this.#forget(kind, known, concerned);
      }
    }
    this.#unseen.delete(kind);
    return concerned;
  }

  /** Whether there is a Shard with this uid. */
  has(uid: string): boolean {
    return [...this.all('Shard')].some(({ metadata }) => metadata.uid === uid);
  }

  count(kind: ToldKind): number {
    return this.#objects.get(kind)?.size ?? 0;
  }

  /** Objects of a kind. */
  all(kind: ToldKind): Iterable<ToldObject> {
    return this.#objects.get(kind)?.values() ?? [];
  }

  /** The object of the same name, which may be another one. */
  sameName(kind: ToldKind, object: ToldObject): ToldObject | undefined {
    return this.#objects.get(kind)?.get(placeOf(object));
  }

  /** The targets that an object is, belongs to or is named by. */
  targetsOf(kind: ToldKind, { metadata }: ToldObject): readonly string[] {
    const { namespace = '', name, uid, labels = {} } = metadata;
    switch (kind) {
      case 'Shard':
        return [uid];
      case 'Pod': {
        const owner = this.#objects.get('Shard')?.get(`${namespace}/${labels[shardLabel]}`);
        return owner === undefined ? [] : [owner.metadata.uid];
      }
      case 'Database':
        return this.#referrersOf(namespace, name).map((shard) => shard.metadata.uid);
    }
  }

  /** A number that differs between any two sets of objects in any two versions, as good as always. */
  get shape(): number {
    return this.#shape;
  }

  #forget(kind: ToldKind, object: ToldObject, concerned: Set<Key>): void {
    this.#objects.get(kind)?.delete(placeOf(object));
    this.#shape ^= shapeOf(object);
    this.#tell(kind, object, undefined, concerned);
  }

  #tell(
    kind: ToldKind,
    before: ToldObject | undefined,
    after: ToldObject | undefined,
    concerned: Set<Key>,
  ): void {
    for (const step of stepsConcerned(kind, before, after)) {
      for (const object of [before, after]) {
        for (const uid of object === undefined ? [] : this.targetsOf(kind, object)) {
          concerned.add(keyOf(step, uid));
        }
      }
    }
  }

  #referrersOf(namespace: string, database: string): readonly ToldObject[] {
    return [...this.all('Shard')].filter(
      (shard) => shard.metadata.namespace === namespace && databaseOf(shard) === database,
    );
  }
}

function placeOf({ metadata: { namespace = '', name } }: ToldObject): string {
  return `${namespace}/${name}`;
}

/** Each version of each object once, mixed so that sums of different sets differ. */
function shapeOf({ metadata }: ToldObject): number {
  let mixed = Number(metadata.resourceVersion) | 0;
  for (const text of [metadata.uid, metadata.resourceVersion]) {
    for (let place = 0; place < text.length; place += 1) {
      mixed = Math.imul(mixed ^ text.charCodeAt(place), 0x01000193);
    }
  }
  return mixed;
}

/** The steps that a change of an object concerns, whatever its targets are. */
function stepsConcerned(
  kind: ToldKind,
  before: ToldObject | undefined,
  after: ToldObject | undefined,
): readonly StepName[] {
  if (before === undefined || after === undefined) {
    return twoSteps;
  }
  const [old, now] = [before.metadata, after.metadata];
  if (old.resourceVersion === now.resourceVersion) {
    return [];
  }
  if (kind === 'Pod') {
    return twoSteps;
  }
  if (kind === 'Database') {
    const requests = [old, now].map(({ annotations }) => annotations?.['millrace.dev/reconcile']);
    const isSame =
      old.generation === now.generation &&
      old.deletionTimestamp === now.deletionTimestamp &&
      requests[0] === requests[1];
    return isSame ? [] : twoSteps;
  }
  if (old.generation !== now.generation || old.deletionTimestamp !== now.deletionTimestamp) {
    return twoSteps;
  }
  const steps = new Set<StepName>();
  for (const [annotation, those] of Object.entries(listeners)) {
    if (old.annotations?.[annotation] !== now.annotations?.[annotation]) {
      those.forEach((step) => steps.add(step));
    }
  }
  if (drainedOf(before) !== drainedOf(after)) {
    steps.add('pool-pods');
  }
  return [...steps];
}

/** The condition that pool-pods reads, without the instant of its last change. */
function drainedOf(shard: ToldObject): string {
  const status = shard['status'] as
    | { readonly conditions?: readonly { readonly [field: string]: unknown }[] }
    | undefined;
  const drained = status?.conditions?.find((condition) => condition['type'] === 'Drained');
  return drained === undefined
    ? ''
    : JSON.stringify([
        drained['status'],
        drained['reason'],
        drained['message'],
        drained['observedGeneration'],
      ]);
}

function databaseOf(shard: ToldObject): string | undefined {
  const spec = shard['spec'] as { readonly databaseRef?: { readonly name?: string } } | undefined;
  return spec?.databaseRef?.name;
}
