import { createHandler } from '#shared/kernel/pipeline.ts';
import { connectOutside } from '#shared/outside/connect.ts';
import { shardRelease } from './step.ts';

/** The Lambda function `shard-release`: one look per GoverseCluster that its messages name. */
export const handler = createHandler(shardRelease, connectOutside);
