import type { Hint } from '#events/hint.ts';
import type { Decision } from './decision.ts';
import type { EffectKind } from './effect.ts';
import { RetryableError, TerminalError, describeError } from './errors.ts';
import type { Clock, Instant } from './instant.ts';
import type { Logger } from './logger.ts';
import type { Step } from './step.ts';
import type { TargetKind } from '#shared/kube/resources.ts';

/**
 * How a look ended. `lostRace`: a guard no longer held, and it was made anew. `ended`: the message is dropped; `returned`: it
 * comes again for a reason that a step or an adapter gave; `unexpected`: it comes again, and why is in the log alone.
 */
type LookResult =
  | { readonly kind: 'done' | 'lostRace'; readonly effects: readonly EffectKind[] }
  | {
      readonly kind: 'failed';
      readonly ending: 'ended' | 'returned' | 'unexpected';
      readonly reason: string;
    };

/** One look, told after its end as far as it came. */
export interface LookStory<Snapshot = unknown> {
  readonly hint: Hint;
  /** The target's uid: as it was read, else as the hint has it. */
  readonly uid: string;
  /** The time that `decide` was told, else that of the failure. */
  readonly at: Instant;
  readonly snapshot?: Snapshot;
  readonly decision?: Decision;
  readonly result: LookResult;
}

/** Where looks are recorded. */
export interface Recorder {
  /** `failures`: those alone that ended in an error. */
  readonly recorded: 'failures' | 'all';
  /**
   * Writes down the looks of one invocation.
   *
   * @throws Error where they may not have been written
   */
  record<T extends TargetKind, Snapshot>(
    step: Step<T, Snapshot>,
    stories: readonly LookStory<Snapshot>[],
    signal: AbortSignal,
  ): Promise<void>;
}

/** How far a look has come. Of no use where nothing is recorded, and then it keeps nothing. */
export class OpenStory<Snapshot> {
  readonly #hint: Hint;
  readonly #clock: Clock;
  readonly #recorded: Recorder['recorded'];
  readonly #stories: LookStory<Snapshot>[];
  #known: Pick<LookStory<Snapshot>, 'uid' | 'snapshot' | 'decision'> & { readonly at?: Instant };

  constructor(
    hint: Hint,
    clock: Clock,
    recorded: Recorder['recorded'],
    stories: LookStory<Snapshot>[],
  ) {
    this.#hint = hint;
    this.#clock = clock;
    this.#recorded = recorded;
    this.#stories = stories;
    this.#known = { uid: hint.data.uid };
  }

  /** A look begins at this object. */
  read(uid: string): void {
    this.#known = { uid };
  }

  decided(snapshot: Snapshot, at: Instant, decision: Decision): void {
    this.#known = { ...this.#known, snapshot, at, decision };
  }

  concluded(kind: 'done' | 'lostRace', effects: readonly EffectKind[]): void {
    if (this.#recorded === 'all') {
      this.#tell({ kind, effects });
    }
  }

  failed(error: unknown): void {
    const isKnown = error instanceof TerminalError || error instanceof RetryableError;
    this.#tell({
      kind: 'failed',
      ending: error instanceof TerminalError ? 'ended' : isKnown ? 'returned' : 'unexpected',
      reason: isKnown ? error.reason : error instanceof Error ? error.name : 'Unexpected',
    });
  }

  #tell(result: LookResult): void {
    const { at = this.#clock(), ...known } = this.#known;
    this.#stories.push({ hint: this.#hint, at, ...known, result });
  }
}

/** How long recording may take at the end of an invocation, in milliseconds, and what is kept free behind it. */
const recordMs = 3_000;
const reserveMs = 500;

/**
 * Records the looks of an invocation. Whatever goes wrong with that is a warning: a look that was made stands, whether it is
 * written down or not.
 */
export async function recordLooks<T extends TargetKind, Snapshot>(
  step: Step<T, Snapshot>,
  stories: readonly LookStory<Snapshot>[],
  recorder: Recorder,
  {
    logger,
    deadlineIn,
    remainingMs,
  }: {
    readonly logger: Logger;
    readonly deadlineIn: (delayMs: number) => AbortSignal;
    readonly remainingMs: () => number;
  },
): Promise<void> {
  if (stories.length === 0) {
    return;
  }
  const limitMs = Math.min(recordMs, remainingMs() - reserveMs);
  try {
    if (limitMs <= 0) {
      throw new Error('no time was left');
    }
    await recorder.record(step, stories, deadlineIn(limitMs));
  } catch (error) {
    logger.warn({ looks: stories.length, why: describeError(error) }, 'looks not recorded');
  }
}
