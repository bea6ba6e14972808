import { expect } from 'vitest';
import * as z from 'zod';
import { archivedLook, readArchived } from '#shared/archive/archived-look.ts';
import { conditionSchema, isOfStep } from '#shared/api/condition.ts';
import type { Decision } from '#shared/kernel/decision.ts';
import type { Effect } from '#shared/kernel/effect.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import type { Step } from '#shared/kernel/step.ts';
import type { TargetKind } from '#shared/kube/resources.ts';

type Deciding<Snapshot> = Pick<Step<TargetKind, Snapshot>, 'name' | 'archived' | 'decide'>;

/**
 * A snapshot with its archived form, after these were found: the decision over it does the same for the same reason, it is
 * read back as it was written, and archiving it once more changes nothing.
 */
export async function archivedSoundly<Snapshot>(
  step: Deciding<Snapshot>,
  snapshot: Snapshot,
  now: Instant,
) {
  const carriedOut = step.decide(snapshot, now);

  const archived = await archivedLook(step, snapshot, carriedOut, now);
  const text = JSON.stringify(archived.snapshot);
  const read = await readArchived(step, JSON.parse(text));
  if (read === undefined) {
    throw new Error('what was written cannot be read');
  }
  const again = await archivedLook(step, read, archived.decision, now);

  expect(typesIn(carriedOut).filter((type) => !isOfStep({ type }))).toEqual([]);
  expect(moveOf(archived.decision)).toEqual(moveOf(carriedOut));
  expect(archived.isFaithful).toBe(true);
  expect(JSON.stringify(again.snapshot)).toBe(text);
  expect(again.decision).toEqual(archived.decision);
  return archived;
}

/** The types of the conditions that a decision writes. */
function typesIn({ effects }: Decision): readonly string[] {
  const all: readonly Effect[] = effects;
  return all.flatMap((effect) =>
    effect.kind === 'applyStatus'
      ? z
          .array(conditionSchema)
          .parse(effect.status['conditions'] ?? [])
          .map(({ type }) => type)
      : [],
  );
}

function moveOf(decision: Decision) {
  const { outcome, reason, effects } = decision;
  const wake = 'wake' in decision ? decision.wake : null;
  return { outcome, reason, wake, effects: effects.map(({ kind }) => kind) };
}
