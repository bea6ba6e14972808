import { backupConfig } from '#functions/backup-config/step.ts';
import { backupTrigger } from '#functions/backup-trigger/step.ts';
import { drainStep } from '#functions/drain-step/step.ts';
import { etcdCleanup } from '#functions/etcd-cleanup/step.ts';
import { poolPods } from '#functions/pool-pods/step.ts';
import { shardRelease } from '#functions/shard-release/step.ts';
import type { StepName } from '#shared/api/steps.ts';
import type { StepDeclaration } from '#shared/kernel/step.ts';

/** What each step says it needs. A step without an entry here is a type error. */
export const declarations: { readonly [Name in StepName]: StepDeclaration } = {
  'drain-step': drainStep,
  'pool-pods': poolPods,
  'backup-config': backupConfig,
  'backup-trigger': backupTrigger,
  'etcd-cleanup': etcdCleanup,
  'shard-release': shardRelease,
};
