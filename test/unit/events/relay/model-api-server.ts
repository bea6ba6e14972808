import type { KubeConnection, KubeRequest, KubeResponse } from '#shared/kube/connection.ts';

interface Entry {
  readonly version: number;
  readonly line: string;
}

interface OpenWatch {
  readonly push: (line: string) => void;
  readonly end: (error?: Error) => void;
  isSilent: boolean;
  /** What is kept back of a streaming list, and the events after it. */
  held: string[];
}

/**
 * What a server does with a streaming list: serves it, refuses it because the feature is off, or is too old to know its
 * parameters and begins a watch with the objects that are there.
 */
type Streaming = 'served' | 'refused' | 'ignored';

/** Two objects a page, so that small worlds have several. */
const pageSize = 2;

/**
 * One resource of an API server in memory: versions, lists in pages and in streams, watches from a version, compaction,
 * and the ways in which all of it fails.
 */
export class ModelApiServer implements KubeConnection {
  readonly objects = new Map<string, { metadata: Record<string, string> }>();
  #version = 100;
  #compactedTo = 100;
  #history: Entry[] = [];
  readonly #pages = new Map<string, { items: object[]; version: number }>();
  readonly #watches = new Set<OpenWatch>();
  /** Statuses with which the next requests are refused; 0 breaks the connection. */
  readonly refusals: number[] = [];
  streaming: Streaming = 'served';
  /** Streaming lists stop in their middle until {@link ModelApiServer.releaseLists}. */
  isHolding = false;

  write(name: string): void {
    this.#version += 1;
    const known = this.objects.get(name);
    const uid = known?.metadata.uid ?? `${name}-${this.#version}`;
    const object = {
      metadata: { name, namespace: 'db', uid, resourceVersion: String(this.#version) },
    };
    this.objects.set(name, object);
    this.#record(known === undefined ? 'ADDED' : 'MODIFIED', object);
  }

  remove(name: string): void {
    const object = this.objects.get(name);
    if (object !== undefined) {
      this.#version += 1;
      this.objects.delete(name);
      const metadata = { ...object.metadata, resourceVersion: String(this.#version) };
      this.#record('DELETED', { metadata });
    }
  }

  /** Forgets the history and every open page. */
  compact(): void {
    this.#compactedTo = this.#version;
    this.#history = [];
    this.#pages.clear();
  }

  sendBookmarks(): void {
    this.#send({
      type: 'BOOKMARK',
      object: { metadata: { resourceVersion: String(this.#version) } },
    });
  }

  releaseLists(): void {
    this.isHolding = false;
    for (const watch of this.#watches) {
      for (const line of watch.held.splice(0)) {
        if (!watch.isSilent) {
          watch.push(line);
        }
      }
    }
  }

  /** Ends every watch: as it should, with a 410 inside, with a line that is none, or by breaking the connection. */
  endWatches(how: 'clean' | 'gone' | 'garbage' | 'broken'): void {
    for (const watch of this.#watches) {
      if (how === 'gone') {
        watch.push(JSON.stringify({ type: 'ERROR', object: { code: 410 } }));
      } else if (how === 'garbage') {
        watch.push('{"type":');
      }
      watch.end(how === 'broken' ? new Error('socket hang up') : undefined);
    }
    this.#watches.clear();
  }

  /** Every open watch stays open and says nothing any more. */
  silenceWatches(): void {
    for (const watch of this.#watches) {
      watch.isSilent = true;
    }
  }

  async request(request: KubeRequest): Promise<KubeResponse> {
    const refusal = this.#refuse();
    if (refusal !== undefined) {
      return refusal;
    }
    const token = request.query?.continue;
    const rest =
      token === undefined
        ? { items: [...this.objects.values()], version: this.#version }
        : this.#pages.get(token);
    if (rest === undefined) {
      return { status: 410, body: {} };
    }
    const items = rest.items.slice(0, pageSize);
    const more = rest.items.slice(pageSize);
    const next = more.length === 0 ? '' : `page-${this.#pages.size}-${this.#version}`;
    if (next !== '') {
      this.#pages.set(next, { items: more, version: rest.version });
    }
    const metadata = { resourceVersion: String(rest.version), continue: next };
    return { status: 200, body: { metadata, items } };
  }

  async stream(request: KubeRequest): Promise<KubeResponse & { lines: AsyncIterable<string> }> {
    const refusal = this.#refuse();
    if (request.query?.sendInitialEvents === 'true') {
      return refusal === undefined
        ? this.#streamList(request.signal)
        : { ...refusal, lines: new ReadableStream<string>() };
    }
    const from = Number(request.query?.resourceVersion);
    if (refusal !== undefined || from < this.#compactedTo) {
      return { ...(refusal ?? { status: 410, body: {} }), lines: new ReadableStream<string>() };
    }
    const lines = this.#history.filter(({ version }) => version > from).map(({ line }) => line);
    return { status: 200, body: undefined, lines: this.#open(lines, [], request.signal) };
  }

  #streamList(signal: AbortSignal | undefined) {
    if (this.streaming === 'refused') {
      return { status: 422, body: {}, lines: new ReadableStream<string>() };
    }
    const lines = [...this.objects.values()].map((object) =>
      JSON.stringify({ type: 'ADDED', object }),
    );
    if (this.streaming === 'served') {
      const annotations = { 'k8s.io/initial-events-end': 'true' };
      const metadata = { resourceVersion: String(this.#version), annotations };
      lines.push(JSON.stringify({ type: 'BOOKMARK', object: { metadata } }));
    }
    const sent = lines.splice(0, this.isHolding ? lines.length / 2 : lines.length);
    return { status: 200, body: undefined, lines: this.#open(sent, lines, signal) };
  }

  close(): void {
    this.endWatches('broken');
  }

  #open(
    sent: readonly string[],
    held: string[],
    signal: AbortSignal | undefined,
  ): AsyncIterable<string> {
    let isOpen = true;
    return new ReadableStream<string>({
      start: (controller) => {
        const watch: OpenWatch = {
          isSilent: false,
          held,
          push: (line) => isOpen && controller.enqueue(line),
          end: (error) => {
            if (isOpen) {
              isOpen = false;
              if (error === undefined) {
                controller.close();
              } else {
                controller.error(error);
              }
            }
          },
        };
        for (const line of sent) {
          watch.push(line);
        }
        this.#watches.add(watch);
        signal?.addEventListener('abort', () => {
          this.#watches.delete(watch);
          watch.end(new Error('aborted'));
        });
      },
      cancel() {
        isOpen = false;
      },
    });
  }

  #refuse(): KubeResponse | undefined {
    const status = this.refusals.shift();
    if (status === 0) {
      throw new Error('connection refused');
    }
    return status === undefined ? undefined : { status, body: {} };
  }

  #record(type: string, object: object): void {
    const event = { type, object };
    this.#history.push({ version: this.#version, line: JSON.stringify(event) });
    this.#send(event);
  }

  #send(event: object): void {
    for (const watch of this.#watches) {
      if (!watch.isSilent) {
        const line = JSON.stringify(event);
        if (watch.held.length > 0) {
          watch.held.push(line);
        } else {
          watch.push(line);
        }
      }
    }
  }
}
