import type { StepName } from '#shared/api/steps.ts';

/** backup-trigger reads cron expressions besides. */
const bytesByStep: Partial<Record<StepName, number>> = { 'backup-trigger': 450_000 };

/** The most that a step's handler may weigh without what it loads lazily, in bytes: a cold start reads and parses it. */
export function handlerBudgetBytes(step: StepName): number {
  return bytesByStep[step] ?? 400_000;
}
