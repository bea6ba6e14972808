import type { Admin, AdminReader } from '#shared/admin/admin.ts';
import { connectAdmin } from '#shared/admin/connect.ts';
import type { Database } from '#shared/api/database.ts';
import { describeError } from '#shared/kernel/errors.ts';
import { type Clock, wallClock } from '#shared/kernel/instant.ts';
import { unknown } from '#shared/kernel/read.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import type { KubeReader } from '#shared/kube/kube.ts';
import type { TopologyCredentials } from '#shared/topology/access.ts';
import { connectTopology } from '#shared/topology/connect.ts';
import type { Topology, TopologyReader } from '#shared/topology/topology.ts';

/** How long a topology connection that was made with a Secret's values is kept, in milliseconds. */
const credentialsKeptMs = 5 * 60_000;

/** Connections to data planes that one sandbox keeps at a time. */
const maxTopologies = 16;

/** Clients of the data planes, kept per Database version so that a sandbox connects once. */
export function dataPlanes(kube: KubeReader, connection: KubeConnection, clock: Clock = wallClock) {
  const topologies = new Map<string, { topology: Promise<Topology>; staleAfter: number }>();

  function topology(database: Database, signal: AbortSignal | undefined): Promise<Topology> {
    const key = `${database.metadata.uid}/${database.metadata.generation}`;
    const kept = topologies.get(key);
    if (kept !== undefined && clock() < kept.staleAfter) {
      return kept.topology;
    }
    void discard(key);
    const opened = openTopology(kube, connection, database, { signal, clock });
    const usesSecret = secretsOf(database).length > 0;
    topologies.set(key, {
      topology: opened,
      staleAfter: usesSecret ? clock() + credentialsKeptMs : Infinity,
    });
    opened.catch(() => topologies.delete(key));
    const oldest = topologies.keys().next().value;
    if (topologies.size > maxTopologies && oldest !== undefined) {
      void discard(oldest);
    }
    return opened;
  }

  async function discard(key: string): Promise<void> {
    const kept = topologies.get(key);
    topologies.delete(key);
    await kept?.topology.then(
      (open) => open.close(),
      () => undefined,
    );
  }

  function topologyReader(database: Database): TopologyReader {
    return {
      async poolers(shard, cells, signal) {
        try {
          return await (await topology(database, signal)).poolers(shard, cells, signal);
        } catch (error) {
          return unknown(describeError(error));
        }
      },
      async database(name, signal) {
        try {
          return await (await topology(database, signal)).database(name, signal);
        } catch (error) {
          return unknown(describeError(error));
        }
      },
      async backupLease(shard, signal) {
        try {
          return await (await topology(database, signal)).backupLease(shard, signal);
        } catch (error) {
          return unknown(describeError(error));
        }
      },
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
  const values: Record<string, string> = {};
  for (const name of secretsOf(database)) {
    const secret = await kube.get({ kind: 'Secret', namespace, name }, options.signal);
    if (secret.kind !== 'present') {
      throw new Error(secret.kind === 'absent' ? `the Secret ${name} does not exist` : secret.why);
    }
    for (const [key, value] of Object.entries(secret.value.data ?? {})) {
      values[key] = Buffer.from(value, 'base64').toString('utf8');
    }
  }
  const credentials: TopologyCredentials = {
    ca: values['ca.crt'],
    certificate: values['tls.crt'],
    key: values['tls.key'],
    username: values['username'],
    password: values['password'],
  };
  return connectTopology(database.spec.dataPlane.topology, {
    namespace,
    kube: connection,
    credentials,
    clock: options.clock,
  });
}

function secretsOf({ spec }: Database): readonly string[] {
  const { tlsSecret, authSecret } = spec.dataPlane.topology;
  return [tlsSecret, authSecret].filter((name) => name !== undefined);
}
