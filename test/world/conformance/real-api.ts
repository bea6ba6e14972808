import type { KubeConnection } from '#shared/kube/connection.ts';
import { collectionPath } from '#shared/kube/http-kube.ts';
import type { ServedApi } from './script.ts';

/**
 * Controllers act within a second, but the garbage collector learns of a kind that it meets as an owner for the first time
 * only when it looks for new kinds, every 30 s (`gc.Sync` in its controller).
 */
const patienceMs = 90_000;

/**
 * A real API server and its controller manager.
 *
 * @param etcdEndpoint of the etcd behind it, which is told to forget its history
 */
export function serveReal(connection: KubeConnection, etcdEndpoint: string): ServedApi {
  return {
    connection,
    async control(kind, isDone) {
      const signal = AbortSignal.timeout(patienceMs);
      // The watch begins with what is there, so nothing happens between the question and it.
      const { lines } = await connection.stream({
        method: 'GET',
        path: collectionPath(kind, undefined),
        query: { watch: '1' },
        signal,
      });
      if (await isDone()) {
        return;
      }
      for await (const line of lines) {
        if (line !== '' && (await isDone())) {
          return;
        }
      }
      throw new Error(`nothing more happens to any ${kind}`);
    },
    async compact() {
      const ask = async (path: string, body: object) => {
        const response = await fetch(`${etcdEndpoint}/v3/kv/${path}`, {
          method: 'POST',
          body: JSON.stringify(body),
        });
        return (await response.json()) as { header?: { revision?: string } };
      };
      const key = Buffer.from('compaction').toString('base64');
      const { header } = await ask('range', { key });
      await ask('compaction', { revision: header?.revision, physical: true });
    },
  };
}
