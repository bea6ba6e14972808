import * as z from 'zod';
import { envelopeSchema, type StepRecord } from '#shared/kernel/record.ts';

/**
 * Why pool-pods has to look again without an event: something only time can change (`waiting`), something only a
 * person can (`blocked`), or more was to be made than one look makes (`making`). While pods start there is no record:
 * their readiness is an event.
 */
export const poolPodsStates = ['waiting', 'blocked', 'making'] as const;
export type PoolPodsState = (typeof poolPodsStates)[number];

/** Key `pool-pods/<shard uid>/<generation>`. It carries the wake and authorises nothing: creates need no authority. */
export type PoolPodsRecord = StepRecord<PoolPodsState, Record<string, never>>;

export const poolPodsRecordSchema: z.ZodType<PoolPodsRecord> = envelopeSchema.extend({
  state: z.enum(poolPodsStates),
  data: z.strictObject({}),
}) as z.ZodType<PoolPodsRecord>;
