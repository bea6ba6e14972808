import type { StepName } from '#shared/api/steps.ts';
import type {
  DeadLetters,
  Health,
  LetterPreview,
  ReplayOrder,
  ReplayOutcome,
  Session,
  TargetRow,
  TargetStory,
  Timeline,
} from './protocol.ts';

/** What changed in the list of targets. */
export type ListNews =
  | { readonly kind: 'targets'; readonly rows: readonly TargetRow[] }
  | {
      readonly kind: 'changes';
      readonly changed: readonly TargetRow[];
      readonly gone: readonly string[];
    }
  | { readonly kind: 'health'; readonly health: Health };

/** The list of targets, as it changes. */
export interface TargetList {
  readonly rows: readonly TargetRow[];
  readonly health: Health;
  /** Tells the listener of every change from now on, until what is returned is called. */
  follow(listener: (news: ListNews) => void): () => void;
}

/** Which part of a target's past is asked for, in milliseconds since the epoch. */
export interface Window {
  readonly from: number;
}

/** Everything the page shows comes from here. `undefined`: there is no such target. */
export interface PagePorts {
  readonly session: Session;
  readonly targets: TargetList;
  story(id: string): Promise<TargetStory | undefined>;
  timeline(id: string, window: Window, signal: AbortSignal): Promise<Timeline | undefined>;
  readonly letters: LetterPorts;
}

/** An order whose step is one. */
export interface StepOrder extends ReplayOrder {
  readonly step: StepName;
}

/** The dead-letter queues. */
export interface LetterPorts {
  list(): Promise<DeadLetters>;
  preview(order: StepOrder, signal: AbortSignal): Promise<readonly LetterPreview[]>;
  /** Absent where the page may not write: then there is nothing to call. */
  readonly replay?: (order: StepOrder, signal: AbortSignal) => Promise<ReplayOutcome>;
}
