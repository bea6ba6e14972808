import type { KubeConnection, KubeRequest, KubeResponse } from '#shared/kube/connection.ts';
import { collectionPath } from '#shared/kube/http-kube.ts';
import type { JsonObject, JsonValue } from '#shared/kube/json.ts';
import { type ResourceKind, resourceTypes } from '#shared/kube/resources.ts';
import { Normaliser } from './normaliser.ts';

/** A server under comparison: the model, or a real one. */
export interface ServedApi {
  readonly connection: KubeConnection;
  /**
   * Lets controllers work until `isDone` holds, asked again after whatever they do; rejects when it never does.
   *
   * @param kind what is expected to change
   */
  control(kind: ResourceKind, isDone: () => Promise<boolean>): Promise<void>;
  /** Forgets the history up to now. */
  compact(): Promise<void>;
}

/** One thing that a server said, free of what differs from one server to another. */
export interface Said {
  readonly asked: string;
  readonly status?: number;
  readonly body: JsonValue;
}

/** A fact, and what has to be asked to see it. */
export interface Row {
  readonly name: string;
  readonly play: (script: Script) => Promise<unknown>;
}

/** Where and how a request differs from the usual one. */
export interface Manner {
  readonly subresource?: 'status' | 'binding';
  readonly query?: { readonly [name: string]: string };
  readonly accept?: string;
}

export const metadataOnly =
  'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json';
export const metadataListOnly =
  'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json';

/** Plays a row in a namespace of its own, and keeps what the server said. */
export class Script {
  readonly namespace: string;
  readonly said: Said[] = [];
  readonly #server: ServedApi;
  readonly #normaliser = new Normaliser();

  constructor(server: ServedApi, namespace: string) {
    this.#server = server;
    this.namespace = namespace;
  }

  /** A name for what is in no namespace. */
  clusterName(name: string): string {
    return `${this.namespace}-${name}`;
  }

  async create(kind: ResourceKind, manifest: JsonObject, manner: Manner = {}): Promise<JsonObject> {
    return this.ask({ method: 'POST', path: this.path(kind), body: manifest }, manner);
  }

  async get(kind: ResourceKind, name: string, manner: Manner = {}): Promise<JsonObject> {
    return this.ask({ method: 'GET', path: this.path(kind, name) }, manner);
  }

  async list(kind: ResourceKind, manner: Manner = {}): Promise<JsonObject> {
    return this.ask({ method: 'GET', path: this.path(kind) }, manner);
  }

  async merge(kind: ResourceKind, name: string, body: unknown, manner: Manner = {}) {
    return this.#patch(kind, name, 'application/merge-patch+json', body, manner);
  }

  async json(kind: ResourceKind, name: string, body: unknown, manner: Manner = {}) {
    return this.#patch(kind, name, 'application/json-patch+json', body, manner);
  }

  async strategic(kind: ResourceKind, name: string, body: unknown, manner: Manner = {}) {
    return this.#patch(kind, name, 'application/strategic-merge-patch+json', body, manner);
  }

  /** Applies to the status of a Shard, by force unless the query says otherwise. */
  async apply(
    name: string,
    fieldManager: string,
    status: JsonObject,
    {
      metadata = {},
      query = { force: 'true' },
    }: Pick<Manner, 'query'> & { metadata?: JsonObject } = {},
  ): Promise<JsonObject> {
    const body = {
      apiVersion: 'millrace.dev/v1alpha1',
      kind: 'Shard',
      metadata: { name, ...metadata },
      status,
    };
    return this.#patch('Shard', name, 'application/apply-patch+yaml', body, {
      subresource: 'status',
      query: { fieldManager, ...query },
    });
  }

  async put(kind: ResourceKind, name: string, body: JsonObject, manner: Manner = {}) {
    return this.ask({ method: 'PUT', path: this.path(kind, name), body }, manner);
  }

  async delete(
    kind: ResourceKind,
    name: string,
    body?: JsonObject,
    manner: Manner = {},
  ): Promise<JsonObject> {
    const request = { method: 'DELETE', path: this.path(kind, name) } as const;
    return this.ask(body === undefined ? request : { ...request, body }, manner);
  }

  /** Sends a request, keeps the answer, and hands its body on as it came. */
  async ask(plain: KubeRequest, manner: Manner = {}): Promise<JsonObject> {
    const request = inManner(plain, manner);
    const response = await this.#server.connection.request(request);
    this.#keep(request, response);
    return (typeof response.body === 'object' ? response.body : {}) as JsonObject;
  }

  /**
   * Binds a pod to a node and waits until the server's own cache has seen it. A deletion that comes earlier begins with
   * what is in there: it takes the pod for one that no node has, and gives it no time.
   */
  async bind(pod: string, metadata: JsonObject = {}): Promise<void> {
    const body = {
      apiVersion: 'v1',
      kind: 'Binding',
      metadata: { name: pod, ...metadata },
      target: { apiVersion: 'v1', kind: 'Node', name: 'node-1' },
    };
    await this.ask({ method: 'POST', path: `${this.path('Pod', pod)}/binding`, body });
    // A list is at least as new as the moment it was asked for, and comes from the cache.
    await this.list('Pod', { query: { labelSelector: 'of=nobody' } });
  }

  /** Lets controllers work until an object is gone, or until it is as told. Keeps what it is then. */
  async until(
    kind: ResourceKind,
    name: string,
    isAsTold: (object: JsonObject | undefined) => boolean = (object) => object === undefined,
  ): Promise<void> {
    const request = { method: 'GET', path: this.path(kind, name) } as const;
    await this.#server.control(kind, async () => {
      const { status, body } = await this.#server.connection.request(request);
      return isAsTold(status === 404 ? undefined : (body as JsonObject));
    });
    await this.ask(request);
  }

  async compact(): Promise<void> {
    await this.#server.compact();
  }

  /** Opens a watch and keeps the answer where it is refused. */
  async watch(kind: ResourceKind, manner: Manner = {}): Promise<ScriptWatch> {
    const closing = new AbortController();
    const plain = { method: 'GET', path: this.path(kind), signal: closing.signal } as const;
    const query = { watch: '1', ...manner.query };
    const request = inManner(plain, { ...manner, query });
    const { lines, ...response } = await this.#server.connection.stream(request);
    this.#keep(request, { ...response, body: response.status === 200 ? '' : response.body });
    return new ScriptWatch(lines, closing, (event) => {
      this.said.push({ asked: 'event', body: this.#normaliser.event(event) });
    });
  }

  path(kind: ResourceKind, name?: string): string {
    const namespace = resourceTypes[kind].namespaced ? this.namespace : undefined;
    const collection = collectionPath(kind, namespace);
    return name === undefined ? collection : `${collection}/${name}`;
  }

  async #patch(
    kind: ResourceKind,
    name: string,
    contentType: string,
    body: unknown,
    manner: Manner,
  ): Promise<JsonObject> {
    return this.ask({ method: 'PATCH', path: this.path(kind, name), contentType, body }, manner);
  }

  #keep(request: KubeRequest, response: KubeResponse): void {
    this.said.push({
      asked: `${request.method} ${request.path.split('/').slice(-2).join('/')}`,
      status: response.status,
      body: this.#normaliser.body(
        response.body as JsonValue,
        request.query?.['continue'] !== undefined,
      ),
    });
  }
}

/** An open watch whose events are kept as they are taken. */
export class ScriptWatch {
  readonly #lines: AsyncIterator<string>;
  readonly #closing: AbortController;
  readonly #keep: (event: JsonObject) => void;

  constructor(
    lines: AsyncIterable<string>,
    closing: AbortController,
    keep: (event: JsonObject) => void,
  ) {
    this.#lines = lines[Symbol.asyncIterator]();
    this.#closing = closing;
    this.#keep = keep;
  }

  /** Takes so many events, waiting for those that are still to come. Bookmarks that nobody can count on are left out. */
  async take(count: number): Promise<void> {
    for (let taken = 0; taken < count;) {
      const next = await this.#lines.next();
      if (next.done === true) {
        this.#keep({ type: 'the end' });
        return;
      }
      const event = JSON.parse(next.value) as JsonObject;
      if (event['type'] !== 'BOOKMARK' || next.value.includes('initial-events-end')) {
        this.#keep(event);
        taken += 1;
      }
    }
  }

  close(): void {
    this.#closing.abort();
  }
}

function inManner(request: KubeRequest, { subresource, query, accept }: Manner): KubeRequest {
  return {
    ...request,
    path: subresource === undefined ? request.path : `${request.path}/${subresource}`,
    ...(query === undefined ? {} : { query }),
    ...(accept === undefined ? {} : { accept }),
  };
}
