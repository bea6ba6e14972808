import { readFile } from 'node:fs/promises';
import * as z from 'zod';
import { type Admin, type AdminReader } from '#shared/admin/admin.ts';
import { connectAdmin } from '#shared/admin/connect.ts';
import type { Database } from '#shared/api/database.ts';
import type { DatabaseRef } from '#shared/kernel/effect.ts';
import { readConfig } from '#shared/kernel/config.ts';
import { RetryableError, describeError } from '#shared/kernel/errors.ts';
import { type Connect, handlerConfigSchema } from '#shared/kernel/pipeline.ts';
import { unknown } from '#shared/kernel/read.ts';
import type { KubeAccess, KubeConnection } from '#shared/kube/connection.ts';
import { connectKube } from '#shared/kube/http-connection.ts';
import { kubeClient } from '#shared/kube/http-kube.ts';
import type { KubeReader } from '#shared/kube/kube.ts';
import { connectSqs } from '#shared/queue/sqs.ts';
import type { TopologyCredentials } from '#shared/topology/access.ts';
import { connectTopology } from '#shared/topology/connect.ts';
import type { Topology, TopologyReader } from '#shared/topology/topology.ts';

/** How a handler signs in to the API server: endpoint and files, never a kubeconfig (it may name a program to run). */
const accessSchema = z
  .object({
    MILLRACE_KUBE_SERVER: z.url('is missing or no URL: the API server, https://host:port'),
    MILLRACE_KUBE_CA: z.string().optional(),
    MILLRACE_KUBE_TOKEN_FILE: z.string().optional(),
    MILLRACE_KUBE_CERT_FILE: z.string().optional(),
    MILLRACE_KUBE_KEY_FILE: z.string().optional(),
    AWS_REGION: z.string().default('us-east-1'),
  })
  .refine(
    (config) =>
      config.MILLRACE_KUBE_TOKEN_FILE !== undefined || config.MILLRACE_KUBE_CERT_FILE !== undefined,
    {
      message:
        'give MILLRACE_KUBE_TOKEN_FILE, or MILLRACE_KUBE_CERT_FILE with MILLRACE_KUBE_KEY_FILE',
    },
  );

/** How long a topology connection that was made with a Secret's values is kept, in milliseconds. */
const credentialsKeptMs = 5 * 60_000;

/** Connections to data planes that one sandbox keeps at a time. */
const maxTopologies = 16;

/** Connects everything a handler talks to. Nothing is sent before the first read. */
export const connectOutside: Connect = async (environment, stepName) => {
  const config = readConfig(handlerConfigSchema, environment);
  const access = readConfig(accessSchema, environment);
  const connection = connectKube({
    ...(await fileAccess(access)),
    userAgent: `millrace/${stepName}`,
  });
  const kube = kubeClient(connection);
  const planes = dataPlanes(kube, connection);
  const queues = connectSqs(
    {
      region: access.AWS_REGION,
      ...(config.MILLRACE_QUEUE_ENDPOINT === undefined
        ? {}
        : { endpoint: config.MILLRACE_QUEUE_ENDPOINT }),
    },
    '',
  );
  return {
    kube,
    ports: { kube, topology: planes.topologyReader, admin: planes.adminReader },
    writers: {
      kube,
      topology: async (ref, signal) =>
        planes.topology(await sameDatabase(kube, ref, signal), signal),
      admin: async (ref, signal) => planes.admin(await sameDatabase(kube, ref, signal)),
    },
    changeVisibility: async (receiptHandle, seconds) => {
      if (config.MILLRACE_QUEUE_URL === undefined) {
        throw new Error('MILLRACE_QUEUE_URL is not set, so the queue’s own visibility applies');
      }
      await queues.changeVisibility(config.MILLRACE_QUEUE_URL, receiptHandle, seconds);
    },
  };
};

/** Credentials are read from their files for each connection, so that a rotated token is used at once. */
async function fileAccess(config: z.infer<typeof accessSchema>): Promise<KubeAccess> {
  const read = async (path: string | undefined) =>
    path === undefined ? undefined : readFile(path, 'utf8');
  const ca = await read(config.MILLRACE_KUBE_CA);
  return {
    server: config.MILLRACE_KUBE_SERVER,
    ...(ca === undefined ? {} : { ca }),
    async credentials() {
      const token = (await read(config.MILLRACE_KUBE_TOKEN_FILE))?.trim();
      const certificate = await read(config.MILLRACE_KUBE_CERT_FILE);
      const key = await read(config.MILLRACE_KUBE_KEY_FILE);
      return {
        ...(token === undefined ? {} : { token }),
        ...(certificate === undefined ? {} : { certificate }),
        ...(key === undefined ? {} : { key }),
      };
    },
  };
}

/** A write goes to the data plane of the very Database object that the decision read. */
async function sameDatabase(
  kube: KubeReader,
  ref: DatabaseRef,
  signal: AbortSignal,
): Promise<Database> {
  const read = await kube.get(
    { kind: 'Database', namespace: ref.namespace, name: ref.name },
    signal,
  );
  if (read.kind !== 'present' || read.value.metadata.uid !== ref.uid) {
    throw new RetryableError(
      'DatabaseMoved',
      `the Database ${ref.name} is not the one the decision was made for`,
    );
  }
  return read.value;
}

/** Clients of the data planes, kept per Database version so that a sandbox connects once. */
function dataPlanes(kube: KubeReader, connection: KubeConnection) {
  const topologies = new Map<string, { topology: Promise<Topology>; staleAfter: number }>();

  function topology(database: Database, signal: AbortSignal | undefined): Promise<Topology> {
    const key = `${database.metadata.uid}/${database.metadata.generation}`;
    const kept = topologies.get(key);
    if (kept !== undefined && Date.now() < kept.staleAfter) {
      return kept.topology;
    }
    void discard(key);
    const opened = openTopology(kube, connection, database, signal);
    const usesSecret = secretsOf(database).length > 0;
    topologies.set(key, {
      topology: opened,
      staleAfter: usesSecret ? Date.now() + credentialsKeptMs : Infinity,
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
    };
  }

  function admin(database: Database): Admin {
    return connectAdmin(database.spec.dataPlane.admin, {
      namespace: database.metadata.namespace ?? 'default',
      kube: connection,
    });
  }

  return {
    topology,
    topologyReader,
    admin,
    adminReader: (database: Database): AdminReader => admin(database),
  };
}

async function openTopology(
  kube: KubeReader,
  connection: KubeConnection,
  database: Database,
  signal: AbortSignal | undefined,
): Promise<Topology> {
  const namespace = database.metadata.namespace ?? 'default';
  const values: Record<string, string> = {};
  for (const name of secretsOf(database)) {
    const secret = await kube.get({ kind: 'Secret', namespace, name }, signal);
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
  });
}

function secretsOf({ spec }: Database): readonly string[] {
  const { tlsSecret, authSecret } = spec.dataPlane.topology;
  return [tlsSecret, authSecret].filter((name) => name !== undefined);
}
