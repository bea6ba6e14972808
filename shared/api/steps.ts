/** Every step there is: folder under `functions/`, queue suffix, log field, metric dimension, field manager. */
export const stepNames = ['drain-step', 'pool-pods', 'backup-trigger'] as const;

export type StepName = (typeof stepNames)[number];
