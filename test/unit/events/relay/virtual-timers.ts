import type { Instant } from '#shared/kernel/instant.ts';
import type { Timers } from '#events/relay/timers.ts';

interface Alarm {
  readonly at: number;
  readonly run: () => void;
}

/** Time that stands still until it is told to pass. Starts at 2026-01-01T00:00:00Z. */
export class VirtualTimers implements Timers {
  #elapsedMs = 0;
  /** What the wall clock is off by. */
  #offsetMs = Date.parse('2026-01-01T00:00:00Z');
  readonly #alarms = new Set<Alarm>();

  now(): Instant {
    return (this.#elapsedMs + this.#offsetMs) as Instant;
  }

  monotonicMs(): number {
    return this.#elapsedMs;
  }

  after(delayMs: number, run: () => void): () => void {
    const alarm = { at: this.#elapsedMs + Math.max(0, delayMs), run };
    this.#alarms.add(alarm);
    return () => this.#alarms.delete(alarm);
  }

  /** Lets time pass; each timer runs at its time, and what it started goes on before the next one. */
  async pass(ms: number): Promise<void> {
    const end = this.#elapsedMs + ms;
    await settle();
    for (;;) {
      const next = [...this.#alarms].toSorted((a, b) => a.at - b.at)[0];
      if (next === undefined || next.at > end) {
        break;
      }
      this.#elapsedMs = next.at;
      this.#alarms.delete(next);
      next.run();
      await settle();
    }
    this.#elapsedMs = end;
  }

  /** Moves the wall clock without letting time pass. */
  setClock(byMs: number): void {
    this.#offsetMs += byMs;
  }

  get pending(): number {
    return this.#alarms.size;
  }
}

/** Lets every promise that can go on go on. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) {
    await Promise.resolve();
  }
}
