import { describe, expect, test } from 'vitest';
import type { RetryableError } from '#shared/kernel/errors.ts';
import type { KubeConnection, KubeResponse } from '#shared/kube/connection.ts';
import { kubeClient } from '#shared/kube/http-kube.ts';

const shard = { kind: 'Shard', namespace: 'db', name: 'orders' } as const;

/** A client of whoever answers everything in this way. */
function clientOf(response: KubeResponse) {
  const connection: KubeConnection = {
    request: async () => response,
    stream: () => expect.unreachable('nothing is watched'),
    close: () => undefined,
  };
  return kubeClient(connection);
}

const page = '<html>Welcome</html>';

describe.each<[string, KubeResponse]>([
  ['a page', { status: 200, body: page }],
  ['an answer of another API', { status: 200, body: { message: 'hello' } }],
  ['nothing', { status: 200, body: '' }],
  ['a page that is missing', { status: 404, body: page }],
  ['a 404 of another API', { status: 404, body: { message: 'Not Found' } }],
])('what answers with %s is no API server, so', (_what, response) => {
  test('whether an object exists is unknown', async () => {
    const read = await clientOf(response).get(shard);

    expect(read.kind).toBe('unknown');
  });

  test('a list is unknown, not empty', async () => {
    const read = await clientOf(response).list('Pod', { namespace: 'db' });

    expect(read.kind).toBe('unknown');
  });

  test('nothing counts as deleted', async () => {
    const deleting = clientOf(response).delete(shard, { uid: 'a', resourceVersion: '1' });

    const ending = await deleting.catch(({ reason }: RetryableError) => ({ kind: reason }));

    expect(['lostRace', 'WriteOutcomeUnknown']).toContain(ending.kind);
  });
});

test('a write that a page answered has an unknown outcome', async () => {
  const client = clientOf({ status: 200, body: page });

  const writing = client.create(shard, { metadata: { name: 'orders' } });

  await expect(writing).rejects.toMatchObject({ reason: 'WriteOutcomeUnknown' });
});

test('an object of a kind that the cluster does not have is unknown, and what to do is said', async () => {
  const read = await clientOf({ status: 404, body: '404 page not found\n' }).get(shard);

  expect(read).toEqual({
    kind: 'unknown',
    why: 'reading Shard db/orders: 404: the cluster has no such kind: install the definitions, see `millrace manifests`',
  });
});

test('an object that the API server says is not there is absent, and deleted', async () => {
  const client = clientOf({ status: 404, body: { kind: 'Status', reason: 'NotFound' } });

  const read = await client.get(shard);
  const deleted = await client.delete(shard, { uid: 'a', resourceVersion: '1' });

  expect(read).toEqual({ kind: 'absent' });
  expect(deleted.kind).toBe('written');
});

test('a write that is refused names the fields that are wrong, and nothing that may be a value', async () => {
  const causes = [
    { reason: 'FieldValueInvalid', field: 'spec.template.spec.containers[0].env[1]' },
    { reason: 'it is not canary', field: 'spec' },
    { reason: 'FieldValueInvalid', field: 'spec: "canary"' },
  ];
  const body = { kind: 'Status', reason: 'Invalid', message: 'canary', details: { causes } };

  const writing = clientOf({ status: 422, body }).create(shard, { metadata: { name: 'orders' } });

  await expect(writing).rejects.toMatchObject({
    message:
      'writing Shard db/orders: 422 Invalid (spec.template.spec.containers[0].env[1]: FieldValueInvalid)',
  });
});
