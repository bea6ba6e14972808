import type { SQSBatchResponse, SQSEvent } from 'aws-lambda';
import type { Decision } from '#shared/kernel/decision.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import type { StepName } from '#shared/api/steps.ts';
import { type Logger, createLogger } from '#shared/kernel/logger.ts';
import { runBatch } from '#shared/kernel/pipeline.ts';
import type { Step } from '#shared/kernel/step.ts';
import type { KubeConnection, KubeRequest, KubeResponse } from '#shared/kube/connection.ts';
import type { TargetKind } from '#shared/kube/resources.ts';
import { checkingClock } from '#shared/kube/clock-check.ts';
import type { BucketRequest } from '#test/world/model/buckets.ts';
import { outsideOver } from '#shared/outside/connect.ts';
import { type Fingerprint, Mixer, ofValue, textOf } from './fingerprint.ts';
import { bucketTransport } from './bucket-transport.ts';
import { everythingWent } from './turn.ts';

// A handler loads it when it first asks a topology. In a run that would take real time, which nothing here waits for.
await import('#shared/topology/connect.ts');

/** What a handler waits for: a request to the outside world. Handlers may have several open at a time. */
export type Question = { readonly id: number } & Asked;

type Asked =
  | { readonly to: 'cluster'; readonly request: KubeRequest }
  | { readonly to: 'bucket'; readonly request: BucketRequest }
  | { readonly to: 'queue'; readonly receiptHandle: string; readonly seconds: number };

export type Answer =
  | { readonly kind: 'answered'; readonly response: KubeResponse }
  /** No answer came; the request may have taken effect. */
  | { readonly kind: 'broken'; readonly why: string };

/** What a look concluded, as the handler's own code said it. */
export interface Looked {
  readonly snapshot: unknown;
  readonly decision: Decision;
}

/** What clocks are off by, in milliseconds. */
export interface Clocks {
  readonly handlerMs: number;
  readonly apiServerMs: number;
}

/** Everything that a handler's behaviour depends on before its first question. */
export interface Start {
  readonly step: Step<TargetKind, never>;
  readonly event: SQSEvent;
  readonly startedAt: Instant;
  /** How long the platform lets it run, in milliseconds. */
  readonly budgetMs: number;
  readonly clocks: Clocks;
  /** Uniform in [0, 1): the one number its backoff is drawn from. */
  readonly chance: number;
}

/** Cluster and namespaces every handler of the world is configured with. */
export const worldClusterId = 'world';

/** The only namespace whose hints handlers take. */
export const worldNamespace = 'db';

interface Told {
  readonly id: number;
  readonly answer: Answer;
  readonly now: Instant;
  /** Whether it made the handler ask for the time, or for how much of it is left. */
  readonly isTimed?: boolean;
}

/** The handler as it was, and what it was told then. */
interface Past {
  readonly before: Handler;
  readonly told: Told;
}

/** Runs that may be gone on with without being run again, and handlers that are remembered, at most. */
const maxLiveRuns = 4_000;
const maxRemembered = 200_000;

/**
 * Handlers that were run before, so that those with the same history run once: the thousands of interleavings that look
 * the same to one handler share it. Two starts count as the same whatever their messages say and are called, since by X5
 * nothing of that counts, and an answer that makes nobody ask for the time counts as the same at any time.
 */
export class HandlerMemory {
  #starts = new Map<string, Handler>();
  readonly #alive = new Set<Handler>();
  #size = 0;
  #runs = 0;

  /** Different histories that the code that ships was run for. */
  get runs(): number {
    return this.#runs;
  }

  find(start: Start): Handler | undefined {
    const found = this.#starts.get(keyOfStart(start));
    return found?.start.step === start.step ? found : undefined;
  }

  keepStart(start: Start, handler: Handler): void {
    this.#starts.set(keyOfStart(start), handler);
    this.keep(handler);
  }

  /** Takes note of a new handler. Where there are too many, old ones are forgotten: they run again when needed. */
  keep(handler: Handler): void {
    this.#runs += 1;
    this.#size += 1;
    if (this.#size > maxRemembered) {
      this.#starts = new Map();
      this.#size = 0;
    }
    this.#alive.add(handler);
    const [oldest] = this.#alive;
    if (this.#alive.size > maxLiveRuns && oldest !== undefined) {
      this.#alive.delete(oldest);
      oldest.rest();
    }
  }

  /** Its run has gone on. */
  release(handler: Handler): void {
    this.#alive.delete(handler);
  }
}

function keyOfStart({ step, event, startedAt, budgetMs, clocks, chance }: Start): string {
  const received = event.Records.map(({ attributes }) => attributes.ApproximateReceiveCount);
  const { handlerMs, apiServerMs } = clocks;
  return [step.name, startedAt, budgetMs, handlerMs, apiServerMs, chance, ...received].join(' ');
}

/**
 * A handler in flight, as a value: what it started with and every answer it has been given. The code that ships runs
 * underneath; as it is deterministic, a handler that has to go on in two ways is run again from its start with the same
 * answers. The common case, going on in one way only, continues the run that is there.
 */
export class Handler {
  readonly start: Start;
  /** Open questions, in the order in which they were asked. */
  readonly questions: readonly Question[];
  /** Looks that have come to a decision so far. */
  readonly looks: readonly Looked[];
  /** Stands for everything the handler was told, as far as it counts; only where handlers are remembered. */
  readonly history: Fingerprint | undefined;
  /** Set when the handler has returned, or thrown: then the platform counts the whole batch as failed. */
  readonly ending: Ending | undefined;
  readonly #past: Past | undefined;
  #live: LiveRun | undefined;
  readonly #memory: HandlerMemory | undefined;
  /** What came of each answer that was given from here; only with a memory. */
  readonly #next = new Map<string, Handler>();

  private constructor(
    start: Start,
    live: LiveRun,
    memory: HandlerMemory | undefined,
    past: Past | undefined,
  ) {
    this.start = start;
    this.#memory = memory;
    this.history = memory === undefined ? undefined : historyOf(start, past);
    this.questions = [...live.questions.values()].map(({ question }) => question);
    this.looks = [...live.looks];
    this.ending = live.ending;
    this.#past = past;
    this.#live = this.ending === undefined ? live : undefined;
  }

  /** Runs the handler to its first questions. */
  static async begin(start: Start, memory?: HandlerMemory): Promise<Handler> {
    const known = memory?.find(start);
    if (known !== undefined) {
      return known;
    }
    const handler = new Handler(start, await LiveRun.begin(start), memory, undefined);
    memory?.keepStart(start, handler);
    return handler;
  }

  /** The same handler after one more answer. The one before it stays as it is. */
  async answer(id: number, answer: Answer, now: Instant): Promise<Handler> {
    const told: Told = { id, answer, now };
    const memory = this.#memory;
    if (memory === undefined) {
      return this.#goOn(told);
    }
    const key = `${id} ${textOf(ofValue(answer))}`;
    const known = this.#next.get(key) ?? this.#next.get(`${key} ${now}`);
    if (known !== undefined) {
      return known;
    }
    const next = await this.#goOn(told);
    this.#next.set(next.#past?.told.isTimed === true ? `${key} ${now}` : key, next);
    memory.release(this);
    memory.keep(next);
    return next;
  }

  /** Lets the run go that would have gone on from here: the next answer runs the handler again. */
  rest(): void {
    this.#live = undefined;
  }

  async #goOn(told: Told): Promise<Handler> {
    const live = this.#live ?? (await this.#runAgain());
    this.#live = undefined;
    await live.answer(told);
    const past = { before: this, told: { ...told, isTimed: live.hasReadClock } };
    return new Handler(this.start, live, this.#memory, past);
  }

  async #runAgain(): Promise<LiveRun> {
    const live = await LiveRun.begin(this.start);
    for (const told of this.#answers()) {
      await live.answer(told);
    }
    return live;
  }

  /** Everything it was told, in order. */
  #answers(): readonly Told[] {
    return this.#past === undefined ? [] : [...this.#past.before.#answers(), this.#past.told];
  }
}

/** A chain: of what was before, and of the last answer. */
function historyOf(start: Start, past: Past | undefined): Fingerprint {
  const mixer = new Mixer();
  const before = past?.before.history;
  if (past === undefined || before === undefined) {
    return mixer.text(keyOfStart(start)).end();
  }
  const { told } = past;
  return mixer
    .fingerprint(before)
    .number(told.id)
    .fingerprint(ofValue(told.answer))
    .number(told.isTimed === true ? told.now : 0)
    .end();
}

export type Ending =
  | { readonly kind: 'returned'; readonly response: SQSBatchResponse }
  | { readonly kind: 'threw'; readonly error: unknown };

interface OpenQuestion {
  readonly question: Question;
  resolve(response: KubeResponse): void;
  reject(error: Error): void;
}

/** One run of the code that ships. It can be continued once only. */
class LiveRun {
  readonly questions = new Map<number, OpenQuestion>();
  readonly looks: Looked[] = [];
  ending: Ending | undefined;
  /** Whether the last answer made the handler ask for the time, or for how much of it is left. */
  hasReadClock = false;
  #asked = 0;
  #now: Instant;
  readonly #start: Start;

  private constructor(start: Start) {
    this.#start = start;
    this.#now = start.startedAt;
  }

  static async begin(start: Start): Promise<LiveRun> {
    const run = new LiveRun(start);
    run.#begin();
    await everythingWent();
    return run;
  }

  async answer({ id, answer, now }: Told): Promise<void> {
    const open = this.questions.get(id);
    if (open === undefined) {
      throw new Error(`a handler was answered a question it has not asked: ${id}`);
    }
    this.questions.delete(id);
    this.#now = now;
    this.hasReadClock = false;
    if (answer.kind === 'answered') {
      const toldAt = (now + this.#start.clocks.apiServerMs) as Instant;
      open.resolve({ ...answer.response, toldAt: wholeSeconds(toldAt) });
    } else {
      open.reject(new Error(answer.why));
    }
    await everythingWent();
  }

  #begin(): void {
    const { step, event, startedAt, budgetMs, chance, clocks } = this.#start;
    const ownTime = (): Instant => (this.#now + clocks.handlerMs) as Instant;
    const clock = (): Instant => {
      this.hasReadClock = true;
      return ownTime();
    };
    const remainingMs = (): number => {
      this.hasReadClock = true;
      return startedAt + budgetMs - this.#now;
    };
    const watched: Step<TargetKind, never> = {
      ...step,
      decide: (snapshot, now) => {
        const decision = step.decide(snapshot, now);
        this.looks.push({ snapshot, decision });
        return decision;
      },
    };
    runBatch(watched, event, remainingMs, {
      clock,
      random: () => chance,
      deadlineIn: () => neverAborts,
      logger: loggerOf(step.name),
      config: { MILLRACE_CLUSTER_ID: worldClusterId, MILLRACE_NAMESPACES: [worldNamespace] },
      outside: outsideOver(
        // Whether clocks agree does not depend on the time, so this is no reading of it.
        checkingClock(this.#connection(), ownTime),
        worldClusterId,
        async (receiptHandle, seconds) => {
          await this.#ask({ to: 'queue', receiptHandle, seconds });
        },
        clock,
        bucketTransport((request) => this.#ask({ to: 'bucket', request }), neverAborts),
      ),
    }).then(
      (response) => (this.ending = { kind: 'returned', response }),
      (error: unknown) => (this.ending = { kind: 'threw', error }),
    );
  }

  #connection(): KubeConnection {
    return {
      request: (request) => this.#ask({ to: 'cluster', request }),
      stream: () => Promise.reject(new Error('no handler watches')),
      close: () => undefined,
    };
  }

  #ask(asked: Asked): Promise<KubeResponse> {
    const { promise, resolve, reject } = Promise.withResolvers<KubeResponse>();
    const id = this.#asked;
    this.#asked += 1;
    this.questions.set(id, { question: { id, ...asked }, resolve, reject });
    return promise;
  }
}

function wholeSeconds(instant: Instant): Instant {
  return (Math.floor(instant / 1000) * 1000) as Instant;
}

const neverAborts = new AbortController().signal;
const silent = createLogger('silent', {});

let loggerOf: (step: StepName) => Logger = () => silent;

/** From here on handlers are heard, for a test that reads what they log; nobody listens otherwise. */
export function hearHandlers(logger: (step: StepName) => Logger): void {
  loggerOf = logger;
}
