import { type RequestLimits, remainingMs } from '#shared/topology/etcd-store.ts';
import type { TopologyEtcd } from './topology-link.ts';

/**
 * Removes keys over etcd's JSON gateway. Millrace itself removes none, so that its own way to etcd has no call for it.
 *
 * @param endpoint `http://host:port`
 */
export function etcdRemoval(endpoint: string): TopologyEtcd['remove'] {
  return async (key: string, limits: RequestLimits): Promise<void> => {
    const timeout = AbortSignal.timeout(remainingMs(limits));
    const { signal } = limits;
    const response = await fetch(new URL('/v3/kv/deleterange', endpoint), {
      method: 'POST',
      body: JSON.stringify({ key: Buffer.from(key).toString('base64') }),
      signal: signal === undefined ? timeout : AbortSignal.any([signal, timeout]),
    });
    await response.arrayBuffer();
    if (!response.ok) {
      throw new Error(`etcd answers ${response.status}`);
    }
  };
}
