import { createHandler } from '#shared/kernel/pipeline.ts';
import { connectOutside } from '#shared/outside/connect.ts';
import { drainStep } from './step.ts';

/** The Lambda function `drain-step`: one look per shard that its messages name. */
export const handler = createHandler(drainStep, connectOutside);
