import type { JsonObject } from '#shared/kube/json.ts';

/** Where a data plane is. */
export interface DataPlaneAddress {
  readonly endpoint: string;
  readonly globalRoot: string;
  readonly adminUrl: string;
}

/** A Database as somebody would apply it. Without an address its data plane is one that nobody answers for. */
export function databaseManifest(
  name: string,
  {
    endpoint = 'http://topo:2379',
    globalRoot = '/multigres/global',
    adminUrl = 'http://multiadmin:18000',
  }: Partial<DataPlaneAddress> = {},
): JsonObject {
  return {
    apiVersion: 'millrace.dev/v1alpha1',
    kind: 'Database',
    metadata: { name },
    spec: {
      name: 'postgres',
      dataPlane: {
        kind: 'multigres',
        topology: { endpoints: [endpoint], globalRoot },
        admin: { url: adminUrl },
      },
    },
  };
}

/** A Shard of the Database `orders` in attach mode: its pods are made by somebody else, or by nobody. */
export function attachedShardManifest(name: string): JsonObject {
  return {
    apiVersion: 'millrace.dev/v1alpha1',
    kind: 'Shard',
    metadata: { name },
    spec: {
      databaseRef: { name: 'orders' },
      pools: [{ name: 'main', cells: ['zone-a'], replicasPerCell: 1, storage: { size: '1Gi' } }],
    },
  };
}

/** A Shard with one pool whose members Millrace makes. */
export function pooledShardManifest(
  name: string,
  { database = 'main', replicasPerCell = 3, ...spec }: PooledShard = {},
): JsonObject {
  const containers = [
    {
      name: 'multipooler',
      image: 'multigres/multipooler',
      volumeMounts: [{ name: 'data', mountPath: '/data' }],
    },
  ];
  return {
    apiVersion: 'millrace.dev/v1alpha1',
    kind: 'Shard',
    metadata: { name },
    spec: {
      databaseRef: { name: database },
      ...spec,
      pools: [
        {
          name: 'main',
          cells: ['zone-a'],
          replicasPerCell,
          storage: { size: '1Gi' },
          podTemplate: { spec: { containers } },
        },
      ],
    },
  };
}

interface PooledShard {
  readonly database?: string;
  readonly replicasPerCell?: number;
  readonly cleanup?: JsonObject;
}
