import pLimit from 'p-limit';
import type { KubeConnection } from '#shared/kube/connection.ts';
import { collectionPath } from '#shared/kube/http-kube.ts';
import type { JsonObject } from '#shared/kube/json.ts';
import type { KubeObject, ResourceKind } from '#shared/kube/resources.ts';
import { pooledShardManifest } from '#test/builders/manifest.ts';

export const namespace = 'bench';

/** Of every shard here: one pool in one cell. */
export const cell = 'zone-a';
export const membersOfShard = 3;

/** Objects created or changed at the same time. */
const writesAtOnce = 16;

/** Does the same for each item, some at a time, and resolves with the answers in order. */
export function forEach<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const limit = pLimit(writesAtOnce);
  return Promise.all(items.map((item) => limit(() => work(item))));
}

export async function createNamespace(connection: KubeConnection): Promise<void> {
  await send(connection, 'POST', '/api/v1/namespaces', { metadata: { name: namespace } });
}

/** @returns the object as the API server made it */
export async function create<K extends ResourceKind>(
  connection: KubeConnection,
  kind: K,
  object: JsonObject,
): Promise<KubeObject<K>> {
  return (await send(connection, 'POST', collectionPath(kind, namespace), object)) as KubeObject<K>;
}

export async function read<K extends ResourceKind>(
  connection: KubeConnection,
  kind: K,
  name: string,
): Promise<KubeObject<K>> {
  const path = `${collectionPath(kind, namespace)}/${name}`;
  return (await send(connection, 'GET', path)) as KubeObject<K>;
}

export async function patch(
  connection: KubeConnection,
  kind: ResourceKind,
  name: string,
  body: JsonObject,
): Promise<void> {
  const path = `${collectionPath(kind, namespace)}/${name}`;
  await send(connection, 'PATCH', path, body, 'application/merge-patch+json');
}

/** @param grace seconds until the object is gone; as the object says where it is left out */
export async function remove(
  connection: KubeConnection,
  kind: ResourceKind,
  name: string,
  { grace }: { readonly grace?: number } = {},
): Promise<void> {
  const path = `${collectionPath(kind, namespace)}/${name}`;
  const options: JsonObject = grace === undefined ? {} : { gracePeriodSeconds: grace };
  await send(connection, 'DELETE', path, options);
}

/** As a kubelet writes it: what is not named stays. */
export async function patchPodStatus(
  connection: KubeConnection,
  name: string,
  status: JsonObject,
): Promise<void> {
  const path = `${collectionPath('Pod', namespace)}/${name}/status`;
  await send(connection, 'PATCH', path, { status }, 'application/strategic-merge-patch+json');
}

async function send(
  connection: KubeConnection,
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE',
  path: string,
  body?: JsonObject,
  contentType = 'application/json',
): Promise<unknown> {
  const answer = await connection.request({
    method,
    path,
    ...(body === undefined ? {} : { contentType, body }),
  });
  if (answer.status >= 300) {
    throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
  }
  return answer.body;
}

export function shardManifest(name: string, database: string): JsonObject {
  return pooledShardManifest(name, { database, replicasPerCell: membersOfShard });
}
