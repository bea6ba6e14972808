/** A seeded generator of pseudo-random numbers (mulberry32): the same seed, the same numbers, on every machine. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed | 0;
  }

  /** Uniform in [0, 1). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** A whole number from `low` to `high`, both included. */
  between(low: number, high: number): number {
    return low + Math.floor(this.next() * (high - low + 1));
  }

  isLucky(probability: number): boolean {
    return this.next() < probability;
  }

  /** One of them; throws where there is none. */
  pick<T>(items: readonly T[]): T {
    const picked = items[Math.floor(this.next() * items.length)];
    if (picked === undefined) {
      throw new Error('there is nothing to pick from');
    }
    return picked;
  }

  /** At most so many of them, each once, in random order. */
  sample<T>(items: readonly T[], most: number): readonly T[] {
    const rest = [...items];
    const picked: T[] = [];
    while (rest.length > 0 && picked.length < most) {
      const place = this.between(0, rest.length - 1);
      const last = rest.pop();
      const chosen = place === rest.length ? last : rest[place];
      if (place < rest.length && last !== undefined) {
        rest[place] = last;
      }
      if (chosen !== undefined) {
        picked.push(chosen);
      }
    }
    return picked;
  }
}
