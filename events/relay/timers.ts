import { type Instant, wallClock } from '#shared/kernel/instant.ts';

/** Time as the relay sees it; handed in, so that a simulation can run it at any speed. */
export interface Timers {
  /** The wall clock, for what other processes read. It can be set: an age is never measured with it. */
  now(): Instant;
  /** Milliseconds since some moment, by a clock that nobody can set and that goes on while the process is stopped. */
  monotonicMs(): number;
  /** Runs once, after so many milliseconds, whatever the wall clock does meanwhile. Calling the result cancels. */
  after(delayMs: number, run: () => void): () => void;
}

/** The longest delay Node's timers take, in milliseconds; beyond it they would fire at once. */
const longestDelayMs = 2 ** 31 - 1;

export const systemTimers: Timers = {
  now: wallClock,
  monotonicMs: () => performance.now(),
  after(delayMs, run) {
    const timer = setTimeout(run, Math.min(Math.max(0, delayMs), longestDelayMs));
    return () => clearTimeout(timer);
  },
};

/** Waits so many milliseconds, or until the signal aborts; never throws. */
export function pause(timers: Timers, delayMs: number, signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  if (signal.aborted) {
    resolve();
    return promise;
  }
  const finish = (): void => {
    cancel();
    signal.removeEventListener('abort', finish);
    resolve();
  };
  const cancel = timers.after(delayMs, finish);
  signal.addEventListener('abort', finish);
  return promise;
}

export interface BackoffLimits {
  /** The longest wait after the first failure, in milliseconds; doubled with each further one. */
  readonly baseMs: number;
  readonly limitMs: number;
}

/**
 * How long to wait after so many failures in a row (1 is the first): exponential, anywhere between half and all of it,
 * so that many clients spread out and none retries at once.
 *
 * @param random uniform in [0, 1)
 */
export function backoffMs(failures: number, limits: BackoffLimits, random: () => number): number {
  const longest = Math.min(limits.limitMs, limits.baseMs * 2 ** (Math.max(1, failures) - 1));
  return longest * (0.5 + random() / 2);
}
