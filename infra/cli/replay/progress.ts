import { remark } from '../terminal.ts';
import { progressText } from './told.ts';

/** Work that takes longer than this says how far it is, in milliseconds. */
const everyMs = 2_000;

/** Says every two seconds how far something is. */
export class Progress {
  readonly #what: string;
  readonly #all: number | undefined;
  readonly #startedMs = performance.now();
  readonly #timer: NodeJS.Timeout;
  #done = 0;

  /** @param all about how many there are; absent where nobody knows */
  constructor(what: string, all?: number) {
    this.#what = what;
    this.#all = all;
    this.#timer = setInterval(() => this.#say(), everyMs);
  }

  reached(done: number): void {
    this.#done = done;
  }

  end(): void {
    clearInterval(this.#timer);
  }

  #say(): void {
    const seconds = (performance.now() - this.#startedMs) / 1000;
    remark(`${this.#what}: ${progressText(this.#done, this.#all, seconds)}`);
  }
}
