import { setTimeout as delay } from 'node:timers/promises';
import type { KubeConnection } from '#shared/kube/connection.ts';
import { collectionPath } from '#shared/kube/http-kube.ts';
import type { KubeObject } from '#shared/kube/resources.ts';

/** The kinds the show looks at. */
const followed = ['Shard', 'Pod', 'PersistentVolumeClaim'] as const;
type Followed = (typeof followed)[number];

/** What the API server holds in one namespace, followed by watches. */
export interface World {
  all<K extends Followed>(kind: K): readonly KubeObject<K>[];
  get<K extends Followed>(kind: K, name: string): KubeObject<K> | undefined;
  /** Called after every change; the answer takes the listener away again. */
  onChange(listener: () => void): () => void;
  /**
   * Resolves as soon as the condition holds; looks after every change.
   *
   * @throws Error naming `what` when it does not within the time
   */
  until(what: string, seconds: number, holds: () => boolean): Promise<void>;
  close(): void;
}

type Objects = Map<string, KubeObject<Followed>>;

/** Lists and follows the namespace. A watch that ends begins again with a list. */
export async function followWorld(connection: KubeConnection, namespace: string): Promise<World> {
  const objects = new Map<Followed, Objects>();
  const listeners = new Set<() => void>();
  const closing = new AbortController();
  const touch = () => listeners.forEach((listener) => listener());
  await Promise.all(
    followed.map((kind) => {
      const ofKind: Objects = new Map();
      objects.set(kind, ofKind);
      const path = collectionPath(kind, namespace);
      return new Promise<void>((listed) => {
        const onChange = () => {
          listed();
          touch();
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
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    until: (what, seconds, holds) => until(listeners, what, seconds, holds),
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

function until(
  listeners: Set<() => void>,
  what: string,
  seconds: number,
  holds: () => boolean,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const finish = (end: () => void) => {
      clearTimeout(timer);
      listeners.delete(check);
      end();
    };
    const timer = setTimeout(
      () => finish(() => reject(new Error(`after ${seconds} s still not so: ${what}`))),
      seconds * 1000,
    );
    const check = () => {
      if (holds()) {
        finish(resolve);
      }
    };
    listeners.add(check);
    check();
  });
}
