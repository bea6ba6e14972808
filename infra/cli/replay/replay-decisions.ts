import { version } from '#shared/api/version.ts';
import type { StepName } from '#shared/api/steps.ts';
import type { DecisionEntry } from '#shared/archive/entry.ts';
import type { Recorded } from '#shared/archive/read-archive.ts';
import { parseInstant } from '#shared/kernel/instant.ts';
import { compareVersions } from '../version-order.ts';
import { type DecidedAgain, decideAgain } from './decide-again.ts';
import { type Difference, differencesOf } from './difference.ts';

/** A look about which this release decides otherwise. */
export interface ChangedDecision {
  readonly step: StepName;
  readonly target: DecisionEntry['target'];
  readonly at: string;
  /** The release that recorded it. */
  readonly version: string;
  /** In which segment or file, and where in it. */
  readonly where: string;
  readonly differences: readonly Difference[];
  /** Only sentences for people differ. */
  readonly isInWords: boolean;
}

/** What became of the entries. Those about which nothing can be said are no agreement. */
export interface DecisionCounts {
  compared: number;
  same: number;
  different: number;
  /** Of the different ones, those of which only sentences for people differ. */
  inWords: number;
  /** Looks that failed before there was a decision, and snapshots that were too long to be kept. */
  withoutSnapshot: number;
  /** No entries, or entries whose snapshot has no form that this release knows. */
  unreadable: number;
  /** Recorded by a newer release than this one. */
  newer: number;
  /** Left out because something else was asked for. */
  passedOver: number;
}

export interface DecisionReplay {
  /** Which entries are meant; all where absent. */
  readonly isSelected?: (entry: DecisionEntry) => boolean;
  readonly onChanged?: (changed: ChangedDecision) => void;
  /** Told of what cannot be read. */
  readonly onUnreadable?: (where: string, why: string) => void;
  /** Instead of the steps as they are, where another `decide` is tried. */
  readonly decide?: typeof decideAgain;
}

/**
 * Decides anew about every recorded look, as of the instant of then, and tells what differs from what was decided. Holds one
 * entry at a time.
 */
export async function replayDecisions(
  recorded: AsyncIterable<Recorded>,
  options: DecisionReplay = {},
): Promise<DecisionCounts> {
  const counts: DecisionCounts = {
    compared: 0,
    same: 0,
    different: 0,
    inWords: 0,
    withoutSnapshot: 0,
    unreadable: 0,
    newer: 0,
    passedOver: 0,
  };
  for await (const each of recorded) {
    if (each.kind === 'bad') {
      counts.unreadable += 1;
      options.onUnreadable?.(each.where, each.why);
    } else if (each.entry.kind === 'decision') {
      await replayOne(each.where, each.entry, options, counts);
    }
  }
  return counts;
}

async function replayOne(
  where: string,
  entry: DecisionEntry,
  { isSelected = () => true, onChanged, onUnreadable, decide = decideAgain }: DecisionReplay,
  counts: DecisionCounts,
): Promise<void> {
  const { step, target, snapshot, decision } = entry;
  const at = parseInstant(entry.at);
  if (!isSelected(entry)) {
    counts.passedOver += 1;
    return;
  }
  if ((compareVersions(entry.version, version) ?? 0) > 0) {
    counts.newer += 1;
    return;
  }
  if (snapshot === undefined || decision === undefined || at === undefined) {
    counts.withoutSnapshot += 1;
    return;
  }
  const again = await decide(step, snapshot, at);
  if (again.kind === 'unreadable') {
    counts.unreadable += 1;
    onUnreadable?.(where, `a snapshot of ${step} of release ${entry.version} has another form`);
    return;
  }
  const differences = differencesFrom(decision, again);
  counts.compared += 1;
  if (differences.length === 0) {
    counts.same += 1;
    return;
  }
  const isInWords = differences.every((difference) => difference.isInWords);
  counts.different += 1;
  counts.inWords += isInWords ? 1 : 0;
  onChanged?.({
    step,
    target,
    at: entry.at,
    version: entry.version,
    where,
    differences,
    isInWords,
  });
}

function differencesFrom(
  decision: NonNullable<DecisionEntry['decision']>,
  again: Exclude<DecidedAgain, { readonly kind: 'unreadable' }>,
): readonly Difference[] {
  return again.kind === 'decided'
    ? differencesOf(decision, again.decision)
    : [
        {
          field: 'outcome',
          was: decision.outcome,
          is: `it throws: ${again.why}`,
          isInWords: false,
        },
      ];
}
