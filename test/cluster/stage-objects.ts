import { expect } from 'vitest';
import type { KubeResponse } from '#shared/kube/connection.ts';
import { collectionPath } from '#shared/kube/http-kube.ts';
import type { ResourceKind } from '#shared/kube/resources.ts';
import type { StageUnderTest } from './a-stage.ts';

/** What people do to the objects of a stage's namespace. */
export function objectsOf(stageUnderTest: () => StageUnderTest) {
  async function ask(
    method: 'GET' | 'POST' | 'PATCH' | 'DELETE',
    kind: ResourceKind,
    name?: string,
    body?: unknown,
  ): Promise<KubeResponse> {
    const { connection, namespace } = stageUnderTest().stage;
    const collection = collectionPath(kind, namespace);
    return connection.request({
      method,
      path: name === undefined ? collection : `${collection}/${name}`,
      ...(body === undefined ? {} : { body }),
      ...(method === 'PATCH' ? { contentType: 'application/merge-patch+json' } : {}),
    });
  }

  /** Fails the test where it is refused. */
  async function create(kind: ResourceKind, manifest: object): Promise<void> {
    const answer = await ask('POST', kind, undefined, manifest);
    expect(answer.status, JSON.stringify(answer.body)).toBe(201);
  }

  return { ask, create };
}
