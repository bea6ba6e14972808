import * as z from 'zod';
import { templateHash } from '#shared/api/annotations.ts';
import { drainRecordSchema } from '#shared/api/drain-record.ts';
import type { ManagedPool, Pool } from '#shared/api/shard.ts';
import { allow, byKind, oneOf, readOf, recordReadOf } from '#shared/archive/allow-list.ts';
import { hashed } from '#shared/archive/hashed.ts';
import {
  conditions,
  hiddenEntries,
  hiddenTemplate,
  podMetadata,
  podSpec,
  texts,
  targetFields,
} from '#shared/archive/kubernetes.ts';
import { mapRead } from '#shared/kernel/read.ts';
import type { ArchivedForm } from '#shared/kernel/step.ts';
import { managedGroupsOf, podHash } from './manifests.ts';
import { membersOf } from './plan.ts';
import { poolPodsRecordSchema } from './record.ts';
import type { RepositoryWiring } from './repository-wiring.ts';
import type {
  BackupsView,
  BudgetView,
  ClaimView,
  DatabaseView,
  OwnedView,
  Owner,
  PodView,
  PoolPodsSnapshot,
  ServiceView,
  ShardView,
} from './snapshot.ts';

type Storage = ManagedPool['storage'];
type AccessMode = Storage['accessModes'][number];
type PoolFields = Omit<Pool, 'podTemplate' | 'storage'>;
type AttachedPool = Exclude<Pool, ManagedPool>;

const storage = allow<Storage>({
  size: z.string(),
  className: z.string().optional(),
  accessModes: z.array(
    oneOf<AccessMode>({ ReadWriteOnce: true, ReadWriteOncePod: true, ReadWriteMany: true }),
  ),
});

const poolFields = {
  name: z.string(),
  cells: z.array(z.string()),
  replicasPerCell: z.number(),
  pvcPolicy: allow<PoolFields['pvcPolicy']>({
    whenScaled: oneOf<PoolFields['pvcPolicy']['whenScaled']>({ Retain: true, Delete: true }),
  }),
};

const pool: z.ZodType<Pool> = z.union([
  allow<ManagedPool>({
    ...poolFields,
    storage,
    podTemplate: allow<ManagedPool['podTemplate']>({
      metadata: podMetadata.optional(),
      spec: podSpec,
    }),
  }),
  allow<AttachedPool>({
    ...poolFields,
    storage: storage.optional(),
    podTemplate: z.literal(undefined).optional(),
  }),
]);

const shard = allow<ShardView>({
  ...targetFields,
  databaseName: z.string(),
  pools: z.array(pool),
  conditions,
  observedGeneration: z.number().nullable(),
  poolStatuses: z.array(
    allow<ShardView['poolStatuses'][number]>({
      name: z.string(),
      cell: z.string(),
      desired: z.number(),
      ready: z.number(),
    }),
  ),
});

const owned = {
  name: z.string(),
  uid: z.string(),
  resourceVersion: z.string(),
  owner: oneOf<Owner>({ ours: true, former: true, foreign: true }),
  isBeingDeleted: z.boolean(),
} satisfies { readonly [K in keyof OwnedView]: z.ZodType<OwnedView[K]> };

const pod = allow<PodView>({
  ...owned,
  labels: texts,
  annotations: texts,
  isReady: z.boolean(),
  hasStarted: z.boolean(),
});

const claim = allow<ClaimView>({
  ...owned,
  labels: texts,
  hasController: z.boolean(),
  released: z.string().nullable(),
});

type WiringOf<K> = Extract<RepositoryWiring, { readonly kind: K }>;

const wiring = byKind<RepositoryWiring>({
  none: allow<WiringOf<'none'>>({ kind: z.literal('none') }),
  keys: allow<WiringOf<'keys'>>({ kind: z.literal('keys'), secret: z.string() }),
  identity: allow<WiringOf<'identity'>>({
    kind: z.literal('identity'),
    serviceAccount: z.string(),
  }),
  sharedClaim: allow<WiringOf<'sharedClaim'>>({
    kind: z.literal('sharedClaim'),
    path: z.string(),
    storage,
  }),
});

/** What of pool-pods' snapshots may be archived. */
export const archived: ArchivedForm<PoolPodsSnapshot> = {
  schema: allow<PoolPodsSnapshot>({
    shard,
    record: recordReadOf(poolPodsRecordSchema),
    drain: recordReadOf(drainRecordSchema),
    pods: readOf(z.array(pod)),
    service: readOf(allow<ServiceView>({ ...owned, selector: texts })),
    budgets: readOf(
      z.array(
        allow<BudgetView>({ ...owned, minAvailable: z.number().nullable(), selector: texts }),
      ),
    ),
    claims: readOf(z.array(claim)),
    database: readOf(allow<DatabaseView>({ isPaused: z.boolean(), wiring })),
    backups: readOf(allow<BackupsView>({ isOneComplete: z.boolean() })),
  }),
  hide,
};

/** Templates, and what pods, claims and selectors have in labels and annotations: their values are the users'. */
function hide(snapshot: PoolPodsSnapshot): PoolPodsSnapshot {
  const { shard: seen, pods, service, budgets, claims } = snapshot;
  const salt = seen.uid;
  const hidden = {
    ...seen,
    pools: seen.pools.map((each) =>
      each.podTemplate === undefined
        ? each
        : { ...each, podTemplate: hiddenTemplate(each.podTemplate, salt) },
    ),
  };
  const hashes = hashesOf(snapshot, hidden);
  const labelled = <V extends { readonly labels: PodView['labels'] }>(view: V): V => ({
    ...view,
    labels: hiddenEntries(view.labels, salt),
  });
  const selecting = <V extends { readonly selector: PodView['labels'] }>(view: V): V => ({
    ...view,
    selector: hiddenEntries(view.selector, salt),
  });
  return {
    ...snapshot,
    shard: hidden,
    pods: mapRead(pods, (views) =>
      views.map((view) => ({
        ...labelled(view),
        annotations: {
          ...hiddenEntries(view.annotations, salt),
          ...hiddenHash(view, hashes.get(view.name)),
        },
      })),
    ),
    service: mapRead(service, selecting),
    budgets: mapRead(budgets, (views) => views.map(selecting)),
    claims: mapRead(claims, (views) => views.map(labelled)),
  };
}

interface Hashes {
  readonly before: string;
  readonly after: string;
}

/** The hash that each member would be made with, before templates are hidden and after: a pod carries the one or another. */
function hashesOf(snapshot: PoolPodsSnapshot, hidden: ShardView): ReadonlyMap<string, Hashes> {
  const { database, shard: seen } = snapshot;
  if (database.kind !== 'present') {
    return new Map();
  }
  const { wiring: way } = database.value;
  const hiddenGroups = managedGroupsOf(hidden);
  return new Map(
    managedGroupsOf(seen).flatMap((group, place) =>
      membersOf(snapshot, group).map(({ pod: { name }, index }): [string, Hashes] => [
        name,
        {
          before: podHash(seen, group, index, way),
          after: podHash(hidden, hiddenGroups[place] ?? group, index, way),
        },
      ]),
    ),
  );
}

/** A pod that is up to date stays it, and none becomes it. */
function hiddenHash({ annotations, uid }: PodView, hashes: Hashes | undefined) {
  const found = annotations[templateHash];
  if (found === undefined) {
    return {};
  }
  const isUpToDate = hashes !== undefined && found === hashes.before;
  return { [templateHash]: isUpToDate ? hashes.after : hashed(found, uid) };
}
