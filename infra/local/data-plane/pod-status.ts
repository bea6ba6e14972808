import type { KubeObject } from '#shared/kube/resources.ts';
import type { PodView } from './core.ts';
import { nodeAddress } from './node-object.ts';

type Pod = KubeObject<'Pod'>;

const phases = {
  pending: 'Pending',
  running: 'Running',
  ended: 'Running',
  failed: 'Failed',
  vanished: 'Running',
} as const satisfies Record<PodView['phase'], string>;

export function readinessOf(pod: Pod): string | undefined {
  return pod.status?.conditions?.find(({ type }) => type === 'Ready')?.status;
}

/** The status a kubelet reports for a pod like this, as a strategic merge patch; `undefined` where it is there already. */
export function podStatus(pod: Pod, view: PodView, now = new Date()): object | undefined {
  const phase = phases[view.phase];
  const ready = view.isReady ? 'True' : 'False';
  if (pod.status?.phase === phase && readinessOf(pod) === ready) {
    return undefined;
  }
  const at = now.toISOString();
  const isRunning = phase === 'Running';
  const condition = (type: string, status: string) => ({ type, status, lastTransitionTime: at });
  return {
    phase,
    hostIP: nodeAddress,
    ...(isRunning ? { podIP: view.ip, podIPs: [{ ip: view.ip }] } : {}),
    startTime: pod.status?.startTime ?? at,
    ...(phase === 'Failed' ? { reason: 'Error', message: 'its containers were killed' } : {}),
    conditions: [
      condition('Initialized', 'True'),
      condition('ContainersReady', ready),
      condition('Ready', ready),
    ],
    containerStatuses: (pod.spec?.containers ?? []).map(({ name, image = '' }) => ({
      name,
      image,
      imageID: image,
      ready: view.isReady,
      started: isRunning,
      restartCount: 0,
      state: containerState(phase, pod.status?.startTime ?? at, at),
    })),
  };
}

function containerState(phase: string, startedAt: string, at: string): object {
  switch (phase) {
    case 'Running':
      return { running: { startedAt } };
    case 'Failed':
      // 128 + SIGKILL
      return { terminated: { exitCode: 137, reason: 'Error', startedAt, finishedAt: at } };
    default:
      return { waiting: { reason: 'ContainerCreating' } };
  }
}
