import type { Instant } from '#shared/kernel/instant.ts';
import type { KubeRequest, KubeResponse } from '#shared/kube/connection.ts';
import type { JsonObject } from '#shared/kube/json.ts';
import { type ResourceKind, apiVersionOf } from '#shared/kube/resources.ts';
import { Refusal, failure, ok, unexpected } from './api-answers.ts';
import { withFields } from './json-data.ts';
import type { PastWrite, Shelf, StoredObject } from './object-shelf.ts';
import { type Scope, isInScope, metadataOf, readScope, wantsMetadata } from './reading.ts';

/** An open watch, as the lines that the server would send by now. */
export interface Watch {
  /** Lines since the last call. The ERROR line of a 410 is the last one. */
  take(now: Instant): readonly string[];
  /** A BOOKMARK line with the version up to which lines were taken; take first what there is. */
  bookmark(): string;
}

export interface OpenedWatch {
  readonly response: KubeResponse;
  /** Absent where the watch is refused. */
  readonly watch?: Watch;
}

/** What a watch sees of the server, each time anew: forks and writes replace its shelves. */
export interface WatchedServer {
  /** Of the newest write of all. */
  version(): number;
  compactedTo(): number;
  shelf(kind: ResourceKind): Shelf;
}

/** Marks the bookmark that ends a streaming list; see "Streaming lists" in the Kubernetes API concepts. */
const initialEventsEnd = 'k8s.io/initial-events-end';

/**
 * Opens a watch. Without a version, with version 0, and with `sendInitialEvents` it begins with everything that is there,
 * else with the first write after the version.
 */
export function openWatch(
  request: KubeRequest,
  kind: ResourceKind,
  namespace: string | undefined,
  server: WatchedServer,
): OpenedWatch {
  const query = request.query ?? {};
  const scope = readScope(request, namespace);
  if (scope instanceof Refusal) {
    return { response: scope.response };
  }
  const version = query['resourceVersion'] ?? '';
  if (!/^\d*$/.test(version)) {
    const why = `strconv.ParseUint: parsing "${version}": invalid syntax`;
    return { response: unexpected(`resourceVersion: Invalid value: "${version}": ${why}`) };
  }
  const isStreaming = query['sendInitialEvents'] === 'true';
  if (isStreaming && query['resourceVersionMatch'] !== 'NotOlderThan') {
    return { response: refuseStreaming() };
  }
  const start = Number(version);
  const watch = new ShelfWatch(server, kind, scope, wantsMetadata(request));
  if (isStreaming || start === 0) {
    watch.sendAll(isStreaming && query['allowWatchBookmarks'] === 'true');
  } else {
    watch.startAfter(start);
  }
  return { response: ok(200, ''), watch };
}

function refuseStreaming(): KubeResponse {
  const message =
    'Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan';
  return failure(
    422,
    'Invalid',
    `ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: ${message}`,
    {
      group: 'meta.k8s.io',
      kind: 'ListOptions',
      causes: [{ reason: 'FieldValueForbidden', message, field: 'resourceVersionMatch' }],
    },
  );
}

class ShelfWatch implements Watch {
  readonly #server: WatchedServer;
  readonly #kind: ResourceKind;
  readonly #scope: Scope;
  readonly #isMetadataOnly: boolean;
  /** Everything up to this version was taken. */
  #seen = 0;
  #isTooOld = false;
  #hasEnded = false;
  #waiting: string[] = [];

  constructor(server: WatchedServer, kind: ResourceKind, scope: Scope, isMetadataOnly: boolean) {
    this.#server = server;
    this.#kind = kind;
    this.#scope = scope;
    this.#isMetadataOnly = isMetadataOnly;
  }

  startAfter(version: number): void {
    this.#seen = version;
    this.#isTooOld = version < this.#server.compactedTo();
  }

  /** Begins with what is there, and says with a bookmark where that ends. */
  sendAll(isMarked: boolean): void {
    for (const object of this.#server.shelf(this.#kind).objects()) {
      if (isInScope(this.#scope, object)) {
        this.#waiting.push(this.#line('ADDED', object));
      }
    }
    this.#seen = this.#server.version();
    if (isMarked) {
      this.#waiting.push(this.#bookmark({ [initialEventsEnd]: 'true' }));
    }
  }

  take(_now: Instant): readonly string[] {
    const lines = this.#waiting;
    this.#waiting = [];
    if (this.#hasEnded) {
      return lines;
    }
    if (this.#hasMissed()) {
      this.#hasEnded = true;
      return [...lines, tooOld(this.#seen, this.#server.compactedTo())];
    }
    const writes = [...this.#server.shelf(this.#kind).writesAfter(this.#seen)].toReversed();
    this.#seen = Math.max(this.#seen, this.#server.version());
    return [...lines, ...writes.flatMap((write) => this.#tell(write))];
  }

  bookmark(): string {
    return this.#bookmark(undefined);
  }

  /** A watch that is up to date outlives a compaction; one that has not taken what is forgotten does not. */
  #hasMissed(): boolean {
    const next = [...this.#server.shelf(this.#kind).writesAfter(this.#seen)].at(-1);
    return this.#isTooOld || (next !== undefined && next.version <= this.#server.compactedTo());
  }

  /** An object that comes into the scope is added, one that leaves it is deleted, as it last was in it. */
  #tell({ before, after, version }: PastWrite): string[] {
    const wasIn = before !== null && isInScope(this.#scope, before);
    const isIn = after !== null && isInScope(this.#scope, after);
    if (isIn) {
      return [this.#line(wasIn ? 'MODIFIED' : 'ADDED', after)];
    }
    const resourceVersion = String(version);
    return wasIn
      ? [
          this.#line(
            'DELETED',
            withFields(before, { metadata: withFields(before.metadata, { resourceVersion }) }),
          ),
        ]
      : [];
  }

  #line(type: 'ADDED' | 'MODIFIED' | 'DELETED', object: StoredObject): string {
    return JSON.stringify({ type, object: this.#isMetadataOnly ? metadataOf(object) : object });
  }

  #bookmark(annotations: JsonObject | undefined): string {
    const form = this.#isMetadataOnly
      ? { kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1' }
      : { kind: this.#kind, apiVersion: apiVersionOf(this.#kind) };
    const metadata = {
      resourceVersion: String(this.#seen),
      ...(annotations === undefined ? {} : { annotations }),
    };
    return JSON.stringify({ type: 'BOOKMARK', object: { ...form, metadata } });
  }
}

function tooOld(version: number, oldest: number): string {
  const { body } = failure(410, 'Expired', `too old resource version: ${version} (${oldest})`);
  return JSON.stringify({ type: 'ERROR', object: body });
}
