import type { StepName } from '#shared/api/steps.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import type { Hint } from '#events/hint.ts';

/** What a file or an archive was found to hold, one thing at a time. */
export type Found =
  | {
      readonly kind: 'hint';
      /** Where, for people and for the journal: `line 12`. */
      readonly where: string;
      readonly step: StepName;
      readonly hint: Hint;
      /** When it was sent, or decided about. */
      readonly at: Instant | undefined;
      /** Of the decision or failure that was recorded. */
      readonly reason?: string;
    }
  /** Nothing that could be sent. */
  | { readonly kind: 'bad'; readonly where: string; readonly why: string };
