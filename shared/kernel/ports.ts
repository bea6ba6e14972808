import type { Database } from '#shared/api/database.ts';
import type { GoverseCluster } from '#shared/api/goverse-cluster.ts';
import type { GoverseReader } from '#shared/goverse/goverse.ts';
import type { KubeReader } from '#shared/kube/kube.ts';
import type { RepositoryReader } from '#shared/repository/repository.ts';
import type { TopologyReader } from '#shared/topology/topology.ts';
import type { AdminReader } from '#shared/admin/admin.ts';

/** What a step may read through. Nothing here can write: writing is the executor's. */
export interface Ports {
  /** The id of the cluster that the handler works for, as hints carry it. */
  readonly clusterId: string;
  readonly kube: KubeReader;
  /** The topology store that the database's spec names. Connects lazily, on the first read. */
  topology(database: Database): TopologyReader;
  /** The keys of the cluster, in the etcd that its spec names. */
  goverse(cluster: GoverseCluster): GoverseReader;
  /** The data plane's admin service that the database's spec names. */
  admin(database: Database): AdminReader;
  /** The bucket that the database's spec names for its backups. */
  repository(database: Database): RepositoryReader;
}
