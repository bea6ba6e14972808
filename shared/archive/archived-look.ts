import type { Decision } from '#shared/kernel/decision.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import type { Step } from '#shared/kernel/step.ts';
import type { TargetKind } from '#shared/kube/resources.ts';

type Deciding<Snapshot> = Pick<Step<TargetKind, Snapshot>, 'name' | 'archived' | 'decide'>;

/** A look as the archive holds it. */
export interface ArchivedLook {
  /** What {@link readArchived} reads. */
  readonly snapshot: unknown;
  /**
   * What `decide` says of that snapshot, and not the decision that was carried out with something left out: what follows
   * from nothing but fields that may be kept can hold nothing else.
   */
  readonly decision: Decision;
  /** Whether it is the decision that was carried out, as {@link isSameMove} says. */
  readonly isFaithful: boolean;
}

/**
 * What of a look may be archived.
 *
 * @param carriedOut what the step decided then
 * @throws Error that names the field where the snapshot is none that its step's archived form knows; a defect of ours
 */
export async function archivedLook<Snapshot>(
  step: Deciding<Snapshot>,
  snapshot: Snapshot,
  carriedOut: Decision,
  now: Instant,
): Promise<ArchivedLook> {
  const { schema, hide = (seen) => seen, packed = (seen) => seen } = await step.archived();
  const parsed = schema.safeParse(hide(snapshot));
  if (!parsed.success) {
    // The messages may quote what they refuse, and so may the names of fields.
    const [field = 'itself'] = parsed.error.issues[0]?.path ?? [];
    throw new Error(
      `a snapshot of ${step.name} has no form that can be archived: ${String(field)}`,
    );
  }
  const decision = step.decide(parsed.data, now);
  return {
    snapshot: packed(parsed.data),
    decision,
    isFaithful: isSameMove(decision, carriedOut),
  };
}

/** A snapshot as it was archived; `undefined` where it has no form that this release knows. */
export async function readArchived<Snapshot>(
  step: Pick<Step<TargetKind, Snapshot>, 'archived'>,
  archived: unknown,
): Promise<Snapshot | undefined> {
  const { schema } = await step.archived();
  const parsed = schema.safeParse(archived);
  return parsed.success ? parsed.data : undefined;
}

/** Whether two decisions do the same in the same order, for the same reason, and wake at the same time. */
export function isSameMove(one: Decision, other: Decision): boolean {
  return moveText(one) === moveText(other);
}

function moveText(decision: Decision): string {
  const { outcome, reason, effects } = decision;
  const wake = 'wake' in decision ? decision.wake : null;
  return JSON.stringify([outcome, reason, wake, effects.map(({ kind }) => kind)]);
}
