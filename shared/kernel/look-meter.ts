import type { Hint } from '#events/hint.ts';
import type { StepName } from '#shared/api/steps.ts';
import type { Count, Decision } from './decision.ts';
import { RefusedEffect, RetryableError, TerminalError } from './errors.ts';
import type { MeteredTarget, Meter } from './telemetry.ts';
import type { Span } from './trace.ts';

/** What is told of one target's look, however often it is made anew. */
export class LookMeter {
  readonly #meter: Meter;
  readonly #step: StepName;
  readonly #target: MeteredTarget;
  readonly #span: Span;
  readonly #begunMs: number;
  #lostRaces = 0;

  constructor(meter: Meter, step: StepName, hint: Hint, span: Span) {
    const { namespace, name } = hint.data;
    this.#meter = meter;
    this.#step = step;
    this.#target = { namespace, name };
    this.#span = span;
    this.#begunMs = meter.telemetry.monotonicMs();
    // Two clocks that disagree must not make a hint come from the future.
    const ageMs = Math.max(0, meter.telemetry.wallMs() - Date.parse(hint.time));
    meter.measure('millrace_hint_age_seconds', { step }, ageMs / 1000);
  }

  /** The record that accounts for them is written. */
  counted(counts: readonly Count[]): void {
    this.#meter.addCounts(counts, this.#target);
  }

  lostRace(): void {
    this.#meter.count('millrace_lost_races_total', { step: this.#step });
    this.#lostRaces += 1;
    this.#span.set({ 'millrace.lost_races': this.#lostRaces });
  }

  /** A decision stands, with all it asks for. */
  concluded({
    outcome,
    reason,
    gauges = [],
  }: Pick<Decision, 'outcome' | 'reason' | 'gauges'>): void {
    this.#end(outcome, reason);
    this.#meter.addGauges(gauges, this.#target);
    this.#isBlocked(outcome === 'blocked');
  }

  /** Nothing is left to be looked at, or to be blocked. */
  gone(): void {
    this.#end('settled', 'TargetGone');
    this.#isBlocked(false);
  }

  failed(error: unknown): void {
    if (error instanceof TerminalError) {
      this.#end('ended', error.reason);
    } else if (error instanceof RetryableError) {
      this.#end('repeated', error.reason);
    } else {
      this.#end('failed', error instanceof RefusedEffect ? 'EffectRefused' : 'Unexpected');
    }
  }

  #end(outcome: Decision['outcome'] | 'ended' | 'repeated' | 'failed', reason: string): void {
    const step = this.#step;
    const tookMs = this.#meter.telemetry.monotonicMs() - this.#begunMs;
    this.#meter.count('millrace_looks_total', { step, outcome, reason });
    this.#span.set({ 'millrace.outcome': outcome, 'millrace.reason': reason });
    if (outcome === 'ended' || outcome === 'repeated' || outcome === 'failed') {
      this.#span.fail(reason);
    }
    this.#meter.measure('millrace_look_seconds', { step }, tookMs / 1000);
  }

  #isBlocked(isBlocked: boolean): void {
    const labels = { step: this.#step };
    this.#meter.measure('millrace_target_blocked', labels, isBlocked ? 1 : 0, this.#target);
  }
}
