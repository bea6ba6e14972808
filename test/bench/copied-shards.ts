import { randomUUID } from 'node:crypto';
import { Etcd3 } from 'etcd3';
import { forEach, namespace } from './objects.ts';

/** Writes in one transaction; etcd takes 128 (its `--max-txn-ops`). */
const writesOfTransaction = 100;

/** Where the API server keeps the objects of a shard. */
const prefixes = [`/registry/millrace.dev/shards/${namespace}/`, `/registry/pods/${namespace}/`];

const uidPattern = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;

/**
 * Copies a Shard and its pods in the API server's own etcd, which then tells of each copy as of any object. 130,000 objects
 * take half a minute so, and half an hour by requests.
 *
 * Names and uids are written over others of the same length, so nothing else in a stored object moves, whatever its form.
 *
 * @param names of the copies, each as long as the original's
 */
export async function copyShard(
  endpoint: string,
  original: string,
  names: readonly string[],
): Promise<void> {
  const client = new Etcd3({ hosts: endpoint });
  try {
    const stored = await Promise.all(
      prefixes.map((prefix) => client.getAll().prefix(`${prefix}${original}`).buffers()),
    );
    const objects = Object.entries(Object.assign({}, ...stored) as Record<string, Buffer>);
    const perTransaction = Math.floor(writesOfTransaction / objects.length);
    const batches = Array.from({ length: Math.ceil(names.length / perTransaction) }, (_, place) =>
      names.slice(place * perTransaction, (place + 1) * perTransaction),
    );
    await forEach(batches, async (batch) => {
      const writes = batch.flatMap((name) =>
        copies(objects, original, name).map(({ key, value }) => client.put(key).value(value)),
      );
      await client
        .if(`bench/${batch[0] ?? ''}`, 'Version', '==', 0)
        .then(...writes)
        .commit();
    });
  } finally {
    client.close();
  }
}

interface Stored {
  readonly key: string;
  readonly value: Buffer;
}

/** Each uid among them becomes another one, the same wherever it stands. */
function copies(
  objects: readonly (readonly [string, Buffer])[],
  original: string,
  name: string,
): Stored[] {
  const uids = new Map<string, string>();
  const uidFor = (uid: string): string => {
    const known = uids.get(uid) ?? randomUUID();
    uids.set(uid, known);
    return known;
  };
  return objects.map(([key, value]) => ({
    key: key.replaceAll(original, name),
    value: Buffer.from(
      value.toString('latin1').replaceAll(original, name).replaceAll(uidPattern, uidFor),
      'latin1',
    ),
  }));
}
