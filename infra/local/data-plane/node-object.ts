/** The machine's own: the node has no network but the loopback interface. */
export const nodeAddress = '127.0.0.1';

export function nodeManifest(name: string): object {
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: {
      name,
      labels: { 'kubernetes.io/hostname': name, 'kubernetes.io/os': 'linux' },
    },
  };
}

/** A node's status while its kubelet reports, or as the node's controller writes it when the reports cease. */
export function nodeStatus(isReady: boolean, now: Date): object {
  const at = now.toISOString();
  const resources = { cpu: '64', memory: '256Gi', pods: '256' };
  return {
    addresses: [{ type: 'InternalIP', address: nodeAddress }],
    capacity: resources,
    allocatable: resources,
    conditions: [
      isReady
        ? {
            type: 'Ready',
            status: 'True',
            reason: 'KubeletReady',
            message: 'the stand-in runs',
            lastHeartbeatTime: at,
          }
        : {
            type: 'Ready',
            status: 'Unknown',
            reason: 'NodeStatusUnknown',
            message: 'the kubelet stopped posting node status',
          },
    ],
  };
}
