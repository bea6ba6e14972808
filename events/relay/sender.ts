import { type Hint, makeHint, queueName } from '#events/hint.ts';
import type { StepName } from '#shared/api/steps.ts';
import { describeError } from '#shared/kernel/errors.ts';
import { resourceTypes } from '#shared/kube/resources.ts';
import { type QueueSender, type SendOutcome, maxBatchEntries } from '#shared/queue/queue.ts';
import type { Dirty, DirtySet } from './dirty-set.ts';
import { type BackoffLimits, type Timers, backoffMs } from './timers.ts';

export interface SenderLimits {
  /** How long a mark waits for others to share its hint and its batch. */
  readonly gatherMs: number;
  /** Batches on the way to one queue at a time. */
  readonly batchesAtOnce: number;
  readonly backoff: BackoffLimits;
}

export const senderLimits: SenderLimits = {
  gatherMs: 50,
  batchesAtOnce: 2,
  backoff: { baseMs: 200, limitMs: 5_000 },
};

/** What sending went through, for logs and metrics. */
export type SenderNews =
  | { readonly kind: 'sent'; readonly dirty: Dirty }
  /** Part of a batch or all of it was not acknowledged; `hints` of them are owed still. */
  | {
      readonly kind: 'failed';
      readonly step: StepName;
      readonly why: string;
      readonly hints: number;
    }
  /** No queue could ever take it. It is no longer owed. */
  | { readonly kind: 'unsendable'; readonly dirty: Dirty; readonly why: string };

export interface SenderParts {
  readonly queues: QueueSender;
  readonly dirty: DirtySet;
  readonly timers: Timers;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly clusterId: string;
  readonly stage: string;
  readonly steps: readonly StepName[];
  readonly limits: SenderLimits;
  readonly report: (news: SenderNews) => void;
}

interface Lane {
  readonly step: StepName;
  batches: number;
  failures: number;
  /** Set while the lane waits: to gather marks, or after a failure. Calling it ends the wait without effect. */
  cancelWait: (() => void) | undefined;
}

/** Empties the dirty set into the queues of the steps. One queue's outage holds up no other. */
export class Sender {
  readonly #parts: SenderParts;
  readonly #lanes: readonly Lane[];
  readonly #aborted = new AbortController();
  #onEmpty: (() => void) | undefined;

  constructor(parts: SenderParts) {
    this.#parts = parts;
    this.#lanes = parts.steps.map((step) => ({
      step,
      batches: 0,
      failures: 0,
      cancelWait: undefined,
    }));
  }

  /** Something may have become dirty. */
  notice(): void {
    for (const lane of this.#lanes) {
      if (this.#parts.dirty.hasWaiting(lane.step)) {
        this.#pumpAfter(lane, this.#parts.limits.gatherMs);
      }
    }
  }

  /**
   * Sends what is still owed, for at most so long, then gives up what is on the way. Resolves with whether all is sent.
   * Nothing is lost by giving up: the next relay starts with everything dirty.
   */
  async drain(graceMs: number): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#onEmpty = resolve;
    const cancelGrace = this.#parts.timers.after(graceMs, resolve);
    for (const lane of this.#lanes) {
      lane.cancelWait?.();
      lane.cancelWait = undefined;
      this.#pump(lane);
    }
    this.#checkEmpty();
    await promise;
    cancelGrace();
    this.#aborted.abort();
    for (const lane of this.#lanes) {
      lane.cancelWait?.();
    }
    return this.#parts.dirty.isEmpty();
  }

  /** Whatever already waits, a failure's backoff above all, is waited for. */
  #pumpAfter(lane: Lane, delayMs: number): void {
    lane.cancelWait ??= this.#parts.timers.after(delayMs, () => {
      lane.cancelWait = undefined;
      this.#pump(lane);
    });
  }

  #pump(lane: Lane): void {
    const { dirty, limits } = this.#parts;
    while (
      !this.#aborted.signal.aborted &&
      lane.cancelWait === undefined &&
      lane.batches < limits.batchesAtOnce
    ) {
      const taken = dirty.take(lane.step, maxBatchEntries);
      if (taken.length === 0) {
        return;
      }
      lane.batches += 1;
      void this.#sendBatch(lane, taken);
    }
  }

  /** Never rejects. */
  async #sendBatch(lane: Lane, taken: readonly Dirty[]): Promise<void> {
    const { queues, stage, dirty } = this.#parts;
    const sendable = taken.flatMap((each) => this.#withHint(each));
    const entries = sendable.map(({ hint, dirty: { mark } }, place) => ({
      id: String(place),
      body: JSON.stringify(hint),
      group: mark.target.uid,
    }));
    let outcome: SendOutcome;
    try {
      outcome =
        entries.length === 0
          ? { acknowledged: [], failed: [] }
          : await queues.send(queueName(stage, lane.step), entries, this.#aborted.signal);
    } catch (error) {
      outcome = { acknowledged: [], failed: [{ id: '', why: describeError(error) }] };
    }
    const acknowledged = new Set(outcome.acknowledged);
    // What the queue did not mention is not acknowledged, so it counts with the failed.
    const owed = sendable.filter((_, place) => !acknowledged.has(String(place)));
    for (const [place, each] of sendable.entries()) {
      if (acknowledged.has(String(place))) {
        dirty.acknowledge(each.dirty);
        this.#parts.report({ kind: 'sent', dirty: each.dirty });
      } else {
        dirty.giveBack(each.dirty);
      }
    }
    lane.batches -= 1;
    this.#goOn(lane, owed.length, outcome);
  }

  #goOn(lane: Lane, owed: number, outcome: SendOutcome): void {
    const { limits, random, report } = this.#parts;
    if (this.#aborted.signal.aborted) {
      return;
    }
    if (owed === 0) {
      lane.failures = 0;
      this.#pump(lane);
      this.#checkEmpty();
      return;
    }
    // A queue that takes a part works: what it refused is tried again soon.
    lane.failures = outcome.acknowledged.length > 0 ? 1 : lane.failures + 1;
    const why = outcome.failed[0]?.why ?? 'not acknowledged';
    report({ kind: 'failed', step: lane.step, why, hints: owed });
    lane.cancelWait?.();
    lane.cancelWait = undefined;
    this.#pumpAfter(lane, backoffMs(lane.failures, limits.backoff, random));
  }

  #withHint(dirty: Dirty): { hint: Hint; dirty: Dirty }[] {
    const { step, target, cause, token } = dirty.mark;
    const { plural } = resourceTypes[target.kind];
    const { clusterId: source } = this.#parts;
    try {
      const at = dirty.markedAt;
      return [
        {
          hint: makeHint({ step, cause, source, target: { ...target, plural }, token, at }),
          dirty,
        },
      ];
    } catch (error) {
      this.#parts.dirty.acknowledge(dirty);
      this.#parts.report({ kind: 'unsendable', dirty, why: describeError(error) });
      return [];
    }
  }

  #checkEmpty(): void {
    if (this.#parts.dirty.isEmpty()) {
      this.#onEmpty?.();
    }
  }
}
