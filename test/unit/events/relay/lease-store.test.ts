import { describe, expect, test } from 'vitest';
import { LeaseUnavailable, leaseOnServer } from '#events/relay/lease-store.ts';
import type { KubeConnection, KubeRequest, KubeResponse } from '#shared/kube/connection.ts';

const lease = {
  metadata: { name: 'relay', resourceVersion: '7', labels: { app: 'millrace' } },
  spec: { holderIdentity: 'other', leaseDurationSeconds: 15, leaseTransitions: 3, strategy: 'x' },
};

const claim = {
  holderIdentity: 'me',
  leaseDurationSeconds: 15,
  acquireTime: '2026-01-01T00:00:00.000000Z',
  renewTime: '2026-01-01T00:00:00.000000Z',
};

/** An API server that gives one answer, and what it was asked. */
function setUp(response: KubeResponse) {
  const asked: KubeRequest[] = [];
  const connection: KubeConnection = {
    async request(request) {
      asked.push(request);
      return response;
    },
    stream() {
      throw new Error('a Lease is not watched');
    },
    close() {
      // Nothing is open.
    },
  };
  const store = leaseOnServer(connection, { namespace: 'ops', name: 'relay' }, 2_500);
  return { store, asked };
}

describe('a Lease on an API server', () => {
  test('is read as it is', async () => {
    const { store, asked } = setUp({ status: 200, body: lease });

    const read = await store.read();

    expect(read).toEqual(lease);
    expect(asked).toEqual([
      {
        method: 'GET',
        path: '/apis/coordination.k8s.io/v1/namespaces/ops/leases/relay',
        timeoutMs: 2_500,
      },
    ]);
  });

  test('is written over the version that was read, with every field of others kept', async () => {
    const { store, asked } = setUp({ status: 200, body: lease });

    await store.update(lease, claim);

    expect(asked[0]).toMatchObject({
      method: 'PUT',
      body: { metadata: lease.metadata, spec: { ...lease.spec, ...claim } },
    });
  });

  test('is created by name in its namespace', async () => {
    const { store, asked } = setUp({ status: 201, body: lease });

    await store.create(claim);

    expect(asked[0]).toMatchObject({
      method: 'POST',
      path: '/apis/coordination.k8s.io/v1/namespaces/ops/leases',
      body: { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: { name: 'relay' } },
    });
  });

  test('that somebody else wrote first is told from one that cannot be had', async () => {
    const conflict = setUp({ status: 409, body: {} }).store;
    const missing = setUp({ status: 404, body: { message: 'not found' } }).store;

    expect(await conflict.update(lease, claim)).toBeUndefined();
    expect(await conflict.create(claim)).toBeUndefined();
    expect(await missing.read()).toBeUndefined();
    expect(await missing.update(lease, claim)).toBeUndefined();
    await expect(missing.create(claim)).rejects.toThrow(new LeaseUnavailable('not found', 0));
  });

  test.each([
    [{ status: 403, body: { message: 'leases is forbidden' } }, 'leases is forbidden', 0],
    [
      { status: 429, body: 'slow down', retryAfterSeconds: 2 },
      'the API server answered 429',
      2_000,
    ],
    [{ status: 200, body: { kind: 'Status' } }, 'the answer is no Lease', 0],
    [{ status: 200, body: 'hello' }, 'the answer is no Lease', 0],
  ] as const)('answered with %j cannot be had', async (response, why, retryAfterMs) => {
    const { store } = setUp(response);

    const error = await store.read().catch((error: unknown) => error);

    expect(error).toBeInstanceOf(LeaseUnavailable);
    expect(error).toMatchObject({ message: why, retryAfterMs });
  });
});
