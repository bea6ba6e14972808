import type { Explanation, NextLook, Sight, StepSight } from '../sight/model.ts';
import type { SeenTarget } from '../sight/seen.ts';
import type { StepStory, TargetRow, TargetStory, ToldCondition } from './protocol.ts';

/** A target's row in the list. */
export function rowOf(sight: Sight, target: SeenTarget, version: string): TargetRow {
  const { standing, brief, waitsFor, since, look } = sight;
  return {
    id: sight.target,
    standing,
    headline: brief,
    ...(waitsFor === null ? {} : { waitsFor }),
    ...(since === null ? {} : { since }),
    ...(look === null ? {} : { next: whenOf(look) }),
    conditions: conditionsOf(target),
    version,
  };
}

/** A target's explanation as the page tells it. */
export function storyOf(
  { sight, summary, notes, steps, members, database }: Explanation,
  target: SeenTarget,
  remarks: readonly string[],
): TargetStory {
  return {
    id: sight.target,
    standing: sight.standing,
    summary,
    notes: [
      ...notes.filter((note) => database === null || !note.startsWith('Its Database ')),
      ...remarks,
    ],
    ...(database === null
      ? {}
      : { database: { id: database.target, standing: database.standing, brief: database.brief } }),
    members: members.map(({ pod, says }) => ({ pod, says })),
    steps: steps.map(stepStory),
    conditions: conditionsOf(target),
  };
}

function stepStory(step: StepSight): StepStory {
  const { reason, told, waitsFor, since, look } = step;
  return {
    step: step.step,
    standing: step.standing,
    ...(reason === null ? {} : { reason }),
    says: step.meaning,
    ...(told === null || isSaid(told, step.meaning) ? {} : { told }),
    ...(waitsFor === null ? {} : { waitsFor }),
    ...(since === null ? {} : { since }),
    todo: step.todo,
    next: step.next,
    ...(look === null ? {} : { look: `${look.text}${look.isOverdue ? ', overdue' : ''}` }),
    notes: step.notes,
  };
}

/** Whether a step's own words are those of the meaning once more. */
function isSaid(told: string, meaning: string): boolean {
  return `${told}.`.toLowerCase() === meaning.toLowerCase();
}

/** The instant where there is one, else how often. */
function whenOf({ wake, text }: NextLook): string {
  return 'at' in wake ? wake.at : text;
}

function conditionsOf({ status }: SeenTarget): readonly ToldCondition[] {
  return status.conditions.map(({ type, status, reason, message, lastTransitionTime }) => ({
    type,
    status,
    reason,
    message,
    since: lastTransitionTime ?? '',
  }));
}
