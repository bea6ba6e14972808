import { type Hint, makeHint, queueName } from '#events/hint.ts';
import type { StepName } from '#shared/api/steps.ts';
import { describeError } from '#shared/kernel/errors.ts';
import {
  type Attributes,
  type Correlation,
  type OpenSpan,
  type Origin,
  type Tracer,
  correlationOf,
  originOf,
  silentSpan,
  traceparentOf,
} from '#shared/kernel/trace.ts';
import { resourceTypes } from '#shared/kube/resources.ts';
import { type QueueSender, type SendOutcome, maxBatchEntries } from '#shared/queue/queue.ts';
import type { Dirty, DirtySet, Mark } from './dirty-set.ts';
import type { PaceLimits } from './pace.ts';
import { type BackoffLimits, type Timers, backoffMs } from './timers.ts';

export interface SenderLimits {
  /** How long a mark waits for others to share its hint and its batch, where few come. */
  readonly gatherMs: number;
  /** How long where the last full batch came within as much, so that the next one is likely to be full by then. */
  readonly fillMs: number;
  /** Batches on the way to one queue at a time. */
  readonly batchesAtOnce: number;
  readonly backoff: BackoffLimits;
  readonly pace: PaceLimits;
}

/**
 * A queue is paid by the request, and what a request carries is free up to ten hints. Where many marks come it is worth
 * to wait for a full batch: at 200 marks a second ten come in 50 ms. Where few come, waiting saves little and delays
 * each step of a drain; 10 ms let the writes of one handler share a hint.
 *
 * A drain is about 30 hints to a target within seconds, and a wake at most one in a second: with 60 at once and one more
 * each second neither is ever slowed.
 */
export const senderLimits: SenderLimits = {
  gatherMs: 10,
  fillMs: 90,
  batchesAtOnce: 2,
  backoff: { baseMs: 200, limitMs: 5_000 },
  pace: { burst: 60, everyMs: 1_000 },
};

/** What sending went through, for logs and metrics. */
export type SenderNews =
  | { readonly kind: 'sent'; readonly dirty: Dirty; readonly correlation: Correlation }
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
  /** Asked before each batch: whether this relay is the one that sends. */
  readonly isLeading: () => boolean;
  readonly report: (news: SenderNews) => void;
  /** Where the spans of hints go; nowhere when absent. */
  readonly tracer?: Tracer;
}

/** A hint on its way. */
interface Sending {
  readonly hint: Hint;
  readonly dirty: Dirty;
  readonly span: OpenSpan;
  readonly correlation: Correlation;
}

interface Lane {
  readonly step: StepName;
  batches: number;
  failures: number;
  /** Each is set while its timer runs: until a batch is full, after a failure, until an entry is held back no more. */
  cancelFill: (() => void) | undefined;
  cancelBackoff: (() => void) | undefined;
  cancelHold: (() => void) | undefined;
}

/** Empties the dirty set into the queues of the steps. One queue's outage holds up no other. */
export class Sender {
  readonly #parts: SenderParts;
  readonly #lanes: readonly Lane[];
  readonly #aborted = new AbortController();
  /** Set once it drains: nothing waits for company any more. */
  #finish: (() => void) | undefined;

  constructor(parts: SenderParts) {
    this.#parts = parts;
    this.#lanes = parts.steps.map((step) => ({
      step,
      batches: 0,
      failures: 0,
      cancelFill: undefined,
      cancelBackoff: undefined,
      cancelHold: undefined,
    }));
  }

  /** Something may have become dirty, or another relay sends from now on, or this one does. */
  notice(): void {
    for (const lane of this.#lanes) {
      this.#release(lane);
      this.#pump(lane);
    }
    this.#checkDrained();
  }

  /**
   * Sends what is still owed, for at most so long, then gives up what is on the way. Resolves with whether all is sent;
   * at once with true where another relay sends, because that one owes it. Nothing is lost by giving up: the next relay
   * starts with everything dirty.
   */
  async drain(graceMs: number): Promise<boolean> {
    const isOwing = this.#parts.isLeading();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#finish = resolve;
    const cancelGrace = this.#parts.timers.after(graceMs, resolve);
    this.#parts.dirty.hurry();
    for (const lane of this.#lanes) {
      cancelTimers(lane);
    }
    this.notice();
    await promise;
    cancelGrace();
    const isAllSent = !isOwing || this.#parts.dirty.isEmpty();
    this.#aborted.abort();
    for (const lane of this.#lanes) {
      cancelTimers(lane);
    }
    return isAllSent;
  }

  /** Sees to it that what is held back is let go in time. */
  #release(lane: Lane): void {
    const { dirty, timers } = this.#parts;
    if (lane.cancelHold !== undefined || this.#aborted.signal.aborted) {
      return;
    }
    const nextMs = dirty.release(lane.step);
    if (nextMs !== undefined) {
      lane.cancelHold = timers.after(nextMs - timers.monotonicMs(), () => {
        lane.cancelHold = undefined;
        this.#release(lane);
        this.#pump(lane);
      });
    }
  }

  /** Starts batches for as long as something is worth one and nothing stands against it. */
  #pump(lane: Lane): void {
    const { dirty, limits, timers, isLeading } = this.#parts;
    while (
      lane.cancelBackoff === undefined &&
      lane.batches < limits.batchesAtOnce &&
      !this.#aborted.signal.aborted &&
      isLeading()
    ) {
      const fillMs = this.#fillMs(lane);
      if (fillMs === undefined) {
        return;
      }
      if (fillMs > 0) {
        lane.cancelFill ??= timers.after(fillMs, () => {
          lane.cancelFill = undefined;
          this.#pump(lane);
        });
        return;
      }
      lane.cancelFill?.();
      lane.cancelFill = undefined;
      lane.batches += 1;
      void this.#sendBatch(lane, dirty.take(lane.step, maxBatchEntries));
    }
  }

  /** How long the next batch may still wait to be full, in milliseconds; `undefined` when there is nothing to send. */
  #fillMs({ step }: Lane): number | undefined {
    const { dirty, limits, timers } = this.#parts;
    const sinceMs = dirty.readySinceMs(step);
    if (sinceMs === undefined) {
      return undefined;
    }
    if (this.#finish !== undefined || dirty.readySize(step) >= maxBatchEntries) {
      return 0;
    }
    const { fillMs, gatherMs } = limits;
    const waitMs = dirty.fillsWithin(step, fillMs) ? fillMs : gatherMs;
    return sinceMs + waitMs - timers.monotonicMs();
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
        const { dirty: sent, correlation } = each;
        this.#parts.report({ kind: 'sent', dirty: sent, correlation });
      } else {
        each.span.fail('not_acknowledged');
        dirty.giveBack(each.dirty);
      }
      each.span.end();
    }
    lane.batches -= 1;
    this.#goOn(lane, owed.length, outcome);
  }

  #goOn(lane: Lane, owed: number, outcome: SendOutcome): void {
    const { limits, random, report, timers } = this.#parts;
    if (this.#aborted.signal.aborted) {
      return;
    }
    if (owed === 0) {
      lane.failures = 0;
    } else {
      // A queue that takes a part works: what it refused is tried again soon.
      lane.failures = outcome.acknowledged.length > 0 ? 1 : lane.failures + 1;
      const why = outcome.failed[0]?.why ?? 'not acknowledged';
      report({ kind: 'failed', step: lane.step, why, hints: owed });
      lane.cancelBackoff?.();
      lane.cancelBackoff = timers.after(backoffMs(lane.failures, limits.backoff, random), () => {
        lane.cancelBackoff = undefined;
        this.#pump(lane);
      });
    }
    // Also what was marked again meanwhile: it may have become ready, or be held back now.
    this.#release(lane);
    this.#pump(lane);
    this.#checkDrained();
  }

  #withHint(dirty: Dirty): Sending[] {
    const { step, target, cause, token } = dirty.mark;
    const { plural } = resourceTypes[target.kind];
    const { clusterId: source } = this.#parts;
    const { span, origin } = this.#traced(dirty);
    const traceparent = traceparentIn(span, origin);
    try {
      const hint = makeHint({
        step,
        cause,
        source,
        target: { ...target, plural },
        token,
        at: dirty.markedAt,
        ...(traceparent === undefined ? {} : { traceparent }),
      });
      span.set({ 'cloudevents.event_id': hint.id, 'cloudevents.event_type': hint.type });
      return [{ hint, dirty, span, correlation: correlationOf(span, origin) }];
    } catch (error) {
      span.fail('unsendable');
      span.end();
      this.#parts.dirty.acknowledge(dirty);
      this.#parts.report({ kind: 'unsendable', dirty, why: describeError(error) });
      return [];
    }
  }

  /** A relay that traces nothing hands on the trace of whoever changed the target, for as long as that is young. */
  #traced({ mark }: Dirty): { readonly span: OpenSpan; readonly origin: Origin } {
    const { stage, timers, tracer } = this.#parts;
    const origin = originOf(mark.left ?? mark.target.left, timers.now());
    const queue = queueName(stage, mark.step);
    const span =
      tracer?.start(`send ${queue}`, {
        kind: 'producer',
        origin,
        attributes: attributesOf(mark, queue),
      }) ?? silentSpan;
    return { span, origin };
  }

  /** Whoever does not lead owes nothing: the one that does sends the same. */
  #checkDrained(): void {
    if (this.#parts.dirty.isEmpty() || !this.#parts.isLeading()) {
      this.#finish?.();
    }
  }
}

function traceparentIn({ context }: OpenSpan, { parent }: Origin): string | undefined {
  const continued = context ?? parent;
  return continued === undefined ? undefined : traceparentOf(continued);
}

/** By OpenTelemetry's names, and by ours where it has none. */
function attributesOf({ step, cause, target }: Mark, queue: string): Attributes {
  return {
    'messaging.destination.name': queue,
    'k8s.namespace.name': target.namespace,
    'millrace.step': step,
    'millrace.cause': cause,
    'millrace.target.kind': target.kind,
    'millrace.target.name': target.name,
  };
}

function cancelTimers(lane: Lane): void {
  lane.cancelFill?.();
  lane.cancelBackoff?.();
  lane.cancelHold?.();
  lane.cancelFill = undefined;
  lane.cancelBackoff = undefined;
  lane.cancelHold = undefined;
}
