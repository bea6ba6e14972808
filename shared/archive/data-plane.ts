import * as z from 'zod';
import type {
  Backup,
  BackupJob,
  DurabilityPolicy,
  PoolerStatus,
  ShardRule,
} from '#shared/admin/admin.ts';
import type { BackupType } from '#shared/api/backup.ts';
import type { RepositoryPlace } from '#shared/api/repository.ts';
import type { DatabaseRef } from '#shared/kernel/effect.ts';
import type { DatabaseView } from '#shared/kernel/shard-database.ts';
import type {
  BackupLease,
  DatabaseRecord,
  Lifecycle,
  PoolerId,
  PoolerListing,
  PoolerRecord,
  RoutingRole,
  RuleNumber,
  Serving,
  ShardKey,
} from '#shared/topology/topology.ts';
import { allow, oneOf } from './allow-list.ts';
import { hashed } from './hashed.ts';

/*
 * What may be archived of that which the data plane says: names, states, revisions and times. Its own sentences are not
 * among them.
 */

/** A sentence of somebody else's, of which only is kept whether it is the same. */
const foreignText = z.string().transform((text) => hashed(text));

export const shardKey = allow<ShardKey>({
  database: z.string(),
  tableGroup: z.string(),
  shard: z.string(),
});

export const poolerId = allow<PoolerId>({ cell: z.string(), name: z.string() });

const ruleNumber = allow<RuleNumber>({ term: z.string(), subterm: z.string() });

const poolerRecord = allow<PoolerRecord>({
  key: z.string(),
  storeCell: z.string(),
  modRevision: z.string(),
  id: poolerId,
  shard: shardKey,
  hostname: z.string(),
  lifecycle: oneOf<Lifecycle>({
    starting: true,
    active: true,
    stopping: true,
    shutdown: true,
    quarantined: true,
    unknown: true,
  }),
  serving: oneOf<Serving>({ serving: true, disabled: true, draining: true, unknown: true }),
  role: oneOf<RoutingRole>({ primary: true, replica: true, none: true, unknown: true }),
  rule: ruleNumber.nullable(),
  generation: oneOf<PoolerRecord['generation']>({ current: true, legacy: true }),
});

export const poolerListing = allow<PoolerListing>({
  poolers: z.array(poolerRecord),
  undecodable: z.array(
    allow<PoolerListing['undecodable'][number]>({ key: z.string(), why: z.string() }),
  ),
});

const shardRule = allow<ShardRule>({
  rule: ruleNumber,
  leader: poolerId.nullable(),
  cohort: z.array(poolerId),
  policy: allow<DurabilityPolicy>({
    kind: oneOf<DurabilityPolicy['kind']>({
      'at-least-n': true,
      'multi-cell-at-least-n': true,
      unknown: true,
    }),
    requiredCount: z.number(),
  }),
});

export const poolerStatus = allow<PoolerStatus>({
  id: poolerId,
  role: oneOf<PoolerStatus['role']>({ primary: true, replica: true, unknown: true }),
  isReady: z.boolean(),
  isStreaming: z.boolean(),
  decision: shardRule.nullable(),
  proposal: shardRule.nullable(),
});

export const databaseView = allow<DatabaseView>({
  shard: shardKey,
  ref: allow<DatabaseRef>({
    namespace: z.string(),
    name: z.string(),
    uid: z.string(),
    generation: z.number().optional(),
  }),
  isPaused: z.boolean(),
});

export const backupType = oneOf<BackupType>({
  full: true,
  differential: true,
  incremental: true,
});

export const backup = allow<Backup>({
  id: z.string(),
  type: oneOf<BackupType | 'unknown'>({
    full: true,
    differential: true,
    incremental: true,
    unknown: true,
  }),
  status: oneOf<Backup['status']>({
    complete: true,
    incomplete: true,
    failed: true,
    unknown: true,
  }),
  job: z.string().nullable(),
  startedAt: z.string().nullable(),
  stoppedAt: z.string().nullable(),
  sizeBytes: z.string().nullable(),
});

/** Of a job that failed. */
export const jobFields = {
  status: oneOf<BackupJob['status']>({
    pending: true,
    running: true,
    completed: true,
    failed: true,
    unknown: true,
  }),
  backup: z.string().nullable(),
  why: foreignText.nullable(),
};

export const backupLease = allow<BackupLease>({ holder: z.string() });

type PlaceOf<K extends RepositoryPlace['type']> = Extract<RepositoryPlace, { readonly type: K }>;

export const repositoryPlace: z.ZodType<RepositoryPlace> = z.union([
  allow<PlaceOf<'s3'>>({
    type: z.literal('s3'),
    bucket: z.string(),
    region: z.string(),
    endpoint: z.string(),
    keyPrefix: z.string(),
    usesEnvironment: z.boolean(),
  }),
  allow<PlaceOf<'filesystem'>>({ type: z.literal('filesystem'), path: z.string() }),
]);

export const databaseRecord = allow<DatabaseRecord>({
  modRevision: z.string(),
  place: repositoryPlace.nullable(),
  mustEncrypt: z.boolean(),
});
