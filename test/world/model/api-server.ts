import { fnv1a32 } from '#shared/api/names.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import type { KubeRequest, KubeResponse } from '#shared/kube/connection.ts';
import type { JsonObject, JsonValue } from '#shared/kube/json.ts';
import { type KubeObject, type ResourceKind, resourceTypes } from '#shared/kube/resources.ts';
import {
  Refusal,
  alreadyExists,
  badRequest,
  deleted,
  notAllowed,
  notFound,
  ok,
  staleUid,
  terminatingNamespace,
} from './api-answers.ts';
import { type Route, parseRoute } from './api-routes.ts';
import { applyStatus, refuseApplication } from './applying.ts';
import { boundPod } from './binding.ts';
import { type Chore, choresOf } from './controllers.ts';
import { newObject, readSent } from './creation.ts';
import { isCustom, statusSchemaOf } from './custom-resources.ts';
import { type DeletionOptions, departureOf, refusePreconditions } from './deletion.ts';
import { isObject, numberAt, objectAt, received, textAt, withFields } from './json-data.ts';
import { kindRules } from './kind-rules.ts';
import { type Entry, Shelf, type StoredObject, keyOf } from './object-shelf.ts';
import { patchedObject, readPatch } from './patching.ts';
import { listObjects, metadataOf, wantsMetadata } from './reading.ts';
import { type FieldManager, managersAfterUpdate } from './server-side-apply.ts';
import { updatedObject } from './update.ts';
import { type OpenedWatch, type Watch, openWatch } from './watch.ts';

export type { OpenedWatch, StoredObject, Watch };

/** One write that changed something. */
export interface Commit {
  readonly kind: ResourceKind;
  readonly namespace: string | undefined;
  readonly name: string;
  /** `null`: created */
  readonly before: StoredObject | null;
  /** `null`: removed */
  readonly after: StoredObject | null;
}

export interface Answer {
  readonly response: KubeResponse;
  readonly commits: readonly Commit[];
}

export interface ApiServerOptions {
  /**
   * `cluster`: one counter for all objects, as etcd has it. `object`: one per object, so that the order of writes to
   * different objects leaves no trace, for the exploration of states. There is no history then: no watches, and the pages
   * of a list are not of one moment.
   */
  readonly versions?: 'cluster' | 'object';
  /** Whether who reads one Shard is told when its spec last changed: one entry of `managedFields`, as if one manager wrote it. */
  readonly tellsSpecTimes?: boolean;
  /** Namespaces that are there from the start; `default` when not given. Others are made as on any server. */
  readonly namespaces?: readonly string[];
}

/** Where a request works. */
interface Place {
  readonly kind: ResourceKind;
  readonly namespace: string | undefined;
  readonly name: string;
}

/** A request on its way through the server. */
interface Turn {
  readonly request: KubeRequest;
  readonly body: JsonValue | undefined;
  readonly now: Instant;
  readonly commits: Commit[];
}

const kinds = Object.keys(resourceTypes) as ResourceKind[];
const shelfNumbers = Object.fromEntries(kinds.map((kind, number) => [kind, number])) as {
  readonly [K in ResourceKind]: number;
};
const noCommits: readonly Commit[] = Object.freeze([]);

/** The manager of fields that are written in another way than by applying, when the client does not say one. */
const defaultManager = 'millrace';

/**
 * An API server in memory. It answers what the code that ships asks for as Kubernetes 1.36 does, synchronously, with the
 * time passed in. Objects are frozen, so forks share them all.
 *
 * It is held to the real one row by row (test/world/conformance). A request that it does not reproduce at all throws, so
 * that no run is green because of an answer that nobody compared. Not reproduced: permissions, admission but that of
 * claims and namespaces, managedFields (ownership works, it is only not shown, but for when a spec last changed where that
 * is wanted), the volume of a pod's token, the validation of built-in kinds beyond metadata and what cannot be changed, the status of budgets, evictions, deletions of whole
 * collections.
 */
export class ApiServer {
  readonly #versions: 'cluster' | 'object';
  /** By the keys of Shards, where it is to be told. */
  #specChanges: ReadonlyMap<string, Instant> | undefined;
  #shelves: Shelf[];
  /** Which shelves no fork shares. */
  #isOwn: boolean[];
  #version = 1;
  #uids = 0;
  #compactedTo = 1;
  /** Writes there had been when controllers last found nothing to do. */
  #calmAt = -1;

  constructor(options: ApiServerOptions = {}) {
    const { versions = 'cluster', namespaces = ['default'], tellsSpecTimes = false } = options;
    this.#versions = versions;
    this.#specChanges = tellsSpecTimes ? new Map() : undefined;
    this.#shelves = kinds.map(() => new Shelf());
    this.#isOwn = kinds.map(() => true);
    for (const name of namespaces) {
      const body = { apiVersion: 'v1', kind: 'Namespace', metadata: { name } };
      this.handle({ method: 'POST', path: '/api/v1/namespaces', body }, 0 as Instant);
    }
  }

  /** Answers one request as the real one does. Never throws for bad input. */
  handle(request: KubeRequest, now: Instant): Answer {
    const route = parseRoute(request.path);
    if (route === undefined) {
      return { response: { status: 404, body: '404 page not found\n' }, commits: noCommits };
    }
    if (request.method === 'GET') {
      return { response: this.#read(request, route), commits: noCommits };
    }
    const body = request.body === undefined ? undefined : received(request.body);
    const turn: Turn = { request, body, now, commits: [] };
    const { kind, namespace, name, subresource } = route;
    const response =
      name === undefined
        ? this.#writeCollection(kind, namespace, turn)
        : this.#writeObject({ kind, namespace, name }, subresource, turn);
    turn.commits.forEach((commit) => this.#rememberSpecChange(commit, now));
    return { response, commits: turn.commits };
  }

  /** A watch: what is ready now, line by line as the real one sends it. */
  openWatch(request: KubeRequest, _now: Instant): OpenedWatch {
    const route = parseRoute(request.path);
    if (this.#versions === 'object' || route === undefined || route.name !== undefined) {
      throw new Error(`the model has no watch on ${request.path}`);
    }
    return openWatch(request, route.kind, route.namespace, {
      version: () => this.#version,
      compactedTo: () => this.#compactedTo,
      shelf: (kind) => this.#shelf(kind),
    });
  }

  /** One pass of what controllers of a cluster do by themselves. Nothing is left to do when it commits nothing. */
  control(now: Instant): readonly Commit[] {
    const writes = this.#shelves.reduce((sum, shelf) => sum + shelf.writes, 0);
    if (writes === this.#calmAt) {
      return [];
    }
    const chores = choresOf({
      get: (kind, namespace, name) => this.#entry({ kind, namespace, name })?.object,
      objects: (kind) => this.#shelf(kind).objects(),
    });
    const commits = chores.flatMap((chore) => this.#do(chore, now));
    this.#calmAt = commits.length === 0 ? writes : -1;
    return commits;
  }

  /** For oracles and workloads. */
  get<K extends ResourceKind>(
    kind: K,
    namespace: string | undefined,
    name: string,
  ): KubeObject<K> | undefined {
    const found = this.#entry({ kind, namespace, name })?.object;
    return found as object | undefined as KubeObject<K> | undefined;
  }

  /** Every object of a kind, in the order of their keys. The same list as long as none changes. */
  list<K extends ResourceKind>(kind: K): readonly KubeObject<K>[] {
    return this.#shelf(kind).objects() as readonly object[] as readonly KubeObject<K>[];
  }

  /** Who owns which fields of an object's status, for telling states apart. */
  managersOf(
    kind: ResourceKind,
    namespace: string | undefined,
    name: string,
  ): readonly FieldManager[] {
    return this.#entry({ kind, namespace, name })?.managers ?? [];
  }

  /** When the spec of an object last changed, where that is told. */
  specChangedAt(
    kind: ResourceKind,
    namespace: string | undefined,
    name: string,
  ): Instant | undefined {
    return kind === 'Shard' ? this.#specChanges?.get(keyOf(namespace, name)) : undefined;
  }

  #rememberSpecChange({ kind, namespace, name, before, after }: Commit, now: Instant): void {
    const isChange = before?.metadata.generation !== after?.metadata.generation;
    if (this.#specChanges !== undefined && kind === 'Shard' && isChange) {
      this.#specChanges = new Map([...this.#specChanges, [keyOf(namespace, name), now]]);
    }
  }

  /** How many writes to objects of this kind there have been: as long as it stays, none has changed. */
  writesOf(kind: ResourceKind): number {
    return this.#shelf(kind).writes;
  }

  /** Forgets the history: watches and continue tokens older than now get 410. */
  compact(): void {
    this.#compactedTo = this.#version;
  }

  /** A server with the same objects that goes its own way from here. Watches stay with the one they were opened on. */
  fork(): ApiServer {
    const fork = new ApiServer({ versions: this.#versions, namespaces: [] });
    fork.#shelves = [...this.#shelves];
    fork.#isOwn = kinds.map(() => false);
    this.#isOwn = kinds.map(() => false);
    fork.#version = this.#version;
    fork.#specChanges = this.#specChanges;
    fork.#uids = this.#uids;
    fork.#compactedTo = this.#compactedTo;
    fork.#calmAt = this.#calmAt;
    return fork;
  }

  #read(request: KubeRequest, { kind, namespace, name, subresource }: Route): KubeResponse {
    if (request.query?.['watch'] !== undefined) {
      throw new Error('a watch is opened, not requested');
    }
    if (name === undefined) {
      return listObjects(request, kind, namespace, this.#shelf(kind), {
        version: this.#version,
        compactedTo: this.#compactedTo,
      });
    }
    if (subresource === 'binding') {
      return notAllowed(kind, 'create');
    }
    const object = this.#entry({ kind, namespace, name })?.object;
    if (object === undefined) {
      return notFound(kind, name);
    }
    const changedAt = this.specChangedAt(kind, namespace, name);
    const told = changedAt === undefined ? object : withSpecTime(object, changedAt);
    return ok(200, wantsMetadata(request) ? metadataOf(told) : told);
  }

  #writeCollection(kind: ResourceKind, namespace: string | undefined, turn: Turn): KubeResponse {
    switch (turn.request.method) {
      case 'POST':
        return this.#create(kind, namespace, turn);
      case 'PUT':
      case 'PATCH':
        return isCustom(kind) ? badRequest('name must be provided') : notAllowed(kind, 'create');
      case 'DELETE':
      case 'GET':
        throw new Error('the model deletes no collections');
    }
  }

  #writeObject(place: Place, subresource: Route['subresource'], turn: Turn): KubeResponse {
    switch (turn.request.method) {
      case 'PUT':
        return this.#replace(place, subresource, turn);
      case 'PATCH':
        return this.#patch(place, subresource, turn);
      case 'DELETE':
        return subresource === undefined
          ? this.#delete(place, turn)
          : notAllowed(place.kind, 'delete');
      case 'POST':
      case 'GET':
        return subresource === 'binding'
          ? this.#bind(place, turn)
          : notAllowed(place.kind, 'create');
    }
  }

  #create(kind: ResourceKind, namespace: string | undefined, turn: Turn): KubeResponse {
    if (resourceTypes[kind].namespaced && namespace === undefined) {
      throw new Error(`the model makes no ${kind} without a namespace in the path`);
    }
    const sent = readSent(kind, namespace, turn.body);
    if (sent instanceof Refusal) {
      return sent.response;
    }
    const { name } = sent;
    if (namespace !== undefined) {
      const home = this.#entry({ kind: 'Namespace', namespace: undefined, name: namespace });
      if (home === undefined) {
        return notFound('Namespace', namespace);
      }
      if (home.object.metadata.deletionTimestamp !== undefined) {
        return terminatingNamespace(kind, namespace, name);
      }
    }
    const object = newObject(kind, namespace, sent, turn.now);
    if (object instanceof Refusal) {
      return object.response;
    }
    const place = { kind, namespace, name };
    const existing = this.#entry(place);
    if (existing !== undefined) {
      return alreadyExists(kind, name, existing.object.metadata.deletionTimestamp !== undefined);
    }
    const metadata = withFields(object.metadata, { uid: this.#newUid(place) });
    const entry = { object: withFields(object, { metadata }), managers: [] };
    return ok(201, this.#store(place, entry, turn.commits));
  }

  #replace(place: Place, subresource: Route['subresource'], turn: Turn): KubeResponse {
    const { kind, namespace, name } = place;
    const sent = readSent(kind, namespace, turn.body);
    if (sent instanceof Refusal) {
      return sent.response;
    }
    if (sent.name !== name) {
      return badRequest(
        `the name of the object (${sent.name}) does not match the name on the URL (${name})`,
      );
    }
    const entry = this.#entry(place);
    const isMade = entry === undefined && kindRules[kind].createsOnUpdate === true;
    if (entry === undefined && !isMade) {
      return notFound(kind, name);
    }
    const uid = textAt(sent.metadata, 'uid') ?? '';
    const found = entry?.object.metadata.uid ?? '';
    if (uid !== '' && uid !== found) {
      return staleUid(kind, namespace, name, uid, found);
    }
    return entry === undefined
      ? this.#create(kind, namespace, turn)
      : this.#update(place, subresource, entry, sent.object, turn);
  }

  #patch(place: Place, subresource: Route['subresource'], turn: Turn): KubeResponse {
    const { kind, name } = place;
    const { contentType, query = {} } = turn.request;
    const patch = readPatch(kind, contentType ?? 'application/json', turn.body);
    if (patch instanceof Refusal) {
      return patch.response;
    }
    const refusal = patch.type === 'apply' ? refuseApplication(query) : undefined;
    if (refusal !== undefined) {
      return refusal.response;
    }
    const entry = this.#entry(place);
    if (entry === undefined) {
      return notFound(kind, name);
    }
    if (patch.type !== 'apply') {
      const candidate = patchedObject(kind, entry.object, patch);
      return candidate instanceof Refusal
        ? candidate.response
        : this.#update(place, subresource, entry, candidate, turn);
    }
    if (!isCustom(kind) || subresource !== 'status') {
      throw new Error('the model applies to nothing but the status of custom resources');
    }
    const applied = applyStatus(kind, entry, patch.body, query);
    return applied instanceof Refusal
      ? applied.response
      : this.#update(place, subresource, entry, applied.candidate, turn, applied.managers);
  }

  /**
   * What every write to an object that is there goes through.
   *
   * @param applied who owns what after server-side apply; of any other write it follows from what it changes
   */
  #update(
    place: Place,
    subresource: Route['subresource'],
    entry: Entry,
    candidate: JsonObject,
    turn: Turn,
    applied?: readonly FieldManager[],
  ): KubeResponse {
    const { kind } = place;
    const before = entry.object;
    const after = updatedObject(kind, subresource, candidate, before, applied !== undefined);
    if (after instanceof Refusal) {
      return after.response;
    }
    if (isReleased(after, before)) {
      this.#remove(place, turn.commits);
      return ok(200, after);
    }
    const name = turn.request.query?.['fieldManager'] ?? defaultManager;
    const managers = applied ?? managersAfter(kind, entry, after, name);
    return ok(200, this.#store(place, { object: after, managers }, turn.commits));
  }

  #bind(place: Place, turn: Turn): KubeResponse {
    const entry = this.#entry(place);
    if (entry === undefined) {
      return notFound(place.kind, place.name);
    }
    const binding = isObject(turn.body) ? turn.body : undefined;
    const object = boundPod(entry.object, binding, turn.now);
    if (object instanceof Refusal) {
      return object.response;
    }
    this.#store(place, { ...entry, object }, turn.commits);
    return ok(201, {
      kind: 'Status',
      apiVersion: 'v1',
      metadata: {},
      status: 'Success',
      code: 201,
    });
  }

  #delete(place: Place, turn: Turn): KubeResponse {
    const { kind, name } = place;
    const entry = this.#entry(place);
    if (entry === undefined) {
      return notFound(kind, name);
    }
    const body = isObject(turn.body) ? turn.body : undefined;
    const refusal = refusePreconditions(kind, entry.object, objectAt(body, 'preconditions'));
    if (refusal !== undefined) {
      return refusal.response;
    }
    const departure = departureOf(
      kind,
      entry.object,
      readDeletion(body, turn.request.query ?? {}),
      turn.now,
    );
    switch (departure.kind) {
      case 'unchanged':
        return ok(200, entry.object);
      case 'marked':
        return ok(200, this.#store(place, { ...entry, object: departure.object }, turn.commits));
      case 'markedAndGone':
        this.#store(place, { ...entry, object: departure.object }, turn.commits);
        return this.#removed(place, turn);
      case 'atOnce':
        return this.#removed(place, turn);
    }
  }

  #removed(place: Place, turn: Turn): KubeResponse {
    const { kind, name } = place;
    const last = this.#remove(place, turn.commits);
    return kindRules[kind].returnsDeleted === true
      ? ok(200, last)
      : deleted(kind, name, last.metadata.uid);
  }

  #do(chore: Chore, now: Instant): readonly Commit[] {
    const { kind, object } = chore;
    const { namespace, name } = object.metadata;
    const place = { kind, namespace, name };
    const entry = this.#entry(place);
    if (entry === undefined || entry.object !== object) {
      // Another chore of this pass has changed it: the next pass looks again.
      return noCommits;
    }
    const turn: Turn = {
      request: { method: 'DELETE', path: '' },
      body: chore.work === 'delete' ? { propagationPolicy: chore.propagationPolicy } : undefined,
      now,
      commits: [],
    };
    switch (chore.work) {
      case 'delete':
        this.#delete(place, turn);
        break;
      case 'remove':
        this.#remove(place, turn.commits);
        break;
      case 'setFinalizers':
      case 'setOwners': {
        const changes =
          chore.work === 'setOwners'
            ? { ownerReferences: chore.owners }
            : { finalizers: chore.finalizers };
        const metadata = withFields<JsonObject>(object.metadata, changes);
        this.#update(place, undefined, entry, withFields<JsonObject>(object, { metadata }), turn);
      }
    }
    return turn.commits;
  }

  #entry({ kind, namespace, name }: Place): Entry | undefined {
    return this.#shelf(kind).get(keyOf(namespace, name));
  }

  #shelf(kind: ResourceKind): Shelf {
    const shelf = this.#shelves[numberOf(kind)];
    if (shelf === undefined) {
      throw new Error(`there is no shelf for ${kind}`);
    }
    return shelf;
  }

  /** A shelf that may be written to: what forks see stays as it is. */
  #ownShelf(kind: ResourceKind): Shelf {
    const number = numberOf(kind);
    if (this.#isOwn[number] !== true) {
      this.#shelves[number] = new Shelf(this.#shelf(kind));
      this.#isOwn[number] = true;
    }
    return this.#shelf(kind);
  }

  /** Stores an object under a new version. One that is as it was keeps its version, and is no write. */
  #store(place: Place, entry: Entry, commits: Commit[]): StoredObject {
    const { kind, namespace, name } = place;
    const before = this.#entry(place);
    if (before?.object === entry.object && before.managers === entry.managers) {
      return entry.object;
    }
    const key = keyOf(namespace, name);
    const shelf = this.#ownShelf(kind);
    const resourceVersion = this.#newVersion(shelf, key);
    const metadata = withFields(entry.object.metadata, { resourceVersion });
    const object = withFields(entry.object, { metadata });
    shelf.set(key, { object, managers: entry.managers }, this.#historic());
    commits.push({ kind, namespace, name, before: before?.object ?? null, after: object });
    return object;
  }

  /** The object as it was last, under the version of its removal. */
  #remove(place: Place, commits: Commit[]): StoredObject {
    const { kind, namespace, name } = place;
    const before = this.#entry(place)?.object;
    if (before === undefined) {
      throw new Error(`there is no ${kind} ${name} to remove`);
    }
    const key = keyOf(namespace, name);
    const shelf = this.#ownShelf(kind);
    const resourceVersion = this.#newVersion(shelf, key);
    shelf.remove(key, this.#historic());
    commits.push({ kind, namespace, name, before, after: null });
    return withFields(before, { metadata: withFields(before.metadata, { resourceVersion }) });
  }

  #newVersion(shelf: Shelf, key: string): string {
    if (this.#versions === 'object') {
      return String(shelf.countVersion(key));
    }
    this.#version += 1;
    return String(this.#version);
  }

  /** The version that a write is remembered under. */
  #historic(): number | undefined {
    return this.#versions === 'cluster' ? this.#version : undefined;
  }

  /** Of the form of a UUID. Where versions are counted by object so are uids: from its name and how often it was made. */
  #newUid({ kind, namespace, name }: Place): string {
    const key = keyOf(namespace, name);
    const isByObject = this.#versions === 'object';
    const number = isByObject ? this.#ownShelf(kind).countIncarnation(key) : (this.#uids += 1);
    const start = isByObject ? fnv1a32(kind, key) : '00000000';
    return `${start}-0000-4000-8000-${String(number).padStart(12, '0')}`;
  }
}

function numberOf(kind: ResourceKind): number {
  return shelfNumbers[kind];
}

function readDeletion(
  body: JsonObject | undefined,
  query: { readonly [name: string]: string },
): DeletionOptions {
  const seconds = query['gracePeriodSeconds'];
  return {
    gracePeriodSeconds:
      numberAt(body, 'gracePeriodSeconds') ?? (seconds === undefined ? undefined : Number(seconds)),
    propagationPolicy: textAt(body, 'propagationPolicy') ?? query['propagationPolicy'],
  };
}

/** The last finalizer of an object that is being deleted and has no time left was taken away. */
function isReleased(after: StoredObject, { metadata }: StoredObject): boolean {
  return (
    metadata.deletionTimestamp !== undefined &&
    (metadata.deletionGracePeriodSeconds ?? 0) === 0 &&
    (after.metadata.finalizers ?? []).length === 0
  );
}

function managersAfter(
  kind: ResourceKind,
  { object, managers }: Entry,
  after: StoredObject,
  name: string,
): readonly FieldManager[] {
  const schema = isCustom(kind) ? statusSchemaOf(kind) : undefined;
  return schema === undefined || after['status'] === object['status']
    ? managers
    : managersAfterUpdate(
        { value: object['status'], managers },
        after['status'],
        schema,
        '.status',
        name,
      );
}

/** As the real one tells it, but for the names of the fields below the spec. */
function withSpecTime(object: StoredObject, changedAt: Instant): StoredObject {
  const time = `${new Date(changedAt).toISOString().slice(0, 19)}Z`;
  const entry = { manager: 'people', operation: 'Update', time, fieldsV1: { 'f:spec': {} } };
  const metadata = withFields(object.metadata, { managedFields: [entry] });
  return withFields(object, { metadata });
}
