import { templateHash } from '#shared/api/annotations.ts';
import { cellLabel, indexLabel, poolLabel, shardLabel } from '#shared/api/labels.ts';
import {
  budgetName,
  claimName,
  fnv1a32,
  podBaseName,
  podName,
  serviceName,
  sharedBackupClaimName,
} from '#shared/api/names.ts';
import type { ManagedPool, Pool } from '#shared/api/shard.ts';
import type { Effect } from '#shared/kernel/effect.ts';
import type { JsonObject, JsonValue } from '#shared/kube/json.ts';
import { controlledBy, withoutOurDomain } from '#shared/kube/ownership.ts';
import type { ResourceKind } from '#shared/kube/resources.ts';
import {
  type RepositoryWiring,
  dataVolume,
  mountsData,
  mountsSharedClaim,
  wired,
} from './repository-wiring.ts';
import type { ShardView } from './snapshot.ts';

/** The members of one pool in one cell: what is counted. */
export interface Group {
  readonly pool: Pool;
  readonly cell: string;
  /** The base of the names of its pods. */
  readonly base: string;
}

/** A group whose pods Millrace makes. */
export interface ManagedGroup extends Group {
  readonly pool: ManagedPool;
}

type Labels = { readonly [key: string]: string };

type Storage = ManagedPool['storage'];

export function groupsOf(shard: ShardView): readonly Group[] {
  return shard.pools.flatMap((pool) =>
    pool.cells.map((cell) => ({ pool, cell, base: podBaseName(shard.name, pool.name, cell) })),
  );
}

/** Not the attached ones: their pods are someone else's. */
export function managedGroupsOf(shard: ShardView): readonly ManagedGroup[] {
  return groupsOf(shard).flatMap(({ pool, ...group }) =>
    pool.podTemplate === undefined ? [] : [{ ...group, pool }],
  );
}

/** Selects the pods of a shard, or of one of its groups. Every selector of ours is made here; namespaces bound them all. */
export function selectorOf(shardName: string, group?: Group): Labels {
  return {
    [shardLabel]: shardName,
    ...(group === undefined ? {} : { [poolLabel]: group.pool.name, [cellLabel]: group.cell }),
  };
}

/** What the pod at an index, and its claim, are labelled with. */
export function memberLabels(shardName: string, group: Group, index: number): Labels {
  return { ...selectorOf(shardName, group), [indexLabel]: String(index) };
}

/** The labels and annotations a member's pod must have; further ones, of whoever else, are left alone. */
export function podMetadata(
  shardName: string,
  group: ManagedGroup,
  index: number,
): { readonly labels: Labels; readonly annotations: Labels } {
  const { labels, annotations } = group.pool.podTemplate.metadata ?? {};
  return {
    labels: { ...withoutOurDomain(labels), ...memberLabels(shardName, group, index) },
    annotations: withoutOurDomain(annotations),
  };
}

/** Whether a member needs a claim of its own: only where a container mounts it. */
export function needsOwnClaim({ pool }: ManagedGroup): boolean {
  return mountsData(pool.podTemplate.spec);
}

/** Whether a member needs the claim that its shard's backups are on. */
export function needsSharedClaim(
  shard: ShardView,
  { pool }: ManagedGroup,
  wiring: RepositoryWiring,
): boolean {
  return mountsSharedClaim(pool.podTemplate.spec, wiring, shard.name);
}

/**
 * The hash of everything Millrace puts into the spec of the pod at an index, the way to the repository included; a pod
 * carries the one it was made with.
 */
export function podHash(
  shard: ShardView,
  group: ManagedGroup,
  index: number,
  wiring: RepositoryWiring,
): string {
  return fnv1a32(canonicalJson(podSpec(shard, group, index, wiring)));
}

export function podToCreate(
  shard: ShardView,
  group: ManagedGroup,
  index: number,
  wiring: RepositoryWiring,
): Effect<'createObject'> {
  const { labels, annotations } = podMetadata(shard.name, group, index);
  const made = { [templateHash]: podHash(shard, group, index, wiring) };
  return creation(shard, 'Pod', podName(group.base, index), {
    metadata: {
      labels,
      annotations: { ...annotations, ...made },
      ownerReferences: [controlledBy(shard)],
    },
    spec: podSpec(shard, group, index, wiring),
  });
}

/** Without an owner reference: a deleted Shard keeps its data. */
export function claimToCreate(
  shard: ShardView,
  group: ManagedGroup,
  index: number,
): Effect<'createObject'> {
  return creation(shard, 'PersistentVolumeClaim', claimName(podName(group.base, index)), {
    metadata: { labels: memberLabels(shard.name, group, index) },
    spec: claimSpec(group.pool.storage),
  });
}

/** As a member's claim without an owner reference, and without a member's labels: nobody takes it for one's. */
export function sharedClaimToCreate(shard: ShardView, storage: Storage): Effect<'createObject'> {
  return creation(shard, 'PersistentVolumeClaim', sharedBackupClaimName(shard.name), {
    metadata: { labels: selectorOf(shard.name) },
    spec: claimSpec(storage),
  });
}

/** Gives every member a name in DNS from its first moment on: members must find each other before they are ready. */
export function serviceToCreate(shard: ShardView): Effect<'createObject'> {
  return creation(shard, 'Service', serviceName(shard.name), {
    metadata: { labels: selectorOf(shard.name), ownerReferences: [controlledBy(shard)] },
    spec: {
      clusterIP: 'None',
      publishNotReadyAddresses: true,
      selector: selectorOf(shard.name),
    },
  });
}

/**
 * How many members must stay while nodes are emptied: all but one. A whole number of `minAvailable` and not
 * `maxUnavailable: 1`, because for the latter the disruption controller asks the pods' controller for its scale; a Shard,
 * with several groups, has none to give, and then no eviction is ever allowed (Kubernetes, Specifying a Disruption
 * Budget, "Arbitrary workloads and arbitrary selectors").
 */
export function minAvailable({ pool }: Group): number {
  return pool.replicasPerCell - 1;
}

export function budgetToCreate(shard: ShardView, group: Group): Effect<'createObject'> {
  return creation(shard, 'PodDisruptionBudget', budgetName(group.base), {
    metadata: { labels: selectorOf(shard.name, group), ownerReferences: [controlledBy(shard)] },
    spec: {
      minAvailable: minAvailable(group),
      selector: { matchLabels: selectorOf(shard.name, group) },
    },
  });
}

function podSpec(
  shard: ShardView,
  group: ManagedGroup,
  index: number,
  wiring: RepositoryWiring,
): JsonObject {
  const name = podName(group.base, index);
  const { volumes, ...spec } = wired(group.pool.podTemplate.spec, wiring, shard.name);
  const data = { name: dataVolume, persistentVolumeClaim: { claimName: claimName(name) } };
  const others = (volumes ?? []).filter((volume) => volume.name !== dataVolume);
  return {
    ...spec,
    hostname: name,
    subdomain: serviceName(shard.name),
    volumes: needsOwnClaim(group) ? [...others, data] : others,
  };
}

function claimSpec({ size, className, accessModes }: Storage): JsonObject {
  return {
    accessModes,
    resources: { requests: { storage: size } },
    ...(className === undefined ? {} : { storageClassName: className }),
  };
}

function creation(
  { namespace }: ShardView,
  kind: ResourceKind,
  name: string,
  { metadata, ...rest }: JsonObject & { readonly metadata: JsonObject },
): Effect<'createObject'> {
  return {
    kind: 'createObject',
    object: { kind, namespace, name },
    manifest: { metadata: { name, namespace, ...metadata }, ...rest },
    guard: { absent: true },
  };
}

/** JSON with sorted keys, so that the same content always has the same hash. */
function canonicalJson(value: JsonValue): string {
  return JSON.stringify(value, (_key, part: unknown) =>
    typeof part === 'object' && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  );
}
