import type { SQSEvent } from 'aws-lambda';
import { makeHint, maxHintBytes } from '#events/hint.ts';
import type { Fault as DataPlaneFault } from '#infra/local/data-plane/fault.ts';
import type { StepName } from '#shared/api/steps.ts';
import { type Instant, plusSeconds, secondsBetween } from '#shared/kernel/instant.ts';
import type { KubeRequest, KubeResponse } from '#shared/kube/connection.ts';
import { resourceTypes } from '#shared/kube/resources.ts';
import { ApiServer, type Commit } from '#test/world/model/api-server.ts';
import { Buckets } from '#test/world/model/buckets.ts';
import { askGateway } from '#test/world/model/etcd-gateway.ts';
import { Etcd } from '#test/world/model/etcd.ts';
import type { GoverseNodes } from '#test/world/model/goverse-nodes.ts';
import { Multigres } from '#test/world/model/multigres.ts';
import { Queue, type Received } from '#test/world/model/queue.ts';
import type { Tally } from '#test/world/oracles/tally.ts';
import { type Call, callOf } from './call.ts';
import { DirectHints, type Due } from './direct-hints.ts';
import {
  type Answer,
  type Clocks,
  Handler,
  type HandlerMemory,
  type Question,
  worldClusterId,
} from './handler.ts';
import { type Truth, truthOf } from './truth.ts';
import { type Version, stepOf } from './versions.ts';

/** Who wrote. */
export type Actor =
  | { readonly kind: 'handler'; readonly handler: InFlight }
  | { readonly kind: 'cluster' | 'person' };

/** Something a handler read, with what was true in the data plane at that instant. */
export interface Seen {
  readonly call: Call;
  readonly at: Instant;
  readonly body: unknown;
  readonly status: number;
  readonly truth: Truth | undefined;
}

/** A handler at work on the messages of one batch. A value: every change makes a new one. */
export interface InFlight {
  readonly id: number;
  readonly step: StepName;
  readonly received: readonly Received[];
  readonly handler: Handler;
  /** When it asked what it asks now. */
  readonly askedAt: Instant;
  /** The same handler on a message that says other things of the same target: it must do the same (X5). */
  readonly shadow: Handler | undefined;
  /** What it has been told, in order. */
  readonly seen: readonly Seen[];
  /** Writes of it that took effect and cannot be taken back. */
  readonly destructive: number;
  readonly writes: number;
  /** A process that hangs: nothing of it is served before. */
  readonly hangsUntil: Instant | undefined;
  /** The question that waits for the data plane's answer, and that answer's id. */
  readonly waits:
    | {
        readonly question: Question;
        readonly call: Call;
        readonly reply: number;
        /** How long it waits at most. */
        readonly until: Instant;
      }
    | undefined;
}

/** One question about to be served. */
export interface Operation {
  /** Questions served in this world before it. */
  readonly index: number;
  readonly by: InFlight;
  readonly question: Question;
  readonly call: Call;
}

/** What comes instead of the answer. */
export type Interference =
  /** No answer, and the request took effect or not. */
  | { readonly kind: 'silence'; readonly isApplied: boolean }
  | { readonly kind: 'refusal'; readonly response: KubeResponse }
  /** A read is answered with what was so this many writes ago. */
  | { readonly kind: 'past'; readonly commits: number }
  /** A list breaks off: its first half is answered, and where it should go on is gone. */
  | { readonly kind: 'half' };

/** A write by anyone, as the oracles see it. */
export interface Write {
  readonly actor: Actor;
  readonly commit: Commit;
  readonly request: KubeRequest | undefined;
}

/** Told of everything that happens; the state it keeps is its own. */
export interface Witness {
  wrote(write: Write, world: World): void;
  /** A compare-and-swap in the topology, an object put into a bucket, or a question to the admin service that is no read. */
  sent(operation: Operation, world: World): void;
  ended(by: InFlight, world: World): void;
  /** Whatever else a story is made of. */
  told(line: () => string, world: World): void;
  fork(): Witness;
  /** What was counted so far does not count. */
  startCounting?(): void;
  /** Everything of the past that a later verdict depends on, as JSON has it: without it no two moments count as the same. */
  readonly remembered?: object;
  /** All is at rest. */
  atRest?(world: World): void;
  /** It stayed so, and the workload says that its goal is reached. */
  atEnd?(world: World): void;
}

export interface Setup {
  readonly multigres: Multigres;
  /** Where there is a cluster of GoVerse. */
  readonly goverse?: GoverseNodes;
  readonly start: Instant;
  readonly steps: readonly StepName[];
  readonly witness: Witness;
  readonly tally: Tally;
  readonly versions?: 'cluster' | 'object';
  /** Whether the API server tells when specs changed (`managedFields`); without it nobody knows. */
  readonly tellsSpecTimes?: boolean;
  /** Messages that one handler is given at most; ten when not given. */
  readonly batch?: number;
  /** Where handlers with the same history are to run once. */
  readonly memory?: HandlerMemory;
}

/** How long a handler may run, and how long its message then stays hidden, in seconds. */
const functionTimeoutMs = 30_000;
const visibilitySeconds = 180;
const maxReceiveCount = 5;

/** Reads are answered from at most so many writes ago. */
const rememberedVersions = 4;

/** The data plane does nothing that shows for at most so long and then goes on: two silent leaders are replaced by then. */
const longestPauseSeconds = 180;

/** A window in which a part of the outside world does not answer. */
interface Outage {
  readonly via: Call['via'];
  readonly until: Instant;
}

/** An act of a workload that is still to come. */
export interface Planned {
  readonly name: string;
  /** Done as soon as this holds. */
  readonly when: (world: World) => boolean;
  /** When that is, where it is a matter of time alone. */
  readonly at?: Instant;
  readonly act: (world: World) => void;
}

/**
 * The whole of it at one instant: API server, etcd, data plane, queues, handlers in flight, and the time. Copied at any
 * moment by {@link World.fork}; the copies share nothing that changes.
 */
export class World {
  now: Instant;
  readonly api: ApiServer;
  readonly etcd: Etcd;
  readonly multigres: Multigres;
  readonly goverse: GoverseNodes | undefined;
  readonly buckets: Buckets;
  readonly queues: ReadonlyMap<StepName, Queue>;
  readonly hints: DirectHints;
  readonly witness: Witness;
  inFlight: readonly InFlight[] = [];
  planned: readonly Planned[] = [];
  /** Questions served. */
  operations = 0;
  /** Handlers started. */
  deliveries = 0;
  /** Bodies of messages that nobody may act on. */
  poison: readonly string[] = [];
  /** Every hint body that was ever sent. */
  sent: readonly { readonly step: StepName; readonly body: string }[] = [];
  /** The steps that run; what is due for others is dropped. */
  activeSteps: ReadonlySet<StepName>;
  version: Version = 'shipped';
  clocks: Clocks = rightClocks;
  /** What a person on duty has done because a condition said so, each time. */
  duties: readonly string[] = [];
  /** Writes of handlers that changed something. */
  oursWritten = 0;
  /** When anybody last wrote, or a handler last began. */
  activeAt: Instant;
  #outages: readonly Outage[] = [];
  #past: readonly ApiServer[] = [];

  constructor(setup: Setup, copyOf?: World) {
    this.now = copyOf?.now ?? setup.start;
    this.api =
      copyOf?.api.fork() ??
      new ApiServer({
        versions: setup.versions ?? 'cluster',
        tellsSpecTimes: setup.tellsSpecTimes ?? false,
      });
    this.etcd = copyOf?.etcd.fork() ?? new Etcd();
    this.multigres = copyOf?.multigres.fork() ?? setup.multigres;
    this.goverse = copyOf === undefined ? setup.goverse : copyOf.goverse?.fork();
    this.buckets = copyOf?.buckets.fork() ?? new Buckets();
    this.queues = new Map(
      setup.steps.map((step) => [
        step,
        copyOf?.queues.get(step)?.fork() ?? new Queue({ visibilitySeconds, maxReceiveCount }),
      ]),
    );
    this.activeAt = copyOf?.activeAt ?? setup.start;
    this.activeSteps = copyOf?.activeSteps ?? new Set(setup.steps);
    this.hints = copyOf?.hints.fork() ?? new DirectHints(setup.steps);
    this.witness = copyOf?.witness.fork() ?? setup.witness;
    this.#companions = copyOf === undefined ? [] : copyOf.#companions.map((other) => other.fork());
    this.#setup = setup;
    if (copyOf !== undefined) {
      this.inFlight = copyOf.inFlight;
      this.planned = copyOf.planned;
      this.operations = copyOf.operations;
      this.deliveries = copyOf.deliveries;
      this.sent = copyOf.sent;
      this.poison = copyOf.poison;
      this.version = copyOf.version;
      this.clocks = copyOf.clocks;
      this.oursWritten = copyOf.oursWritten;
      this.duties = copyOf.duties;
      this.#outages = copyOf.#outages;
      this.#past = copyOf.#past;
    }
  }

  readonly #setup: Setup;
  #companions: readonly Witness[];
  /** Of a world that is told and not copied. */
  #listener: Witness | undefined;

  get tally(): Tally {
    return this.#setup.tally;
  }

  fork(): World {
    return new World(this.#setup, this);
  }

  /** The next question of the first handler that neither hangs nor waits. */
  nextOperation(): Operation | undefined {
    const by = this.inFlight.find(isServable);
    return by === undefined ? undefined : this.#operationOf(by);
  }

  /** The next question of each handler that neither hangs nor waits. */
  allOperations(): readonly Operation[] {
    return this.inFlight.filter(isServable).flatMap((by) => this.#operationOf(by) ?? []);
  }

  #operationOf(by: InFlight): Operation | undefined {
    const [question] = by.handler.questions;
    return question === undefined ? undefined : this.operationOf(by, question);
  }

  operationOf(by: InFlight, question: Question): Operation {
    return { index: this.operations, by, question, call: callOf(question) };
  }

  isInFlight({ by }: Operation): boolean {
    return this.inFlight.some(({ id }) => id === by.id);
  }

  /** One more that checks what happens from here on, in this world and its copies. */
  accompany(witness: Witness): void {
    this.#companions = [...this.#companions, witness];
  }

  get companions(): readonly Witness[] {
    return this.#companions;
  }

  /** Everyone who is told of what happens. */
  get witnesses(): readonly Witness[] {
    return [this.witness, ...this.#companions];
  }

  /** Tells one more of everything that happens from here on. */
  listen(witness: Witness): void {
    this.#listener = witness;
  }

  /** Serves a question. */
  async serve(operation: Operation, interference?: Interference): Promise<void> {
    this.operations += 1;
    const answer = this.#isOut(operation.call.via)
      ? broken
      : this.#answerTo(operation, interference);
    this.#tell(() => tellServed(operation, answer));
    if (answer !== 'later') {
      await this.#goOn(operation, answer);
    }
  }

  /** What is still to come by plan, and how the outside world is apart from what it stores; for telling moments apart. */
  get circumstances(): object {
    return {
      planned: this.planned.map(({ name, at }) => ({ name, at })),
      outages: this.#outages,
      clocks: this.clocks,
      duties: this.duties,
      version: this.version,
      isTopologyReachable: this.multigres.isTopologyReachable,
    };
  }

  /** Gives a question an answer that is known without asking. */
  async serveKnown(operation: Operation, response: KubeResponse): Promise<void> {
    this.operations += 1;
    const answer: Answer = { kind: 'answered', response };
    this.#tell(() => tellServed(operation, answer));
    await this.#goOn(operation, answer);
  }

  /** Ends a handler as a crash does: nothing of it happens any more, its messages come back by themselves. */
  crash(by: InFlight): void {
    this.inFlight = this.inFlight.filter(({ id }) => id !== by.id);
    this.#tell(() => `${nameOf(by)} crashes`);
  }

  /** Stops a handler for so long, while the world goes on and its messages may come back. */
  hang(by: InFlight, seconds: number): void {
    this.#replace({ ...by, hangsUntil: plusSeconds(this.now, seconds) });
    this.#tell(() => `${nameOf(by)} hangs for ${seconds} s`);
  }

  /** Delivers the next visible message of any step; false where there is none. */
  async deliverNext(): Promise<boolean> {
    this.#send(this.hints.take());
    for (const [step, queue] of this.queues) {
      const received = queue.receive(this.now, this.#setup.batch ?? 10);
      if (received.length > 0) {
        await this.#begin(step, received);
        return true;
      }
    }
    return false;
  }

  /** Delivers what this step's queue has visible; false where there is nothing. What is due for others stays due. */
  async deliver(step: StepName): Promise<boolean> {
    this.#send(this.hints.take(step));
    const received = this.queues.get(step)?.receive(this.now, this.#setup.batch ?? 10) ?? [];
    if (received.length > 0) {
      await this.#begin(step, received);
    }
    return received.length > 0;
  }

  /** Starts a handler on messages as if the queue had delivered them. */
  async #begin(step: StepName, messages: readonly Received[]): Promise<void> {
    // Called by their places in the batch, so that handlers with the same history are told the same.
    const received = messages.map((message, place) => ({ ...message, messageId: String(place) }));
    this.deliveries += 1;
    this.activeAt = this.now;
    const id = this.deliveries;
    const start = {
      step: stepOf(step, this.version),
      event: eventOf(received, step),
      startedAt: this.now,
      budgetMs: functionTimeoutMs,
      clocks: this.clocks,
      chance: 0.5,
    };
    const handler = await Handler.begin(start, this.#setup.memory);
    const isShadowed = this.#setup.memory === undefined && id % deliveriesPerShadow === 0;
    const shadow = isShadowed
      ? await Handler.begin({ ...start, event: eventOf(received.map(forged), step) })
      : undefined;
    const by: InFlight = {
      id,
      step,
      received,
      handler,
      askedAt: this.now,
      shadow,
      seen: [],
      destructive: 0,
      writes: 0,
      hangsUntil: undefined,
      waits: undefined,
    };
    this.inFlight = [...this.inFlight, by];
    this.#tell(
      () => `${nameOf(by)} starts on ${received.map(({ body }) => subjectOf(body)).join(', ')}`,
    );
    this.#endIfDone(by);
  }

  /** Everything that happens by itself at this instant: kubelet, data plane, controllers, what people planned. */
  settle(): void {
    for (;;) {
      const byNode = this.multigres.pass(this, this.now);
      this.#take({ kind: 'cluster' }, byNode, undefined);
      const byGoverse = this.goverse?.pass(this, this.now) ?? [];
      this.#take({ kind: 'cluster' }, byGoverse, undefined);
      const byControllers = this.api.control(this.now);
      this.#take({ kind: 'cluster' }, byControllers, undefined);
      const isActing = this.#actAsPlanned();
      if ([...byNode, ...byGoverse, ...byControllers].length === 0 && !isActing) {
        return;
      }
    }
  }

  /** Hands over what the data plane answered meanwhile, or that it did not in the time there was. */
  async hearReplies(): Promise<boolean> {
    const replies = this.multigres.takeReplies();
    for (const { id, reply } of replies) {
      const by = this.inFlight.find(({ waits }) => waits?.reply === id);
      if (by?.waits !== undefined) {
        const { question, call } = by.waits;
        const answer: Answer =
          reply === 'dropped'
            ? { kind: 'broken', why: 'the connection was reset' }
            : { kind: 'answered', response: { status: reply.status, body: reply.body } };
        await this.#endWait(by, { question, call }, answer);
      }
    }
    const tired = this.inFlight.filter(
      ({ waits }) => waits !== undefined && waits.until <= this.now,
    );
    for (const by of tired) {
      if (by.waits !== undefined) {
        this.#tell(() => `${nameOf(by)} waits no longer`);
        await this.#endWait(by, by.waits, { kind: 'broken', why: 'no answer came in time' });
      }
    }
    return replies.length > 0 || tired.length > 0;
  }

  async #endWait(
    by: InFlight,
    { question, call }: Pick<NonNullable<InFlight['waits']>, 'question' | 'call'>,
    answer: Answer,
  ): Promise<void> {
    const free = { ...by, waits: undefined };
    this.#replace(free);
    await this.#goOn({ index: this.operations, by: free, question, call }, answer);
  }

  /** The next instant at which something happens by itself. */
  nextInstant(): Instant {
    const times: (Instant | undefined)[] = [
      this.multigres.nextDue(),
      this.goverse?.nextDue(),
      this.hints.nextWake(),
      ...[...this.queues.values()].map((queue) => queue.nextVisibleAt()),
      ...this.inFlight.flatMap(({ hangsUntil, waits }) => [hangsUntil, waits?.until]),
      ...this.#outages.map(({ until }) => until),
      ...this.planned.map(({ at }) => at),
    ];
    const later = times.filter((time) => time !== undefined).filter((time) => time > this.now);
    return Math.min(...later) as Instant;
  }

  passTo(instant: Instant): void {
    this.now = instant;
    this.#outages = this.#outages.filter(({ until }) => until > instant);
    this.multigres.isTopologyReachable = !this.#isOut('topology');
    this.inFlight = this.inFlight.map((by) =>
      by.hangsUntil !== undefined && by.hangsUntil <= instant
        ? { ...by, hangsUntil: undefined }
        : by,
    );
    this.hints.wake(instant);
  }

  /** Time in which nothing happens at all passes at once; for a world that is quiet. */
  jump(instant: Instant): void {
    this.multigres.jump(this, instant);
    this.goverse?.jump(instant);
    this.passTo(instant);
  }

  /** Nobody sends hints for so long; then everything is looked at once. */
  silenceRelay(seconds: number): void {
    this.hints.goAway(plusSeconds(this.now, seconds));
    this.later('the relay is back', seconds, (at) => at.hints.comeBack(at.api, at.now));
  }

  /** A part of the outside world answers nobody for so long. */
  interrupt(via: Call['via'], seconds: number): void {
    this.#outages = [...this.#outages, { via, until: plusSeconds(this.now, seconds) }];
    if (via === 'topology') {
      this.multigres.isTopologyReachable = false;
    }
    this.#tell(() => `${via} does not answer for ${seconds} s`);
  }

  /** A person, or a program that is none of ours, sends a request to the API server. */
  person(request: KubeRequest): KubeResponse {
    const { response, commits } = this.api.handle(request, this.now);
    this.#take({ kind: 'person' }, commits, request);
    return response;
  }

  fault(fault: DataPlaneFault): void {
    this.multigres.inject(fault, this, this.now);
    this.#tell(() => `the data plane: ${JSON.stringify(fault)}`);
  }

  lift(kind: DataPlaneFault['kind'], pod?: string): void {
    this.multigres.lift({ kind, ...(pod === undefined ? {} : { pod }) }, this, this.now);
  }

  /** Does something a while from now. */
  later(name: string, seconds: number, act: (world: World) => void): void {
    const at = plusSeconds(this.now, seconds);
    this.plan({ name, at, when: ({ now }) => now >= at, act });
  }

  plan(planned: Planned): void {
    this.planned = [...this.planned, planned];
  }

  /** A second handler gets the same messages, and runs before the first one goes on. */
  async runTwin({ step, received }: InFlight): Promise<void> {
    await this.#begin(step, received);
    const id = this.deliveries;
    for (;;) {
      const twin = this.inFlight.find((other) => other.id === id);
      const [question] = twin?.handler.questions ?? [];
      if (twin === undefined || question === undefined || twin.waits !== undefined) {
        return;
      }
      await this.serve({ index: this.operations, by: twin, question, call: callOf(question) });
    }
  }

  /** Sends a message again, as a redrive or a replay does. */
  send(step: StepName, body: string): void {
    this.queues.get(step)?.send(body, this.now);
  }

  /** Sends a message that nobody may act on. */
  sendPoison(step: StepName, body: string): void {
    this.poison = [...this.poison, body];
    this.send(step, body);
  }

  /** Every message that was ever sent, once. */
  sentOnce(): readonly { readonly step: StepName; readonly body: string }[] {
    return [...new Map(this.sent.map((message) => [message.body, message])).values()];
  }

  /** From here on questions, deliveries, messages and writes are counted. */
  startCounting(): void {
    this.operations = 0;
    this.deliveries = 0;
    this.oursWritten = 0;
    this.sent = [];
    this.goverse?.startMeasuring();
    this.witnesses.forEach((witness) => witness.startCounting?.());
  }

  /** The question that was to be served is not, for now. */
  skip(): void {
    this.operations += 1;
  }

  tell(line: () => string): void {
    this.#tell(line);
  }

  /** Nothing is under way and nothing will happen by itself; or nothing has for so long that it counts as that. */
  get isAtRest(): boolean {
    return (
      this.#isQuiet &&
      this.goverse?.isStill(this) !== false &&
      (this.multigres.isStill || secondsBetween(this.activeAt, this.now) > longestPauseSeconds)
    );
  }

  get #isQuiet(): boolean {
    return (
      this.inFlight.length === 0 &&
      // What waits for something to become so may never come to be done.
      this.planned.every(({ at }) => at === undefined) &&
      this.hints.isQuiet &&
      [...this.queues.values()].every((queue) => queue.nextVisibleAt() === undefined)
    );
  }

  #tell(line: () => string): void {
    this.witness.told(line, this);
    this.#listener?.told(line, this);
  }

  #isOut(via: Call['via']): boolean {
    return this.#outages.some((outage) => outage.via === via);
  }

  #send(dues: readonly Due[]): void {
    for (const due of dues) {
      const queue = this.queues.get(due.step);
      if (queue !== undefined && this.activeSteps.has(due.step)) {
        const body = hintFor(due, this.now);
        this.sent = [...this.sent, { step: due.step, body }];
        queue.send(body, this.now);
      }
    }
  }

  #answerTo(operation: Operation, interference: Interference | undefined): Answer | 'later' {
    if (interference?.kind === 'refusal') {
      return { kind: 'answered', response: interference.response };
    }
    if (interference?.kind === 'silence' && !interference.isApplied) {
      return broken;
    }
    const answer =
      interference?.kind === 'past'
        ? this.#answerFromPast(operation, interference.commits)
        : this.#perform(operation);
    if (interference?.kind === 'half' && answer !== 'later' && answer.kind === 'answered') {
      return halfOf(answer.response);
    }
    return interference?.kind === 'silence' ? broken : answer;
  }

  #answerFromPast({ question }: Operation, commits: number): Answer {
    const past = this.#past.at(-commits) ?? this.#past[0] ?? this.api;
    if (question.to !== 'cluster') {
      return broken;
    }
    return { kind: 'answered', response: past.fork().handle(question.request, this.now).response };
  }

  #perform(operation: Operation): Answer | 'later' {
    const { question, call, by } = operation;
    if (question.to === 'queue') {
      const place = Number(question.receiptHandle.slice(receiptPrefix.length));
      const { receiptHandle } = by.received[place] ?? {};
      this.tally.check(
        'P3',
        question.seconds <= longestGivenBackSeconds,
        () => `${nameOf(by)} gives its message back for ${question.seconds} s`,
      );
      if (receiptHandle !== undefined) {
        this.queues.get(by.step)?.changeVisibility(receiptHandle, question.seconds, this.now);
      }
      return { kind: 'answered', response: { status: 200, body: {} } };
    }
    if (question.to === 'bucket') {
      const { writes } = this.buckets;
      const response = this.buckets.ask(question.request);
      if (call.isEffect && this.buckets.writes !== writes) {
        this.#countWrite(by, true);
        this.witnesses.forEach((witness) => witness.sent(operation, this));
      }
      return { kind: 'answered', response };
    }
    const { request } = question;
    switch (call.via) {
      case 'topology': {
        const { revision } = this.etcd;
        const response = askGateway(this.etcd, call.path, request.body, this.now);
        if (call.isEffect && this.etcd.revision !== revision) {
          this.#countWrite(by, !isInBatch(operation));
          this.witnesses.forEach((witness) => witness.sent(operation, this));
        }
        return { kind: 'answered', response };
      }
      case 'admin': {
        if (call.isEffect) {
          this.#countWrite(by, true);
          this.witnesses.forEach((witness) => witness.sent(operation, this));
        }
        const reply = this.multigres.ask(
          { method: request.method, path: call.path, body: request.body },
          this,
          this.now,
        );
        const until = plusSeconds(this.now, (request.timeoutMs ?? functionTimeoutMs) / 1000);
        this.#replace({ ...this.#current(by), waits: { question, call, reply, until } });
        return 'later';
      }
      case 'api':
      case 'bucket':
      case 'queue': {
        if (request.query?.['continue'] === goneToken) {
          return { kind: 'answered', response: { status: 410, body: expired } };
        }
        const before = this.api.fork();
        const { response, commits } = this.api.handle(request, this.now);
        if (commits.length > 0) {
          this.#past = [...this.#past, before].slice(-rememberedVersions);
          this.oursWritten += commits.length;
          this.#countWrite(by, call.name.startsWith('delete '));
          this.#take({ kind: 'handler', handler: this.#current(by) }, commits, request);
        }
        return { kind: 'answered', response };
      }
    }
  }

  #countWrite(by: InFlight, isDestructive: boolean): void {
    const current = this.#current(by);
    this.#replace({
      ...current,
      writes: current.writes + 1,
      destructive: current.destructive + (isDestructive ? 1 : 0),
    });
  }

  async #goOn({ by, question, call }: Operation, answer: Answer): Promise<void> {
    const current = this.#current(by);
    const handler = await current.handler.answer(question.id, answer, this.now);
    const seen: Seen = {
      call,
      at: this.now,
      status: answer.kind === 'answered' ? answer.response.status : 0,
      body: answer.kind === 'answered' ? answer.response.body : undefined,
      truth: call.isEffect ? undefined : this.#truth(),
    };
    this.#checkShadowAsks(current, question);
    const shadow = await current.shadow?.answer(question.id, answer, this.now);
    if (shadow !== undefined) {
      this.#checkShadow(current, handler, shadow);
    }
    // Whatever the data plane still answers to a question that is given up is heard by nobody.
    const next: InFlight = {
      ...current,
      handler,
      askedAt: this.now,
      shadow,
      seen: [...current.seen, seen],
      waits: undefined,
    };
    this.#replace(next);
    this.#endIfDone(next);
  }

  #truth(): Truth {
    const { state, changes } = this.multigres;
    const known = knownTruths.get(state);
    if (known?.changes === changes) {
      return known.truth;
    }
    const truth = truthOf(state);
    knownTruths.set(state, { changes, truth });
    return truth;
  }

  #checkShadowAsks(by: InFlight, { id }: Question): void {
    if (by.shadow !== undefined) {
      this.tally.check(
        'X5',
        by.shadow.questions.some((asked) => asked.id === id),
        () => `${nameOf(by)} asks nothing when its message says other things of the same target`,
      );
    }
  }

  #checkShadow(by: InFlight, handler: Handler, shadow: Handler): void {
    const asked = JSON.stringify(handler.questions);
    const decided = JSON.stringify(handler.looks);
    this.tally.check(
      'X5',
      asked === JSON.stringify(shadow.questions) && decided === JSON.stringify(shadow.looks),
      () => `${nameOf(by)} does otherwise when its message says other things of the same target`,
    );
  }

  #endIfDone(by: InFlight): void {
    const { ending } = by.handler;
    if (ending === undefined) {
      return;
    }
    this.inFlight = this.inFlight.filter(({ id }) => id !== by.id);
    const failed = new Set(
      ending.kind === 'returned'
        ? ending.response.batchItemFailures.map(({ itemIdentifier }) => itemIdentifier)
        : by.received.map(({ messageId }) => messageId),
    );
    for (const { messageId, receiptHandle } of by.received) {
      if (!failed.has(messageId)) {
        this.queues.get(by.step)?.delete(receiptHandle);
      }
    }
    this.witnesses.forEach((witness) => witness.ended(by, this));
    this.#tell(() => tellEnded(by));
  }

  #actAsPlanned(): boolean {
    const due = this.planned.find(({ when }) => when(this));
    if (due === undefined) {
      return false;
    }
    this.planned = this.planned.filter((other) => other !== due);
    this.#tell(() => due.name);
    due.act(this);
    return true;
  }

  #take(actor: Actor, commits: readonly Commit[], request: KubeRequest | undefined): void {
    for (const commit of commits) {
      this.activeAt = this.now;
      this.hints.see(commit, this.api, this.now);
      this.witnesses.forEach((witness) => witness.wrote({ actor, commit, request }, this));
    }
  }

  #current({ id }: InFlight): InFlight {
    const found = this.inFlight.find((other) => other.id === id);
    if (found === undefined) {
      throw new Error(`handler ${id} is not in flight any more`);
    }
    return found;
  }

  #replace(by: InFlight): void {
    this.inFlight = this.inFlight.map((other) => (other.id === by.id ? by : other));
  }
}

/** One transaction after another, of shards, is one thing that is done. */
function isInBatch({ by, call }: Operation): boolean {
  return call.name === 'write shards' && by.seen.at(-1)?.call.name === call.name;
}

function isServable({ waits, hangsUntil, handler }: InFlight): boolean {
  return waits === undefined && hangsUntil === undefined && handler.questions.length > 0;
}

/** Truths by what they are of: it is asked for far more often than it changes. */
const knownTruths = new WeakMap<object, { readonly changes: number; readonly truth: Truth }>();

export const rightClocks: Clocks = { handlerMs: 0, apiServerMs: 0 };

const broken: Answer = { kind: 'broken', why: 'the connection was reset' };

const goneToken = 'gone';
const expired = { kind: 'Status', status: 'Failure', reason: 'Expired', code: 410 };

function halfOf({ status, body }: KubeResponse): Answer {
  const { items = [], metadata, ...list } = body as { items?: unknown[]; metadata?: object };
  const half = items.slice(0, Math.floor(items.length / 2));
  return {
    kind: 'answered',
    response: {
      status,
      body: { ...list, items: half, metadata: { ...metadata, continue: goneToken } },
    },
  };
}

/** `drain-step#4` */
export function nameOf({ step, id }: InFlight): string {
  return `${step}#${id}`;
}

function hintFor({ step, kind, namespace, name, uid }: Due, now: Instant): string {
  const { plural } = resourceTypes[kind];
  const text = JSON.stringify(
    makeHint({
      step,
      cause: 'changed',
      source: worldClusterId,
      target: { kind, plural, namespace, name, uid },
      token: String(now),
      at: now,
    }),
  );
  if (Buffer.byteLength(text) > maxHintBytes) {
    throw new Error('a hint of the world is too long');
  }
  return text;
}

/** What a handler is told of a receipt; its messages are called by their places alone. */
const receiptPrefix = 'receipt ';

/** What failed is looked at again within this, in seconds. */
const longestGivenBackSeconds = 300;

/** Every so many deliveries one is made twice, to see whether it depends on what the message says. */
const deliveriesPerShadow = 10;

/** A message about the same target, forged by somebody who may send: another uid, version, cause and time. */
function forged(received: Received): Received {
  const body = received.body
    .replace(/"uid":"[^"]*"/, '"uid":"forged"')
    .replace(/"id":"[^"]*"/, '"id":"forged/1/step"')
    .replace(/"time":"[^"]*"/, '"time":"2020-02-02T02:02:02Z"')
    .replace('hint.changed', 'hint.deleted');
  return { ...received, body };
}

/** The event that Lambda makes of a batch; only what a handler reads. */
function eventOf(received: readonly Received[], step: StepName): SQSEvent {
  return {
    Records: received.map(({ messageId, body, receiveCount, sentAt }, place) => ({
      messageId,
      receiptHandle: `${receiptPrefix}${place}`,
      body,
      attributes: {
        ApproximateReceiveCount: String(receiveCount),
        SentTimestamp: String(sentAt),
        SenderId: '',
        ApproximateFirstReceiveTimestamp: String(sentAt),
      },
      messageAttributes: {},
      md5OfBody: '',
      eventSource: 'aws:sqs',
      eventSourceARN: `arn:aws:sqs:us-east-1:000000000000:millrace-world-${step}`,
      awsRegion: 'us-east-1',
    })),
  };
}

function subjectOf(body: string): string {
  return /"subject":"([^"]+)"/.exec(body)?.[1] ?? 'a message that is no hint';
}

function tellServed({ by, call }: Operation, answer: Answer | 'later'): string {
  const what = [call.name, call.object].filter((part) => part !== undefined).join(' ');
  const how =
    answer === 'later'
      ? 'waits for the answer'
      : answer.kind === 'broken'
        ? answer.why
        : String(answer.response.status);
  return `${nameOf(by)}: ${what}: ${how}`;
}

function tellEnded(by: InFlight): string {
  const { ending, looks } = by.handler;
  const decided = looks.map(({ decision }) => `${decision.reason}: ${decision.message}`).join('; ');
  const failed =
    ending?.kind === 'threw'
      ? `threw ${String(ending.error)}`
      : ending !== undefined && ending.response.batchItemFailures.length > 0
        ? 'gives its message back'
        : '';
  return `${nameOf(by)} ends: ${[decided, failed].filter((part) => part !== '').join('; ')}`;
}
