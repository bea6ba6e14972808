import { remark } from '../terminal.ts';
import { progressText } from './told.ts';

/** Work that takes longer than this says how far it is, in milliseconds. */
const everyMs = 2_000;

/** The same outage is told of once in so many milliseconds. */
const retriesEveryMs = 5_000;

/** Says that requests are made again: at once, and then now and then, with how often it was. */
export function tellRetries(): (why: string) => void {
  let toldMs = -Infinity;
  let untold = 0;
  return (why) => {
    untold += 1;
    if (performance.now() - toldMs >= retriesEveryMs) {
      remark(`asked again${untold === 1 ? '' : `, ${untold} times`}: ${why}`);
      toldMs = performance.now();
      untold = 0;
    }
  };
}

/** Says every two seconds how far something is. */
export class Progress {
  readonly #what: string;
  readonly #all: number | undefined;
  readonly #startedMs = performance.now();
  readonly #tells: 'always' | 'changes';
  readonly #timer: NodeJS.Timeout;
  #done = 0;
  #said = 0;

  /**
   * @param all about how many there are; absent where nobody knows
   * @param tells `changes` says nothing while it stands still: something else is at work
   */
  constructor(what: string, all?: number, tells: 'always' | 'changes' = 'always') {
    this.#what = what;
    this.#all = all;
    this.#tells = tells;
    this.#timer = setInterval(() => this.#say(), everyMs);
  }

  reached(done: number): void {
    this.#done = done;
  }

  end(): void {
    clearInterval(this.#timer);
  }

  #say(): void {
    if (this.#tells === 'changes' && this.#done === this.#said) {
      return;
    }
    this.#said = this.#done;
    const seconds = (performance.now() - this.#startedMs) / 1000;
    remark(`${this.#what}: ${progressText(this.#done, this.#all, seconds)}`);
  }
}
