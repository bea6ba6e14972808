import { isReady } from '#shared/kube/readiness.ts';
import { setTimeout as delay } from 'node:timers/promises';
import type { AuditedRequest } from '#infra/local/control-plane/audit-log.ts';
import { readDrainRecord } from '#shared/api/drain-record.ts';
import { stepNames } from '#shared/api/steps.ts';
import { collectionPath } from '#shared/kube/http-kube.ts';
import type { JsonObject } from '#shared/kube/json.ts';
import { type KubeObject, type ResourceKind, apiVersionOf } from '#shared/kube/resources.ts';
import { isRecordOfPod } from '#shared/topology/identity.ts';
import { type PoolerRecord, isSamePooler } from '#shared/topology/topology.ts';
import type { Stage } from './stage.ts';

/** The longest a step of a scene may take, in seconds, at the data plane's measured speed. */
export const patienceSeconds = 180;

/** Three ready members, however the stage was left: where a scene that is played alone begins. */
export async function prepare(stage: Stage): Promise<void> {
  if (stage.world.get('Shard', stage.shard) === undefined) {
    await createObjects(stage);
  }
  await setReplicas(stage, 3);
  await untilSteady(stage, 3);
}

/** The shard is settled: so many ready members, nobody leaving, one primary that agrees, and no record left open. */
export async function untilSteady(stage: Stage, members: number): Promise<void> {
  await stage.world.until(
    `${members} members are ready and nobody is leaving`,
    patienceSeconds,
    () => {
      const shard = stage.world.get('Shard', stage.shard);
      const pods = stage.world.all('Pod');
      return (
        shard !== undefined &&
        readDrainRecord(shard.metadata).kind === 'none' &&
        pods.length === members &&
        pods.every((pod) => isReady(pod) && pod.metadata.deletionTimestamp === undefined) &&
        ['Ready', 'Drained', 'PodsUpToDate'].every((type) => holds(shard, type))
      );
    },
  );
}

export async function expectLeft(stage: Stage, pod: string): Promise<void> {
  const record = (await stage.poolers()).find((pooler) => isRecordOfPod(pooler, pod));
  const { cohort } = await leadOf(stage);
  expect(
    record === undefined || record.lifecycle === 'shutdown',
    'its pooler record in etcd is SHUTDOWN',
  );
  expect(
    record === undefined || !cohort.some((id) => isSamePooler(id, record.id)),
    'it is out of the cohort',
  );
}

/** Who leads, as etcd has it and the pooler itself confirms. */
export async function leadOf(stage: Stage) {
  const primaries = (await stage.poolers()).filter(({ role }) => role === 'primary');
  expect(primaries.length === 1, 'etcd knows exactly one PRIMARY');
  const record = required(primaries[0], 'the primary’s record');
  const { decision } = await stage.poolerStatus(record);
  const { rule, cohort, leader } = required(decision ?? undefined, 'a decided rule');
  expect(leader !== null && isSamePooler(leader, record.id), 'the primary leads by its own rule');
  return { pod: podOf(stage, record), rule, cohort };
}

function podOf(stage: Stage, record: PoolerRecord): string {
  const pod = stage.world.all('Pod').find(({ metadata }) => isRecordOfPod(record, metadata.name));
  return required(pod, 'the primary’s pod').metadata.name;
}

export function drainState(stage: Stage): string | undefined {
  const shard = stage.world.get('Shard', stage.shard);
  const record = shard === undefined ? undefined : readDrainRecord(shard.metadata);
  return record?.kind === 'ours' ? record.record.state : undefined;
}

/** Every hint that was owed has been sent, and every message was looked at or is a dead letter. */
export async function untilIdle(stage: Stage): Promise<void> {
  await untilAsked('no hint is owed or waits', async () => {
    const { owed } = await stage.relay();
    return owed === 0 && (await stage.queues.waiting()) === 0;
  });
}

/** As {@link Changes.until}, for what nobody tells of: asks again and again. */
export async function untilAsked(what: string, holds: () => Promise<boolean>): Promise<void> {
  const giveUpAtMs = performance.now() + patienceSeconds * 1000;
  while (!(await holds())) {
    if (performance.now() > giveUpAtMs) {
      throw new Error(`after ${patienceSeconds} s still not so: ${what}`);
    }
    await delay(100);
  }
}

/** Messages that nobody could make anything of, over all steps. */
export async function deadLetters(stage: Stage): Promise<number> {
  const counts = await Promise.all(stepNames.map((step) => stage.queues.deadLetters(step)));
  return counts.reduce((total, count) => total + count, 0);
}

export function isPodDelete({ verb, resource, status = 0 }: AuditedRequest): boolean {
  return verb === 'delete' && resource === 'pods' && status < 300;
}

/** @param topology how Millrace reaches the topology's etcd */
export async function createObjects(
  stage: Stage,
  topology: JsonObject = { endpoints: [stage.topologyEndpoint] },
): Promise<void> {
  const { namespace, database, shard, adminUrl } = stage;
  await post(stage, 'Database', {
    metadata: { name: database, namespace },
    spec: {
      name: 'postgres',
      dataPlane: {
        kind: 'multigres',
        topology,
        admin: { url: adminUrl },
      },
    },
  });
  await post(stage, 'Shard', {
    metadata: { name: shard, namespace },
    spec: {
      databaseRef: { name: database },
      pools: [
        {
          name: 'main',
          cells: ['zone-a'],
          replicasPerCell: 3,
          storage: { size: '1Gi' },
          podTemplate: {
            spec: {
              containers: [
                {
                  name: 'multipooler',
                  image: 'multigres/multipooler',
                  volumeMounts: [{ name: 'data', mountPath: '/data' }],
                },
              ],
            },
          },
        },
      ],
    },
  });
  await stage.world.until(
    'the Shard is seen',
    patienceSeconds,
    () => stage.world.get('Shard', shard) !== undefined,
  );
}

export async function setReplicas(stage: Stage, replicas: number): Promise<void> {
  const shard = required(stage.world.get('Shard', stage.shard), 'the Shard');
  if (shard.spec.pools[0]?.replicasPerCell === replicas) {
    return;
  }
  await askForReplicas(stage, replicas);
  await stage.world.until(
    'the new count is seen',
    patienceSeconds,
    () => stage.world.get('Shard', stage.shard)?.spec.pools[0]?.replicasPerCell === replicas,
  );
  // Between the new count and the first look at it everything still seems settled.
  const { generation } = required(stage.world.get('Shard', stage.shard), 'the Shard').metadata;
  await stage.world.until('both steps have seen the new count', patienceSeconds, () => {
    const seen = stage.world.get('Shard', stage.shard)?.status;
    return (
      (seen?.observedGeneration ?? 0) >= (generation ?? 0) &&
      (seen?.conditions ?? []).some(
        ({ type, observedGeneration }) =>
          type === 'Drained' && observedGeneration >= (generation ?? 0),
      )
    );
  });
}

/** As {@link setReplicas}, without waiting for who sees it. */
export async function askForReplicas(stage: Stage, replicas: number): Promise<void> {
  await expectStatus(stage, 'PATCH', `${collectionPath('Shard', stage.namespace)}/${stage.shard}`, [
    { op: 'replace', path: '/spec/pools/0/replicasPerCell', value: replicas },
  ]);
}

/** Changes an object as a person would. */
export async function patchObject(
  stage: Stage,
  kind: ResourceKind,
  name: string,
  body: JsonObject,
): Promise<void> {
  const path = `${collectionPath(kind, stage.namespace)}/${name}`;
  await expectStatus(stage, 'PATCH', path, body, 'application/merge-patch+json');
}

export async function annotatePod(
  stage: Stage,
  pod: string,
  annotations: JsonObject,
): Promise<void> {
  await patchObject(stage, 'Pod', pod, { metadata: { annotations } });
}

/**
 * Deletes an object as a person would.
 *
 * @param options as Kubernetes has them: `gracePeriodSeconds` and others
 */
export async function deleteObject(
  stage: Stage,
  kind: ResourceKind,
  name: string,
  options: JsonObject = {},
): Promise<void> {
  await expectStatus(stage, 'DELETE', `${collectionPath(kind, stage.namespace)}/${name}`, options);
}

/** Makes an object as a person would. */
export async function post(stage: Stage, kind: ResourceKind, object: JsonObject): Promise<void> {
  await expectStatus(stage, 'POST', collectionPath(kind, stage.namespace), {
    apiVersion: apiVersionOf(kind),
    kind,
    ...object,
  });
}

async function expectStatus(
  stage: Stage,
  method: 'POST' | 'PATCH' | 'DELETE',
  path: string,
  body: unknown,
  contentType = method === 'PATCH' ? 'application/json-patch+json' : 'application/json',
): Promise<void> {
  const answer = await whenReachable(async () => {
    const reply = await stage.connection.request({ method, path, contentType, body });
    if (reply.status === 503) {
      // An API server that has just started says so of paths that it does not serve yet.
      throw new Error(`${method} ${path}: 503 ${JSON.stringify(reply.body)}`);
    }
    return reply;
  });
  if (answer.status >= 300) {
    throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
  }
}

export function podsByUid(stage: Stage): ReadonlyMap<string, string> {
  return new Map(stage.world.all('Pod').map(({ metadata }) => [metadata.uid, metadata.name]));
}

export function claimUids(stage: Stage): ReadonlyMap<string, string> {
  return new Map(
    stage.world.all('PersistentVolumeClaim').map(({ metadata }) => [metadata.name, metadata.uid]),
  );
}

export function same(a: ReadonlyMap<string, string>, b: ReadonlyMap<string, string>): boolean {
  return a.size === b.size && [...a].every(([key, value]) => b.get(key) === value);
}

export function holds({ status }: KubeObject<'Shard'>, type: string): boolean {
  return (
    status?.conditions?.some(
      (condition) => condition.type === type && condition.status === 'True',
    ) ?? false
  );
}

export function required<T>(value: T | undefined, what: string): T {
  if (value === undefined) {
    throw new Error(`${what} is not there`);
  }
  return value;
}

export function expect(isTrue: boolean, fact: string): void {
  if (!isTrue) {
    throw new Error(`not true: ${fact}`);
  }
}

/** The API server may have been killed under the request: everything asked for here can be asked for again. */
async function whenReachable<T>(ask: () => Promise<T>): Promise<T> {
  const giveUpAtMs = performance.now() + 30_000;
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (performance.now() > giveUpAtMs) {
        throw error;
      }
      await delay(100);
    }
  }
}
