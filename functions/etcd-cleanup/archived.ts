import * as z from 'zod';
import type { StaleCause } from '#shared/api/cleanup.ts';
import type { ShardStatus } from '#shared/api/shard.ts';
import { allow, byKind, oneOf, readOf, recordReadOf } from '#shared/archive/allow-list.ts';
import { databaseView, poolerId, poolerListing, poolerStatus } from '#shared/archive/data-plane.ts';
import { condition, targetFields } from '#shared/archive/kubernetes.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import type { ArchivedForm } from '#shared/kernel/step.ts';
import { cleanupRecordSchema } from './record.ts';
import type { CleanupSnapshot, DrainView, GroupView, ShardView } from './snapshot.ts';

type CleanupStatus = NonNullable<ShardStatus['cleanup']>;

const shard = allow<ShardView>({
  ...targetFields,
  databaseName: z.string(),
  isEnabled: z.boolean(),
  quietSeconds: z.number(),
  deleteAfterSeconds: z.number(),
  maxPerPass: z.number(),
  groups: z.array(allow<GroupView>({ base: z.string(), replicas: z.number() })),
  condition: condition.nullable(),
  cleanup: allow<CleanupStatus>({
    candidates: z
      .array(
        allow<NonNullable<CleanupStatus['candidates']>[number]>({
          pooler: z.string(),
          why: oneOf<StaleCause>({
            NoPod: true,
            Stopped: true,
            Answers: true,
            Leads: true,
            SetAside: true,
            Undecodable: true,
          }),
          since: z.string().optional(),
        }),
      )
      .optional(),
    lastRemoved: allow<NonNullable<CleanupStatus['lastRemoved']>>({
      pooler: z.string(),
      at: z.string(),
    }).optional(),
  }).nullable(),
});

type DrainOf<K> = Extract<DrainView, { readonly kind: K }>;

/** What of etcd-cleanup's snapshots may be archived. */
export const archived: ArchivedForm<CleanupSnapshot> = {
  schema: allow<CleanupSnapshot>({
    shard,
    record: recordReadOf(cleanupRecordSchema),
    drain: byKind<DrainView>({
      none: allow<DrainOf<'none'>>({ kind: z.literal('none') }),
      open: allow<DrainOf<'open'>>({
        kind: z.literal('open'),
        pod: z.string(),
        pooler: poolerId,
      }),
      unknown: allow<DrainOf<'unknown'>>({ kind: z.literal('unknown'), why: z.string() }),
    }),
    readAt: z.custom<Instant>((value) => Number.isSafeInteger(value)),
    database: readOf(databaseView),
    topology: readOf(poolerListing),
    members: readOf(z.array(z.string())),
    pods: readOf(z.array(z.string())),
    statuses: z.array(
      allow<CleanupSnapshot['statuses'][number]>({ id: poolerId, status: readOf(poolerStatus) }),
    ),
  }),
};
