import { randomUUID } from 'node:crypto';
import { installDefinitions } from '#infra/cli/install.ts';
import { shardLabel } from '#shared/api/labels.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import { collectionPath } from '#shared/kube/http-kube.ts';
import type { JsonObject } from '#shared/kube/json.ts';
import type { ResourceKind } from '#shared/kube/resources.ts';
import * as z from 'zod';
import { copyShard } from './copied-shards.ts';
import { createNamespace, forEach, membersOfShard, namespace, shardManifest } from './objects.ts';

const writtenSchema = z.looseObject({
  metadata: z.looseObject({ name: z.string(), uid: z.string(), resourceVersion: z.string() }),
});
type Written = z.infer<typeof writtenSchema>['metadata'];

/** Makes a pod as it is served about 6 KB long: 12 variables, their field ownership, conditions and container states. */
const variablesOfPod = 12;

/** One write to a pod and the shard that has to be hinted at for it. */
export interface Change {
  readonly shard: string;
  /** Of the pod after the write. Versions of one resource are numbers that grow with each write. */
  readonly version: number;
  /** When the API server had answered, on the clock of `performance.now`. */
  readonly answeredMs: number;
}

/** Shards and their pods on a real API server, where no kubelet and no step touches them. */
export class RelayWorld {
  readonly #connection: KubeConnection;
  readonly shards: number;
  readonly pods: number;
  #writes = 0;

  private constructor(connection: KubeConnection, pods: number) {
    this.#connection = connection;
    this.pods = pods;
    this.shards = Math.ceil(pods / membersOfShard);
  }

  static async create(connection: KubeConnection, pods: number): Promise<RelayWorld> {
    const world = new RelayWorld(connection, pods);
    await installDefinitions(connection);
    await createNamespace(connection);
    const shards = await forEach([...Array(world.shards).keys()], (place) =>
      world.#write('POST', 'Shard', '', shardManifest(nameOfShard(place), 'orders')),
    );
    await forEach([...Array(pods).keys()], async (place) => {
      const owner = shards[Math.floor(place / membersOfShard)];
      await world.#write('POST', 'Pod', '', podManifest(place, owner));
      await world.#write('PATCH', 'Pod', `/${nameOfPod(place)}/status`, {
        status: statusOfPod(place),
      });
    });
    return world;
  }

  /**
   * The same for so many pods that making each by a request of its own takes too long: one shard is made so, and its objects
   * are copied where the API server keeps them.
   */
  static async createLarge(
    connection: KubeConnection,
    etcdEndpoint: string,
    pods: number,
  ): Promise<RelayWorld> {
    const { shards } = await RelayWorld.create(connection, membersOfShard);
    const world = new RelayWorld(connection, pods);
    const names = [...Array(world.shards).keys()].slice(shards).map(nameOfShard);
    await copyShard(etcdEndpoint, nameOfShard(0), names);
    return world;
  }

  /** How long the pods are as JSON, in bytes, on average over a few. */
  async podBytes(): Promise<number> {
    const path = collectionPath('Pod', namespace);
    const { body } = await this.#connection.request({
      method: 'GET',
      path,
      query: { limit: '20' },
    });
    const { items } = z.looseObject({ items: z.array(z.unknown()) }).parse(body);
    return JSON.stringify(items).length / items.length;
  }

  /** Writes to the pods in turn, in an order that spreads them over the shards. */
  async change(): Promise<Change> {
    // A step that shares no factor with the number of pods visits each of them once a round.
    const place = (this.#writes * strideFor(this.pods)) % this.pods;
    this.#writes += 1;
    const annotations = { 'bench.example/write': randomUUID() };
    const { resourceVersion } = await this.#write('PATCH', 'Pod', `/${nameOfPod(place)}`, {
      metadata: { annotations },
    });
    return {
      shard: nameOfShard(Math.floor(place / membersOfShard)),
      version: Number(resourceVersion),
      answeredMs: performance.now(),
    };
  }

  async #write(
    method: 'POST' | 'PATCH',
    kind: ResourceKind,
    rest: string,
    body: JsonObject,
  ): Promise<Written> {
    const path = `${collectionPath(kind, namespace)}${rest}`;
    const contentType = method === 'POST' ? 'application/json' : 'application/merge-patch+json';
    const answer = await this.#connection.request({
      method,
      path,
      contentType,
      body,
      timeoutMs: 60_000,
    });
    if (answer.status >= 300) {
      throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    }
    return writtenSchema.parse(answer.body).metadata;
  }
}

function strideFor(pods: number): number {
  const divides = (a: number, b: number): boolean => (b === 0 ? a === 1 : divides(b, a % b));
  let stride = Math.ceil(pods / 1.618);
  while (!divides(pods, stride)) {
    stride += 1;
  }
  return stride;
}

/** All are of one length, so that one can be written over another. */
function nameOfShard(place: number): string {
  return `shard-${String(place).padStart(6, '0')}`;
}

function nameOfPod(place: number): string {
  return `${nameOfShard(Math.floor(place / membersOfShard))}-main-zone-a-${place % membersOfShard}`;
}

function podManifest(place: number, owner: Written | undefined): JsonObject {
  const env = [...Array(variablesOfPod).keys()].map((variable) => ({
    name: `MULTIPOOLER_SETTING_${variable}`,
    value: `value-${variable}-of-${place}`,
  }));
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name: nameOfPod(place),
      labels: {
        [shardLabel]: owner?.name ?? '',
        'app.kubernetes.io/name': 'multigres',
        'app.kubernetes.io/component': 'pooler',
      },
      ownerReferences: [
        {
          apiVersion: 'millrace.dev/v1alpha1',
          kind: 'Shard',
          name: owner?.name ?? '',
          uid: owner?.uid ?? '',
          controller: true,
        },
      ],
    },
    spec: {
      containers: [
        {
          name: 'multipooler',
          image: 'registry.example/multigres/multipooler:1.0.0',
          env,
          resources: { requests: { cpu: '500m', memory: '1Gi' } },
          ports: [{ name: 'postgres', containerPort: 5432 }],
          readinessProbe: { tcpSocket: { port: 5432 }, periodSeconds: 5 },
        },
      ],
    },
  };
}

function statusOfPod(place: number): JsonObject {
  const since = '2026-01-01T00:00:00Z';
  return {
    phase: 'Running',
    podIP: `10.${(place >> 16) & 255}.${(place >> 8) & 255}.${place & 255}`,
    startTime: since,
    conditions: ['Initialized', 'Ready', 'ContainersReady', 'PodScheduled'].map((type) => ({
      type,
      status: 'True',
      lastTransitionTime: since,
    })),
    containerStatuses: [
      {
        name: 'multipooler',
        image: 'registry.example/multigres/multipooler:1.0.0',
        imageID: `registry.example/multigres/multipooler@sha256:${'0'.repeat(64)}`,
        containerID: `containerd://${'0'.repeat(64)}`,
        ready: true,
        started: true,
        restartCount: 0,
        state: { running: { startedAt: since } },
      },
    ],
  };
}
