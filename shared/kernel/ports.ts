import type { Database } from '#shared/api/database.ts';
import type { KubeReader } from '#shared/kube/kube.ts';
import type { TopologyReader } from '#shared/topology/topology.ts';
import type { AdminReader } from '#shared/admin/admin.ts';

/** What a step may read through. Nothing here can write: writing is the executor's. */
export interface Ports {
  readonly kube: KubeReader;
  /** The topology store that the database's spec names. Connects lazily, on the first read. */
  topology(database: Database): TopologyReader;
  /** The data plane's admin service that the database's spec names. */
  admin(database: Database): AdminReader;
}
