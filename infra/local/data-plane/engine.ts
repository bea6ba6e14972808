import { type DataPlaneEvent, advance, nextDueMs } from './core.ts';
import type { DataPlaneOutput, DataPlaneState } from './state.ts';

/** The longest time a timer is set for, in milliseconds; it is set again when it is over. */
const maxDelayMs = 60_000;

/**
 * Runs the core on the wall clock. Each event is taken at once and its state kept before its outputs are handed on.
 */
export class Engine {
  #state: DataPlaneState;
  readonly #keep: (state: DataPlaneState) => void;
  #carryOut: (output: DataPlaneOutput) => void = () => {};
  #timer: NodeJS.Timeout | undefined;
  #isStopped = false;

  constructor(state: DataPlaneState, keep: (state: DataPlaneState) => void) {
    this.#state = state;
    this.#keep = keep;
  }

  get state(): DataPlaneState {
    return this.#state;
  }

  /** @param carryOut must not throw, nor take events itself before it returns */
  run(carryOut: (output: DataPlaneOutput) => void): void {
    this.#carryOut = carryOut;
    this.take({ kind: 'resumed', config: this.#state.config });
  }

  take(event: DataPlaneEvent): void {
    if (this.#isStopped) {
      return;
    }
    const { state, outputs } = advance(this.#state, Date.now(), event);
    this.#state = state;
    this.#keep(state);
    clearTimeout(this.#timer);
    const delayMs = Math.min(maxDelayMs, Math.max(0, nextDueMs(state) - Date.now()));
    this.#timer = setTimeout(() => this.take({ kind: 'timePassed' }), delayMs);
    for (const output of outputs) {
      this.#carryOut(output);
    }
  }

  stop(): void {
    this.#isStopped = true;
    clearTimeout(this.#timer);
  }
}
