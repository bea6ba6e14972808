type Next = IteratorResult<string, undefined>;

interface Line {
  readonly text: string;
  /** Called when the client gets it. */
  readonly onRead: () => void;
}

/** The body of a watch as its client reads it, line by line. */
export class LineStream implements AsyncIterableIterator<string> {
  readonly #lines: Line[] = [];
  #ending: { readonly error?: Error } | undefined;
  #waiting: PromiseWithResolvers<Next> | undefined;
  readonly #onClosed: () => void;

  /** @param onClosed called when the client wants no more */
  constructor(onClosed: () => void) {
    this.#onClosed = onClosed;
  }

  push(text: string, onRead: () => void): void {
    if (this.#ending === undefined) {
      this.#lines.push({ text, onRead });
      this.#answer();
    }
  }

  /** The response is complete, or with an error: the connection broke. Lines that came before are read first. */
  end(error?: Error): void {
    this.#ending ??= error === undefined ? {} : { error };
    this.#answer();
  }

  next(): Promise<Next> {
    this.#waiting = Promise.withResolvers<Next>();
    const { promise } = this.#waiting;
    this.#answer();
    return promise;
  }

  async return(): Promise<Next> {
    this.#lines.length = 0;
    this.end();
    this.#onClosed();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #answer(): void {
    const waiting = this.#waiting;
    if (waiting === undefined) {
      return;
    }
    const line = this.#lines.shift();
    if (line !== undefined) {
      this.#waiting = undefined;
      line.onRead();
      waiting.resolve({ done: false, value: line.text });
    } else if (this.#ending !== undefined) {
      this.#waiting = undefined;
      const { error } = this.#ending;
      if (error === undefined) {
        waiting.resolve({ done: true, value: undefined });
      } else {
        waiting.reject(error);
      }
    }
  }
}
