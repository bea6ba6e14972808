import { createHandler } from '#shared/kernel/pipeline.ts';
import { connectOutside } from '#shared/outside/connect.ts';
import { etcdCleanup } from './step.ts';

/** The Lambda function `etcd-cleanup`: one look per shard that its messages name. */
export const handler = createHandler(etcdCleanup, connectOutside);
