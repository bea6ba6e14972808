import { type InvariantId, type Tally, Violation } from '#test/world/oracles/tally.ts';
import { textOf } from './fingerprint.ts';
import { HandlerMemory } from './handler.ts';
import { type Bounds, type Choice, Interleavings, type State, copyOf } from './interleavings.ts';
import { beginningOf } from './plans.ts';
import { runToEnd } from './run.ts';
import { VisitedStates } from './visited-states.ts';
import type { Workload } from './workload.ts';
import type { World } from './world.ts';

/** One state space: where it begins, what must be reached at every end, and what may happen on the way. */
export interface Exploration {
  readonly name: string;
  readonly bounds: Bounds;
  /** @param memory must be that of the world's handlers, whose API server must count versions by `object` */
  workload(memory: HandlerMemory): Workload;
}

export interface FoundPath {
  readonly invariant: InvariantId | 'defect';
  readonly message: string;
  /** The number of the choice taken in each state from the beginning on. */
  readonly choices: readonly number[];
  /** States that were known when it was found. */
  readonly atStates: number;
}

export interface ExplorationReport {
  readonly states: number;
  readonly transitions: number;
  /** Choices on the longest way. */
  readonly depth: number;
  /** States in which nothing happens any more; from each the world converged and was shown to stay so. */
  readonly ends: number;
  /** Those among them in which time was up. */
  readonly beyondHorizon: number;
  /** Different lives of handlers that the code that ships was run for. */
  readonly histories: number;
  /** Every state within the bounds was seen, and no way was left because of a violation. */
  readonly isExhausted: boolean;
  readonly violations: readonly FoundPath[];
}

export interface ExploreOptions {
  readonly tally: Tally;
  /** The search is cut when it knows so many states. */
  readonly maxStates: number;
  /** It ends after so many violations; what lies behind one is not looked at. */
  readonly maxViolations: number;
  /** Asked now and then: the search is cut when it says so. */
  readonly isTimeUp?: () => boolean;
  /** Each way to a state is gone on by one choice: states that look the same must go on the same. For small spaces. */
  readonly isDistrustful?: boolean;
  readonly onProgress?: (states: number) => void;
}

/**
 * Goes through every state that can be reached within an exploration's bounds, depth first, and checks the invariants at
 * every write on the way. From every state in which nothing happens any more the world must converge, and stay so when
 * everything is delivered once more. What a choice is, and what is left out, {@link Interleavings} says.
 *
 * It needs 22 to 43 bytes for each state (64 while the table grows), a few MB for the way it is on, and what the last
 * 200,000 lives of handlers and 20,000 answers of the data plane take: below a gigabyte and a half beside the table.
 */
export async function explore(
  exploration: Exploration,
  options: ExploreOptions,
): Promise<ExplorationReport> {
  const { workload, interleavings, memory } = await begin(exploration, options.tally);
  const search = new Search(workload, interleavings, options);
  await search.run();
  return { ...search.report, histories: memory.runs };
}

/** Goes one way through an exploration, without copies, so that a listener hears all of it. Throws the violation. */
export async function followPath(
  exploration: Exploration,
  choices: readonly number[],
  tally: Tally,
  listen: (world: World) => void,
): Promise<void> {
  const { workload, interleavings } = await begin(exploration, tally);
  const state = interleavings.root;
  const { world } = state;
  listen(world);
  for (const number of choices) {
    const choice = interleavings.choicesIn(state)[number];
    if (choice === undefined) {
      throw new Error(`there is no choice ${number} here: the path is of another version`);
    }
    world.tell(() => `— ${interleavings.textOf(choice, state)} —`);
    await interleavings.take(choice, state);
  }
  if (interleavings.isEnd(state)) {
    await runToEnd(world, { workload, strikes: [] });
  }
}

async function begin(exploration: Exploration, tally: Tally) {
  const memory = new HandlerMemory();
  const workload = exploration.workload(memory);
  const world = await beginningOf(workload, tally);
  const interleavings = new Interleavings(world, workload.steps, exploration.bounds);
  return { memory, workload, interleavings };
}

/** How often the clock is looked at. */
const transitionsPerGlance = 1_000;

/** A state on the way, and how many of the ways out of it were taken. */
interface Frame {
  readonly state: State;
  readonly choices: readonly Choice[];
  next: number;
}

class Search {
  readonly #workload: Workload;
  readonly #interleavings: Interleavings;
  readonly #options: ExploreOptions;
  readonly #visited = new VisitedStates();
  readonly #way: Frame[] = [];
  readonly #violations: FoundPath[] = [];
  /** By state, what each choice in it led to; only for who distrusts fingerprints. */
  readonly #nexts = new Map<string, string>();
  #isTimeUp = false;
  #transitions = 0;
  #depth = 0;
  #ends = 0;
  #beyondHorizon = 0;

  constructor(workload: Workload, interleavings: Interleavings, options: ExploreOptions) {
    this.#workload = workload;
    this.#interleavings = interleavings;
    this.#options = options;
  }

  get report(): Omit<ExplorationReport, 'histories'> {
    return {
      states: this.#visited.size,
      transitions: this.#transitions,
      depth: this.#depth,
      ends: this.#ends,
      beyondHorizon: this.#beyondHorizon,
      isExhausted: this.#way.length === 0 && this.#violations.length === 0,
      violations: this.#violations,
    };
  }

  async run(): Promise<void> {
    await this.#tryTo(() => this.#enter(copyOf(this.#interleavings.root)));
    while (!this.#isEnough) {
      const frame = this.#way.at(-1);
      if (frame === undefined) {
        return;
      }
      const choice = frame.choices[frame.next];
      if (choice === undefined) {
        this.#way.pop();
        continue;
      }
      frame.next += 1;
      this.#transitions += 1;
      // The last way out of a state needs no copy of it.
      const isLast = frame.next === frame.choices.length;
      const state = isLast ? frame.state : copyOf(frame.state);
      await this.#tryTo(async () => {
        await this.#interleavings.take(choice, state);
        await this.#enter(state);
      });
    }
  }

  get #isEnough(): boolean {
    const { maxStates, maxViolations } = this.#options;
    if (this.#transitions % transitionsPerGlance === 0) {
      this.#isTimeUp = this.#options.isTimeUp?.() === true;
    }
    return (
      this.#isTimeUp || this.#visited.size >= maxStates || this.#violations.length >= maxViolations
    );
  }

  /** Looks at a state for the first time, or not at all. */
  async #enter(state: State): Promise<void> {
    const print = this.#interleavings.fingerprintOf(state);
    if (this.#options.isDistrustful === true) {
      await this.#compareNexts(textOf(print), state);
    }
    if (!this.#visited.add(print)) {
      return;
    }
    this.#options.onProgress?.(this.#visited.size);
    if (this.#interleavings.isEnd(state)) {
      this.#ends += 1;
      this.#beyondHorizon += Number(this.#interleavings.isBeyondHorizon(state));
      await runToEnd(copyOf(state).world, { workload: this.#workload, strikes: [] });
    }
    const choices = this.#interleavings.choicesIn(state);
    if (choices.length > 0) {
      this.#way.push({ state, choices, next: 0 });
      this.#depth = Math.max(this.#depth, this.#way.length);
    }
  }

  async #compareNexts(print: string, state: State): Promise<void> {
    const nexts: string[] = [];
    for (const choice of this.#interleavings.choicesIn(state)) {
      const next = copyOf(state);
      await this.#interleavings.take(choice, next);
      nexts.push(`${choice.kind} ${textOf(this.#interleavings.fingerprintOf(next))}`);
    }
    const found = nexts.toSorted().join('\n');
    const known = this.#nexts.get(print) ?? found;
    this.#nexts.set(print, known);
    if (found !== known) {
      throw new Error(`two states look the same and go on differently:\n${known}\nand\n${found}`);
    }
  }

  async #tryTo(go: () => Promise<void>): Promise<void> {
    try {
      await go();
    } catch (error) {
      const isViolation = error instanceof Violation;
      this.#violations.push({
        invariant: isViolation ? error.id : 'defect',
        message: messageOf(error),
        choices: this.#way.map(({ next }) => next - 1),
        atStates: this.#visited.size,
      });
    }
  }
}

function messageOf(error: unknown): string {
  if (error instanceof Violation) {
    return error.message;
  }
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
