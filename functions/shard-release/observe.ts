import {
  drainRequest,
  goverseAddress,
  releaseMirror,
  shutdownMode,
} from '#shared/api/annotations.ts';
import { durationSeconds } from '#shared/api/duration.ts';
import { goverseLabel } from '#shared/api/labels.ts';
import { fnv1a32 } from '#shared/api/names.ts';
import type { Ports } from '#shared/kernel/ports.ts';
import { type Present, mapRead, unknown } from '#shared/kernel/read.ts';
import { targetView } from '#shared/kernel/target-view.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import { readReleaseRecord } from './record.ts';
import type { ClusterView, PodView, ReleaseSnapshot } from './snapshot.ts';

/** What Kubernetes gives a pod to stop in that says nothing of it, in seconds. */
const usualGraceSeconds = 30;

/**
 * Reads what shard-release decides from: the keys first, because their mod revisions are compared when one is written, and
 * the pods after them.
 */
export async function observe(
  target: Present<KubeObject<'GoverseCluster'>>,
  ports: Ports,
  signal: AbortSignal,
): Promise<ReleaseSnapshot> {
  const cluster = clusterView(target.value, ports.clusterId);
  const record = readReleaseRecord(target.value.metadata);
  const quiet: ReleaseSnapshot = { cluster, record, view: notAsked, pods: notAsked };
  if (
    cluster.isPaused ||
    cluster.isBeingDeleted ||
    record.kind === 'unreadable' ||
    record.kind === 'foreign'
  ) {
    return quiet;
  }
  const view = await ports.goverse(target.value).view(signal);
  const pods = await ports.kube.list(
    'Pod',
    { namespace: cluster.namespace, labels: { [goverseLabel]: cluster.name } },
    signal,
  );
  return { ...quiet, view, pods: mapRead(pods, (list) => list.filter(isRunning).map(podView)) };
}

const notAsked = unknown('it was not asked');

export function clusterView(cluster: KubeObject<'GoverseCluster'>, clusterId: string): ClusterView {
  const { metadata, spec, status } = cluster;
  const { namespace = '', name } = metadata;
  return {
    ...targetView(cluster),
    shardCount: spec.shards,
    mode: spec.shutdown.mode,
    timeoutSeconds: durationSeconds(spec.shutdown.timeout),
    rebalance: spec.rebalance,
    mark: fnv1a32(clusterId, namespace, name),
    status: status ?? null,
  };
}

/** A pod that has ended keeps its address, which may be another one's by now. */
export function isRunning({ status }: KubeObject<'Pod'>): boolean {
  return status?.phase !== 'Succeeded' && status?.phase !== 'Failed';
}

export function podView({ metadata, spec, status }: KubeObject<'Pod'>): PodView {
  const { annotations = {} } = metadata;
  const mode = annotations[shutdownMode];
  return {
    name: metadata.name,
    uid: metadata.uid,
    resourceVersion: metadata.resourceVersion,
    ips: (status?.podIPs ?? []).flatMap(({ ip }) => (ip === undefined ? [] : [ip])),
    address: annotations[goverseAddress] ?? null,
    isBeingDeleted: metadata.deletionTimestamp !== undefined,
    isAskedToLeave: annotations[drainRequest] !== undefined,
    mode: mode === 'quick' || mode === 'clean' ? mode : null,
    graceSeconds: spec?.terminationGracePeriodSeconds ?? usualGraceSeconds,
    mirror: annotations[releaseMirror] ?? null,
  };
}
