import { backupConfig } from '#functions/backup-config/step.ts';
import { backupTrigger } from '#functions/backup-trigger/step.ts';
import { drainStep } from '#functions/drain-step/step.ts';
import { etcdCleanup } from '#functions/etcd-cleanup/step.ts';
import { poolPods } from '#functions/pool-pods/step.ts';
import { shardRelease } from '#functions/shard-release/step.ts';
import type { StepName } from '#shared/api/steps.ts';
import type { Decision } from '#shared/kernel/decision.ts';
import type { Step } from '#shared/kernel/step.ts';
import type { TargetKind } from '#shared/kube/resources.ts';

/** Any step, for code that runs all of them alike. */
export type AnyStep = Step<TargetKind, never>;

/** The handlers there are: what ships, and the same with other times and words, as a next version would have. */
export type Version = 'shipped' | 'next';

const shipped: { readonly [K in StepName]: AnyStep } = {
  'drain-step': drainStep as object as AnyStep,
  'pool-pods': poolPods as object as AnyStep,
  'backup-config': backupConfig as object as AnyStep,
  'backup-trigger': backupTrigger as object as AnyStep,
  'etcd-cleanup': etcdCleanup as object as AnyStep,
  'shard-release': shardRelease as object as AnyStep,
};

export function stepOf(name: StepName, version: Version): AnyStep {
  return version === 'shipped' ? shipped[name] : nextVersionOf(shipped[name]);
}

/** Says the same in other words: what two releases side by side differ in at least. */
function nextVersionOf(step: AnyStep): AnyStep {
  return {
    ...step,
    decide: (snapshot, now): Decision => {
      const decision = step.decide(snapshot, now);
      const message = `${decision.message} (next version)`;
      return { ...decision, message };
    },
  };
}
