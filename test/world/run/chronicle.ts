import { createHash, type Hash } from 'node:crypto';
import type { Witness, World } from './world.ts';

/** Hashes every line of what happened, and hands it to who wants to read it. */
export class Chronicle implements Witness {
  readonly #hash: Hash;
  readonly #onLine: ((line: string) => void) | undefined;
  #beganAt: number | undefined;

  constructor(onLine: ((line: string) => void) | undefined) {
    this.#hash = createHash('sha256');
    this.#onLine = onLine;
  }

  told(line: () => string, world: World): void {
    this.#beganAt ??= world.now;
    const seconds = ((world.now - this.#beganAt) / 1000).toFixed(3).padStart(10);
    const text = `${seconds}  ${line()}`;
    this.#hash.update(text);
    this.#onLine?.(text);
  }

  wrote(): void {
    // Every write is told as well.
  }

  sent(): void {
    // Every question is told as well.
  }

  ended(): void {
    // Every end is told as well.
  }

  fork(): Witness {
    throw new Error('a run that is told is not copied');
  }

  digest(): string {
    return this.#hash.digest('hex');
  }
}
