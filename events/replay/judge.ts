import type { StepName } from '#shared/api/steps.ts';
import { type Instant, parseInstant } from '#shared/kernel/instant.ts';
import { describeError } from '#shared/kernel/errors.ts';
import type { Letter } from '#shared/queue/queue.ts';
import { type Refusal, type Replayable, messageAgain, replayableOf } from './again.ts';
import type { ReasonOf } from './failures.ts';
import type { LetterState } from './journal.ts';
import { type Selection, isSelected } from './selection.ts';

/** What becomes of one letter. */
export type Verdict =
  /** Its hint was sent by a replay that did not come so far as to delete it. */
  | { readonly kind: 'finish' }
  /** It came after this replay began: perhaps a hint that this replay has sent failed again. */
  | { readonly kind: 'later' }
  | { readonly kind: 'left' }
  | ({ readonly kind: 'refused' } & { readonly refusal: Refusal })
  | {
      readonly kind: 'send';
      readonly replayable: Replayable;
      readonly message: string;
      /** An earlier replay may have sent it. */
      readonly isUncertain: boolean;
    };

export interface Judging {
  readonly step: StepName;
  /** The cluster id. */
  readonly cluster: string;
  readonly selection: Selection;
  /** Asked where reasons are meant; without it a letter has none. */
  readonly reasonOf?: ReasonOf | undefined;
  /** When the replay began. */
  readonly startedAt: Instant;
  readonly now: Instant;
}

/** Pure: the same letter, state and moment, the same verdict. */
export function judge(
  letter: Letter,
  state: LetterState | undefined,
  { step, cluster, selection, reasonOf, startedAt, now }: Judging,
): Verdict {
  if (state === 'sent') {
    return { kind: 'finish' };
  }
  if (letter.sentAt >= startedAt) {
    return { kind: 'later' };
  }
  const replayable = replayableOf(letter.body, step, cluster);
  if ('why' in replayable) {
    return { kind: 'refused', refusal: replayable };
  }
  const { data, time } = replayable.hint;
  const reason = selection.reasons.length === 0 ? undefined : reasonOf?.(step, replayable.hint);
  const traits = { step, target: data, at: parseInstant(time) };
  if (!isSelected(selection, { ...traits, ...(reason === undefined ? {} : { reason }) })) {
    return { kind: 'left' };
  }
  try {
    const message = messageAgain(replayable, now);
    return { kind: 'send', replayable, message, isUncertain: state === 'sending' };
  } catch (error) {
    return { kind: 'refused', refusal: { kind: 'noHint', why: describeError(error) } };
  }
}
