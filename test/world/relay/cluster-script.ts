import { recordAnnotation } from '#shared/api/annotations.ts';
import { shardLabel } from '#shared/api/labels.ts';
import type { StepName } from '#shared/api/steps.ts';
import { toText } from '#shared/kernel/instant.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import type { Wake } from '#shared/kernel/record.ts';
import type { KubeRequest } from '#shared/kube/connection.ts';
import { type ResourceKind, apiVersionOf, resourceTypes } from '#shared/kube/resources.ts';
import { canary } from './hint-form.ts';
import { worldStart } from './virtual-clock.ts';

/** The namespaces that a workload writes to. */
export const scriptedNamespaces = ['db', 'other'] as const;
type Namespace = (typeof scriptedNamespaces)[number];

/** Writes of people, of steps and of controllers to a cluster, each one request. */
export class ClusterScript {
  readonly #write: (request: KubeRequest) => void;
  /** Makes values that differ from all before. */
  #writes = 0;

  constructor(write: (request: KubeRequest) => void) {
    this.#write = write;
  }

  makeDatabase(name: string, namespace: Namespace = 'db'): void {
    this.#create('Database', namespace, name, {
      spec: {
        name: 'postgres',
        dataPlane: {
          kind: 'multigres',
          topology: { endpoints: ['http://topo:2379'], globalRoot: '/multigres/global' },
          admin: { url: 'http://multiadmin:18000' },
        },
      },
    });
  }

  makeShard(name: string, database: string, namespace: Namespace = 'db'): void {
    this.#create('Shard', namespace, name, {
      metadata: { annotations: { 'example.com/note': canary } },
      spec: {
        databaseRef: { name: database },
        pools: [{ name: 'main', cells: ['zone-a'], replicasPerCell: 1 }],
      },
    });
  }

  makePod(name: string, shard: string | undefined, namespace: Namespace = 'db'): void {
    this.#create('Pod', namespace, name, {
      metadata: {
        labels: {
          'example.com/canary': canary,
          ...(shard === undefined ? {} : { [shardLabel]: shard }),
        },
      },
      spec: { containers: [{ name: 'pooler', image: 'pooler:1' }] },
    });
  }

  remove(kind: ResourceKind, name: string, namespace: Namespace = 'db'): void {
    this.#write({ method: 'DELETE', path: pathOf(kind, namespace, name) });
  }

  /** A person scales. */
  setReplicas(shard: string, replicasPerCell: number, namespace: Namespace = 'db'): void {
    const pools = [{ name: 'main', cells: ['zone-a'], replicasPerCell }];
    this.#merge('Shard', namespace, shard, { spec: { pools } });
  }

  /** `null` takes it away. */
  annotate(
    kind: ResourceKind,
    name: string,
    annotations: { readonly [key: string]: string | null },
    namespace: Namespace = 'db',
  ): void {
    this.#merge(kind, namespace, name, { metadata: { annotations } });
  }

  /** A step moves its record on. The relay reads its wake and nothing else. */
  record(shard: string, step: StepName, wake?: Wake, namespace: Namespace = 'db'): void {
    this.#writes += 1;
    const record = { v: 1, state: 'draining', reason: canary, attempt: this.#writes, wake };
    this.annotate('Shard', shard, { [recordAnnotation(step)]: JSON.stringify(record) }, namespace);
  }

  clearRecord(shard: string, step: StepName, namespace: Namespace = 'db'): void {
    this.annotate('Shard', shard, { [recordAnnotation(step)]: null }, namespace);
  }

  /** A step says how it is, in a condition of its own. */
  setCondition(shard: string, type: string, reason: string, namespace: Namespace = 'db'): void {
    this.#write({
      method: 'PATCH',
      path: `${pathOf('Shard', namespace, shard)}/status`,
      contentType: 'application/merge-patch+json',
      body: {
        status: {
          conditions: [
            {
              type,
              status: 'True',
              reason,
              message: canary,
              observedGeneration: 1,
              lastTransitionTime: '2026-01-01T00:00:00Z',
            },
          ],
        },
      },
    });
  }

  /** A pod is somebody's from now on; `null`: nobody's. */
  movePod(name: string, shard: string | null, namespace: Namespace = 'db'): void {
    this.#merge('Pod', namespace, name, { metadata: { labels: { [shardLabel]: shard } } });
  }

  #create(
    kind: ResourceKind,
    namespace: Namespace,
    name: string,
    body: { readonly metadata?: object; readonly spec: object },
  ): void {
    const metadata = { name, namespace, ...body.metadata };
    this.#write({
      method: 'POST',
      path: pathOf(kind, namespace),
      body: { apiVersion: apiVersionOf(kind), kind, ...body, metadata },
    });
  }

  #merge(kind: ResourceKind, namespace: Namespace, name: string, body: object): void {
    this.#write({
      method: 'PATCH',
      path: pathOf(kind, namespace, name),
      contentType: 'application/merge-patch+json',
      body,
    });
  }
}

/** An instant of the world, as records have it. */
export function atSeconds(seconds: number): string {
  return toText((worldStart + seconds * 1_000) as Instant);
}

function pathOf(kind: ResourceKind, namespace: string, name?: string): string {
  const { group, version, plural } = resourceTypes[kind];
  const root = group === '' ? `/api/${version}` : `/apis/${group}/${version}`;
  const collection = `${root}/namespaces/${namespace}/${plural}`;
  return name === undefined ? collection : `${collection}/${name}`;
}
