import { releasedClaim } from '#shared/api/annotations.ts';
import { cellLabel, indexLabel, poolLabel, shardLabel } from '#shared/api/labels.ts';
import { claimName, podBaseName, podName, serviceName } from '#shared/api/names.ts';
import type { KubeObject } from '#shared/kube/resources.ts';

/** Where a member belongs. */
export interface Place {
  readonly pool: string;
  readonly cell: string;
}

const mainPlace: Place = { pool: 'main', cell: 'zone-a' };

type Metadata = KubeObject<'Pod'>['metadata'];

/** The pod at an index of a shard's pool `main` in `zone-a`, controlled by the shard, on its claim, not ready. */
export function aPod(shard: KubeObject<'Shard'>, index: number, place = mainPlace): PodBuilder {
  const name = nameOfPod(shard, index, place);
  return new PodBuilder({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name,
      namespace: shard.metadata.namespace ?? '',
      uid: `uid-of-${name}`,
      resourceVersion: '1',
      labels: labelsOf(shard, index, place),
      annotations: {},
      ownerReferences: [ownerOf(shard.metadata)],
    },
    spec: {
      hostname: name,
      subdomain: serviceName(shard.metadata.name),
      containers: [{ name: 'pooler', image: 'pooler:1' }],
      volumes: [{ name: 'data', persistentVolumeClaim: { claimName: claimName(name) } }],
    },
    status: { phase: 'Pending', conditions: [] },
  });
}

export class PodBuilder {
  readonly #pod: KubeObject<'Pod'>;

  constructor(pod: KubeObject<'Pod'>) {
    this.#pod = pod;
  }

  ready(): PodBuilder {
    return new PodBuilder({
      ...this.#pod,
      status: { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] },
    });
  }

  failed(): PodBuilder {
    return new PodBuilder({ ...this.#pod, status: { phase: 'Failed', conditions: [] } });
  }

  terminating(): PodBuilder {
    return this.#withMetadata({ deletionTimestamp: '2026-01-01T00:00:00Z' });
  }

  withUid(uid: string): PodBuilder {
    return this.#withMetadata({ uid });
  }

  withLabels(labels: { readonly [key: string]: string }): PodBuilder {
    return this.#withMetadata({ labels: { ...labels } });
  }

  withAnnotation(key: string, value: string): PodBuilder {
    return this.#withMetadata({ annotations: { ...this.#pod.metadata.annotations, [key]: value } });
  }

  /** Its controller is this Shard, `null` for none at all. */
  controlledBy(owner: { readonly name: string; readonly uid: string } | null): PodBuilder {
    return this.#withMetadata({ ownerReferences: owner === null ? [] : [ownerOf(owner)] });
  }

  build(): KubeObject<'Pod'> {
    return this.#pod;
  }

  #withMetadata(changes: Partial<Metadata>): PodBuilder {
    return new PodBuilder({ ...this.#pod, metadata: { ...this.#pod.metadata, ...changes } });
  }
}

/** The claim of the pod at an index of a shard's pool `main` in `zone-a`. */
export function aClaim(shard: KubeObject<'Shard'>, index: number, place = mainPlace): ClaimBuilder {
  const name = claimName(nameOfPod(shard, index, place));
  return new ClaimBuilder({
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: {
      name,
      namespace: shard.metadata.namespace ?? '',
      uid: `uid-of-${name}`,
      resourceVersion: '1',
      labels: labelsOf(shard, index, place),
    },
    spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '10Gi' } } },
  });
}

export class ClaimBuilder {
  readonly #claim: KubeObject<'PersistentVolumeClaim'>;

  constructor(claim: KubeObject<'PersistentVolumeClaim'>) {
    this.#claim = claim;
  }

  /** Its member left for good; the mark names that member's pod. */
  released(podUid = 'uid-of-the-one-that-left'): ClaimBuilder {
    return this.#withMetadata({ annotations: { [releasedClaim]: podUid } });
  }

  terminating(): ClaimBuilder {
    return this.#withMetadata({ deletionTimestamp: '2026-01-01T00:00:00Z' });
  }

  withLabels(labels: { readonly [key: string]: string }): ClaimBuilder {
    return this.#withMetadata({ labels: { ...labels } });
  }

  build(): KubeObject<'PersistentVolumeClaim'> {
    return this.#claim;
  }

  #withMetadata(changes: Partial<KubeObject<'PersistentVolumeClaim'>['metadata']>): ClaimBuilder {
    return new ClaimBuilder({
      ...this.#claim,
      metadata: { ...this.#claim.metadata, ...changes },
    });
  }
}

export function nameOfPod(
  shard: KubeObject<'Shard'>,
  index: number,
  { pool, cell }: Place = mainPlace,
): string {
  return podName(podBaseName(shard.metadata.name, pool, cell), index);
}

function labelsOf(shard: KubeObject<'Shard'>, index: number, { pool, cell }: Place) {
  return {
    [shardLabel]: shard.metadata.name,
    [poolLabel]: pool,
    [cellLabel]: cell,
    [indexLabel]: String(index),
  };
}

function ownerOf({ name, uid }: { readonly name: string; readonly uid: string }) {
  return {
    apiVersion: 'millrace.dev/v1alpha1',
    kind: 'Shard',
    name,
    uid,
    controller: true,
    blockOwnerDeletion: true,
  };
}
