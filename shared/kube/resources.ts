import type {
  CoreV1Event,
  V1CustomResourceDefinition,
  V1Job,
  V1Lease,
  V1Namespace,
  V1Node,
  V1PersistentVolumeClaim,
  V1Pod,
  V1PodDisruptionBudget,
  V1Secret,
  V1Service,
} from '@kubernetes/client-node';
import type { Database } from '#shared/api/database.ts';
import type { GoverseCluster } from '#shared/api/goverse-cluster.ts';
import type { Shard } from '#shared/api/shard.ts';
import type { ObjectMetadata } from '#shared/api/metadata.ts';
import type { AsJson } from './json.ts';

/** Every kind of object Millrace touches, as it is in JSON. */
export interface KubeObjects {
  CustomResourceDefinition: AsJson<V1CustomResourceDefinition>;
  Database: Database;
  Event: AsJson<CoreV1Event>;
  GoverseCluster: GoverseCluster;
  Job: AsJson<V1Job>;
  Lease: AsJson<V1Lease>;
  Namespace: AsJson<V1Namespace>;
  Node: AsJson<V1Node>;
  PersistentVolumeClaim: AsJson<V1PersistentVolumeClaim>;
  Pod: AsJson<V1Pod>;
  PodDisruptionBudget: AsJson<V1PodDisruptionBudget>;
  Secret: AsJson<V1Secret>;
  Service: AsJson<V1Service>;
  Shard: Shard;
}

export type ResourceKind = keyof KubeObjects;

/** An object as the API server returned it: metadata with name, uid and resourceVersion is always there. */
export type KubeObject<K extends ResourceKind> = KubeObjects[K] & {
  readonly metadata: ObjectMetadata;
};

/** Names one object. `namespace` is absent for cluster-wide kinds. */
export interface ObjectRef<K extends ResourceKind = ResourceKind> {
  readonly kind: K;
  readonly namespace?: string;
  readonly name: string;
}

export interface ResourceType {
  /** `''` is the core group. */
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  readonly namespaced: boolean;
}

/** Where the API server serves each kind. */
export const resourceTypes: { readonly [K in ResourceKind]: ResourceType } = {
  CustomResourceDefinition: {
    group: 'apiextensions.k8s.io',
    version: 'v1',
    plural: 'customresourcedefinitions',
    namespaced: false,
  },
  Database: { group: 'millrace.dev', version: 'v1alpha1', plural: 'databases', namespaced: true },
  Event: { group: '', version: 'v1', plural: 'events', namespaced: true },
  GoverseCluster: {
    group: 'millrace.dev',
    version: 'v1alpha1',
    plural: 'goverseclusters',
    namespaced: true,
  },
  Job: { group: 'batch', version: 'v1', plural: 'jobs', namespaced: true },
  Lease: { group: 'coordination.k8s.io', version: 'v1', plural: 'leases', namespaced: true },
  Namespace: { group: '', version: 'v1', plural: 'namespaces', namespaced: false },
  Node: { group: '', version: 'v1', plural: 'nodes', namespaced: false },
  PersistentVolumeClaim: {
    group: '',
    version: 'v1',
    plural: 'persistentvolumeclaims',
    namespaced: true,
  },
  Pod: { group: '', version: 'v1', plural: 'pods', namespaced: true },
  PodDisruptionBudget: {
    group: 'policy',
    version: 'v1',
    plural: 'poddisruptionbudgets',
    namespaced: true,
  },
  Secret: { group: '', version: 'v1', plural: 'secrets', namespaced: true },
  Service: { group: '', version: 'v1', plural: 'services', namespaced: true },
  Shard: { group: 'millrace.dev', version: 'v1alpha1', plural: 'shards', namespaced: true },
};

/** How the kinds that steps reconcile are called for short: in commands, messages and logs. */
export const shortNames = { Database: 'mdb', GoverseCluster: 'gvc', Shard: 'shd' } as const;

export type TargetKind = keyof typeof shortNames;

/** `v1`, `policy/v1`, `millrace.dev/v1alpha1`. */
export function apiVersionOf(kind: ResourceKind): string {
  const { group, version } = resourceTypes[kind];
  return group === '' ? version : `${group}/${version}`;
}
