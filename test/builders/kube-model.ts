import type { JsonObject } from '#shared/kube/json.ts';
import type { KubeReader, KubeWriter, ListOptions, WriteResult } from '#shared/kube/kube.ts';
import type { KubeObject, ObjectRef, ResourceKind } from '#shared/kube/resources.ts';
import { type Read, absent, present, unknown } from '#shared/kernel/read.ts';

interface Stored extends JsonObject {
  readonly metadata: Metadata;
}

interface Metadata extends JsonObject {
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly generation?: number;
  readonly labels?: { readonly [key: string]: string };
  readonly annotations?: { readonly [key: string]: string };
}

/**
 * A small model of an API server: objects with uids and versions, and the guarded writes. It reproduces guards that no
 * longer hold, names that exist, merge patches, and status written per field manager as far as one manager per field
 * goes. It does not reproduce validation, defaults, garbage collection or watches: those are tested on the real one.
 */
export class KubeModel implements KubeReader, KubeWriter {
  readonly #objects = new Map<string, Stored>();
  readonly #unknown = new Set<string>();
  #version = 100;

  /** Reads and writes in the order in which they came: `list Pod`, `get Service`, `create Pod`. */
  readonly calls: string[] = [];
  /** Runs before each write, with the model as it is then. */
  beforeWrite: (call: string, ref: ObjectRef) => void = () => undefined;

  put(kind: ResourceKind, object: object): this {
    const stored = object as Stored;
    this.#objects.set(`${kind}/${stored.metadata.name}`, stored);
    return this;
  }

  /** Changes an object from outside. */
  change<K extends ResourceKind>(
    kind: K,
    name: string,
    change: (object: KubeObject<K>) => KubeObject<K>,
  ): void {
    const changed = change(this.the(kind, name)) as object as Stored;
    this.#objects.set(`${kind}/${name}`, this.#newVersion(changed));
  }

  remove(kind: ResourceKind, name: string): void {
    this.#objects.delete(`${kind}/${name}`);
  }

  /** Answers every read of this sort, such as `list Pod`, with unknown. */
  makeUnknown(call: string): this {
    this.#unknown.add(call);
    return this;
  }

  all<K extends ResourceKind>(kind: K): readonly KubeObject<K>[] {
    return [...this.#objects]
      .filter(([key]) => key.startsWith(`${kind}/`))
      .map(([, object]) => object as object as KubeObject<K>);
  }

  the<K extends ResourceKind>(kind: K, name: string): KubeObject<K> {
    const found = this.#objects.get(`${kind}/${name}`);
    if (found === undefined) {
      throw new Error(`the model has no ${kind} ${name}`);
    }
    return found as object as KubeObject<K>;
  }

  async get<K extends ResourceKind>(ref: ObjectRef<K>): Promise<Read<KubeObject<K>>> {
    this.calls.push(`get ${ref.kind}`);
    if (this.#unknown.has(`get ${ref.kind}`)) {
      return unknown(`reading ${ref.kind} ${ref.name}: 403 Forbidden`);
    }
    const found = this.#objects.get(`${ref.kind}/${ref.name}`);
    return found === undefined ? absent : present(found as object as KubeObject<K>);
  }

  async list<K extends ResourceKind>(
    kind: K,
    { labels = {} }: ListOptions,
  ): Promise<Read<readonly KubeObject<K>[]>> {
    this.calls.push(`list ${kind}`);
    if (this.#unknown.has(`list ${kind}`)) {
      return unknown(`listing ${kind}: 403 Forbidden`);
    }
    return present(
      this.all(kind).filter((object) =>
        Object.entries(labels).every(([key, value]) => object.metadata.labels?.[key] === value),
      ),
    );
  }

  async swapAnnotation(
    ref: ObjectRef,
    change: Parameters<KubeWriter['swapAnnotation']>[1],
  ): Promise<WriteResult> {
    const object = this.#write('swap', ref);
    if (
      object === undefined ||
      object.metadata.uid !== change.uid ||
      object.metadata.generation !== change.generation ||
      (object.metadata.annotations?.[change.key] ?? null) !== change.previous
    ) {
      return { kind: 'lostRace', why: 'the record moved' };
    }
    return this.#store(
      ref,
      merged(object, { metadata: { annotations: { [change.key]: change.next } } }),
    );
  }

  async mergePatch(
    ref: ObjectRef,
    patch: JsonObject,
    guard: { uid: string; resourceVersion: string },
  ): Promise<WriteResult> {
    const object = this.#write('patch', ref);
    return object === undefined || !holds(object, guard)
      ? { kind: 'lostRace', why: 'the object moved' }
      : this.#store(ref, merged(object, patch));
  }

  async applyStatus(
    ref: ObjectRef,
    status: JsonObject,
    _fieldManager: string,
    guard: { uid: string; resourceVersion: string },
  ): Promise<WriteResult> {
    const object = this.#write('status', ref);
    if (object === undefined || !holds(object, guard)) {
      return { kind: 'lostRace', why: 'the target moved' };
    }
    const conditions = [
      ...conditionsOf(object).filter(
        ({ type }) => !conditionsOf({ status }).some((own) => own['type'] === type),
      ),
      ...conditionsOf({ status }),
    ];
    const before = (object['status'] ?? {}) as JsonObject;
    return this.#store(ref, { ...object, status: { ...before, ...status, conditions } });
  }

  async create<K extends ResourceKind>(ref: ObjectRef<K>, manifest: JsonObject) {
    const existing = this.#write('create', ref);
    if (existing !== undefined) {
      return { kind: 'exists' as const, object: present(existing as object as KubeObject<K>) };
    }
    const metadata = manifest['metadata'] as JsonObject;
    const uid = `uid-${(this.#version += 1)}`;
    return this.#store(ref, {
      ...manifest,
      metadata: { ...metadata, name: ref.name, uid, resourceVersion: '' },
    });
  }

  async delete(ref: ObjectRef, guard: { uid: string }): Promise<WriteResult> {
    const object = this.#write('delete', ref);
    if (object !== undefined && object.metadata.uid !== guard.uid) {
      return { kind: 'lostRace', why: 'the uid is another' };
    }
    this.remove(ref.kind, ref.name);
    return { kind: 'written', resourceVersion: '' };
  }

  #write(call: string, ref: ObjectRef): Stored | undefined {
    this.beforeWrite(call, ref);
    this.calls.push(`${call} ${ref.kind}`);
    return this.#objects.get(`${ref.kind}/${ref.name}`);
  }

  /** A write that changes nothing keeps the version, as on the real one. */
  #store(ref: ObjectRef, object: Stored): WriteResult {
    const key = `${ref.kind}/${ref.name}`;
    const before = this.#objects.get(key);
    const stored =
      JSON.stringify(before) === JSON.stringify(object) ? object : this.#newVersion(object);
    this.#objects.set(key, stored);
    return { kind: 'written', resourceVersion: stored.metadata.resourceVersion };
  }

  #newVersion(object: Stored): Stored {
    const resourceVersion = String((this.#version += 1));
    return { ...object, metadata: { ...object.metadata, resourceVersion } };
  }
}

function holds(
  { metadata }: Stored,
  guard: { readonly uid: string; readonly resourceVersion: string },
): boolean {
  return metadata.uid === guard.uid && metadata.resourceVersion === guard.resourceVersion;
}

function conditionsOf(object: JsonObject): readonly JsonObject[] {
  const status = (object['status'] ?? {}) as JsonObject;
  return (status['conditions'] ?? []) as readonly JsonObject[];
}

/** JSON merge patch (RFC 7396). */
function merged<T extends JsonObject>(object: T, patch: JsonObject): T {
  const result: Record<string, unknown> = { ...object };
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) {
      delete result[key];
    } else if (typeof value === 'object' && !Array.isArray(value)) {
      result[key] = merged((result[key] ?? {}) as JsonObject, value as JsonObject);
    } else {
      result[key] = value;
    }
  }
  return result as T;
}
