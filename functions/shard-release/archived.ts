import * as z from 'zod';
import type { GoverseClusterStatus } from '#shared/api/goverse-cluster.ts';
import { allow, oneOf, readOf, recordReadOf } from '#shared/archive/allow-list.ts';
import { conditions, targetFields } from '#shared/archive/kubernetes.ts';
import { goverseShards, packShards } from '#shared/archive/packed-shards.ts';
import type { GoverseMember, GoverseView } from '#shared/goverse/goverse.ts';
import { mapRead } from '#shared/kernel/read.ts';
import type { ArchivedForm } from '#shared/kernel/step.ts';
import { releaseRecordSchema } from './record.ts';
import type { ClusterView, PodView, ReleaseSnapshot } from './snapshot.ts';

const mode = oneOf<ClusterView['mode']>({ quick: true, clean: true });

const status = allow<GoverseClusterStatus>({
  observedGeneration: z.number().optional(),
  conditions: conditions.optional(),
  nodes: z.number().optional(),
  leader: z.string().optional(),
  shardsPerNode: z
    .array(
      allow<NonNullable<GoverseClusterStatus['shardsPerNode']>[number]>({
        node: z.string(),
        shards: z.number(),
      }),
    )
    .optional(),
  inMigration: z.number().optional(),
  unowned: z.number().optional(),
  draining: allow<NonNullable<GoverseClusterStatus['draining']>>({
    pod: z.string(),
    left: z.number(),
    since: z.string(),
  }).optional(),
});

const cluster = allow<ClusterView>({
  ...targetFields,
  shardCount: z.number(),
  mode,
  timeoutSeconds: z.number(),
  rebalance: oneOf<ClusterView['rebalance']>({ inside: true, outside: true }),
  mark: z.string(),
  status: status.nullable(),
});

const goverseMember = allow<GoverseMember>({ address: z.string(), modRevision: z.string() });

const view = allow<GoverseView>({
  revision: z.string(),
  nodes: z.array(goverseMember),
  gates: z.array(goverseMember),
  leader: goverseMember.nullable(),
  shards: goverseShards,
  unreadable: z.array(
    allow<GoverseView['unreadable'][number]>({ key: z.string(), why: z.string() }),
  ),
});

const pod = allow<PodView>({
  name: z.string(),
  uid: z.string(),
  resourceVersion: z.string(),
  ips: z.array(z.string()),
  address: z.string().nullable(),
  isBeingDeleted: z.boolean(),
  isAskedToLeave: z.boolean(),
  mode: mode.nullable(),
  graceSeconds: z.number(),
  mirror: z.string().nullable(),
});

/** What of shard-release's snapshots may be archived. */
export const archived: ArchivedForm<ReleaseSnapshot> = {
  schema: allow<ReleaseSnapshot>({
    cluster,
    record: recordReadOf(releaseRecordSchema),
    view: readOf(view),
    pods: readOf(z.array(pod)),
  }),
  packed: (snapshot) => ({
    ...snapshot,
    view: mapRead(snapshot.view, (seen) => ({ ...seen, shards: packShards(seen.shards) })),
  }),
};
