import { poolerName } from '#shared/api/names.ts';
import type { KubeRequest } from '#shared/kube/connection.ts';
import { collectionPath } from '#shared/kube/http-kube.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import { nodeManifest, nodeStatus } from './node-object.ts';
import { readinessOf } from './pod-status.ts';
import type { PodOnNode } from './state.ts';

/*
 * What scheduler, volume binder, kubelet and the node's controller ask of the API server, as data: who sends it, and
 * whether anybody waits for the answer, is the caller's business.
 */

export type Pod = KubeObject<'Pod'>;
export type Claim = KubeObject<'PersistentVolumeClaim'>;

/** A volume of a pod that a claim provides. */
export interface ClaimedVolume {
  readonly volume: string;
  readonly claim: Claim;
}

const strategicMergePatch = 'application/strategic-merge-patch+json';

function podPath({ metadata }: Pod): string {
  return `${collectionPath('Pod', metadata.namespace)}/${metadata.name}`;
}

/** `undefined` where the pod is on its way out, or not yet to be scheduled. */
export function bindPod(pod: Pod, nodeName: string): KubeRequest | undefined {
  const { name, uid, deletionTimestamp } = pod.metadata;
  const isGated = (pod.spec?.schedulingGates ?? []).length > 0;
  if (deletionTimestamp !== undefined || isGated) {
    return undefined;
  }
  return {
    method: 'POST',
    path: `${podPath(pod)}/binding`,
    body: {
      apiVersion: 'v1',
      kind: 'Binding',
      metadata: { name, uid },
      target: { apiVersion: 'v1', kind: 'Node', name: nodeName },
    },
  };
}

/** `undefined` where the claim is bound. */
export function bindClaim(claim: Claim): KubeRequest | undefined {
  if (claim.status?.phase === 'Bound') {
    return undefined;
  }
  const { namespace, name, uid } = claim.metadata;
  return {
    method: 'PATCH',
    path: `${collectionPath('PersistentVolumeClaim', namespace)}/${name}/status`,
    contentType: 'application/merge-patch+json',
    body: {
      metadata: { uid },
      status: {
        phase: 'Bound',
        accessModes: claim.spec?.accessModes ?? [],
        capacity: claim.spec?.resources?.requests ?? {},
      },
    },
  };
}

/** @param status a strategic merge patch */
export function patchPodStatus(pod: Pod, status: object): KubeRequest {
  return {
    method: 'PATCH',
    path: `${podPath(pod)}/status`,
    contentType: strategicMergePatch,
    body: { metadata: { uid: pod.metadata.uid }, status },
  };
}

/** What the node's controller does with the pods of a node that it no longer hears; `undefined` where it is done. */
export function markUnready(pod: Pod, now: Date): KubeRequest | undefined {
  if (readinessOf(pod) !== 'True') {
    return undefined;
  }
  const condition = { type: 'Ready', status: 'False', reason: 'NodeNotReady' };
  return patchPodStatus(pod, {
    conditions: [{ ...condition, lastTransitionTime: now.toISOString() }],
  });
}

/** The end of a pod whose processes are gone. */
export function removePod(pod: Pod): KubeRequest {
  return {
    method: 'DELETE',
    path: podPath(pod),
    body: { gracePeriodSeconds: 0, preconditions: { uid: pod.metadata.uid } },
  };
}

export function createNode(name: string): KubeRequest {
  return { method: 'POST', path: collectionPath('Node', undefined), body: nodeManifest(name) };
}

export function reportNode(name: string, isReady: boolean, now: Date): KubeRequest {
  return {
    method: 'PATCH',
    path: `${collectionPath('Node', undefined)}/${name}/status`,
    contentType: strategicMergePatch,
    body: { status: nodeStatus(isReady, now) },
  };
}

/**
 * The claims of the pod's volumes; `undefined` as long as one is missing or on its way out.
 *
 * @param find the claim of this name in the pod's namespace
 */
export function claimsOf(
  pod: Pod,
  find: (name: string) => Claim | undefined,
): readonly ClaimedVolume[] | undefined {
  const found: ClaimedVolume[] = [];
  for (const { name, persistentVolumeClaim } of pod.spec?.volumes ?? []) {
    if (persistentVolumeClaim !== undefined) {
      const claim = find(persistentVolumeClaim.claimName);
      if (claim === undefined || claim.metadata.deletionTimestamp !== undefined) {
        return undefined;
      }
      found.push({ volume: name, claim });
    }
  }
  return found;
}

/** How long the pod may take to stop, in seconds: what its deletion said, not its spec. `undefined` before it. */
export function deletionGraceSeconds({ metadata }: Pod): number | undefined {
  return (metadata as Pod['metadata'] & { readonly deletionGracePeriodSeconds?: number })
    .deletionGracePeriodSeconds;
}

/** The pooler keeps its data on the volume `data`, else on the pod's first claim, else in the pod itself. */
export function podOnNode(pod: Pod, cell: string, claims: readonly ClaimedVolume[]): PodOnNode {
  const { uid, name, namespace = '' } = pod.metadata;
  const data = claims.find(({ volume }) => volume === 'data') ?? claims[0];
  const hostname = pod.spec?.hostname ?? name;
  const { subdomain } = pod.spec ?? {};
  return {
    uid,
    namespace,
    name,
    cell,
    poolerName: poolerName(cell, name),
    hostname:
      subdomain === undefined
        ? hostname
        : `${hostname}.${subdomain}.${namespace}.svc.cluster.local`,
    volume: data?.claim.metadata.uid ?? uid,
  };
}
