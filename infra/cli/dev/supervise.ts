import { setTimeout as pause } from 'node:timers/promises';
import type { Child } from '#infra/local/child/launch.ts';
import { describeError } from '#shared/kernel/errors.ts';

/** The wait before the first restart; doubled with each further one up to the limit, with jitter. */
const firstPauseMs = 250;
const longestPauseMs = 15_000;

/** A child that served for so long has recovered: the next death starts with the first wait again. */
const steadyMs = 30_000;

export interface SuperviseOptions<T> {
  readonly first: Child<T>;
  readonly start: () => Promise<Child<T>>;
  /** Called when the child died, and when it could not be started again. */
  readonly onDeath: (why: string, pauseMs: number) => void;
  readonly onRestart: (child: Child<T>) => void;
}

export interface Supervised<T> {
  /** The child as it is now; it may just have died. */
  current(): Child<T>;
  /** Restarts no more, stops the child, and resolves when it has ended. */
  stop(graceMs: number): Promise<void>;
}

/** Keeps one child alive: a dead one is started again, at once the first time and ever more slowly after. */
export function supervise<T>(options: SuperviseOptions<T>): Supervised<T> {
  const stopping = new AbortController();
  let child = options.first;
  const watching = watch();

  async function watch(): Promise<void> {
    let failures = 0;
    let startedMs = performance.now();
    while (!stopping.signal.aborted) {
      const end = await child.exited;
      failures = performance.now() - startedMs > steadyMs ? 0 : failures;
      const next = await startAgain(end, failures);
      if (next === undefined) {
        return;
      }
      failures = next.failures + 1;
      startedMs = performance.now();
      child = next.child;
      options.onRestart(child);
    }
  }

  /** Tries until a start succeeds; `undefined` when a stop came first. */
  async function startAgain(
    end: string,
    failuresBefore: number,
  ): Promise<{ child: Child<T>; failures: number } | undefined> {
    let why = `ended with ${end}`;
    for (let failures = failuresBefore; !stopping.signal.aborted; failures += 1) {
      const pauseMs = pauseAfter(failures);
      options.onDeath(why, pauseMs);
      try {
        await pause(pauseMs, undefined, { signal: stopping.signal });
        return { child: await options.start(), failures };
      } catch (error) {
        why = describeError(error);
      }
    }
    return undefined;
  }

  return {
    current: () => child,
    async stop(graceMs) {
      stopping.abort();
      await child.stop(graceMs);
      await watching;
      // A start that was under way when the stop came.
      await child.stop(graceMs);
    },
  };
}

function pauseAfter(failures: number): number {
  const limitMs = Math.min(longestPauseMs, firstPauseMs * 2 ** failures);
  return Math.round(limitMs * (0.5 + Math.random() / 2));
}
