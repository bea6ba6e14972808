import { once } from 'node:events';
import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import https from 'node:https';
import { type Server, type Socket, createServer } from 'node:net';
import { performance } from 'node:perf_hooks';
import { Transform, type TransformCallback } from 'node:stream';
import { findFreePort } from '#infra/local/control-plane/port.ts';

/** A request as the proxy saw it, in the order in which they came. */
export interface ProxiedRequest {
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: string;
  /** When its head was there, in milliseconds of this process's monotonic clock. */
  readonly atMs: number;
}

export interface ProxiedAnswer {
  readonly status: number;
  readonly body: string;
}

/** What becomes of one request. */
export type Treatment =
  | { readonly kind: 'pass' }
  /** Not forwarded, answered by the proxy itself. */
  | {
      readonly kind: 'answer';
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly body: unknown;
    }
  /** Forwarded; the connection ends when the server has answered, and the answer is lost. */
  | { readonly kind: 'loseReply' }
  /** Forwarded; the answer never comes, and the connection stays open. */
  | { readonly kind: 'withholdReply' }
  /** Forwarded; so many whole lines of the answer come, then half of the next one, then the connection breaks. */
  | { readonly kind: 'cut'; readonly afterLines: number }
  /** Forwarded with another body, and answered with another one than the server's. */
  | {
      readonly kind: 'amend';
      request(body: string): string;
      answer(body: string): string;
    };

/** Decides about a request when it is there as a whole; `undefined` passes it on. */
export type Rule = (request: ProxiedRequest) => Treatment | undefined | Promise<Treatment>;

export interface FaultyProxyOptions {
  /** `http://…` or `https://…`: the real server. */
  readonly target: string;
  /** PEM of the authority the real server is checked against. */
  readonly ca?: string;
  /** PEM; with it the proxy speaks TLS to its clients as well. */
  readonly identity?: { readonly key: string; readonly cert: string };
  /** Told of every answer of the real server, before the client gets it. Answers are read as a whole then. */
  readonly onAnswer?: (request: ProxiedRequest, answer: ProxiedAnswer) => void;
}

/**
 * Stands between a client and a real server, and does what networks and overloaded servers do.
 *
 * Refusing and silence happen at the level of connections, everything else at that of requests. Without a fault every
 * request and every answer goes through as it is. {@link FaultyProxy.heal} ends all faults for what comes afterwards;
 * a connection that a fault broke or silenced stays so, as a real one would.
 */
export class FaultyProxy implements AsyncDisposable {
  readonly requests: ProxiedRequest[] = [];
  readonly #options: FaultyProxyOptions;
  readonly #target: URL;
  readonly #agent: http.Agent;
  readonly #protocol: http.Server;
  readonly #port: number;
  readonly #sockets = new Set<Socket>();
  readonly #open = new Set<Valve>();
  /** Requests that are being served. */
  readonly #serving = new Set<Promise<void>>();
  /** Accepts connections and hands them to the protocol; a new one after each refusal. */
  #listener: Server | undefined;
  #rule: Rule = () => undefined;
  #isSilent = false;
  #unheard = 0;

  private constructor(options: FaultyProxyOptions, port: number) {
    this.#options = options;
    this.#port = port;
    this.#target = new URL(options.target);
    this.#agent =
      this.#target.protocol === 'https:'
        ? new https.Agent({ keepAlive: true, ca: options.ca })
        : new http.Agent({ keepAlive: true });
    const serve = (request: IncomingMessage, response: ServerResponse): void => {
      const serving = this.#serve(request, response).catch(() => void response.destroy());
      this.#serving.add(serving);
      void serving.finally(() => this.#serving.delete(serving));
    };
    this.#protocol =
      options.identity === undefined
        ? http.createServer(serve)
        : https.createServer(options.identity, serve);
  }

  static async start(options: FaultyProxyOptions): Promise<FaultyProxy> {
    // Not a port the system hands out for outgoing connections: it must be free again after a refusal.
    const proxy = new FaultyProxy(options, await findFreePort());
    await proxy.#listen();
    return proxy;
  }

  get url(): string {
    const scheme = this.#options.identity === undefined ? 'http' : 'https';
    return `${scheme}://127.0.0.1:${this.#port}`;
  }

  /** The real server. */
  get target(): string {
    return this.#options.target;
  }

  /** Responses that are on their way: open watches, above all. */
  get openAnswers(): number {
    return this.#open.size;
  }

  /** Connections that were accepted in silence. */
  get unheardConnections(): number {
    return this.#unheard;
  }

  /** Treats every further request by a rule. */
  treat(rule: Rule): void {
    this.#rule = rule;
  }

  /** Nobody listens any more, and what was connected is cut off. */
  refuse(): void {
    this.#listener?.close();
    this.#listener = undefined;
    this.#destroySockets();
  }

  /** Connections are accepted and kept, and not one byte comes back on them, also not on those that are there. */
  fallSilent(): void {
    this.#isSilent = true;
    for (const valve of this.#open) {
      valve.shut();
    }
  }

  /** Breaks every answer on its way in the middle of the next line that comes. */
  breakAnswers(): void {
    for (const valve of this.#open) {
      valve.cutAfter(0);
    }
  }

  /** Ends every answer on its way in good order, as a server does whose time for a watch is over. */
  endAnswers(): void {
    for (const valve of this.#open) {
      valve.finish();
    }
  }

  /** Ends all faults. What was already broken or silenced stays so. */
  async heal(): Promise<void> {
    this.#rule = () => undefined;
    this.#isSilent = false;
    if (this.#listener === undefined) {
      await this.#listen();
    }
  }

  /** Also waits for answers on their way from the real server, where somebody here is told of them. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.refuse();
    await Promise.all(this.#serving);
    this.#agent.destroy();
    this.#protocol.removeAllListeners();
  }

  async #listen(): Promise<void> {
    const listener = createServer((socket) => {
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
      // Either end may break at any time, which is the point of this proxy.
      socket.on('error', () => socket.destroy());
      if (this.#isSilent) {
        this.#unheard += 1;
      } else {
        this.#protocol.emit('connection', socket);
      }
    });
    listener.listen(this.#port, '127.0.0.1');
    await once(listener, 'listening');
    this.#listener = listener;
  }

  #destroySockets(): void {
    for (const socket of this.#sockets) {
      socket.destroy();
    }
  }

  async #serve(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const request = await readRequest(incoming);
    this.requests.push(request);
    if (this.#isSilent) {
      return;
    }
    const treatment = (await this.#rule(request)) ?? { kind: 'pass' };
    if (treatment.kind === 'answer') {
      const { status, headers, body } = treatment;
      response.writeHead(status, { 'content-type': 'application/json', ...headers });
      response.end(typeof body === 'string' ? body : JSON.stringify(body));
      return;
    }
    const answer = await this.#forward(request, treatment, response);
    if (this.#options.onAnswer === undefined && treatment.kind !== 'amend') {
      await this.#passOn(answer, treatment, response);
    } else {
      await this.#passOnWhole(request, answer, treatment, response);
    }
  }

  /**
   * Resolves with the head of the real server's answer. A client that goes away takes its request with it, except where
   * somebody here is told of the answer: what the real server did is to be known then.
   */
  async #forward(
    request: ProxiedRequest,
    treatment: Treatment,
    response: ServerResponse,
  ): Promise<IncomingMessage> {
    const body = treatment.kind === 'amend' ? treatment.request(request.body) : request.body;
    const transport = this.#target.protocol === 'https:' ? https : http;
    const query = request.query.toString();
    const { 'content-length': _, 'transfer-encoding': __, ...headers } = request.headers;
    const forwarded = transport.request({
      agent: this.#agent,
      hostname: this.#target.hostname,
      port: this.#target.port,
      method: request.method,
      path: `${request.path}${query === '' ? '' : `?${query}`}`,
      headers: {
        ...headers,
        host: this.#target.host,
        ...(body === '' ? {} : { 'content-length': String(Buffer.byteLength(body)) }),
      },
    });
    if (this.#options.onAnswer === undefined) {
      response.once('close', () => forwarded.destroy());
    }
    // Raised to the waiting reader below; later ones only tell that the connection is gone, which its end tells too.
    forwarded.on('error', () => undefined);
    forwarded.end(body);
    const [answer] = (await once(forwarded, 'response')) as [IncomingMessage];
    return answer;
  }

  async #passOn(
    answer: IncomingMessage,
    treatment: Treatment,
    response: ServerResponse,
  ): Promise<void> {
    if (treatment.kind === 'loseReply' || treatment.kind === 'withholdReply') {
      await readText(answer);
      return lose(treatment, response);
    }
    const valve = new Valve(response);
    this.#open.add(valve);
    if (treatment.kind === 'cut') {
      valve.cutAfter(treatment.afterLines);
    }
    if (this.#isSilent) {
      valve.shut();
    }
    valve.once('close', () => this.#open.delete(valve));
    answer.on('error', () => valve.break());
    answer.once('close', () => {
      if (!answer.complete) {
        valve.break();
      }
    });
    response.once('close', () => valve.destroy());
    response.writeHead(answer.statusCode ?? 502, answer.headers);
    // A watch's client waits for the head, which Node would keep until the first line.
    response.flushHeaders();
    answer.pipe(valve).pipe(response);
  }

  async #passOnWhole(
    request: ProxiedRequest,
    answer: IncomingMessage,
    treatment: Treatment,
    response: ServerResponse,
  ): Promise<void> {
    const body = await readText(answer);
    const status = answer.statusCode ?? 502;
    this.#options.onAnswer?.(request, { status, body });
    if (treatment.kind === 'loseReply' || treatment.kind === 'withholdReply') {
      return lose(treatment, response);
    }
    if (this.#isSilent) {
      return;
    }
    const text = treatment.kind === 'amend' ? treatment.answer(body) : body;
    const { 'content-length': _, 'transfer-encoding': __, ...headers } = answer.headers;
    response.writeHead(status, headers);
    response.end(text);
  }
}

function lose(treatment: Treatment, response: ServerResponse): void {
  if (treatment.kind === 'loseReply') {
    response.destroy();
  }
}

const newline = 0x0a;

/** Where an answer goes through on its way to the client, and can be shut, ended or broken there. */
class Valve extends Transform {
  readonly #response: ServerResponse;
  #isShut = false;
  /** Whole lines that still go through before the connection breaks; absent: no limit. */
  #linesLeft: number | undefined;

  constructor(response: ServerResponse) {
    super();
    this.#response = response;
  }

  /** Nothing comes through any more, neither a byte nor the end. */
  shut(): void {
    this.#isShut = true;
  }

  cutAfter(lines: number): void {
    this.#linesLeft = lines;
  }

  /** The answer ends as if the server had said all. */
  finish(): void {
    this.#isShut = true;
    this.#response.end();
  }

  /** The connection ends, in the middle of whatever was on its way. */
  break(): void {
    if (!this.#isShut) {
      this.#response.destroy();
    }
  }

  override _transform(chunk: Buffer, _: BufferEncoding, done: TransformCallback): void {
    if (this.#isShut) {
      done();
      return;
    }
    if (this.#linesLeft === undefined) {
      done(null, chunk);
      return;
    }
    const end = this.#endOf(chunk);
    if (end === undefined) {
      done(null, chunk);
      return;
    }
    this.#isShut = true;
    // Broken only when the half line is out: the client is to read it.
    this.#response.write(chunk.subarray(0, end), () => this.#response.destroy());
    done();
  }

  override _flush(done: TransformCallback): void {
    if (!this.#isShut) {
      done();
    }
  }

  /** Where in this chunk the answer breaks off: in the middle of the line after the last whole one that is let through. */
  #endOf(chunk: Buffer): number | undefined {
    let from = 0;
    for (;;) {
      const at = chunk.indexOf(newline, from);
      if (this.#linesLeft === 0) {
        const length = (at === -1 ? chunk.length : at) - from;
        return length === 0 ? undefined : from + Math.ceil(length / 2);
      }
      if (at === -1) {
        return undefined;
      }
      this.#linesLeft = (this.#linesLeft ?? 0) - 1;
      from = at + 1;
    }
  }
}

async function readRequest(incoming: IncomingMessage): Promise<ProxiedRequest> {
  const atMs = performance.now();
  const url = new URL(incoming.url ?? '/', 'http://proxy');
  return {
    method: incoming.method ?? 'GET',
    path: url.pathname,
    query: url.searchParams,
    headers: incoming.headers,
    body: await readText(incoming),
    atMs,
  };
}

async function readText(message: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of message as AsyncIterable<Buffer>) {
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}
