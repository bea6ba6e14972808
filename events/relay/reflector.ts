import * as z from 'zod';
import { describeError } from '#shared/kernel/errors.ts';
import type { KubeConnection, KubeResponse } from '#shared/kube/connection.ts';
import { type ResourceKind, resourceTypes } from '#shared/kube/resources.ts';
import { type BackoffLimits, type Timers, backoffMs, pause } from './timers.ts';
import { type WatchedObject, parseServed, readObject } from './watched-object.ts';

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

/** How a complete list came: inside a watch, or in pages. */
export type ListMode = 'stream' | 'pages';

/**
 * Where what a reflector sees goes, object by object, so that no list is ever in memory as a whole.
 *
 * Between `began` and `completed` objects may also change and be removed. A list that is not completed ends with the
 * next `began`, and says nothing about what was not in it.
 */
export interface ReflectorSink {
  /** A complete list begins. */
  began(): void;
  /** An object of the list. */
  listed(object: WatchedObject): void;
  /** What was neither listed nor changed since the list began does not exist. */
  completed(how: ListMode): void;
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
  /** Streaming lists in a row that began and were never completed, after which lists are read in pages. */
  readonly streamsBeforePages: number;
  /** How long lists are read in pages before a streaming one is tried again. */
  readonly pagesMs: number;
  /** Everything is listed anew when a watch ends and the last complete list is at least so old. */
  readonly listsEveryMs: number;
}

export const reflectorLimits: ReflectorLimits = {
  pageSize: 500,
  pageTimeoutMs: 30_000,
  watchSeconds: 300,
  silenceMs: 70_000,
  backoff: { baseMs: 200, limitMs: 5_000 },
  refusalsBeforeList: 5,
  streamsBeforePages: 3,
  // An API server learns to stream, or a proxy to let it through, when somebody changes it.
  pagesMs: 3_600_000,
  // An event that never came shows only there. With the ten minutes that a watch may last it is half an hour at most,
  // the time in which every target is hinted at.
  listsEveryMs: 1_200_000,
};

/** Marks the bookmark that ends a streaming list; see "Streaming lists" in the Kubernetes API concepts. */
const initialEventsEnd = 'k8s.io/initial-events-end';

/** A watch that ended by itself within this time, in milliseconds, and said nothing counts as a failure. */
const shortestWatchMs = 1_000;

/** How a list or a watch ended. */
type Ending =
  | { readonly kind: 'listed' }
  /** The response ended as it should: go on from the last version. */
  | { readonly kind: 'ended' }
  | { readonly kind: 'silent' }
  /** The server does not end a list inside a watch, or does not even begin one. */
  | { readonly kind: 'unstreamed' }
  | { readonly kind: 'gone'; readonly where: 'list' | 'watch' | 'stream' }
  /** No answer, or it broke off: the place in the history is as good as before. */
  | { readonly kind: 'failed'; readonly why: string }
  /** The server answered, but not with what was asked for. */
  | { readonly kind: 'refused'; readonly why: string; readonly retryAfterSeconds?: number };

/** What is left of a page once its objects have been handed on. */
interface Page {
  readonly kind: 'page';
  readonly resourceVersion: string;
  /** Names the next page; absent on the last. */
  readonly continue: string | undefined;
}

const listSchema = z.looseObject({
  metadata: z.looseObject({ resourceVersion: z.string().min(1), continue: z.string().optional() }),
  // A list of metadata without an object comes as null, as seen on Kubernetes 1.36.
  items: z
    .array(z.unknown())
    .nullable()
    .transform((items) => items ?? []),
});

const bookmarkSchema = z.object({
  type: z.literal('BOOKMARK'),
  object: z.object({
    metadata: z.object({
      resourceVersion: z.string().min(1),
      annotations: z.record(z.string(), z.unknown()).optional(),
    }),
  }),
});

const errorSchema = z.object({
  type: z.literal('ERROR'),
  object: z.object({
    code: z.number().optional(),
    message: z.string().optional(),
    details: z.object({ retryAfterSeconds: z.number().optional() }).optional(),
  }),
});

const changeSchema = z.object({
  type: z.enum(['ADDED', 'MODIFIED', 'DELETED']),
  object: z.unknown(),
});

const eventSchema = z.discriminatedUnion('type', [changeSchema, bookmarkSchema, errorSchema]);

type WatchEvent =
  | { readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'; readonly object: WatchedObject }
  | z.infer<typeof bookmarkSchema>
  | z.infer<typeof errorSchema>;
type Bookmark = z.infer<typeof bookmarkSchema>['object']['metadata'];

/**
 * Follows one resource: a complete list, then every change after it, for ever. Nothing is missed: each doubt
 * (a refused place, a line that is no event, too many failures, a list that is old) ends in a new complete list, and a
 * connection that merely broke is taken up at the last version that was seen.
 *
 * The list comes inside the watch, one event per object up to a marked bookmark, and the same stream goes on with the
 * changes: the server need not hold the list in memory, nor does the client. Where that is not served the list comes in
 * pages. It shows in different ways: the request is refused (400 or 422), or the parameter is ignored, and then the
 * mark never comes: instead of it there is a bookmark without it, the orderly end of the watch, or silence.
 */
export class Reflector {
  readonly #resource: ReflectedResource;
  readonly #ports: ReflectorPorts;
  readonly #limits: ReflectorLimits;
  readonly #sink: ReflectorSink;
  readonly #report: (news: ReflectorNews) => void;
  /** The version everything up to which has been handed on; absent when a list is needed. */
  #version: string | undefined;
  /** When the last list was complete, on the monotonic clock. */
  #listedMs = Number.NEGATIVE_INFINITY;
  #failures = 0;
  #refusals = 0;
  /** Streaming lists that have begun since one was completed. */
  #openLists = 0;
  /** Until when lists are read in pages, on the monotonic clock. */
  #pagesUntilMs = Number.NEGATIVE_INFINITY;

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
      if (this.#openLists >= this.#limits.streamsBeforePages) {
        this.#turnToPages();
      }
      const isPaged =
        this.#version === undefined && this.#ports.timers.monotonicMs() < this.#pagesUntilMs;
      const ending = isPaged ? await this.#listPages(signal) : await this.#watch(signal);
      if (!signal.aborted) {
        await this.#settle(ending, signal);
      }
    }
  }

  async #settle(ending: Ending, signal: AbortSignal): Promise<void> {
    switch (ending.kind) {
      case 'listed':
        return;
      case 'ended':
        this.#forgetOldList();
        return;
      case 'unstreamed':
        this.#turnToPages();
        return;
      case 'silent':
        this.#report(ending);
        if (this.#version === undefined) {
          this.#turnToPages();
        }
        this.#forgetOldList();
        return this.#wait(0, signal);
      case 'gone':
        this.#report(ending);
        this.#version = undefined;
        return this.#wait(0, signal);
      case 'failed':
        this.#report({ kind: 'failed', why: ending.why });
        this.#forgetOldList();
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

  /** What the server never told of, or what was lost on the way, is found out by the next list. */
  #forgetOldList(): void {
    const { timers } = this.#ports;
    if (timers.monotonicMs() - this.#listedMs >= this.#limits.listsEveryMs) {
      this.#version = undefined;
    }
  }

  #turnToPages(): void {
    this.#openLists = 0;
    this.#pagesUntilMs = this.#ports.timers.monotonicMs() + this.#limits.pagesMs;
  }

  async #listPages(signal: AbortSignal): Promise<Ending> {
    let next: string | undefined;
    for (;;) {
      const page = await this.#takePage(next, signal);
      if (page.kind !== 'page') {
        return page;
      }
      next = page.continue;
      if (next === undefined) {
        this.#sink.completed('pages');
        this.#listedMs = this.#ports.timers.monotonicMs();
        this.#version = page.resourceVersion;
        return { kind: 'listed' };
      }
    }
  }

  /** Reads one page and hands its objects on. The first page begins the list. */
  async #takePage(next: string | undefined, signal: AbortSignal): Promise<Page | Ending> {
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
    const objects = (page.data?.items ?? []).flatMap((item) => readObject(item) ?? []);
    if (!page.success || objects.length < page.data.items.length) {
      return refused(response.problem ?? 'the answer to a list has no known form');
    }
    this.#report({ kind: 'heard' });
    if (next === undefined) {
      this.#sink.began();
    }
    for (const object of objects) {
      this.#sink.listed(object);
    }
    const { metadata } = page.data;
    return {
      kind: 'page',
      resourceVersion: metadata.resourceVersion,
      continue: metadata.continue === '' ? undefined : metadata.continue,
    };
  }

  /** Watches from the version that is known, or from a list that comes inside the watch. */
  async #watch(signal: AbortSignal): Promise<Ending> {
    const silence = new AbortController();
    const watchdog = new Watchdog(this.#ports.timers, this.#limits.silenceMs, () =>
      silence.abort(),
    );
    try {
      const response = await this.#openWatch(AbortSignal.any([signal, silence.signal]));
      const ending =
        'kind' in response ? response : await this.#follow(response.lines, () => watchdog.feed());
      return silence.signal.aborted ? { kind: 'silent' } : ending;
    } finally {
      watchdog.stop();
    }
  }

  async #openWatch(
    signal: AbortSignal,
  ): Promise<Ending | { readonly lines: AsyncIterable<string> }> {
    const version = this.#version;
    let response: Awaited<ReturnType<KubeConnection['stream']>>;
    try {
      response = await this.#ports.connection.stream({
        method: 'GET',
        path: pathOf(this.#resource),
        query: {
          ...this.#selector(),
          watch: '1',
          // A list without a version is a consistent one: at least as new as the moment it was asked for.
          ...(version === undefined
            ? { sendInitialEvents: 'true', resourceVersionMatch: 'NotOlderThan' }
            : { resourceVersion: version }),
          allowWatchBookmarks: 'true',
          timeoutSeconds: String(
            Math.round(this.#limits.watchSeconds * (1 + this.#ports.random())),
          ),
        },
        accept: this.#accept('PartialObjectMetadata'),
        signal,
      });
    } catch (error) {
      return failed(describeError(error));
    }
    if (response.status === 200 && response.problem !== undefined) {
      return refused(response.problem);
    }
    if (version !== undefined) {
      return response.status === 200 ? { lines: response.lines } : refusal(response, 'watch');
    }
    if (response.status === 200) {
      this.#openLists += 1;
      this.#sink.began();
      return { lines: response.lines };
    }
    const isUnknown = response.status === 400 || response.status === 422;
    return isUnknown ? { kind: 'unstreamed' } : refusal(response, 'list');
  }

  async #follow(lines: AsyncIterable<string>, feedWatchdog: () => void): Promise<Ending> {
    const { timers } = this.#ports;
    const startedMs = timers.monotonicMs();
    const iterator = lines[Symbol.asyncIterator]();
    try {
      for (let isHeard = false; ; isHeard = true) {
        // Only the connection's errors end the watch quietly. One of the sink is a defect and is thrown.
        const next = await iterator.next().catch((error: unknown) => failed(describeError(error)));
        if ('kind' in next) {
          return next;
        }
        if (next.done === true) {
          if (this.#version === undefined) {
            return { kind: 'unstreamed' };
          }
          return isHeard || timers.monotonicMs() - startedMs >= shortestWatchMs
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
      // How the watch ended is decided. That the connection broke in the meantime is no news any more.
      await iterator.return?.().catch(() => {});
    }
  }

  /** Hands one event on. Returns how the watch ends with it, `undefined` when it goes on. */
  #takeEvent(line: string): Ending | undefined {
    const event = parseEvent(line);
    if (event === undefined) {
      return refused('a line of the watch is no event');
    }
    this.#report({ kind: 'heard' });
    const isListing = this.#version === undefined;
    switch (event.type) {
      case 'ERROR': {
        const { code, message, details } = event.object;
        return code === 410
          ? { kind: 'gone', where: 'stream' }
          : refused(message ?? 'the watch reports an error', details?.retryAfterSeconds);
      }
      case 'BOOKMARK':
        if (isListing) {
          return this.#endList(event.object.metadata);
        }
        break;
      case 'DELETED':
        this.#sink.removed(event.object);
        break;
      case 'ADDED':
      case 'MODIFIED':
        if (isListing && event.type === 'ADDED') {
          this.#sink.listed(event.object);
        } else {
          this.#sink.changed(event.object);
        }
    }
    // The objects of a list come in no order of versions, so none of them is a place to go on from.
    if (!isListing) {
      this.#moveTo(event.object.metadata.resourceVersion);
    }
    return undefined;
  }

  /** The first bookmark of a streaming list is the one that ends it; another one shows that nobody will end it. */
  #endList({ resourceVersion, annotations }: Bookmark): Ending | undefined {
    if (annotations?.[initialEventsEnd] !== 'true') {
      return { kind: 'unstreamed' };
    }
    this.#openLists = 0;
    this.#sink.completed('stream');
    this.#listedMs = this.#ports.timers.monotonicMs();
    this.#moveTo(resourceVersion);
    return undefined;
  }

  #moveTo(version: string): void {
    this.#version = version;
    this.#failures = 0;
    this.#refusals = 0;
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

/** The event in a line, or `undefined` where there is none. */
function parseEvent(line: string): WatchEvent | undefined {
  let body: unknown;
  try {
    body = parseServed(line);
  } catch {
    return undefined;
  }
  const event = eventSchema.safeParse(body).data;
  if (event?.type === 'BOOKMARK' || event?.type === 'ERROR') {
    return event;
  }
  const object = readObject(event?.object);
  return event === undefined || object === undefined ? undefined : { type: event.type, object };
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
    : refused(whyOf(response), response.retryAfterSeconds);
}

function whyOf({ status, problem }: KubeResponse): string {
  const told = `the API server answered ${status}`;
  return problem === undefined ? told : `${told}: ${problem}`;
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
