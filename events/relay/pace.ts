export interface PaceLimits {
  /** Hints that a target may cause in quick succession. */
  readonly burst: number;
  /** What it spent it earns back one by one, each after so long. Who has spent all waits so long for each hint. */
  readonly everyMs: number;
}

/**
 * How often each target may be hinted at: a token bucket per target, kept as the one number that describes it, the
 * moment at which it is full again.
 *
 * Only targets that were hinted at within the last `burst × everyMs` are remembered.
 */
export class Pace {
  readonly #limits: PaceLimits;
  /** By uid, the one that spent longest ago first; on the monotonic clock. */
  readonly #fullAtMs = new Map<string, number>();

  constructor(limits: PaceLimits) {
    this.#limits = limits;
  }

  /** Whether the target has a hint left to spend. */
  allows(uid: string, nowMs: number): boolean {
    const { burst, everyMs } = this.#limits;
    return (this.#fullAtMs.get(uid) ?? nowMs) - nowMs <= (burst - 1) * everyMs;
  }

  spend(uid: string, nowMs: number): void {
    const fullAtMs = Math.max(nowMs, this.#fullAtMs.get(uid) ?? nowMs) + this.#limits.everyMs;
    this.#fullAtMs.delete(uid);
    this.#fullAtMs.set(uid, fullAtMs);
    this.#forgetFull(nowMs);
  }

  /** Targets that are remembered. */
  get size(): number {
    return this.#fullAtMs.size;
  }

  #forgetFull(nowMs: number): void {
    for (const [uid, fullAtMs] of this.#fullAtMs) {
      if (fullAtMs > nowMs) {
        return;
      }
      this.#fullAtMs.delete(uid);
    }
  }
}
