import { setTimeout as delay } from 'node:timers/promises';
import { describeError } from '#shared/kernel/errors.ts';
import { QueueRefusal } from '#shared/queue/explain.ts';

/** Waits, and ends early without an error where the signal aborts. */
export type Pause = (milliseconds: number, signal?: AbortSignal) => Promise<void>;

export const realPause: Pause = async (milliseconds, signal) => {
  try {
    await delay(milliseconds, undefined, signal === undefined ? {} : { signal });
  } catch {
    // Whoever aborts has a look at the signal.
  }
};

/** How often one request is made, and the waits between: doubled from the first to the longest, with jitter. */
export const maxTries = 6;
const firstPauseMs = 250;
const longestPauseMs = 8_000;

export interface Trying {
  readonly pause: Pause;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  /** Told of each try that failed and is made again. */
  readonly onRetry: (why: string) => void;
}

export function pauseBeforeTry(failures: number, random: () => number): number {
  return Math.min(longestPauseMs, firstPauseMs * 2 ** (failures - 1)) * (0.5 + random() / 2);
}

/** Whether asking again is no use: the refusal would be the same. */
export function isLasting(error: unknown): boolean {
  return error instanceof QueueRefusal && error.isLasting;
}

/**
 * Asks until there is an answer, or the tries are used up, or a failure after which asking again is no use.
 *
 * @param isFinal which those are; refusals that will stay the same when absent
 */
export async function patiently<T>(
  { pause, random, onRetry }: Trying,
  ask: () => Promise<T>,
  isFinal: (error: unknown) => boolean = isLasting,
): Promise<T> {
  for (let failures = 1; ; failures += 1) {
    try {
      return await ask();
    } catch (error) {
      if (isFinal(error) || failures === maxTries) {
        throw error;
      }
      onRetry(describeError(error));
      await pause(pauseBeforeTry(failures, random));
    }
  }
}

/** Lets so many messages a second through, and no burst before that. */
export class Pace {
  readonly #perSecond: number;
  readonly #nowMs: () => number;
  readonly #pause: Pause;
  #nextMs = 0;

  constructor(perSecond: number, pause: Pause, nowMs: () => number) {
    this.#perSecond = perSecond;
    this.#pause = pause;
    this.#nowMs = nowMs;
  }

  /** Resolves when so many may be sent, or the signal aborts. */
  async take(messages: number, signal: AbortSignal): Promise<void> {
    const nowMs = this.#nowMs();
    const atMs = Math.max(nowMs, this.#nextMs);
    this.#nextMs = atMs + (messages * 1000) / this.#perSecond;
    if (atMs > nowMs && !signal.aborted) {
      await this.#pause(atMs - nowMs, signal);
    }
  }
}
