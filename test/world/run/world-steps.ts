import type { StepName } from '#shared/api/steps.ts';

/** The steps that run in the world. backup-trigger has nothing to do there: no Shard of it has schedules. */
export const worldSteps: readonly StepName[] = ['drain-step', 'pool-pods'];
