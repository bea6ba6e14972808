import type { GoverseCluster } from '#shared/api/goverse-cluster.ts';
import { connectGoverse } from '#shared/goverse/connect.ts';
import type { GoverseReader, GoverseStore } from '#shared/goverse/goverse.ts';
import { describeError } from '#shared/kernel/errors.ts';
import { type Clock, wallClock } from '#shared/kernel/instant.ts';
import { unknown } from '#shared/kernel/read.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import type { KubeReader } from '#shared/kube/kube.ts';
import { readCredentials, secretsOf } from './credentials.ts';
import { KeptClients } from './kept-clients.ts';

/** The keys of GoVerse clusters, by connections that are kept per version of the GoverseCluster. */
export function goverseClusters(
  kube: KubeReader,
  connection: KubeConnection,
  clock: Clock = wallClock,
) {
  const stores = new KeptClients<GoverseStore>(clock);

  function store(cluster: GoverseCluster, signal: AbortSignal | undefined): Promise<GoverseStore> {
    const { namespace = 'default' } = cluster.metadata;
    const { topology, shards } = cluster.spec;
    return stores.get(keyOf(cluster), secretsOf(topology).length > 0, async () =>
      connectGoverse(
        { ...topology, shards },
        {
          namespace,
          kube: connection,
          credentials: await readCredentials(kube, namespace, topology, signal),
          clock,
        },
      ),
    );
  }

  function reader(cluster: GoverseCluster): GoverseReader {
    return {
      async view(signal) {
        const opened = store(cluster, signal);
        try {
          const read = await (await opened).view(signal);
          if (read.kind === 'unknown') {
            stores.failed(keyOf(cluster), opened);
          }
          return read;
        } catch (error) {
          return unknown(describeError(error));
        }
      },
    };
  }

  return { store, reader };
}

function keyOf({ metadata: { uid, generation } }: GoverseCluster): string {
  return `${uid}/${generation}`;
}
