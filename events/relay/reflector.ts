import * as z from 'zod';
import { describeError } from '#shared/kernel/errors.ts';
import type { KubeConnection, KubeResponse } from '#shared/kube/connection.ts';
import { type ResourceKind, resourceTypes } from '#shared/kube/resources.ts';
import { type BackoffLimits, type Timers, backoffMs, pause } from './timers.ts';
import { type WatchedObject, watchedObjectSchema } from './watched-object.ts';

/** What one reflector follows. */
export interface ReflectedResource {
  readonly kind: ResourceKind;
  /** All namespaces when absent. */
  readonly namespace?: string;
  /** Only objects that carry this label, whatever its value. */
  readonly label?: string;
  /** Ask for metadata alone: no spec, no status. */
  readonly isMetadataOnly: boolean;
}

export interface ReflectorSink {
  /** The complete list; what is not in it does not exist. */
  replaced(objects: readonly WatchedObject[]): void;
  changed(object: WatchedObject): void;
  removed(object: WatchedObject): void;
}

/** What a reflector goes through, for health and metrics. */
export type ReflectorNews =
  /** The API server said something: a page, an event, a bookmark. */
  | { readonly kind: 'heard' }
  /** The place in the history is gone (410): everything is listed anew. */
  | { readonly kind: 'gone'; readonly where: 'list' | 'watch' | 'stream' }
  /** Nothing came for so long that the watch counts as dead. */
  | { readonly kind: 'silent' }
  | { readonly kind: 'failed'; readonly why: string };

export interface ReflectorPorts {
  readonly connection: KubeConnection;
  readonly timers: Timers;
  /** Uniform in [0, 1). */
  readonly random: () => number;
}

export interface ReflectorLimits {
  /** Objects per page. */
  readonly pageSize: number;
  readonly pageTimeoutMs: number;
  /** The API server is asked to end a watch after between this and twice as long. */
  readonly watchSeconds: number;
  /** A watch from which nothing came for so long is given up. Bookmarks come about once a minute. */
  readonly silenceMs: number;
  readonly backoff: BackoffLimits;
  /** Times in a row that the server answered a watch with nothing to go on from, after which everything is listed anew. */
  readonly refusalsBeforeList: number;
}

export const reflectorLimits: ReflectorLimits = {
  pageSize: 500,
  pageTimeoutMs: 30_000,
  watchSeconds: 300,
  silenceMs: 70_000,
  backoff: { baseMs: 200, limitMs: 5_000 },
  refusalsBeforeList: 5,
};

/** A watch that ended by itself within this time, in milliseconds, and said nothing counts as a failure. */
const shortestWatchMs = 1_000;

/** How a list or a watch ended. */
type Ending =
  | { readonly kind: 'listed' }
  /** The response ended as it should: go on from the last version. */
  | { readonly kind: 'ended' }
  | { readonly kind: 'silent' }
  | { readonly kind: 'gone'; readonly where: 'list' | 'watch' | 'stream' }
  /** No answer, or it broke off: the place in the history is as good as before. */
  | { readonly kind: 'failed'; readonly why: string }
  /** The server answered, but not with what was asked for. */
  | { readonly kind: 'refused'; readonly why: string; readonly retryAfterSeconds?: number };

interface Page {
  readonly kind: 'page';
  readonly items: readonly WatchedObject[];
  readonly resourceVersion: string;
  /** Names the next page; absent on the last. */
  readonly continue: string | undefined;
}

const listSchema = z.looseObject({
  metadata: z.looseObject({ resourceVersion: z.string().min(1), continue: z.string().optional() }),
  // A list of metadata without an object comes as null, as seen on Kubernetes 1.36.
  items: z
    .array(watchedObjectSchema)
    .nullable()
    .transform((items) => items ?? []),
});

const eventSchema = z.discriminatedUnion('type', [
  z.looseObject({ type: z.enum(['ADDED', 'MODIFIED', 'DELETED']), object: watchedObjectSchema }),
  z.looseObject({
    type: z.literal('BOOKMARK'),
    object: z.looseObject({ metadata: z.looseObject({ resourceVersion: z.string().min(1) }) }),
  }),
  z.looseObject({
    type: z.literal('ERROR'),
    object: z.looseObject({
      code: z.number().optional(),
      message: z.string().optional(),
      details: z.looseObject({ retryAfterSeconds: z.number().optional() }).optional(),
    }),
  }),
]);

/**
 * Follows one resource: a complete list, then every change after it, for ever. Nothing is missed: each doubt
 * (a refused place, a line that is no event, too many failures) ends in a new complete list, and a connection that
 * merely broke is taken up at the last version that was seen.
 */
export class Reflector {
  readonly #resource: ReflectedResource;
  readonly #ports: ReflectorPorts;
  readonly #limits: ReflectorLimits;
  readonly #sink: ReflectorSink;
  readonly #report: (news: ReflectorNews) => void;
  /** The version everything up to which has been handed on; absent when a list is needed. */
  #version: string | undefined;
  #failures = 0;
  #refusals = 0;

  constructor(
    resource: ReflectedResource,
    ports: ReflectorPorts,
    sink: ReflectorSink,
    report: (news: ReflectorNews) => void,
    limits: ReflectorLimits = reflectorLimits,
  ) {
    this.#resource = resource;
    this.#ports = ports;
    this.#sink = sink;
    this.#report = report;
    this.#limits = limits;
  }

  /** Runs until the signal aborts. Rejects only for a defect in the sink. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const ending =
        this.#version === undefined
          ? await this.#list(signal)
          : await this.#watch(this.#version, signal);
      if (!signal.aborted) {
        await this.#settle(ending, signal);
      }
    }
  }

  async #settle(ending: Ending, signal: AbortSignal): Promise<void> {
    switch (ending.kind) {
      case 'listed':
      case 'ended':
        return;
      case 'silent':
        this.#report(ending);
        return this.#wait(0, signal);
      case 'gone':
        this.#report(ending);
        this.#version = undefined;
        return this.#wait(0, signal);
      case 'failed':
        this.#report({ kind: 'failed', why: ending.why });
        return this.#wait(0, signal);
      case 'refused':
        this.#report({ kind: 'failed', why: ending.why });
        this.#countRefusal(ending);
        return this.#wait(ending.retryAfterSeconds ?? 0, signal);
    }
  }

  /** Waits before the next try. The server's wish is a lower bound; our own wait on top spreads many clients out. */
  async #wait(afterSeconds: number, signal: AbortSignal): Promise<void> {
    this.#failures += 1;
    const ownMs = backoffMs(this.#failures, this.#limits.backoff, this.#ports.random);
    await pause(this.#ports.timers, afterSeconds * 1000 + ownMs, signal);
  }

  /** A server that is only busy still has our place; listing everything would make it busier. */
  #countRefusal({ retryAfterSeconds }: Extract<Ending, { kind: 'refused' }>): void {
    this.#refusals += retryAfterSeconds === undefined ? 1 : 0;
    if (this.#refusals >= this.#limits.refusalsBeforeList) {
      this.#version = undefined;
    }
  }

  async #list(signal: AbortSignal): Promise<Ending> {
    const objects: WatchedObject[] = [];
    let next: string | undefined;
    for (;;) {
      const answer = await this.#page(next, signal);
      if (answer.kind !== 'page') {
        return answer;
      }
      this.#report({ kind: 'heard' });
      objects.push(...answer.items);
      next = answer.continue;
      if (next === undefined) {
        this.#sink.replaced(objects);
        this.#version = answer.resourceVersion;
        return { kind: 'listed' };
      }
    }
  }

  async #page(next: string | undefined, signal: AbortSignal): Promise<Page | Ending> {
    let response: KubeResponse;
    try {
      response = await this.#ports.connection.request({
        method: 'GET',
        path: pathOf(this.#resource),
        query: {
          ...this.#selector(),
          limit: String(this.#limits.pageSize),
          ...(next === undefined ? {} : { continue: next }),
        },
        accept: this.#accept('PartialObjectMetadataList'),
        timeoutMs: this.#limits.pageTimeoutMs,
        signal,
      });
    } catch (error) {
      return failed(describeError(error));
    }
    if (response.status !== 200) {
      return refusal(response, 'list');
    }
    const page = listSchema.safeParse(response.body);
    if (!page.success) {
      const where = page.error.issues[0]?.path.join('.') ?? '';
      return refused(`the answer to a list has no known form at ${where || 'its root'}`);
    }
    const { metadata, items } = page.data;
    return {
      kind: 'page',
      items,
      resourceVersion: metadata.resourceVersion,
      continue: metadata.continue === '' ? undefined : metadata.continue,
    };
  }

  async #watch(version: string, signal: AbortSignal): Promise<Ending> {
    const silence = new AbortController();
    const watchdog = new Watchdog(this.#ports.timers, this.#limits.silenceMs, () =>
      silence.abort(),
    );
    try {
      const response = await this.#openWatch(version, AbortSignal.any([signal, silence.signal]));
      const ending =
        'kind' in response ? response : await this.#follow(response.lines, () => watchdog.feed());
      return silence.signal.aborted ? { kind: 'silent' } : ending;
    } finally {
      watchdog.stop();
    }
  }

  async #openWatch(
    version: string,
    signal: AbortSignal,
  ): Promise<Ending | { readonly lines: AsyncIterable<string> }> {
    try {
      const response = await this.#ports.connection.stream({
        method: 'GET',
        path: pathOf(this.#resource),
        query: {
          ...this.#selector(),
          watch: '1',
          resourceVersion: version,
          allowWatchBookmarks: 'true',
          timeoutSeconds: String(
            Math.round(this.#limits.watchSeconds * (1 + this.#ports.random())),
          ),
        },
        accept: this.#accept('PartialObjectMetadata'),
        signal,
      });
      return response.status === 200 ? { lines: response.lines } : refusal(response, 'watch');
    } catch (error) {
      return failed(describeError(error));
    }
  }

  async #follow(lines: AsyncIterable<string>, feedWatchdog: () => void): Promise<Ending> {
    const { timers } = this.#ports;
    const startedAt = timers.now();
    const iterator = lines[Symbol.asyncIterator]();
    try {
      for (let isHeard = false; ; isHeard = true) {
        // Only the connection's errors end the watch quietly. One of the sink is a defect and is thrown.
        const next = await iterator.next().catch((error: unknown) => failed(describeError(error)));
        if ('kind' in next) {
          return next;
        }
        if (next.done === true) {
          return isHeard || timers.now() - startedAt >= shortestWatchMs
            ? { kind: 'ended' }
            : refused('the watch ended at once');
        }
        feedWatchdog();
        const ending = this.#takeEvent(next.value);
        if (ending !== undefined) {
          return ending;
        }
      }
    } finally {
      await iterator.return?.();
    }
  }

  /** Hands one event on. Returns how the watch ends with it, `undefined` when it goes on. */
  #takeEvent(line: string): Ending | undefined {
    const event = parseEvent(line);
    if (event === undefined) {
      return refused('a line of the watch is no event');
    }
    this.#report({ kind: 'heard' });
    if (event.type === 'ERROR') {
      const { code, message, details } = event.object;
      return code === 410
        ? { kind: 'gone', where: 'stream' }
        : refused(message ?? 'the watch reports an error', details?.retryAfterSeconds);
    }
    if (event.type === 'DELETED') {
      this.#sink.removed(event.object);
    } else if (event.type !== 'BOOKMARK') {
      this.#sink.changed(event.object);
    }
    this.#version = event.object.metadata.resourceVersion;
    this.#failures = 0;
    this.#refusals = 0;
    return undefined;
  }

  #selector(): Record<string, string> {
    const { label } = this.#resource;
    return label === undefined ? {} : { labelSelector: label };
  }

  /** Where the server cannot cut objects down to their metadata it may send them whole. */
  #accept(form: string): string {
    return this.#resource.isMetadataOnly
      ? `application/json;as=${form};g=meta.k8s.io;v=v1,application/json`
      : 'application/json';
  }
}

/** Calls back when it was not fed for a time. */
class Watchdog {
  readonly #timers: Timers;
  readonly #limitMs: number;
  readonly #bark: () => void;
  #cancel: () => void;

  constructor(timers: Timers, limitMs: number, bark: () => void) {
    this.#timers = timers;
    this.#limitMs = limitMs;
    this.#bark = bark;
    this.#cancel = timers.after(limitMs, bark);
  }

  feed(): void {
    this.#cancel();
    this.#cancel = this.#timers.after(this.#limitMs, this.#bark);
  }

  stop(): void {
    this.#cancel();
  }
}

function parseEvent(line: string): z.infer<typeof eventSchema> | undefined {
  try {
    const parsed = eventSchema.safeParse(JSON.parse(line));
    return parsed.success ? parsed.data : undefined;
  } catch {
    return undefined;
  }
}

function pathOf({ kind, namespace }: ReflectedResource): string {
  const { group, version, plural } = resourceTypes[kind];
  const root = group === '' ? `/api/${version}` : `/apis/${group}/${version}`;
  const scope = namespace === undefined ? '' : `/namespaces/${encodeURIComponent(namespace)}`;
  return `${root}${scope}/${plural}`;
}

function refusal(response: KubeResponse, where: 'list' | 'watch'): Ending {
  return response.status === 410
    ? { kind: 'gone', where }
    : refused(`the API server answered ${response.status}`, response.retryAfterSeconds);
}

function failed(why: string): Ending {
  return { kind: 'failed', why };
}

function refused(why: string, retryAfterSeconds?: number): Ending {
  return {
    kind: 'refused',
    why,
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
  };
}
