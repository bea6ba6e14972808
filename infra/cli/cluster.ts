import { ConfigurationError } from '#shared/kernel/config.ts';
import { describeError } from '#shared/kernel/errors.ts';
import type { KubeAccess, KubeConnection } from '#shared/kube/connection.ts';
import { connectKube } from '#shared/kube/http-connection.ts';
import { kubeClient } from '#shared/kube/http-kube.ts';
import type { KubeReader, KubeWriter } from '#shared/kube/kube.ts';
import { accessFromKubeconfig } from '#shared/kube/kubeconfig.ts';

/** One API server as a tool talks to it. */
export interface Cluster {
  readonly access: KubeAccess;
  readonly connection: KubeConnection;
  readonly kube: KubeReader & KubeWriter;
}

/**
 * Connects as the kubeconfig's user. Nothing is sent to the API server yet, but a program the kubeconfig names is run.
 *
 * Throws {@link ConfigurationError} where the kubeconfig cannot be used.
 */
export async function openCluster(
  kubeconfig: string,
  context: string | undefined,
): Promise<Cluster> {
  const access = await accessFromKubeconfig(kubeconfig, context).catch((error: unknown) => {
    throw new ConfigurationError([`kubeconfig: ${describeError(error)}`]);
  });
  const connection = connectKube(access);
  return { access, connection, kube: kubeClient(connection) };
}

/** What names a cluster for ever: the uid of its namespace kube-system. */
export async function readClusterId({ kube }: Cluster): Promise<string> {
  const read = await kube.get({ kind: 'Namespace', name: 'kube-system' });
  if (read.kind === 'present') {
    return read.value.metadata.uid;
  }
  throw new Error(
    read.kind === 'unknown'
      ? read.why
      : 'the cluster has no namespace kube-system to take its id from; give --cluster-id',
  );
}
