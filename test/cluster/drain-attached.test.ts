import { expect, test } from 'vitest';
import { cellLabel, indexLabel, poolLabel, shardLabel } from '#shared/api/labels.ts';
import { collectionPath } from '#shared/kube/http-kube.ts';
import type { JsonObject } from '#shared/kube/json.ts';
import type { ResourceKind } from '#shared/kube/resources.ts';
import { isReady } from '#shared/kube/readiness.ts';
import { annotatePod, drainState, leadOf } from '#infra/local/show/acts.ts';
import { useStage } from './a-stage.ts';

const stageUnderTest = useStage({ hasPolicies: true });

async function create(kind: ResourceKind, object: JsonObject): Promise<void> {
  const { connection, namespace } = stageUnderTest().stage;
  const answer = await connection.request({
    method: 'POST',
    path: collectionPath(kind, namespace),
    body: object,
  });
  expect(answer.status, JSON.stringify(answer.body)).toBe(201);
}

/** What somebody else's controller would make: a pod under the labels of a member, on a claim of its own. */
async function createPod(index: number): Promise<void> {
  const { shard } = stageUnderTest().stage;
  await create('Pod', {
    metadata: {
      name: `theirs-${index}`,
      labels: {
        [shardLabel]: shard,
        [poolLabel]: 'theirs',
        [cellLabel]: 'zone-a',
        [indexLabel]: String(index),
      },
    },
    spec: {
      containers: [{ name: 'multipooler', image: 'multigres/multipooler' }],
      volumes: [{ name: 'data', persistentVolumeClaim: { claimName: `theirs-data-${index}` } }],
    },
  });
}

test('in attach mode a request drains a pod of somebody else’s, and a count drains nobody', async () => {
  const { stage, decisions } = stageUnderTest();
  const { namespace, database, shard, topologyEndpoint, adminUrl, world } = stage;
  await create('Database', {
    apiVersion: 'millrace.dev/v1alpha1',
    kind: 'Database',
    metadata: { name: database, namespace },
    spec: {
      name: 'postgres',
      dataPlane: { topology: { endpoints: [topologyEndpoint] }, admin: { url: adminUrl } },
    },
  });
  await create('Shard', {
    apiVersion: 'millrace.dev/v1alpha1',
    kind: 'Shard',
    metadata: { name: shard, namespace },
    spec: {
      databaseRef: { name: database },
      pools: [{ name: 'theirs', cells: ['zone-a'], replicasPerCell: 2 }],
    },
  });
  for (const index of [0, 1, 2]) {
    await create('PersistentVolumeClaim', {
      metadata: { name: `theirs-data-${index}` },
      spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
    });
    await createPod(index);
  }
  await world.until(
    'three pods are ready',
    120,
    () => world.all('Pod').filter(isReady).length === 3,
  );
  await expect.poll(() => leadOf(stage).catch(() => undefined), { timeout: 60_000 }).toBeDefined();
  const counted = decisions.length;
  const { pod: primary } = await leadOf(stage);
  const replica = world.all('Pod').find(({ metadata }) => metadata.name !== primary);
  const { name = '', uid = '' } = replica?.metadata ?? {};

  const requests = await stageUnderTest().during(async () => {
    await annotatePod(stage, name, { 'millrace.dev/drain': 'their node goes' });
    await world.until('the pod is gone', 120, () => world.get('Pod', name)?.metadata.uid !== uid);
    await createPod(Number(name.split('-').at(-1)));
    await world.until('the drain has ended', 120, () => drainState(stage) === undefined);
  });

  // Of two looks at the same moment one loses its delete, which is no change.
  const changes = requests.filter(
    ({ verb, resource, status = 0 }) =>
      ['create', 'delete'].includes(verb) && resource !== 'events' && status < 300,
  );
  expect(changes.map(({ verb, resource, name: object }) => [verb, resource, object])).toEqual([
    ['delete', 'pods', name],
  ]);
  expect(
    decisions.slice(0, counted).every(({ effects }) => !effects.includes('deleteObject')),
  ).toBe(true);
  expect(world.all('PersistentVolumeClaim')).toHaveLength(3);
});
