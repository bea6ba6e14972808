import { recordAnnotation } from '#shared/api/annotations.ts';
import type { Condition, ManagedPool, Pool, Shard, ShardStatus } from '#shared/api/shard.ts';
import type { Database } from '#shared/api/database.ts';
import type { StepName } from '#shared/api/steps.ts';
import { type StepRecord, recordText } from '#shared/kernel/record.ts';
import type { KubeObject } from '#shared/kube/resources.ts';

export const shardUid = '0f6b2c1e-0000-4000-8000-000000000001';

/** Shard `orders` in namespace `db`, of Database `main`, without a pool until one is given. */
export function aShard(name = 'orders'): ShardBuilder {
  return new ShardBuilder({
    apiVersion: 'millrace.dev/v1alpha1',
    kind: 'Shard',
    metadata: { name, namespace: 'db', uid: shardUid, resourceVersion: '1', generation: 1 },
    spec: {
      databaseRef: { name: 'main' },
      tableGroup: 'default',
      shard: '0-inf',
      paused: false,
      pools: [],
      drain: { deadline: '5m' },
      cleanup: { enabled: true, quietFor: '10m', deleteAfter: '24h', maxPerPass: 1 },
    },
  });
}

export class ShardBuilder {
  readonly #shard: Shard;

  constructor(shard: Shard) {
    this.#shard = shard;
  }

  /** A pool `main` in `zone-a` whose one container mounts `data`, unless said otherwise. */
  withPool(replicasPerCell: number, changes: Partial<ManagedPool> = {}): ShardBuilder {
    const pool: ManagedPool = {
      name: 'main',
      cells: ['zone-a'],
      replicasPerCell,
      storage: { size: '10Gi', accessModes: ['ReadWriteOnce'] },
      podTemplate: { spec: aTemplate() },
      pvcPolicy: { whenScaled: 'Retain' },
      ...changes,
    };
    return this.#withPool(pool);
  }

  /** Its pods are somebody else's. */
  withAttachedPool(replicasPerCell: number): ShardBuilder {
    return this.#withPool({
      name: 'attached',
      cells: ['zone-a'],
      replicasPerCell,
      pvcPolicy: { whenScaled: 'Retain' },
    });
  }

  paused(): ShardBuilder {
    return this.#with({ spec: { ...this.#shard.spec, paused: true } });
  }

  beingDeleted(): ShardBuilder {
    return this.#withMetadata({ deletionTimestamp: '2026-01-01T00:00:00Z' });
  }

  withUid(uid: string): ShardBuilder {
    return this.#withMetadata({ uid });
  }

  withAnnotation(key: string, value: string): ShardBuilder {
    return this.#withMetadata({
      annotations: { ...this.#shard.metadata.annotations, [key]: value },
    });
  }

  withRecord(step: StepName, record: StepRecord): ShardBuilder {
    return this.withAnnotation(recordAnnotation(step), recordText(record));
  }

  withStatus(status: ShardStatus): ShardBuilder {
    return this.#with({ status: { ...this.#shard.status, ...status } });
  }

  withCondition(condition: Pick<Condition, 'type' | 'status' | 'reason'>): ShardBuilder {
    const conditions = this.#shard.status?.conditions ?? [];
    return this.withStatus({
      conditions: [
        ...conditions.filter(({ type }) => type !== condition.type),
        {
          message: `${condition.type} is ${condition.status}`,
          observedGeneration: 1,
          lastTransitionTime: '2026-01-01T00:00:00Z',
          ...condition,
        },
      ],
    });
  }

  build(): KubeObject<'Shard'> {
    return this.#shard;
  }

  #withPool(pool: Pool): ShardBuilder {
    const { spec } = this.#shard;
    return this.#with({ spec: { ...spec, pools: [...spec.pools, pool] } });
  }

  #withMetadata(changes: Partial<Shard['metadata']>): ShardBuilder {
    return this.#with({ metadata: { ...this.#shard.metadata, ...changes } });
  }

  #with(changes: Partial<Shard>): ShardBuilder {
    return new ShardBuilder({ ...this.#shard, ...changes });
  }
}

/** A pod spec with one container, `pooler`, that mounts `data`. */
export function aTemplate(image = 'pooler:1'): ManagedPool['podTemplate']['spec'] {
  return {
    containers: [{ name: 'pooler', image, volumeMounts: [{ name: 'data', mountPath: '/data' }] }],
  };
}

/** Database `main` in namespace `db`. */
export function aDatabase(changes: Partial<Database['spec']> = {}): KubeObject<'Database'> {
  return {
    apiVersion: 'millrace.dev/v1alpha1',
    kind: 'Database',
    metadata: {
      name: 'main',
      namespace: 'db',
      uid: 'database-uid',
      resourceVersion: '1',
      generation: 1,
    },
    spec: {
      name: 'postgres',
      paused: false,
      dataPlane: {
        kind: 'multigres',
        topology: { endpoints: ['http://topo.db.svc:2379'], globalRoot: '/multigres/global' },
        admin: { url: 'http://multiadmin.db.svc:18000' },
      },
      ...changes,
    },
  };
}
