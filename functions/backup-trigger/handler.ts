import { createHandler } from '#shared/kernel/pipeline.ts';
import { connectOutside } from '#shared/outside/connect.ts';
import { backupTrigger } from './step.ts';

/** The Lambda function `backup-trigger`: one look per shard that its messages name. */
export const handler = createHandler(backupTrigger, connectOutside);
