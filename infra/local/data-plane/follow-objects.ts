import { setTimeout as delay } from 'node:timers/promises';
import * as z from 'zod';
import { describeError } from '#shared/kernel/errors.ts';
import type { Logger } from '#shared/kernel/logger.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import { collectionPath } from '#shared/kube/http-kube.ts';
import type { KubeObject, ResourceKind } from '#shared/kube/resources.ts';

/** After this the API server ends a watch, and everything is listed again. */
const watchSeconds = 60;

const retryMs = 250;

const pageSize = 500;

const listSchema = z.looseObject({
  metadata: z.looseObject({ resourceVersion: z.string(), continue: z.string().optional() }),
  items: z.array(z.looseObject({ metadata: z.looseObject({ uid: z.string() }) })),
});

const eventSchema = z.looseObject({
  type: z.enum(['ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK', 'ERROR']),
  object: z.looseObject({ metadata: z.looseObject({ uid: z.string().optional() }).optional() }),
});

export interface Follower<K extends ResourceKind> {
  /** The whole list, each time it was read. */
  onList(objects: readonly KubeObject<K>[]): void;
  onChange(object: KubeObject<K>): void;
  onGone(object: KubeObject<K>): void;
}

/**
 * Lists and watches one kind over all namespaces until the signal. A watch that ends, however it ends, begins again with
 * a list, so nothing that happened in between is missed.
 */
export async function followObjects<K extends ResourceKind>(
  connection: KubeConnection,
  kind: K,
  labelSelector: string | undefined,
  follower: Follower<K>,
  { signal, log }: { readonly signal: AbortSignal; readonly log: Logger },
): Promise<void> {
  const selected = labelSelector === undefined ? {} : { labelSelector };
  while (!signal.aborted) {
    try {
      const { objects, resourceVersion } = await list(connection, kind, selected, signal);
      follower.onList(objects);
      await watch(connection, kind, { ...selected, resourceVersion }, follower, signal);
    } catch (error) {
      if (!signal.aborted) {
        log.warn({ kind, error: describeError(error) }, 'the API server cannot be followed');
        await delay(retryMs, undefined, { signal }).catch(() => undefined);
      }
    }
  }
}

async function list<K extends ResourceKind>(
  connection: KubeConnection,
  kind: K,
  selected: { readonly [name: string]: string },
  signal: AbortSignal,
): Promise<{ objects: KubeObject<K>[]; resourceVersion: string }> {
  const objects: KubeObject<K>[] = [];
  let token = '';
  for (;;) {
    const { status, body } = await connection.request({
      method: 'GET',
      path: collectionPath(kind, undefined),
      query: {
        ...selected,
        limit: String(pageSize),
        ...(token === '' ? {} : { continue: token }),
      },
      signal,
    });
    if (status !== 200) {
      throw new Error(`the list is answered with ${status}`);
    }
    const { metadata } = listSchema.parse(body);
    objects.push(...(body as { items: KubeObject<K>[] }).items);
    token = metadata.continue ?? '';
    if (token === '') {
      return { objects, resourceVersion: metadata.resourceVersion };
    }
  }
}

async function watch<K extends ResourceKind>(
  connection: KubeConnection,
  kind: K,
  query: { readonly [name: string]: string },
  follower: Follower<K>,
  signal: AbortSignal,
): Promise<void> {
  const { status, lines } = await connection.stream({
    method: 'GET',
    path: collectionPath(kind, undefined),
    query: { ...query, watch: 'true', timeoutSeconds: String(watchSeconds) },
    signal,
  });
  if (status !== 200) {
    throw new Error(`the watch is answered with ${status}`);
  }
  for await (const line of lines) {
    const event: unknown = JSON.parse(line);
    const { type } = eventSchema.parse(event);
    const { object } = event as { object: KubeObject<K> };
    switch (type) {
      case 'ADDED':
      case 'MODIFIED':
        follower.onChange(object);
        break;
      case 'DELETED':
        follower.onGone(object);
        break;
      case 'BOOKMARK':
        break;
      case 'ERROR':
        // Most often 410: what the watch would go on from is too old.
        return;
    }
  }
}
