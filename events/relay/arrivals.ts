/** Remembers whose entries came last, to tell whether a batch will be full soon. */
export class Arrivals {
  readonly #count: number;
  /** By uid, on the monotonic clock; at most `#count`, the oldest first. */
  readonly #timesMs = new Map<string, number>();

  /** @param count entries in a full batch */
  constructor(count: number) {
    this.#count = count;
  }

  note(uid: string, nowMs: number): void {
    this.#timesMs.delete(uid);
    this.#timesMs.set(uid, nowMs);
    if (this.#timesMs.size > this.#count) {
      const [oldest = ''] = this.#timesMs.keys();
      this.#timesMs.delete(oldest);
    }
  }

  /**
   * Whether a whole batch came within the last so many milliseconds, so that the next one is likely to as well. A few
   * targets never fill one, however often they come: each has only one entry.
   */
  cameWithin(ms: number, nowMs: number): boolean {
    const [oldestMs] = this.#timesMs.values();
    return oldestMs !== undefined && this.#timesMs.size === this.#count && nowMs - oldestMs <= ms;
  }
}
