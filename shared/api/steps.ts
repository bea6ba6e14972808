/** Every step there is: folder under `functions/`, queue suffix, log field, metric dimension, field manager. */
export const stepNames = [
  'drain-step',
  'pool-pods',
  'backup-config',
  'backup-trigger',
  'etcd-cleanup',
  'shard-release',
] as const;

export type StepName = (typeof stepNames)[number];

/** The one function that is no step: it has no queue, no record and nothing to decide. */
export const sweepName = 'sweep';

/** Every folder under `functions/`. */
export type FunctionName = StepName | typeof sweepName;

export const functionNames: readonly FunctionName[] = [...stepNames, sweepName];

/** The SecureString of Parameter Store that a function of this stage signs in with, where it has one of its own. */
export function tokenParameterName(stage: string, name: FunctionName): string {
  return `/millrace/${stage}/${name}/kube-token`;
}

/** How a function is named where it runs: `millrace-<stage>-<folder under functions/>`. */
export function functionName(stage: string, name: FunctionName): string {
  return `millrace-${stage}-${name}`;
}
