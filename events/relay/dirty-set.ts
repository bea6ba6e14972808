import type { HintCause } from '#events/hint.ts';
import type { StepName } from '#shared/api/steps.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import type { ResourceKind } from '#shared/kube/resources.ts';

/** An object that steps reconcile, as it was last seen. */
export interface Target {
  readonly kind: ResourceKind;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
}

/** A step has to look at a target. */
export interface Mark {
  readonly step: StepName;
  readonly target: Target;
  readonly cause: HintCause;
  /** What moved: a resourceVersion, or a timer's tick in milliseconds since the epoch. */
  readonly token: string;
}

export interface Dirty {
  readonly mark: Mark;
  /** Since when a hint is owed. */
  readonly since: Instant;
  /** When the mark was set; the newest one's, not the first one's. */
  readonly markedAt: Instant;
}

interface Lane {
  readonly waiting: Map<string, Dirty>;
  readonly inFlight: Map<string, Dirty>;
}

/**
 * Which step owes which target a hint: one entry per (step, target uid), the newest mark wins.
 *
 * An entry leaves only when the queue has acknowledged it. What is marked again while its hint is on the way stays owed
 * and is taken again after that one's answer. So an outage of any length costs memory per object, never per event.
 */
export class DirtySet {
  readonly #lanes = new Map<StepName, Lane>();

  mark(mark: Mark, now: Instant): void {
    const { waiting } = this.#lane(mark.step);
    const since = waiting.get(mark.target.uid)?.since ?? now;
    waiting.set(mark.target.uid, { mark, since, markedAt: now });
  }

  /** Takes the entries that wait longest, at most `limit`. Each must be acknowledged or given back later. */
  take(step: StepName, limit: number): Dirty[] {
    const { waiting, inFlight } = this.#lane(step);
    const taken: Dirty[] = [];
    for (const [uid, dirty] of waiting) {
      if (taken.length >= limit) {
        break;
      }
      if (!inFlight.has(uid)) {
        waiting.delete(uid);
        inFlight.set(uid, dirty);
        taken.push(dirty);
      }
    }
    return taken;
  }

  /** The queue has it. */
  acknowledge({ mark }: Dirty): void {
    this.#lane(mark.step).inFlight.delete(mark.target.uid);
  }

  /** The queue does not have it, or nobody knows. It waits again, behind the others, so that it cannot hold them up. */
  giveBack(dirty: Dirty): void {
    const { step, target } = dirty.mark;
    const { waiting, inFlight } = this.#lane(step);
    inFlight.delete(target.uid);
    const newer = waiting.get(target.uid);
    waiting.delete(target.uid);
    waiting.set(target.uid, { ...(newer ?? dirty), since: dirty.since });
  }

  /** Hints owed, those on the way included. */
  size(step: StepName): number {
    const { waiting, inFlight } = this.#lane(step);
    const both = [...inFlight.keys()].filter((uid) => waiting.has(uid)).length;
    return waiting.size + inFlight.size - both;
  }

  hasWaiting(step: StepName): boolean {
    return this.#lane(step).waiting.size > 0;
  }

  isEmpty(): boolean {
    return [...this.#lanes.keys()].every((step) => this.size(step) === 0);
  }

  /** Since when the longest owed hint is owed. */
  oldest(): Instant | undefined {
    let oldest: Instant | undefined;
    for (const { waiting, inFlight } of this.#lanes.values()) {
      for (const { since } of [...waiting.values(), ...inFlight.values()]) {
        oldest = oldest === undefined || since < oldest ? since : oldest;
      }
    }
    return oldest;
  }

  #lane(step: StepName): Lane {
    let lane = this.#lanes.get(step);
    if (lane === undefined) {
      lane = { waiting: new Map(), inFlight: new Map() };
      this.#lanes.set(step, lane);
    }
    return lane;
  }
}
