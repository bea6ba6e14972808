import type { KubeConnection, KubeRequest, KubeResponse } from '#shared/kube/connection.ts';
import { resourceTypes } from '#shared/kube/resources.ts';
import type { ApiServer, Commit, Watch } from '#test/world/model/api-server.ts';
import { LineStream } from './line-stream.ts';
import { rejectOnAbort } from './reject-on-abort.ts';
import { type PointKind, type RelayFaultName, delayMs, retryAfterSeconds } from './relay-faults.ts';
import { type ToldKind, type ToldObject, toldKinds } from './told-world.ts';
import type { VirtualClock } from './virtual-clock.ts';
import type { Caller, ToldEvent, Witness } from './witness.ts';

/** What a client waits for: the answer to its request for a watch, or the next word of that watch. */
export interface Listening<Process extends Caller> {
  readonly process: Process;
  readonly kind: ToldKind;
  /** When it was last told anything. */
  heardMs: number;
}

/** A watch as both ends see it. */
interface OpenWatch<Process extends Caller> extends Listening<Process> {
  readonly watch: Watch;
  readonly lines: LineStream;
  /** A server that knows no list inside a watch sends no mark at its end. */
  readonly isMarked: boolean;
  isSilent: boolean;
  /** What comes late. */
  held: string[] | undefined;
}

export interface OutsideApiParts<Process extends Caller> {
  readonly clock: VirtualClock;
  readonly api: ApiServer;
  readonly witness: Witness<Process>;
  /** Whether the API server sends lists inside watches. */
  readonly isStreaming: boolean;
}

type Opened = KubeResponse & { readonly lines: AsyncIterable<string> };

type Line =
  | ({ readonly kind: 'line' } & ToldEvent)
  | { readonly kind: 'mark' | 'bookmark' | 'error' };

/** How long a request takes each way, in milliseconds. */
const wayMs = 2;
/** How often the API server sends a bookmark; see "Watch bookmarks" in the Kubernetes API concepts. */
const bookmarkMs = 60_000;

/** What every request meets while an outage lasts. */
const outages: { readonly [Name in RelayFaultName]?: RelayFaultName } = {
  'API server down': 'refused',
  'API server hangs': 'hung',
  'API server throttles': 'throttled',
};

const hangUpError = new Error('socket hang up');

/**
 * The API server as relays reach it, over connections on which things go wrong. A request takes 2 ms each way; events are
 * told at the instant of the write.
 */
export class OutsideApi<Process extends Caller> {
  readonly #parts: OutsideApiParts<Process>;
  readonly #watches = new Set<OpenWatch<Process>>();
  readonly #listening = new Set<Listening<Process>>();
  /** Versions and page tokens. */
  readonly #gone = new Set<string>();
  #outage: { readonly meets: RelayFaultName; readonly untilMs: number } | undefined;

  constructor(parts: OutsideApiParts<Process>) {
    this.#parts = parts;
  }

  /** A write by somebody else. Throws when it is refused: then whoever asked for it is wrong. */
  write(request: KubeRequest): void {
    const { status, body } = this.#handle(request);
    if (status >= 300) {
      const why = JSON.stringify(body);
      throw new Error(`${request.method} ${request.path} was answered ${status}: ${why}`);
    }
  }

  /** Somebody has written: whoever watches is told. */
  spread(commits: readonly Commit[]): void {
    for (const commit of commits) {
      this.#parts.witness.committed(commit);
    }
    this.#tellWatches();
  }

  /** Everybody who waits to be told something. */
  get listening(): Iterable<Listening<Process>> {
    return this.#listening;
  }

  connect(process: Process): KubeConnection {
    return {
      request: (request) => this.#request(process, request),
      stream: (request) => this.#stream(process, request),
      close: () => this.hangUp(process),
    };
  }

  /** Nothing reaches the process any more. */
  hangUp(process: Process): void {
    for (const open of this.#watches) {
      if (open.process === process) {
        this.#end(open, hangUpError);
      }
    }
    for (const listening of this.#listening) {
      if (listening.process === process) {
        this.#listening.delete(listening);
      }
    }
  }

  #handle(request: KubeRequest): KubeResponse {
    const { api, clock } = this.#parts;
    const { response, commits } = api.handle(request, clock.now());
    this.spread(commits);
    return response;
  }

  /** Returns what goes wrong at a point: the fault that is placed there, or an outage that lasts. */
  #reach(process: Process, kind: PointKind, about: string): RelayFaultName | undefined {
    const { clock, witness } = this.#parts;
    const fault = witness.reached(process, kind, about);
    const meets = fault === undefined ? undefined : outages[fault.name];
    if (fault !== undefined && meets !== undefined) {
      this.#outage = { meets, untilMs: clock.monotonicMs() + fault.lastsMs };
      this.#loseWatches(meets);
    }
    const lasts = this.#outage !== undefined && clock.monotonicMs() < this.#outage.untilMs;
    return lasts ? this.#outage?.meets : fault?.name;
  }

  /** A place in the history that is gone stays gone. A list is a new place, even where nothing was written since. */
  #reachWith(process: Process, request: KubeRequest): RelayFaultName | undefined {
    const kind = pointOf(request);
    const wrong = this.#reach(process, kind, aboutRequest(request));
    const { continue: next, resourceVersion } = request.query ?? {};
    const place = next ?? resourceVersion ?? '';
    if (kind === 'page' || kind === 'list') {
      this.#gone.clear();
    } else if (wrong === 'gone') {
      this.#gone.add(place);
    }
    return wrong ?? (this.#gone.has(place) ? 'gone' : undefined);
  }

  #loseWatches(meets: RelayFaultName): void {
    for (const open of this.#watches) {
      if (meets === 'refused') {
        this.#end(open, hangUpError);
      } else if (meets === 'hung') {
        open.isSilent = true;
      }
    }
  }

  #request(process: Process, request: KubeRequest): Promise<KubeResponse> {
    const { promise, resolve, reject } = Promise.withResolvers<KubeResponse>();
    if (!process.isAlive) {
      return promise;
    }
    rejectOnAbort(request.signal, promise, reject);
    const wrong = this.#reachWith(process, request);
    const { clock } = this.#parts;
    const refusal = refusals.get(wrong ?? 'served');
    if (!process.isAlive) {
      return promise;
    }
    if (refusal !== undefined) {
      clock.after(2 * wayMs, () => resolve(refusal));
    } else if (wrong === 'refused') {
      clock.after(wayMs, () => reject(hangUpError));
    } else {
      if (wrong === 'hung' || wrong === 'answer lost') {
        clock.after(request.timeoutMs ?? 0, () => reject(new Error('no answer in time')));
      }
      if (wrong !== 'hung') {
        clock.after(wayMs, () => this.#serve(process, request, wrong, resolve));
      }
    }
    return promise;
  }

  #serve(
    process: Process,
    request: KubeRequest,
    wrong: RelayFaultName | undefined,
    resolve: (response: KubeResponse) => void,
  ): void {
    const response = this.#handle(request);
    if (wrong === 'answer lost') {
      return;
    }
    if (wrong === 'crash after') {
      this.#parts.witness.crashed(process, wrong);
      return;
    }
    this.#parts.clock.after(wayMs, () => {
      if (pointOf(request) !== 'lease' && process.isAlive) {
        this.#tellPage(process, request, response);
      }
      resolve(response);
    });
  }

  #tellPage(process: Process, request: KubeRequest, { status, body }: KubeResponse): void {
    if (status !== 200) {
      return;
    }
    const { witness } = this.#parts;
    const kind = kindOf(request);
    const { metadata, items } = body as PageBody;
    if (pointOf(request) === 'page') {
      witness.listBegan(process, kind);
    }
    for (const object of items ?? []) {
      witness.told(process, kind, { type: 'ADDED', object });
    }
    if ((metadata.continue ?? '') === '') {
      witness.listEnded(process, kind);
    }
  }

  #stream(process: Process, request: KubeRequest): Promise<Opened> {
    const { promise, resolve, reject } = Promise.withResolvers<Opened>();
    if (!process.isAlive) {
      return promise;
    }
    const { clock, isStreaming } = this.#parts;
    const listening = { process, kind: kindOf(request), heardMs: clock.monotonicMs() };
    this.#listening.add(listening);
    const settle = (act: () => void): void => {
      this.#listening.delete(listening);
      act();
    };
    const answer = (response: KubeResponse, lines: AsyncIterable<string> = noLines()): void =>
      settle(() => resolve({ ...response, lines }));
    request.signal?.addEventListener('abort', () => settle(() => reject(new Error('aborted'))));
    const wrong = this.#reachWith(process, request);
    const isUnserved = isList(request) && !isStreaming;
    const refusal = refusals.get(wrong ?? (isUnserved ? 'not streamed' : 'served'));
    if (!process.isAlive) {
      return promise;
    }
    if (refusal !== undefined) {
      clock.after(2 * wayMs, () => answer(refusal));
    } else if (wrong === 'refused') {
      clock.after(wayMs, () => settle(() => reject(hangUpError)));
    } else if (wrong !== 'hung') {
      clock.after(wayMs, () => this.#open(process, request, wrong, answer));
    }
    return promise;
  }

  #open(
    process: Process,
    request: KubeRequest,
    wrong: RelayFaultName | undefined,
    answer: (response: KubeResponse, lines?: AsyncIterable<string>) => void,
  ): void {
    const { api, clock, witness } = this.#parts;
    const { response, watch } = api.openWatch(request, clock.now());
    if (wrong === 'crash after') {
      witness.crashed(process, wrong);
      return;
    }
    clock.after(wayMs, () => {
      if (watch === undefined) {
        answer(response);
        return;
      }
      if (!process.isAlive || request.signal?.aborted === true) {
        return;
      }
      const open: OpenWatch<Process> = {
        process,
        kind: kindOf(request),
        watch,
        lines: new LineStream(() => this.#end(open)),
        isMarked: wrong !== 'stream unknown',
        isSilent: false,
        held: undefined,
        heardMs: clock.monotonicMs(),
      };
      if (isList(request)) {
        witness.listBegan(process, open.kind);
      }
      request.signal?.addEventListener('abort', () => this.#giveUp(open));
      this.#watches.add(open);
      this.#listening.add(open);
      answer(response, open.lines);
      if (wrong === 'ended at once') {
        this.#end(open);
      } else {
        this.#keep(open, request.query ?? {});
      }
    });
  }

  /** Tells what there is and, where that is asked for, that there was nothing; ends the watch when its time is over. */
  #keep(open: OpenWatch<Process>, query: NonNullable<KubeRequest['query']>): void {
    const { clock } = this.#parts;
    const sendBookmarks = (): void => {
      if (this.#watches.has(open)) {
        this.#tell(open, open.watch.bookmark());
        clock.after(bookmarkMs, sendBookmarks);
      }
    };
    this.#tellWatches();
    if (query['allowWatchBookmarks'] === 'true') {
      clock.after(bookmarkMs, sendBookmarks);
    }
    clock.after(Number(query['timeoutSeconds']) * 1_000, () => {
      if (!open.isSilent) {
        this.#end(open);
      }
    });
  }

  #giveUp(open: OpenWatch<Process>): void {
    if (this.#isHeard(open)) {
      this.#parts.witness.gaveUp(open.process, open.kind);
    }
    this.#end(open, new Error('aborted'));
  }

  /** First every watch takes what there is: a fault at one may compact the history that another still needs. */
  #tellWatches(): void {
    const now = this.#parts.clock.now();
    const ready = [...this.#watches].map((open) => ({ open, lines: open.watch.take(now) }));
    for (const { open, lines } of ready) {
      for (const line of lines) {
        this.#tell(open, line);
      }
    }
  }

  #tell(open: OpenWatch<Process>, text: string): void {
    if (!this.#isHeard(open)) {
      return;
    }
    if (open.held !== undefined) {
      open.held.push(text);
      return;
    }
    const line = parseLine(text);
    if (line.kind === 'mark' && !open.isMarked) {
      return;
    }
    if (line.kind === 'error') {
      open.lines.push(text, () => {});
      this.#end(open);
      return;
    }
    const wrong = this.#reach(open.process, line.kind, aboutLine(open.kind, line));
    if (wrong === undefined || !this.#disturb(open, text, line, wrong)) {
      this.#deliver(open, text, line);
    }
  }

  #isHeard(open: OpenWatch<Process>): boolean {
    return !open.isSilent && this.#watches.has(open);
  }

  /** Whether the line is not told as it is. What strikes the process or the server has ended or silenced the watch. */
  #disturb(open: OpenWatch<Process>, text: string, line: Line, wrong: RelayFaultName): boolean {
    const { api, clock, witness } = this.#parts;
    const endWith = (last: string): void => {
      open.lines.push(last, () => {});
      this.#end(open);
    };
    const disturbances: { readonly [Name in RelayFaultName]?: () => void } = {
      'line lost': () => {
        if (line.kind === 'line') {
          witness.lost(open.process, open.kind, line.object);
        }
      },
      'watch delayed': () => {
        open.held = [text];
        clock.after(delayMs, () => this.#release(open));
      },
      'watch silent': () => {
        open.isSilent = true;
      },
      'line cut': () => endWith(text.slice(0, text.length / 2)),
      'watch broken': () => this.#end(open, hangUpError),
      'watch and history lost': () => {
        api.compact();
        this.#end(open, hangUpError);
      },
      'watch ended': () => {
        this.#deliver(open, text, line);
        this.#end(open);
      },
      'gone in stream': () => {
        api.compact();
        endWith(errorLine(410));
      },
      'error in stream': () => endWith(errorLine(429, { retryAfterSeconds })),
    };
    const disturb = disturbances[wrong];
    disturb?.();
    return disturb !== undefined;
  }

  #release(open: OpenWatch<Process>): void {
    const held = open.held ?? [];
    open.held = undefined;
    for (const text of held) {
      this.#deliver(open, text, parseLine(text));
    }
  }

  #deliver(open: OpenWatch<Process>, text: string, line: Line): void {
    if (!this.#isHeard(open)) {
      return;
    }
    const { clock, witness } = this.#parts;
    open.lines.push(text, () => {
      open.heardMs = clock.monotonicMs();
      if (line.kind === 'line') {
        witness.told(open.process, open.kind, line);
      } else if (line.kind === 'mark') {
        witness.listEnded(open.process, open.kind);
      }
    });
  }

  #end(open: OpenWatch<Process>, error?: Error): void {
    this.#watches.delete(open);
    this.#listening.delete(open);
    open.lines.end(error);
  }
}

interface PageBody {
  readonly metadata: { readonly continue?: string };
  readonly items: readonly ToldObject[] | null;
}

const refusals: ReadonlyMap<string, KubeResponse> = new Map<string, KubeResponse>([
  ['gone', { status: 410, body: {} }],
  ['throttled', { status: 429, retryAfterSeconds, body: {} }],
  ['server error', { status: 500, body: {} }],
  ['malformed', { status: 200, body: '<html></html>' }],
  ['not streamed', { status: 400, body: {} }],
]);

async function* noLines(): AsyncGenerator<string> {}

function errorLine(code: number, details: object = {}): string {
  return JSON.stringify({
    type: 'ERROR',
    object: { kind: 'Status', code, message: 'no', details },
  });
}

const kindOfPlural = new Map<string, ToldKind>(
  toldKinds.map((kind) => [resourceTypes[kind].plural, kind]),
);

/** The kind that is listed or watched. */
function kindOf({ path }: KubeRequest): ToldKind {
  const kind = kindOfPlural.get(path.slice(path.lastIndexOf('/') + 1));
  if (kind === undefined) {
    throw new Error(`a relay asks for ${path}`);
  }
  return kind;
}

function isList({ query }: KubeRequest): boolean {
  return query?.['sendInitialEvents'] === 'true';
}

function pointOf(request: KubeRequest): PointKind {
  if (request.path.includes('/leases')) {
    return 'lease';
  }
  if (request.query?.['watch'] === '1') {
    return isList(request) ? 'list' : 'watch';
  }
  return request.query?.['continue'] === undefined ? 'page' : 'next page';
}

function aboutRequest(request: KubeRequest): string {
  return pointOf(request) === 'lease' ? request.method : kindOf(request);
}

function parseLine(text: string): Line {
  const line = JSON.parse(text) as
    | ToldEvent
    | { readonly type: 'BOOKMARK' | 'ERROR'; readonly object: ToldObject };
  if (line.type === 'ERROR') {
    return { kind: 'error' };
  }
  if (line.type === 'BOOKMARK') {
    const isMark = line.object.metadata.annotations?.['k8s.io/initial-events-end'] === 'true';
    return { kind: isMark ? 'mark' : 'bookmark' };
  }
  return { kind: 'line', type: line.type, object: line.object };
}

function aboutLine(kind: ToldKind, line: Line): string {
  return line.kind === 'line' ? `${kind} ${line.object.metadata.name} ${line.type}` : kind;
}
