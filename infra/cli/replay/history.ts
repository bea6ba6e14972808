import type { LetterGroup } from '#events/replay/list-letters.ts';
import { nameOfTarget } from '#events/replay/selection.ts';
import type { SegmentReader } from '#shared/archive/archive.ts';
import type { DecisionEntry } from '#shared/archive/entry.ts';
import { readArchive } from '#shared/archive/read-archive.ts';
import { parseInstant, plusSeconds } from '#shared/kernel/instant.ts';
import type { History } from './dead-letters.ts';
import type { LookBefore } from './preview.ts';

/** A hint is looked at after it was sent; clocks may differ by so many seconds. */
const clockSeconds = 60;

/**
 * What an archive tells about the targets of groups: the last look that the group's newest hint led to, else the step's last
 * failure on that target. Reads the steps' decisions from the oldest letter on, and holds one line for each group.
 */
export function historyIn(reader: SegmentReader, cluster: string): History {
  return async (groups, signal) => {
    const found = new Map<string, LookBefore>();
    const meant = new Map(groups.map((group) => [keyOf(group), group]));
    const steps = [...new Set(groups.map(({ step }) => step))];
    const oldest = groups
      .map(({ oldestTime }) => parseInstant(oldestTime))
      .filter((time) => time !== undefined)
      .toSorted((a, b) => a - b)[0];
    const span = oldest === undefined ? {} : { since: plusSeconds(oldest, -clockSeconds) };
    const query = { ...span, kinds: ['decision'], cluster, steps } as const;
    for await (const each of readArchive(reader, query)) {
      signal.throwIfAborted();
      if (each.kind === 'entry' && each.entry.kind === 'decision') {
        const key = keyOf(each.entry);
        const group = meant.get(key);
        const look = group === undefined ? undefined : lookIn(each.entry, group);
        if (look !== undefined && isBetter(look, found.get(key))) {
          found.set(key, look);
        }
      }
    }
    return (group) => found.get(keyOf(group));
  };
}

function keyOf({ step, target }: Pick<LetterGroup, 'step' | 'target'>): string {
  return `${step} ${nameOfTarget(target)}`;
}

function lookIn(
  { at, hint, decision, result }: DecisionEntry,
  { newest }: LetterGroup,
): LookBefore | undefined {
  const isOfHint = hint.id === newest.id;
  if (result.kind === 'failed') {
    return { at, isOfHint, outcome: 'failed', reason: result.reason };
  }
  return isOfHint && decision !== undefined
    ? { at, isOfHint, outcome: decision.outcome, reason: decision.reason }
    : undefined;
}

function isBetter(look: LookBefore, before: LookBefore | undefined): boolean {
  return (
    before === undefined ||
    (look.isOfHint === before.isOfHint ? look.at >= before.at : look.isOfHint)
  );
}
