import type { StepName } from '#shared/api/steps.ts';
import type { DecisionEntry } from '#shared/archive/entry.ts';
import type { Recorded } from '#infra/cli/replay/replay-decisions.ts';

/** Recorded looks, chosen to be kept in the repository. */
export interface Samples {
  /** By step, as they are to be written: of each sort one, in the order of what they say. */
  readonly byStep: ReadonlyMap<StepName, readonly DecisionEntry[]>;
  /** Looks whose archived form leads to another decision than was carried out: defects, each by its step and reason. */
  readonly unfaithful: readonly string[];
}

/**
 * One look of each sort: of the same step, outcome, reason and kinds of effects the shortest, and of the same length the
 * first in the order of texts. So the same recording always gives the same samples.
 */
export async function chooseSamples(recorded: AsyncIterable<Recorded>): Promise<Samples> {
  const chosen = new Map<string, { readonly entry: DecisionEntry; readonly text: string }>();
  const unfaithful = new Set<string>();
  for await (const each of recorded) {
    if (
      each.kind === 'bad' ||
      each.entry.kind !== 'decision' ||
      each.entry.decision === undefined
    ) {
      continue;
    }
    const { entry } = each;
    if (entry.carriedOut !== undefined) {
      unfaithful.add(`${entry.step} ${entry.carriedOut.reason}`);
    }
    const sort = sortOf(entry);
    const text = JSON.stringify(entry);
    const before = chosen.get(sort)?.text;
    if (entry.snapshot !== undefined && (before === undefined || isBefore(text, before))) {
      chosen.set(sort, { entry, text });
    }
  }
  const byStep = new Map<StepName, DecisionEntry[]>();
  for (const [, { entry }] of [...chosen].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    byStep.set(entry.step, [...(byStep.get(entry.step) ?? []), entry]);
  }
  return { byStep, unfaithful: [...unfaithful].toSorted() };
}

function sortOf({ step, decision }: DecisionEntry): string {
  const { outcome = '', reason = '', effects = [] } = decision ?? {};
  return [step, reason, outcome, ...effects.map(({ kind }) => kind)].join(' ');
}

function isBefore(text: string, other: string): boolean {
  return text.length === other.length ? text < other : text.length < other.length;
}
