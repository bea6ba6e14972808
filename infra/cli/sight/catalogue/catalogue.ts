import type { Reason } from '#shared/api/reasons.ts';
import { reasons } from '#shared/api/reasons.ts';
import type { StepName } from '#shared/api/steps.ts';
import { anyStep } from './any-step.ts';
import { backups } from './backups.ts';
import { cleanup } from './cleanup.ts';
import { drain } from './drain.ts';
import type { Entry, Meaning } from './meaning.ts';
import { pods } from './pods.ts';
import { release } from './release.ts';
import { repository } from './repository.ts';

/** Every reason there is: one without a text is a type error. */
export const catalogue: { readonly [R in Reason]: Entry } = {
  ...anyStep,
  ...drain,
  ...pods,
  ...repository,
  ...backups,
  ...cleanup,
  ...release,
};

/** What a reason means when this step gives it. One that only a newer version knows is said to be that. */
export function meaningOf(reason: string, step: StepName): Meaning {
  if (!isReason(reason)) {
    return unknownMeaning;
  }
  const { byStep, ...meaning } = catalogue[reason];
  return { ...meaning, ...byStep?.[step] };
}

export function isReason(reason: string): reason is Reason {
  return knownReasons.has(reason);
}

const knownReasons: ReadonlySet<string> = new Set(reasons);

const unknownMeaning: Meaning = {
  brief: 'a reason this version does not know',
  means: 'The step gives a reason that this version of the command does not know.',
  attention: 'advised',
  todo: () => [{ text: 'use the millrace command of the release that runs in the cluster' }],
  next: 'See what the step itself says.',
};
