import { describe, expect, test } from 'vitest';
import {
  type Claim,
  type Pod,
  bindClaim,
  bindPod,
  claimsOf,
  deletionGraceSeconds,
  markUnready,
  podOnNode,
  removePod,
} from '#infra/local/data-plane/node-requests.ts';

const now = new Date('2026-01-01T00:00:00Z');

function aPod(changes: { metadata?: object; spec?: object; status?: object } = {}): Pod {
  const metadata = { name: 'orders-0', namespace: 'db', uid: 'pod-uid', resourceVersion: '7' };
  return {
    metadata: { ...metadata, ...changes.metadata },
    spec: { containers: [], ...changes.spec },
    ...(changes.status === undefined ? {} : { status: changes.status }),
  };
}

function aClaim(name: string, changes: object = {}): Claim {
  return {
    metadata: { name, namespace: 'db', uid: `uid-of-${name}`, resourceVersion: '3' },
    ...changes,
  };
}

function volume(name: string, claimName: string) {
  return { name, persistentVolumeClaim: { claimName } };
}

describe('a pod is bound', () => {
  test('by its uid, so that another one of its name is not', () => {
    const request = bindPod(aPod(), 'a-node');

    expect(request).toMatchObject({
      method: 'POST',
      path: '/api/v1/namespaces/db/pods/orders-0/binding',
      body: { metadata: { uid: 'pod-uid' }, target: { kind: 'Node', name: 'a-node' } },
    });
  });

  test('neither on its way out nor while a gate holds it back', () => {
    const leaving = aPod({ metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } });
    const gated = aPod({ spec: { schedulingGates: [{ name: 'example.com/wait' }] } });

    expect([leaving, gated].map((pod) => bindPod(pod, 'a-node'))).toEqual([undefined, undefined]);
  });
});

describe('the claims of a pod', () => {
  const pod = aPod({
    spec: { volumes: [volume('logs', 'logs-0'), { name: 'tmp' }, volume('data', 'data-0')] },
  });

  test('are those its volumes name', () => {
    const claims = claimsOf(pod, (name) => aClaim(name));

    expect(claims?.map(({ volume, claim }) => [volume, claim.metadata.name])).toEqual([
      ['logs', 'logs-0'],
      ['data', 'data-0'],
    ]);
  });

  test('are not there while one is missing or on its way out', () => {
    const leaving = aClaim('data-0');
    const marked = { ...leaving.metadata, deletionTimestamp: '2026-01-01T00:00:00Z' };

    const missing = claimsOf(pod, (name) => (name === 'data-0' ? undefined : aClaim(name)));
    const ending = claimsOf(pod, (name) =>
      name === 'data-0' ? { ...leaving, metadata: marked } : aClaim(name),
    );

    expect([missing, ending]).toEqual([undefined, undefined]);
  });

  test('are bound once', () => {
    const request = bindClaim(aClaim('data-0'));
    const bound = bindClaim(aClaim('data-0', { status: { phase: 'Bound' } }));

    expect(request).toMatchObject({
      method: 'PATCH',
      path: '/api/v1/namespaces/db/persistentvolumeclaims/data-0/status',
      body: { metadata: { uid: 'uid-of-data-0' }, status: { phase: 'Bound' } },
    });
    expect(bound).toBeUndefined();
  });

  test('hold its data: the one of the volume `data`, else the first, else the pod itself', () => {
    const of = (...names: readonly string[]) =>
      podOnNode(
        aPod(),
        'zone-a',
        names.map((name) => ({ volume: name, claim: aClaim(name) })),
      ).volume;

    expect([of('logs', 'data'), of('logs', 'other'), of()]).toEqual([
      'uid-of-data',
      'uid-of-logs',
      'pod-uid',
    ]);
  });
});

test('a pooler is reached by its name in the subdomain of its pod, or by its bare name', () => {
  const inSubdomain = podOnNode(aPod({ spec: { subdomain: 'orders' } }), 'zone-a', []);
  const alone = podOnNode(aPod({ spec: { hostname: 'other' } }), 'zone-a', []);

  expect(inSubdomain.hostname).toBe('orders-0.orders.db.svc.cluster.local');
  expect(alone.hostname).toBe('other');
});

test('a pod of a lost node is marked unready once', () => {
  const withReady = (status: string) =>
    aPod({ status: { conditions: [{ type: 'Ready', status }] } });

  const request = markUnready(withReady('True'), now);

  expect(request?.body).toEqual({
    metadata: { uid: 'pod-uid' },
    status: {
      conditions: [
        {
          type: 'Ready',
          status: 'False',
          reason: 'NodeNotReady',
          lastTransitionTime: '2026-01-01T00:00:00.000Z',
        },
      ],
    },
  });
  expect(markUnready(withReady('False'), now)).toBeUndefined();
});

test('a pod is removed by its uid, without grace; how long it may take to stop is what its deletion said', () => {
  const pod = aPod({ metadata: { deletionGracePeriodSeconds: 45 } });

  const request = removePod(pod);

  expect(request).toMatchObject({
    method: 'DELETE',
    path: '/api/v1/namespaces/db/pods/orders-0',
    body: { gracePeriodSeconds: 0, preconditions: { uid: 'pod-uid' } },
  });
  expect([deletionGraceSeconds(pod), deletionGraceSeconds(aPod())]).toEqual([45, undefined]);
});
