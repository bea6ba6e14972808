import type { Admin, AdminReader } from '#shared/admin/admin.ts';
import { connectAdmin } from '#shared/admin/connect.ts';
import type { Database } from '#shared/api/database.ts';
import { describeError } from '#shared/kernel/errors.ts';
import { type Clock, wallClock } from '#shared/kernel/instant.ts';
import { type Read, unknown } from '#shared/kernel/read.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import type { KubeReader } from '#shared/kube/kube.ts';
import type { Topology, TopologyReader } from '#shared/topology/topology.ts';
import { readCredentials, secretsOf } from './credentials.ts';
import { KeptClients } from './kept-clients.ts';

/** Clients of the data planes, kept per Database version so that a sandbox connects once. */
export function dataPlanes(kube: KubeReader, connection: KubeConnection, clock: Clock = wallClock) {
  const topologies = new KeptClients<Topology>(clock);

  function topology(database: Database, signal: AbortSignal | undefined): Promise<Topology> {
    const usesSecret = secretsOf(database.spec.dataPlane.topology).length > 0;
    return topologies.get(keyOf(database), usesSecret, () =>
      openTopology(kube, connection, database, { signal, clock }),
    );
  }

  async function read<T>(
    database: Database,
    signal: AbortSignal | undefined,
    ask: (topology: Topology) => Promise<Read<T>>,
  ): Promise<Read<T>> {
    const opened = topology(database, signal);
    try {
      const answer = await ask(await opened);
      if (answer.kind === 'unknown') {
        topologies.failed(keyOf(database), opened);
      }
      return answer;
    } catch (error) {
      return unknown(describeError(error));
    }
  }

  function topologyReader(database: Database): TopologyReader {
    return {
      poolers: (shard, cells, signal) =>
        read(database, signal, (open) => open.poolers(shard, cells, signal)),
      database: (name, signal) => read(database, signal, (open) => open.database(name, signal)),
      backupLease: (shard, signal) =>
        read(database, signal, (open) => open.backupLease(shard, signal)),
    };
  }

  function admin(database: Database): Admin {
    return openAdmin(connection, database);
  }

  return {
    topology,
    topologyReader,
    admin,
    adminReader: (database: Database): AdminReader => admin(database),
  };
}

function keyOf({ metadata: { uid, generation } }: Database): string {
  return `${uid}/${generation}`;
}

/** The admin service that a Database names. */
export function openAdmin(connection: KubeConnection, database: Database): Admin {
  return connectAdmin(database.spec.dataPlane.admin, {
    namespace: database.metadata.namespace ?? 'default',
    kube: connection,
  });
}

/**
 * The topology store that a Database names, with the credentials in the Secrets it names.
 *
 * @throws Error naming the Secret that is missing or cannot be read
 */
export async function openTopology(
  kube: KubeReader,
  connection: KubeConnection,
  database: Database,
  options: { readonly signal?: AbortSignal | undefined; readonly clock?: Clock } = {},
): Promise<Topology> {
  const namespace = database.metadata.namespace ?? 'default';
  const { topology } = database.spec.dataPlane;
  const credentials = await readCredentials(kube, namespace, topology, options.signal);
  // The codecs of its records are a quarter of a handler, and not every look asks the topology.
  const { connectTopology } = await import('#shared/topology/connect.ts');
  return connectTopology(topology, {
    namespace,
    kube: connection,
    credentials,
    clock: options.clock,
  });
}
