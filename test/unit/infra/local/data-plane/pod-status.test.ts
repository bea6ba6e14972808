import { describe, expect, test } from 'vitest';
import type { PodView } from '#infra/local/data-plane/core.ts';
import { podStatus } from '#infra/local/data-plane/pod-status.ts';
import type { KubeObject } from '#shared/kube/resources.ts';

type Pod = KubeObject<'Pod'>;

const now = new Date('2026-01-01T00:00:00Z');

function aPod(status: Pod['status'] = { phase: 'Pending' }): Pod {
  return {
    metadata: { name: 'orders-0', namespace: 'db', uid: 'a-uid', resourceVersion: '1' },
    spec: { containers: [{ name: 'pooler', image: 'pooler:1' }] },
    status,
  };
}

function aView(changes: Partial<PodView> = {}): PodView {
  return { phase: 'running', isReady: true, ip: '10.244.0.7', ...changes };
}

describe('the status of a pod', () => {
  test('says that it runs and is ready, where, and since when', () => {
    expect(podStatus(aPod(), aView(), now)).toMatchObject({
      phase: 'Running',
      podIP: '10.244.0.7',
      startTime: '2026-01-01T00:00:00.000Z',
      conditions: [
        { type: 'Initialized', status: 'True' },
        { type: 'ContainersReady', status: 'True' },
        { type: 'Ready', status: 'True' },
      ],
      containerStatuses: [{ name: 'pooler', ready: true, state: { running: {} } }],
    });
  });

  test('keeps when the pod was started', () => {
    const startTime = '2025-12-31T23:00:00Z';

    expect(podStatus(aPod({ phase: 'Pending', startTime }), aView(), now)).toMatchObject({
      startTime,
    });
  });

  test('is not written again when it is there', () => {
    const pod = aPod({
      phase: 'Running',
      conditions: [{ type: 'Ready', status: 'True' }],
    });

    expect(podStatus(pod, aView(), now)).toBeUndefined();
    expect(podStatus(pod, aView({ isReady: false }), now)).toMatchObject({ phase: 'Running' });
  });

  test('of killed containers is Failed with their exit code', () => {
    expect(podStatus(aPod(), aView({ phase: 'failed', isReady: false }), now)).toMatchObject({
      phase: 'Failed',
      containerStatuses: [{ ready: false, state: { terminated: { exitCode: 137 } } }],
    });
  });

  test('of a pod whose containers are made has no address yet', () => {
    const status = podStatus(aPod(), aView({ phase: 'pending', isReady: false }), now);

    expect(status).toMatchObject({ phase: 'Pending' });
    expect(status).not.toHaveProperty('podIP');
  });
});
