import type { StepName } from '#shared/api/steps.ts';
import { readArchived } from '#shared/archive/archived-look.ts';
import type { DecisionEntry } from '#shared/archive/entry.ts';
import { decisionOf } from '#shared/archive/write-stories.ts';
import { describeError } from '#shared/kernel/errors.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import type { Step } from '#shared/kernel/step.ts';
import type { TargetKind } from '#shared/kube/resources.ts';

type RecordedDecision = NonNullable<DecisionEntry['decision']>;

/** What this release makes of a recorded snapshot. */
export type DecidedAgain =
  | { readonly kind: 'decided'; readonly decision: RecordedDecision }
  /** A decision has to be total, so this is a defect. */
  | { readonly kind: 'threw'; readonly why: string }
  /** It has no form that this release knows. */
  | { readonly kind: 'unreadable' };

type Decider = (snapshot: unknown, at: Instant) => Promise<DecidedAgain>;

/** Each step's code is loaded with its first entry. */
const deciders: { readonly [Name in StepName]: () => Promise<Decider> } = {
  'drain-step': async () => deciderOf((await import('#functions/drain-step/step.ts')).drainStep),
  'pool-pods': async () => deciderOf((await import('#functions/pool-pods/step.ts')).poolPods),
  'backup-config': async () =>
    deciderOf((await import('#functions/backup-config/step.ts')).backupConfig),
  'backup-trigger': async () =>
    deciderOf((await import('#functions/backup-trigger/step.ts')).backupTrigger),
  'etcd-cleanup': async () =>
    deciderOf((await import('#functions/etcd-cleanup/step.ts')).etcdCleanup),
  'shard-release': async () =>
    deciderOf((await import('#functions/shard-release/step.ts')).shardRelease),
};

/** Decides once more about what a step saw, as of the same instant. Reads nothing and writes nothing. */
export async function decideAgain(
  step: StepName,
  snapshot: unknown,
  at: Instant,
): Promise<DecidedAgain> {
  const decider = await deciders[step]();
  return decider(snapshot, at);
}

function deciderOf<T extends TargetKind, Snapshot>(step: Step<T, Snapshot>): Decider {
  return async (recorded, at) => {
    const snapshot = await readArchived(step, recorded);
    if (snapshot === undefined) {
      return { kind: 'unreadable' };
    }
    try {
      return { kind: 'decided', decision: decisionOf(step.decide(snapshot, at)) };
    } catch (error) {
      return { kind: 'threw', why: describeError(error) };
    }
  };
}
