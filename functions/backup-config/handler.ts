import { createHandler } from '#shared/kernel/pipeline.ts';
import { connectOutside } from '#shared/outside/connect.ts';
import { backupConfig } from './step.ts';

/** The Lambda function `backup-config`: one look per Database that its messages name. */
export const handler = createHandler(backupConfig, connectOutside);
