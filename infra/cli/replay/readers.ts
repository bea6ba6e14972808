import { outsideOver } from '#shared/outside/connect.ts';
import { type KubeConnection, isAnsweredByItself } from '#shared/kube/connection.ts';
import type { Cluster } from '../cluster.ts';
import type { Readers } from './preview.ts';

/** What steps read through, as the kubeconfig's user. Requests that could change an object of the cluster are not sent. */
export function readersOf({ connection }: Cluster, clusterId: string): Readers {
  const { kube, ports } = outsideOver(reading(connection), clusterId, () =>
    Promise.reject(new Error('a preview has no message to give back')),
  );
  return { kube, ports };
}

/** The types allow no write as it is. This holds where they are passed by. */
function reading(connection: KubeConnection): KubeConnection {
  return {
    request: (request) =>
      // Behind the service proxy is the gateway of an etcd, of which everything is asked with POST.
      request.method === 'GET' || (request.method === 'POST' && !isAnsweredByItself(request))
        ? connection.request(request)
        : Promise.reject(new Error(`a preview does not send ${request.method} ${request.path}`)),
    stream: (request) => connection.stream(request),
    close: () => connection.close(),
  };
}
