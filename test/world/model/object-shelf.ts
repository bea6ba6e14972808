import type { JsonObject } from '#shared/kube/json.ts';
import type { FieldManager } from './server-side-apply.ts';

export interface OwnerReference extends JsonObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  readonly controller?: boolean;
  readonly blockOwnerDeletion?: boolean;
}

export interface StoredMetadata extends JsonObject {
  readonly name: string;
  readonly namespace?: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly generation?: number;
  readonly creationTimestamp: string;
  readonly deletionTimestamp?: string;
  readonly deletionGracePeriodSeconds?: number;
  readonly labels?: { readonly [key: string]: string };
  readonly annotations?: { readonly [key: string]: string };
  readonly finalizers?: readonly string[];
  readonly ownerReferences?: readonly OwnerReference[];
}

/** An object as it is stored. It is frozen: a write stores another one that shares what did not change. */
export interface StoredObject extends JsonObject {
  readonly metadata: StoredMetadata;
}

/** What is stored under one key. */
export interface Entry {
  readonly object: StoredObject;
  /** Who owns which field of its status, for server-side apply. */
  readonly managers: readonly FieldManager[];
}

/** One write, linked to the one before it. */
export interface PastWrite {
  readonly version: number;
  readonly key: string;
  /** `null`: created */
  readonly before: StoredObject | null;
  /** `null`: removed */
  readonly after: StoredObject | null;
  readonly older: PastWrite | undefined;
}

/** How often a key was written and used anew, also after its object is gone. */
interface KeyCounts {
  readonly version: number;
  readonly incarnation: number;
}

const noCounts: KeyCounts = { version: 0, incarnation: 0 };

/** `db/orders`, and `db` alone for what is in no namespace. */
export function keyOf(namespace: string | undefined, name: string): string {
  return namespace === undefined ? name : `${namespace}/${name}`;
}

/** All objects of one kind by their keys, and their history. Forks share a shelf until one of them writes to it. */
export class Shelf {
  readonly #entries: Map<string, Entry>;
  readonly #counts: Map<string, KeyCounts>;
  /** The objects in the order of their keys, as lists have them. Made when asked for. */
  #ordered: readonly StoredObject[] | undefined;
  #newest: PastWrite | undefined;
  #writes: number;

  constructor(from?: Shelf) {
    this.#entries = new Map(from === undefined ? [] : from.#entries);
    this.#counts = new Map(from === undefined ? [] : from.#counts);
    this.#ordered = from === undefined ? undefined : from.#ordered;
    this.#newest = from === undefined ? undefined : from.#newest;
    this.#writes = from === undefined ? 0 : from.#writes;
  }

  /** Writes so far: the same number, the same objects. */
  get writes(): number {
    return this.#writes;
  }

  get newest(): PastWrite | undefined {
    return this.#newest;
  }

  get(key: string): Entry | undefined {
    return this.#entries.get(key);
  }

  objects(): readonly StoredObject[] {
    this.#ordered ??= ordered(
      this.#entries.entries().map(([key, { object }]) => [key, object] as const),
    );
    return this.#ordered;
  }

  /** The objects as they were right after a write of that version: what came later is taken back. */
  objectsAt(version: number): readonly StoredObject[] {
    if (this.#newest === undefined || this.#newest.version <= version) {
      return this.objects();
    }
    const before = new Map<string, StoredObject | null>(
      this.#entries.entries().map(([key, { object }]) => [key, object] as const),
    );
    for (const write of this.writesAfter(version)) {
      before.set(write.key, write.before);
    }
    return ordered(
      before
        .entries()
        .flatMap(([key, object]) => (object === null ? [] : [[key, object] as const])),
    );
  }

  /** Every write of a later version, newest first. */
  *writesAfter(version: number): Generator<PastWrite> {
    for (let write = this.#newest; write !== undefined && write.version > version;) {
      yield write;
      write = write.older;
    }
  }

  /** @param version of the write; `undefined` keeps no history */
  set(key: string, entry: Entry, version: number | undefined): void {
    this.#record(key, entry.object, version);
    this.#entries.set(key, entry);
  }

  remove(key: string, version: number | undefined): void {
    this.#record(key, null, version);
    this.#entries.delete(key);
  }

  /** The next version of what is under a key, counted for that key alone. Goes on where a removed object left off. */
  countVersion(key: string): number {
    const { version, incarnation } = this.#counts.get(key) ?? noCounts;
    this.#counts.set(key, { version: version + 1, incarnation });
    return version + 1;
  }

  /** How many objects there have been under a key, with the one that is made now. */
  countIncarnation(key: string): number {
    const { version, incarnation } = this.#counts.get(key) ?? noCounts;
    this.#counts.set(key, { version, incarnation: incarnation + 1 });
    return incarnation + 1;
  }

  #record(key: string, after: StoredObject | null, version: number | undefined): void {
    if (version !== undefined) {
      const before = this.#entries.get(key)?.object ?? null;
      this.#newest = { version, key, before, after, older: this.#newest };
    }
    this.#ordered = undefined;
    this.#writes += 1;
  }
}

function ordered(
  entries: IteratorObject<readonly [string, StoredObject]>,
): readonly StoredObject[] {
  return Object.freeze(
    [...entries].toSorted(([one], [other]) => (one < other ? -1 : 1)).map(([, object]) => object),
  );
}
