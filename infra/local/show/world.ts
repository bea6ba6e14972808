import { setTimeout as delay } from 'node:timers/promises';
import type { KubeConnection } from '#shared/kube/connection.ts';
import { collectionPath } from '#shared/kube/http-kube.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import { Changes } from './changes.ts';

/** The kinds the show looks at. */
const followed = [
  'Database',
  'Shard',
  'GoverseCluster',
  'Pod',
  'PersistentVolumeClaim',
  'Event',
] as const;
type Followed = (typeof followed)[number];

/** What the API server holds in one namespace, followed by watches. */
export interface World {
  all<K extends Followed>(kind: K): readonly KubeObject<K>[];
  get<K extends Followed>(kind: K, name: string): KubeObject<K> | undefined;
  /** Called after every change; the answer takes the listener away again. */
  onChange(listener: () => void): () => void;
  /** As {@link Changes.until}. */
  until(what: string, seconds: number, holds: () => boolean): Promise<void>;
  close(): void;
}

type Objects = Map<string, KubeObject<Followed>>;

/** Lists and follows the namespace. A watch that ends begins again with a list. */
export async function followWorld(connection: KubeConnection, namespace: string): Promise<World> {
  const objects = new Map<Followed, Objects>();
  const changes = new Changes();
  const closing = new AbortController();
  await Promise.all(
    followed.map((kind) => {
      const ofKind: Objects = new Map();
      objects.set(kind, ofKind);
      const path = collectionPath(kind, namespace);
      return new Promise<void>((listed) => {
        const onChange = () => {
          listed();
          changes.touch();
        };
        void follow({ connection, path, objects: ofKind, onChange, signal: closing.signal });
      });
    }),
  );
  return {
    all: <K extends Followed>(kind: K) =>
      [...(objects.get(kind)?.values() ?? [])] as KubeObject<K>[],
    get: <K extends Followed>(kind: K, name: string) =>
      objects.get(kind)?.get(name) as KubeObject<K> | undefined,
    onChange: (listener) => changes.onChange(listener),
    until: (what, seconds, holds) => changes.until(what, seconds, holds),
    close: () => closing.abort(),
  };
}

interface Following {
  readonly connection: KubeConnection;
  readonly path: string;
  readonly objects: Objects;
  /** Called after the list and after every change. */
  readonly onChange: () => void;
  readonly signal: AbortSignal;
}

async function follow(following: Following): Promise<void> {
  while (!following.signal.aborted) {
    try {
      await watch(following, await list(following));
    } catch {
      // The API server is away; the next list tells what happened meanwhile.
      await delay(200, undefined, { signal: following.signal }).catch(() => undefined);
    }
  }
}

async function list({ connection, path, objects, onChange, signal }: Following): Promise<string> {
  const { status, body } = await connection.request({ method: 'GET', path, signal });
  if (status !== 200) {
    throw new Error(`listing ${path}: ${status}`);
  }
  const { items, metadata } = body as {
    items: KubeObject<Followed>[];
    metadata: { resourceVersion: string };
  };
  objects.clear();
  items.forEach((item) => objects.set(item.metadata.name, item));
  onChange();
  return metadata.resourceVersion;
}

async function watch(
  { connection, path, objects, onChange, signal }: Following,
  resourceVersion: string,
): Promise<void> {
  const query = { watch: 'true', resourceVersion };
  const { lines } = await connection.stream({ method: 'GET', path, query, signal });
  for await (const line of lines) {
    const { type, object } = JSON.parse(line) as { type: string; object: KubeObject<Followed> };
    if (type === 'ERROR') {
      return;
    }
    if (type === 'DELETED') {
      objects.delete(object.metadata.name);
    } else {
      objects.set(object.metadata.name, object);
    }
    onChange();
  }
}
