import type { StepName } from '#shared/api/steps.ts';
import { type Instant, plusSeconds } from '#shared/kernel/instant.ts';
import type { KubeResponse } from '#shared/kube/connection.ts';
import type { JsonValue } from '#shared/kube/json.ts';
import type { KubeObject, ResourceKind } from '#shared/kube/resources.ts';
import { freeze } from '#test/world/model/json-data.ts';
import { callOf } from './call.ts';
import { type Fingerprint, isSame, ofValue, textOf } from './fingerprint.ts';
import type { Question } from './handler.ts';
import { ofTopology, ofWorld } from './world-fingerprint.ts';
import { type InFlight, type Operation, type World, nameOf } from './world.ts';

/** How much may go otherwise than in the calmest run. Everything within them is tried, in every combination. */
export interface Bounds {
  /** Handlers in flight at a time. */
  readonly handlers: number;
  /** Messages that come though nothing is due: copies, redrives, replays. */
  readonly duplicates: number;
  /** Handlers that end without a word. */
  readonly crashes: number;
  /** Writes whose answer does not come, whether they took effect or not. */
  readonly lostAnswers: number;
  /** Times that time passes while somebody could go on: handlers that hang, messages that wait. */
  readonly pauses: number;
  /** Of a person, each at most once. */
  readonly acts: readonly Act[];
  /** Whether a handler's own open questions are answered in every order, or in the order they were asked. */
  readonly answersIn: 'every order' | 'the order asked';
  /** How long after the beginning nothing is branched any more, in seconds: runs are then brought to their end. */
  readonly horizonSeconds: number;
}

/** Something a person does, whenever it is possible. */
export interface Act {
  readonly name: string;
  isPossible(world: World): boolean;
  act(world: World): void;
}

export type Choice =
  | { readonly kind: 'serve'; readonly by: number; readonly question: Question; readonly how: How }
  | { readonly kind: 'deliver' | 'duplicate'; readonly step: StepName }
  | { readonly kind: 'crash'; readonly by: number }
  | { readonly kind: 'act'; readonly act: number }
  | { readonly kind: 'settle' | 'pause' | 'wait' };

type How = 'answered' | 'lost' | 'lost, not done';

/** What of the bounds is used up. */
interface Spent {
  readonly duplicates: number;
  readonly crashes: number;
  readonly lostAnswers: number;
  readonly pauses: number;
  /** One bit for each act. */
  readonly acts: number;
}

const nothingSpent: Spent = { duplicates: 0, crashes: 0, lostAnswers: 0, pauses: 0, acts: 0 };

/** A world on its way, which {@link Interleavings.take} changes. */
export interface State {
  readonly world: World;
  spent: Spent;
  /** The pods and claims that the cluster has reacted to. */
  settled: string;
}

/** Answers of the data plane that are remembered at most. */
const maxStatuses = 20_000;

/**
 * What can happen next in a state, and what comes of it.
 *
 * One choice is: one question of one handler is answered (or its answer is lost); a message is delivered, or a copy of an
 * earlier one; a handler crashes; a person acts; the cluster reacts to what was written; time passes to the next instant
 * at which anything changes. A handler that hangs is one that is not chosen while time passes and others are delivered,
 * so zombies need no choice of their own.
 *
 * What is not branched, and why nothing is lost by it:
 * - Reads of what nothing within the bounds ever writes (Database, Service, Node, Cell records) are answered at once:
 *   they say the same whenever they are answered. That nothing writes the objects is checked.
 * - Events are created at once: nobody reads them.
 * - A delivery and the handler's first read are one choice: a handler that has read nothing is to all others as if it had
 *   not begun. Only the time it has left would differ, and pauses let that run out as well.
 * - Hints for one step are one message until they are delivered: a batch is one look at the target whatever its size.
 * - A copy is delivered only while nothing else of its step is: which of two messages comes first makes no difference.
 * - While handlers or messages could go on, time passes only as a counted pause; where nothing can, it is free. Then it
 *   goes on to the next instant at which something shows: in between nobody is there to see anything.
 *
 * Beside the bounds this is left out: the data plane goes one way from each state, drawn from its seed, and by itself
 * does something only when time passes; the cluster reacts to everything written so far at once, and at the latest when
 * time passes.
 */
export class Interleavings {
  readonly root: State;
  readonly #bounds: Bounds;
  readonly #steps: readonly StepName[];
  readonly #horizon: Instant;
  readonly #constant: string;
  readonly #statuses = new Map<string, KubeResponse>();

  /** @param world is changed by whoever goes on from the root without a copy */
  constructor(world: World, steps: readonly StepName[], bounds: Bounds) {
    this.root = { world, spent: nothingSpent, settled: membersIn(world) };
    this.#bounds = bounds;
    this.#steps = steps;
    this.#horizon = plusSeconds(world.now, bounds.horizonSeconds);
    this.#constant = constantIn(world);
  }

  /** The same for states from which everything goes on in the same way. */
  fingerprintOf(state: State): Fingerprint {
    const { duplicates, crashes, lostAnswers, pauses, acts } = state.spent;
    return ofWorld(state.world)
      .words(duplicates, crashes, lostAnswers, pauses)
      .words(acts, Number(isUnsettled(state)), 0, 0)
      .end();
  }

  isBeyondHorizon({ world }: State): boolean {
    return world.now > this.#horizon;
  }

  /** Nothing happens any more, but by a person or a message that nobody sent. */
  isEnd(state: State): boolean {
    return (
      this.isBeyondHorizon(state) || (this.#goingOn(state).length === 0 && state.world.isAtRest)
    );
  }

  /** Always the same ones in the same order. */
  choicesIn(state: State): readonly Choice[] {
    const { world, spent } = state;
    const { crashes, duplicates, handlers, pauses, acts } = this.#bounds;
    if (this.isBeyondHorizon(state)) {
      return [];
    }
    const going = this.#goingOn(state);
    const choices = [...going];
    if (going.length === 0 && !world.isAtRest) {
      choices.push({ kind: 'wait' });
    }
    if (going.length > 0 && spent.pauses < pauses && isAnythingToCome(world)) {
      choices.push({ kind: 'pause' });
    }
    if (spent.crashes < crashes) {
      choices.push(...world.inFlight.map(({ id }) => ({ kind: 'crash', by: id }) as const));
    }
    if (spent.duplicates < duplicates && world.inFlight.length < handlers) {
      choices.push(...this.#duplicatesIn(world));
    }
    for (const [act, does] of acts.entries()) {
      if ((spent.acts & (1 << act)) === 0 && does.isPossible(world)) {
        choices.push({ kind: 'act', act });
      }
    }
    return choices;
  }

  /** Changes the state. Throws where an invariant does not hold. */
  async take(choice: Choice, state: State): Promise<void> {
    const { world, spent } = state;
    switch (choice.kind) {
      case 'serve':
        await this.#serve(choice, state);
        break;
      case 'duplicate':
        state.spent = { ...spent, duplicates: spent.duplicates + 1 };
        world.send(choice.step, lastBody(choice.step, world) ?? '');
        await deliver(choice.step, world);
        break;
      case 'deliver':
        await deliver(choice.step, world);
        break;
      case 'crash':
        state.spent = { ...spent, crashes: spent.crashes + 1 };
        world.crash(inFlight(choice.by, world));
        break;
      case 'act':
        state.spent = { ...spent, acts: spent.acts | (1 << choice.act) };
        this.#actOf(choice.act).act(world);
        break;
      case 'settle':
        world.settle();
        state.settled = membersIn(world);
        break;
      case 'pause':
        state.spent = { ...spent, pauses: spent.pauses + 1 };
        await this.#passTime(state);
        break;
      case 'wait':
        await this.#passTime(state);
    }
    forgetInactive(world);
    if (constantIn(world) !== this.#constant) {
      throw new Error('something was written that was taken for constant');
    }
  }

  /** For a story. */
  textOf(choice: Choice, { world }: State): string {
    switch (choice.kind) {
      case 'serve':
        return `${nameOf(inFlight(choice.by, world))} is ${choice.how}`;
      case 'deliver':
      case 'duplicate':
        return `${choice.kind} a message of ${choice.step}`;
      case 'crash':
        return `${nameOf(inFlight(choice.by, world))} crashes`;
      case 'act':
        return this.#actOf(choice.act).name;
      case 'settle':
        return 'the cluster reacts';
      case 'pause':
        return 'time passes, though somebody could go on';
      case 'wait':
        return 'time passes';
    }
  }

  /** What goes on by itself, and needs no time. */
  #goingOn(state: State): Choice[] {
    return [
      ...this.#answersIn(state),
      ...this.#deliveriesIn(state.world),
      ...(isUnsettled(state) ? [{ kind: 'settle' } as const] : []),
    ];
  }

  #answersIn({ world, spent }: State): readonly Choice[] {
    const { answersIn, lostAnswers } = this.#bounds;
    return world.inFlight
      .filter(({ waits }) => waits === undefined)
      .flatMap(({ id, handler: { questions } }) =>
        (answersIn === 'every order' ? questions : questions.slice(0, 1)).flatMap((question) => {
          const isLosable = spent.lostAnswers < lostAnswers && callOf(question).isEffect;
          const ways: readonly How[] = isLosable
            ? ['answered', 'lost', 'lost, not done']
            : ['answered'];
          return ways.map((how) => ({ kind: 'serve', by: id, question, how }) as const);
        }),
      );
  }

  #deliveriesIn(world: World): readonly Choice[] {
    return world.inFlight.length < this.#bounds.handlers
      ? this.#steps
          .filter((step) => isDeliverable(step, world))
          .map((step) => ({ kind: 'deliver', step }))
      : [];
  }

  #duplicatesIn(world: World): readonly Choice[] {
    return this.#steps
      .filter((step) => !isDeliverable(step, world) && lastBody(step, world) !== undefined)
      .map((step) => ({ kind: 'duplicate', step }));
  }

  async #serve(choice: Choice & { kind: 'serve' }, state: State): Promise<void> {
    const { world, spent } = state;
    const operation = world.operationOf(inFlight(choice.by, world), choice.question);
    if (operation.call.name === 'status') {
      await this.#answerStatus(operation, world);
    } else if (choice.how === 'answered') {
      await world.serve(operation);
    } else {
      state.spent = { ...spent, lostAnswers: spent.lostAnswers + 1 };
      await world.serve(operation, { kind: 'silence', isApplied: choice.how === 'lost' });
    }
    await serveAtOnce(world);
  }

  /** What the data plane says of a member is asked once in each of its states: most questions find none that is new. */
  async #answerStatus(operation: Operation, world: World): Promise<void> {
    const before = textOf(ofTopology(world));
    const key = `${before} ${operation.call.path}`;
    const known = this.#statuses.get(key);
    if (known !== undefined) {
      await world.serveKnown(operation, known);
      return;
    }
    await world.serve(operation);
    await world.hearReplies();
    const seen = world.inFlight.find(({ id }) => id === operation.by.id)?.seen.at(-1);
    const isAnswered = seen?.call === operation.call && seen.status !== 0;
    if (isAnswered && textOf(ofTopology(world)) === before) {
      if (this.#statuses.size >= maxStatuses) {
        this.#statuses.clear();
      }
      // A copy, because what the data plane answers with may be part of its state, and is frozen here.
      const body = freeze(structuredClone(seen.body) as JsonValue);
      this.#statuses.set(key, { status: seen.status, body });
    }
  }

  /** To the next instant at which something shows that somebody may act upon. */
  async #passTime(state: State): Promise<void> {
    const { world } = state;
    const before = standingOf(world);
    const looksAt = world.multigres.nextDue();
    for (let isOver = false; !isOver;) {
      // Once the data plane has looked at itself and changed nothing, it does not until somebody else does something.
      const next = nextWithoutDataPlane(world);
      if (isStill(world) && next !== undefined && world.now >= looksAt) {
        world.jump(next);
      } else {
        world.passTo(world.nextInstant());
      }
      forgetInactive(world);
      world.settle();
      const isHeard = await world.hearReplies();
      await serveAtOnce(world);
      isOver =
        isHeard ||
        world.activeAt === world.now ||
        this.#steps.some((step) => isDeliverable(step, world)) ||
        !isSame(standingOf(world), before) ||
        this.isBeyondHorizon(state) ||
        world.isAtRest;
    }
    state.settled = membersIn(world);
  }

  #actOf(index: number): Act {
    const act = this.#bounds.acts[index];
    if (act === undefined) {
      throw new Error(`there is no act ${index}`);
    }
    return act;
  }
}

export function copyOf({ world, spent, settled }: State): State {
  return { world: world.fork(), spent, settled };
}

async function deliver(step: StepName, world: World): Promise<void> {
  if (!(await world.deliver(step))) {
    throw new Error(`there was nothing to deliver for ${step}`);
  }
  const by = world.inFlight.find(({ id }) => id === world.deliveries);
  const [question] = by?.handler.questions ?? [];
  if (by !== undefined && question !== undefined) {
    await world.serve(world.operationOf(by, question));
  }
  await serveAtOnce(world);
}

/** Steps that do not run have no use for hints. */
function forgetInactive({ activeSteps, hints, queues }: World): void {
  for (const step of queues.keys()) {
    if (!activeSteps.has(step)) {
      hints.take(step);
    }
  }
}

function inFlight(id: number, world: World): InFlight {
  const by = world.inFlight.find((other) => other.id === id);
  if (by === undefined) {
    throw new Error(`handler ${id} is not in flight`);
  }
  return by;
}

function isDeliverable(step: StepName, world: World): boolean {
  const visibleAt = world.queues.get(step)?.nextVisibleAt();
  return (
    world.hints.due.some((due) => due.step === step) ||
    (visibleAt !== undefined && visibleAt <= world.now)
  );
}

function lastBody(step: StepName, { sent }: World): string | undefined {
  return sent.findLast((message) => message.step === step)?.body;
}

/** Answers what says the same whenever it is answered, and hands over what the data plane has answered. */
async function serveAtOnce(world: World): Promise<void> {
  for (;;) {
    const isHeard = await world.hearReplies();
    const operation = world.inFlight
      .filter(({ waits }) => waits === undefined)
      .flatMap((by) => by.handler.questions.map((question) => ({ by, question })))
      .find(({ question }) => isTimeless(question));
    if (operation !== undefined) {
      await world.serve(world.operationOf(operation.by, operation.question));
    } else if (!isHeard) {
      return;
    }
  }
}

const timelessCalls: ReadonlySet<string> = new Set([
  'get Database',
  'get Service',
  'get Node',
  'create Event',
]);

function isTimeless(question: Question): boolean {
  const { name } = callOf(question);
  return timelessCalls.has(name) || (name === 'range' && isCellRecord(question));
}

function isCellRecord(question: Question): boolean {
  const { key = '', range_end: end = '' } =
    question.to === 'cluster'
      ? (question.request.body as { key?: string; range_end?: string })
      : {};
  return end === '' && Buffer.from(key, 'base64').toString().endsWith('/Cell');
}

/** Changes when anything is written that {@link timelessCalls} may read. */
function constantIn({ api }: World): string {
  return `${api.writesOf('Database')} ${api.writesOf('Service')} ${api.writesOf('Node')}`;
}

/** What kubelet and controllers react to. */
function membersIn({ api }: World): string {
  return `${presenceOf(api.list('Pod'))}\n${presenceOf(api.list('PersistentVolumeClaim'))}`;
}

const knownPresences = new WeakMap<object, string>();

/** Which objects are there, and which of them are to go. */
function presenceOf(objects: readonly KubeObject<ResourceKind>[]): string {
  const known = knownPresences.get(objects);
  const presence =
    known ??
    objects.map(({ metadata }) => `${metadata.uid} ${metadata.deletionTimestamp}`).join('\n');
  knownPresences.set(objects, presence);
  return presence;
}

function isUnsettled({ world, settled }: State): boolean {
  return membersIn(world) !== settled;
}

/** What handlers can see of the data plane, without what only counts up. */
function standingOf({ multigres: { state } }: World) {
  const { members, consensus, switchover, backups } = state;
  const { decision, proposal } = consensus;
  const { jobs, line, leaseOf, stored } = backups;
  const inLine = line.filter(({ kind }) => kind !== 'question').map(({ kind }) => kind);
  const ofBackups = [jobs.map(({ status }) => status), inLine, leaseOf, stored.length];
  return ofValue([members, decision, proposal, switchover?.podUid ?? null, ofBackups]);
}

/** The data plane does nothing by itself, and no handler waits for it. */
function isStill({ multigres, inFlight }: World): boolean {
  return multigres.isStill && inFlight.every(({ waits }) => waits === undefined);
}

/** Whether time would bring anything. */
function isAnythingToCome(world: World): boolean {
  return !isStill(world) || nextWithoutDataPlane(world) !== undefined;
}

function nextWithoutDataPlane(world: World): Instant | undefined {
  const times = [
    world.hints.nextWake(),
    ...[...world.queues.values()].map((queue) => queue.nextVisibleAt()),
    ...world.planned.map(({ at }) => at),
  ].filter((time) => time !== undefined && time > world.now);
  return times.length === 0 ? undefined : (Math.min(...times.map(Number)) as Instant);
}
