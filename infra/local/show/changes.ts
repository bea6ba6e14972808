/** Tells whoever listens that something has changed, and lets them wait until it is as they want it. */
export class Changes {
  readonly #listeners = new Set<() => void>();

  touch(): void {
    this.#listeners.forEach((listener) => listener());
  }

  /** Called after every change; the answer takes the listener away again. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Resolves as soon as the condition holds; looks after every change.
   *
   * @throws Error naming `what` when it does not within the time
   */
  until(what: string, seconds: number, holds: () => boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      const finish = (end: () => void) => {
        clearTimeout(timer);
        this.#listeners.delete(check);
        end();
      };
      const timer = setTimeout(
        () => finish(() => reject(new Error(`after ${seconds} s still not so: ${what}`))),
        seconds * 1000,
      );
      const check = () => {
        if (holds()) {
          finish(resolve);
        }
      };
      this.#listeners.add(check);
      check();
    });
  }
}
