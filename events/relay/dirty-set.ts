import type { HintCause } from '#events/hint.ts';
import type { StepName } from '#shared/api/steps.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import type { LeftContext } from '#shared/kernel/trace.ts';
import type { ResourceKind } from '#shared/kube/resources.ts';
import { maxBatchEntries } from '#shared/queue/queue.ts';
import { Arrivals } from './arrivals.ts';
import { Pace, type PaceLimits } from './pace.ts';
import type { Timers } from './timers.ts';

/** An object that steps reconcile, as it was last seen. */
export interface Target {
  readonly kind: ResourceKind;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  /** The trace of whoever changed it last and said so. */
  readonly left?: LeftContext;
}

/** A step has to look at a target. */
export interface Mark {
  readonly step: StepName;
  readonly target: Target;
  readonly cause: HintCause;
  /** What moved: a resourceVersion, or a timer's tick in milliseconds since the epoch. */
  readonly token: string;
  /** The trace that it belongs to, where that is not the target's own. */
  readonly left?: LeftContext;
}

export interface Dirty {
  readonly mark: Mark;
  /** Since when this relay owes the hint; on the monotonic clock, as every `…Ms` here. */
  readonly owedSinceMs: number;
  /** When the mark was set; the newest one's, not the first one's. */
  readonly markedMs: number;
  /** The same on the wall clock, for the hint. */
  readonly markedAt: Instant;
}

export interface DirtySetParts {
  readonly timers: Pick<Timers, 'now' | 'monotonicMs'>;
  readonly pace: PaceLimits;
  /** An entry is held back because its target hints too often. */
  readonly onHeld: (dirty: Dirty) => void;
}

/** Where the entries of one step are. An entry on its way may also be in `again`; else each is in one place. */
interface Lane {
  /** May be sent, the one that waits longest first. */
  readonly ready: Map<string, Dirty>;
  /** Of targets that hint too often, the one that is let go next first. */
  readonly held: Map<string, { readonly dirty: Dirty; readonly untilMs: number }>;
  readonly inFlight: Map<string, Dirty>;
  /** Marked again while the hint is on the way. */
  readonly again: Map<string, Dirty>;
  readonly pace: Pace;
  readonly arrivals: Arrivals;
}

/**
 * Which step owes which target a hint: one entry per (step, target uid), the newest mark wins.
 *
 * An entry leaves only when the queue has acknowledged it. What is marked again while its hint is on the way stays owed
 * and is taken again after that one's answer. So an outage of any length costs memory per object, never per event.
 *
 * A target whose hints come too often is slowed: its entry is held back for a time, during which newer marks replace it.
 * Each entry spends one hint of its target's pace when it becomes ready, so what is tried again spends nothing more.
 */
export class DirtySet {
  readonly #parts: DirtySetParts;
  readonly #lanes = new Map<StepName, Lane>();
  #isHurried = false;

  constructor(parts: DirtySetParts) {
    this.#parts = parts;
  }

  mark(mark: Mark): void {
    const { uid } = mark.target;
    const lane = this.#lane(mark.step);
    const markedMs = this.#parts.timers.monotonicMs();
    const markedAt = this.#parts.timers.now();
    const renew = (before: Dirty | undefined): Dirty => ({
      mark,
      owedSinceMs: before?.owedSinceMs ?? markedMs,
      markedMs,
      markedAt,
    });
    const ready = lane.ready.get(uid);
    const held = lane.held.get(uid);
    if (lane.inFlight.has(uid)) {
      lane.again.set(uid, renew(lane.again.get(uid)));
    } else if (ready !== undefined) {
      lane.ready.set(uid, renew(ready));
    } else if (held === undefined) {
      this.#admit(lane, renew(undefined));
    } else {
      lane.held.set(uid, { ...held, dirty: renew(held.dirty) });
    }
  }

  /** Takes the entries that wait longest, at most `limit`. Each must be acknowledged or given back later. */
  take(step: StepName, limit: number): Dirty[] {
    const { ready, inFlight } = this.#lane(step);
    const taken = [...ready.values().take(limit)];
    for (const dirty of taken) {
      ready.delete(dirty.mark.target.uid);
      inFlight.set(dirty.mark.target.uid, dirty);
    }
    return taken;
  }

  /** The queue has it. */
  acknowledge({ mark }: Dirty): void {
    const { uid } = mark.target;
    const lane = this.#lane(mark.step);
    lane.inFlight.delete(uid);
    const newer = lane.again.get(uid);
    if (newer !== undefined) {
      lane.again.delete(uid);
      this.#admit(lane, newer);
    }
  }

  /** The queue does not have it, or nobody knows. It waits again, behind the others, so that it cannot hold them up. */
  giveBack(dirty: Dirty): void {
    const { step, target } = dirty.mark;
    const { ready, inFlight, again } = this.#lane(step);
    inFlight.delete(target.uid);
    const newest = again.get(target.uid) ?? dirty;
    again.delete(target.uid);
    ready.set(target.uid, { ...newest, owedSinceMs: dirty.owedSinceMs });
  }

  /** Makes those ready that were held back long enough. Returns when the next one will be. */
  release(step: StepName): number | undefined {
    const lane = this.#lane(step);
    const nowMs = this.#parts.timers.monotonicMs();
    for (const [uid, { dirty, untilMs }] of lane.held) {
      if (untilMs > nowMs && !this.#isHurried) {
        return untilMs;
      }
      lane.held.delete(uid);
      this.#makeReady(lane, dirty, nowMs);
    }
    return undefined;
  }

  /** From now on nothing is held back, and what is held can be released at once. For a stop: nobody sends it later. */
  hurry(): void {
    this.#isHurried = true;
  }

  /** Ages are counted from now: whoever begins to lead owes from then on what it kept while another one led. */
  oweFromNow(): void {
    const owedSinceMs = this.#parts.timers.monotonicMs();
    for (const { ready, held } of this.#lanes.values()) {
      for (const [uid, dirty] of ready) {
        ready.set(uid, { ...dirty, owedSinceMs });
      }
      for (const [uid, each] of held) {
        held.set(uid, { ...each, dirty: { ...each.dirty, owedSinceMs } });
      }
    }
  }

  /** Drops what is owed to targets whose deletion was seen at least so long ago. */
  forgetDeleted(ageMs: number): void {
    const untilMs = this.#parts.timers.monotonicMs() - ageMs;
    const isOld = ({ mark, markedMs }: Dirty): boolean =>
      mark.cause === 'deleted' && markedMs <= untilMs;
    for (const { ready, held } of this.#lanes.values()) {
      for (const [uid, dirty] of ready) {
        if (isOld(dirty)) {
          ready.delete(uid);
        }
      }
      for (const [uid, { dirty }] of held) {
        if (isOld(dirty)) {
          held.delete(uid);
        }
      }
    }
  }

  /** Hints owed, those held back and those on the way included. */
  size(step: StepName): number {
    const { ready, held, inFlight } = this.#lane(step);
    return ready.size + held.size + inFlight.size;
  }

  /** Hints held back. */
  heldSize(step: StepName): number {
    return this.#lane(step).held.size;
  }

  /** Hints that may be sent now. */
  readySize(step: StepName): number {
    return this.#lane(step).ready.size;
  }

  /** Since when the first of those that {@link DirtySet.take} would take is owed. */
  readySinceMs(step: StepName): number | undefined {
    const [first] = this.#lane(step).ready.values();
    return first?.owedSinceMs;
  }

  /** Whether the entries of as many targets as fill a batch became ready within the last so many milliseconds. */
  fillsWithin(step: StepName, ms: number): boolean {
    return this.#lane(step).arrivals.cameWithin(ms, this.#parts.timers.monotonicMs());
  }

  isEmpty(): boolean {
    return [...this.#lanes.keys()].every((step) => this.size(step) === 0);
  }

  /** Since when the longest owed hint is owed. */
  oldestMs(): number | undefined {
    let oldestMs: number | undefined;
    const compare = ({ owedSinceMs }: Dirty): void => {
      oldestMs = Math.min(oldestMs ?? owedSinceMs, owedSinceMs);
    };
    for (const { ready, held, inFlight } of this.#lanes.values()) {
      ready.forEach(compare);
      inFlight.forEach(compare);
      held.forEach(({ dirty }) => compare(dirty));
    }
    return oldestMs;
  }

  #admit(lane: Lane, dirty: Dirty): void {
    const { uid } = dirty.mark.target;
    const nowMs = this.#parts.timers.monotonicMs();
    if (this.#isHurried || lane.pace.allows(uid, nowMs)) {
      this.#makeReady(lane, dirty, nowMs);
      return;
    }
    // All wait equally long, so that they come free in the order in which they came.
    lane.held.set(uid, { dirty, untilMs: nowMs + this.#parts.pace.everyMs });
    this.#parts.onHeld(dirty);
  }

  #makeReady(lane: Lane, dirty: Dirty, nowMs: number): void {
    const { uid } = dirty.mark.target;
    lane.pace.spend(uid, nowMs);
    lane.arrivals.note(uid, nowMs);
    lane.ready.set(uid, dirty);
  }

  #lane(step: StepName): Lane {
    let lane = this.#lanes.get(step);
    if (lane === undefined) {
      lane = {
        ready: new Map(),
        held: new Map(),
        inFlight: new Map(),
        again: new Map(),
        pace: new Pace(this.#parts.pace),
        arrivals: new Arrivals(maxBatchEntries),
      };
      this.#lanes.set(step, lane);
    }
    return lane;
  }
}
