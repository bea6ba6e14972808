import { createHandler } from '#shared/kernel/pipeline.ts';
import { connectOutside } from '#shared/outside/connect.ts';
import { poolPods } from './step.ts';

/** The Lambda function `pool-pods`: one look per shard that its messages name. */
export const handler = createHandler(poolPods, connectOutside);
