import * as z from 'zod';
import { type DrainCause, type DrainRecord, drainRecordSchema } from '#shared/api/drain-record.ts';
import type { ShardStatus } from '#shared/api/shard.ts';
import { allow, entriesOf, oneOf, readOf, recordReadOf } from '#shared/archive/allow-list.ts';
import { databaseView, poolerId, poolerListing, poolerStatus } from '#shared/archive/data-plane.ts';
import { condition, targetFields } from '#shared/archive/kubernetes.ts';
import type { ArchivedForm } from '#shared/kernel/step.ts';
import type {
  ClaimMember,
  ClaimView,
  DrainSnapshot,
  Member,
  NodeView,
  PoolView,
  ShardView,
} from './snapshot.ts';

const shard = allow<ShardView>({
  ...targetFields,
  forcedPodUid: z.string().nullable(),
  databaseName: z.string(),
  deadlineSeconds: z.number(),
  pools: z.array(
    allow<PoolView>({
      name: z.string(),
      cells: z.array(z.string()),
      replicasPerCell: z.number(),
      isAttached: z.boolean(),
      whenScaled: oneOf<PoolView['whenScaled']>({ Retain: true, Delete: true }),
    }),
  ),
  drained: condition.nullable(),
  primary: allow<NonNullable<ShardStatus['primary']>>({
    pod: z.string(),
    pooler: z.string(),
    rule: z.string(),
  }).nullish(),
  drain: allow<NonNullable<ShardStatus['drain']>>({
    pod: z.string(),
    cause: oneOf<DrainCause>({ surplus: true, requested: true, failed: true }),
    since: z.string(),
    waitsFor: z.string().optional(),
  }).nullish(),
});

const member = allow<Member>({
  pod: z.string(),
  uid: z.string(),
  resourceVersion: z.string(),
  pool: z.string(),
  cell: z.string(),
  index: z.number(),
  node: z.string(),
  hasEnded: z.boolean(),
  isReady: z.boolean(),
  isBeingDeleted: z.boolean(),
  control: oneOf<Member['control']>({ ours: true, attached: true, foreign: true }),
  isMarkedByOthers: z.boolean(),
  request: z.string().nullable(),
  mirror: z.string().nullable(),
  claim: z.string(),
});

const claim = allow<ClaimView>({
  name: z.string(),
  uid: z.string(),
  resourceVersion: z.string(),
  isBeingDeleted: z.boolean(),
  released: z.string().nullable(),
  member: allow<ClaimMember>({
    pod: z.string(),
    pool: z.string(),
    cell: z.string(),
    index: z.number(),
  }).nullable(),
});

/** What of drain-step's snapshots may be archived. */
export const archived: ArchivedForm<DrainSnapshot> = {
  schema: allow<DrainSnapshot>({
    shard,
    record: recordReadOf<DrainRecord>(drainRecordSchema),
    database: readOf(databaseView),
    topology: readOf(poolerListing),
    members: readOf(z.array(member)),
    statuses: z.array(
      allow<DrainSnapshot['statuses'][number]>({ id: poolerId, status: readOf(poolerStatus) }),
    ),
    nodes: entriesOf(readOf(allow<NodeView>({ isReady: z.boolean() }))),
    claims: readOf(z.array(claim)),
    claimsInUse: readOf(z.array(z.string())),
  }),
};
