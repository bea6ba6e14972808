import type { ReflectorSink } from '#events/relay/reflector.ts';
import type { WatchedObject } from '#events/relay/watched-object.ts';

let lastVersion = 1_000;

/** The next version that an API server would give. */
function nextVersion(): string {
  lastVersion += 1;
  return String(lastVersion);
}

type Metadata = Partial<WatchedObject['metadata']>;

function anObject(name: string, metadata: Metadata, rest: object): WatchedObject {
  return {
    metadata: {
      name,
      namespace: 'db',
      uid: `uid-${name}`,
      resourceVersion: nextVersion(),
      generation: 1,
      ...metadata,
    },
    ...rest,
  };
}

/** A Shard as it is served; refers to the Database `orders`. */
export function aShard(name: string, metadata: Metadata = {}, rest: object = {}): WatchedObject {
  return anObject(name, metadata, { spec: { databaseRef: { name: 'orders' } }, ...rest });
}

export function aDatabase(name: string, metadata: Metadata = {}, rest: object = {}): WatchedObject {
  return anObject(name, metadata, rest);
}

/** A pod of the shard as a metadata-only watch serves it. */
export function aPod(name: string, shard: string, metadata: Metadata = {}): WatchedObject {
  return anObject(name, { labels: { 'millrace.dev/shard': shard }, ...metadata }, {});
}

/** The same object after a write. */
export function written(
  object: WatchedObject,
  metadata: Metadata,
  rest: object = {},
): WatchedObject {
  return {
    ...object,
    ...rest,
    metadata: { ...object.metadata, resourceVersion: nextVersion(), ...metadata },
  };
}

/** A step's record that asks to be woken; the rest of it does not matter to the relay. */
export function aRecord(step: string, wake?: object, state = 'requested'): Record<string, string> {
  const text = JSON.stringify({ v: 1, state, ...(wake === undefined ? {} : { wake }) });
  return { [`step.millrace.dev/${step}`]: text };
}

/** Tells a sink of a complete list. */
export function listAll(sink: ReflectorSink | undefined, objects: readonly WatchedObject[]): void {
  sink?.began();
  for (const object of objects) {
    sink?.listed(object);
  }
  sink?.completed('stream');
}
