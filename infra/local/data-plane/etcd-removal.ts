import { type EtcdStore, type RequestLimits, readKey } from '#shared/topology/etcd-store.ts';
import type { TopologyEtcd } from './topology-link.ts';

/** Removes a key as it is found, whatever it holds. */
export function etcdRemoval(store: EtcdStore): TopologyEtcd['remove'] {
  return async (key: string, limits: RequestLimits): Promise<void> => {
    for (;;) {
      const found = await readKey(store, key, limits);
      if (found === undefined) {
        return;
      }
      const { modRevision } = found;
      if ((await store.swap({ key, value: null, modRevision }, limits)).kind === 'swapped') {
        return;
      }
    }
  };
}
