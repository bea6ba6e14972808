import type { Fingerprint } from './fingerprint.ts';

/** Slots at the beginning, and how full the table may be before it is made twice as large. */
const firstSlots = 2 ** 16;
const maxLoad = 0.75;

/**
 * The states that were reached, by fingerprint: an open-addressed table of 16 bytes a slot, which is 22 to 43 bytes a
 * state and no work for the garbage collector. While it grows, the old table and the new one are there: 64 bytes a state
 * at most, for a moment.
 */
export class VisitedStates {
  #slots = firstSlots;
  #words = new Int32Array(4 * firstSlots);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** Adds a state; false where it is known. */
  add({ a, b, c, d }: Fingerprint): boolean {
    // All zeros is an empty slot, so the one fingerprint in 2^128 that looks like that is taken for another.
    const isNew = this.#put(a === 0 && b === 0 && c === 0 && d === 0 ? 1 : a, b, c, d);
    if (isNew) {
      this.#size += 1;
      if (this.#size > this.#slots * maxLoad) {
        this.#grow();
      }
    }
    return isNew;
  }

  #put(a: number, b: number, c: number, d: number): boolean {
    const words = this.#words;
    const mask = this.#slots - 1;
    for (let slot = a & mask; ; slot = (slot + 1) & mask) {
      const at = slot * 4;
      const isEmpty =
        words[at] === 0 && words[at + 1] === 0 && words[at + 2] === 0 && words[at + 3] === 0;
      if (isEmpty) {
        words[at] = a;
        words[at + 1] = b;
        words[at + 2] = c;
        words[at + 3] = d;
        return true;
      }
      if (words[at] === a && words[at + 1] === b && words[at + 2] === c && words[at + 3] === d) {
        return false;
      }
    }
  }

  #grow(): void {
    const old = this.#words;
    this.#slots *= 2;
    this.#words = new Int32Array(4 * this.#slots);
    for (let at = 0; at < old.length; at += 4) {
      const [a = 0, b = 0, c = 0, d = 0] = old.subarray(at, at + 4);
      if (a !== 0 || b !== 0 || c !== 0 || d !== 0) {
        this.#put(a, b, c, d);
      }
    }
  }
}
