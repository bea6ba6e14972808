import type { Timers } from '#events/relay/timers.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import { everythingWent } from '#test/world/run/turn.ts';

interface Alarm {
  readonly atMs: number;
  /** Of two at the same time the one that was set first runs first. */
  readonly order: number;
  readonly run: () => void;
}

/** When worlds begin. */
export const worldStart = Date.parse('2026-01-01T00:00:00Z');

/** One time for everything in a world. It stands still until it is told to pass. */
export class VirtualClock implements Timers {
  #elapsedMs = 0;
  /** What the wall clock was set by. */
  #offsetMs = 0;
  #alarms: Alarm[] = [];
  #set = 0;

  /** In whole milliseconds, as a wall clock has them, although delays have fractions. */
  now(): Instant {
    return Math.floor(worldStart + this.#elapsedMs + this.#offsetMs) as Instant;
  }

  /** Since the world began. */
  monotonicMs(): number {
    return this.#elapsedMs;
  }

  after(delayMs: number, run: () => void): () => void {
    this.#set += 1;
    const alarm: Alarm = { atMs: this.#elapsedMs + Math.max(0, delayMs), order: this.#set, run };
    this.#alarms.splice(this.#placeOf(alarm), 0, alarm);
    return () => {
      const place = this.#placeOf(alarm);
      if (this.#alarms[place] === alarm) {
        this.#alarms.splice(place, 1);
      }
    };
  }

  /** Runs the next alarm and whatever it lets go on; false where none is due by then. */
  async step(untilMs: number): Promise<boolean> {
    const [next] = this.#alarms;
    if (next === undefined || next.atMs > untilMs) {
      return false;
    }
    this.#alarms.shift();
    this.#elapsedMs = next.atMs;
    next.run();
    await everythingWent();
    return true;
  }

  /** Lets time pass; each alarm runs at its time, and what it started goes on before the next one. */
  async pass(ms: number): Promise<void> {
    const endMs = this.#elapsedMs + ms;
    await everythingWent();
    while (await this.step(endMs)) {
      // Each step is an alarm and all that follows from it.
    }
    this.moveTo(endMs);
  }

  /** Where the time has come to although no alarm was due. */
  moveTo(ms: number): void {
    this.#elapsedMs = Math.max(this.#elapsedMs, ms);
  }

  /** Moves the wall clock without letting time pass. */
  setClock(byMs: number): void {
    this.#offsetMs += byMs;
  }

  get pending(): number {
    return this.#alarms.length;
  }

  /** The place of the first alarm that does not run before this one. */
  #placeOf({ atMs, order }: Alarm): number {
    let from = 0;
    let to = this.#alarms.length;
    while (from < to) {
      const middle = (from + to) >> 1;
      const other = this.#alarms[middle];
      if (
        other !== undefined &&
        (other.atMs < atMs || (other.atMs === atMs && other.order < order))
      ) {
        from = middle + 1;
      } else {
        to = middle;
      }
    }
    return from;
  }
}

/** The clock as one process sees it. Once the process is killed nothing that it was waiting for runs. */
export class ProcessTimers implements Timers {
  readonly #clock: VirtualClock;
  readonly #pending = new Set<() => void>();
  #isAlive = true;

  constructor(clock: VirtualClock) {
    this.#clock = clock;
  }

  now(): Instant {
    return this.#clock.now();
  }

  monotonicMs(): number {
    return this.#clock.monotonicMs();
  }

  after(delayMs: number, run: () => void): () => void {
    if (!this.#isAlive) {
      return () => {};
    }
    const cancel = (): void => {
      this.#pending.delete(cancel);
      cancelAlarm();
    };
    const cancelAlarm = this.#clock.after(delayMs, () => {
      this.#pending.delete(cancel);
      run();
    });
    this.#pending.add(cancel);
    return cancel;
  }

  kill(): void {
    this.#isAlive = false;
    for (const cancel of this.#pending) {
      cancel();
    }
  }

  get pending(): number {
    return this.#pending.size;
  }
}
