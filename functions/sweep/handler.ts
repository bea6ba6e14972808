import { inSandbox } from '#shared/kernel/sandbox.ts';
import { assemble } from './config.ts';
import { runSweep } from './sweep.ts';

/** The Lambda function `sweep`: every few minutes, a hint for each look that is overdue. */
export const handler = inSandbox(assemble, runSweep);
