import { hash } from 'node:crypto';

/** Everything that happened in a run, in its order: in words, and as a hash that is equal for runs that went alike. */
export class Trace {
  readonly #elapsedMs: () => number;
  readonly #lines: string[] = [];

  constructor(elapsedMs: () => number) {
    this.#elapsedMs = elapsedMs;
  }

  note(words: string): void {
    this.#lines.push(`${(this.#elapsedMs() / 1_000).toFixed(3)} ${words}`);
  }

  get lines(): readonly string[] {
    return this.#lines;
  }

  digest(): string {
    return hash('sha256', this.#lines.join('\n')).slice(0, 16);
  }
}
