import type { StepName } from '#shared/api/steps.ts';
import type { Wake } from '#shared/kernel/record.ts';
import type { TargetKind } from '#shared/kube/resources.ts';

/*
 * What can be said about a target from the target alone: its records, its conditions and its status. Everything here is
 * plain JSON; instants are texts (RFC 3339, UTC).
 */

/** Whether a person has to do something: nothing moves without (`needed`), it would be wise (`advised`), or not. */
export type Attention = 'needed' | 'advised' | 'none';

/**
 * Where a target, or one step on it, stands. `stuck`: a person is needed. `working`: it goes on by itself. `paused`: a
 * person holds it. `leaving`: it is being deleted. `settled`: there is nothing to do.
 */
export const standings = ['stuck', 'working', 'paused', 'leaving', 'settled'] as const;
export type Standing = (typeof standings)[number];

/** One thing that a person can do, with what to type where it is typed. */
export interface Todo {
  readonly text: string;
  readonly command?: string;
}

/** When a step looks again without an event. `at` is in the past where the look is overdue. */
export interface NextLook {
  readonly wake: Wake;
  /** `every 60 s`, `at 2026-01-01T02:00:00Z (in 5 h)` */
  readonly text: string;
  readonly isOverdue: boolean;
}

/** What one step last decided about a target, in plain words. */
export interface StepSight {
  readonly step: StepName;
  /** What the step is there for, in a few words. */
  readonly duty: string;
  readonly standing: Standing;
  readonly attention: Attention;
  /** As written by the step; `null` where it has never looked. */
  readonly reason: string | null;
  /** What goes on, in a few words, for a cell of a table. */
  readonly brief: string;
  /** What goes on, in a sentence or two that need no knowledge of Millrace. */
  readonly meaning: string;
  /** What the step itself wrote, without its advice; `null` where that says no more. */
  readonly told: string | null;
  /** `null` where it waits for nothing. */
  readonly waitsFor: string | null;
  readonly since: string | null;
  /** What would unblock it, the first thing first. */
  readonly todo: readonly Todo[];
  /** What happens next by itself. */
  readonly next: string;
  readonly look: NextLook | null;
  /** What else is worth knowing, in sentences. */
  readonly notes: readonly string[];
}

/** A pod that leaves, or was asked to. */
export interface MemberSight {
  readonly pod: string;
  readonly says: string;
  readonly since: string | null;
}

/** One target in a few words: a row of `millrace status`. */
export interface Sight {
  /** `shd/db/orders-0` */
  readonly target: string;
  readonly kind: TargetKind;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly standing: Standing;
  readonly attention: Attention;
  readonly ready: 'yes' | 'no' | 'unknown';
  /** Ready members of those wanted; absent where the status does not tell. */
  readonly members?: { readonly ready: number; readonly wanted: number };
  /** The step that tells most about it; `null` where no step does. */
  readonly step: StepName | null;
  readonly reason: string | null;
  readonly brief: string;
  readonly waitsFor: string | null;
  readonly since: string | null;
  readonly look: NextLook | null;
  /** When the next slot of any schedule is due. Only of a Shard that has one. */
  readonly nextBackup: string | null;
}

/** A target with all its steps: what `millrace explain` tells. */
export interface Explanation {
  /** When it was looked at. */
  readonly at: string;
  readonly sight: Sight;
  /** What a person should know first, in sentences. */
  readonly summary: string;
  /** What a person can do, over all steps, each once. */
  readonly todo: readonly Todo[];
  readonly notes: readonly string[];
  readonly steps: readonly StepSight[];
  readonly members: readonly MemberSight[];
  /** Of a Shard: how its Database stands; `null` where it was not read or does not exist. */
  readonly database: Sight | null;
}
