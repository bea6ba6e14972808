import { describe, expect, test } from 'vitest';
import {
  deleteObject,
  patienceSeconds,
  prepare,
  required,
  setReplicas,
} from '#infra/local/show/acts.ts';
import { releasedClaim } from '#shared/api/annotations.ts';
import { readDrainRecord } from '#shared/api/drain-record.ts';
import { claimName, sharedBackupClaimName } from '#shared/api/names.ts';
import { collectionPath } from '#shared/kube/http-kube.ts';
import { isReady } from '#shared/kube/readiness.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import { useStage } from './a-stage.ts';

const stageUnderTest = useStage();

/** Nobody listens there, so that the bucket is unknown at once. */
const endpoint = 'http://127.0.0.1:9';
const bucket = { bucket: 'backups', region: 'eu-west-1', endpoint };

async function ask(
  method: 'POST' | 'PATCH' | 'DELETE',
  path: string,
  body: unknown,
): Promise<void> {
  const contentType = method === 'PATCH' ? 'application/json-patch+json' : 'application/json';
  const { connection } = stageUnderTest().stage;
  const answer = await connection.request({ method, path, contentType, body });
  expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(300);
}

async function setRepository(repository: object): Promise<void> {
  const { namespace, database } = stageUnderTest().stage;
  await ask('PATCH', `${collectionPath('Database', namespace)}/${database}`, [
    { op: 'add', path: '/spec/backup', value: { repository } },
  ]);
}

async function until(what: string, holds: () => boolean): Promise<void> {
  await stageUnderTest().stage.world.until(what, patienceSeconds, holds);
}

/** `False TemplateChanged: …` */
function podsUpToDate(): string {
  const { world, shard } = stageUnderTest().stage;
  const conditions = world.get('Shard', shard)?.status?.conditions ?? [];
  const found = conditions.find(({ type }) => type === 'PodsUpToDate');
  return `${found?.status} ${found?.reason}: ${found?.message}`;
}

function pods(): readonly KubeObject<'Pod'>[] {
  return stageUnderTest()
    .stage.world.all('Pod')
    .toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
}

function lastPod(): KubeObject<'Pod'> {
  return required(pods().at(-1), 'the last pod');
}

/** Somebody deletes the last member's pod; it comes back under its name, made as the Database says now. */
async function remade(): Promise<KubeObject<'Pod'>> {
  const { name, uid } = lastPod().metadata;
  await deleteObject(stageUnderTest().stage, 'Pod', name);
  await until('it is there again', () => {
    const pod = stageUnderTest().stage.world.get('Pod', name);
    return pod !== undefined && pod.metadata.uid !== uid && isReady(pod);
  });
  return lastPod();
}

function sharedClaim(): KubeObject<'PersistentVolumeClaim'> | undefined {
  const { world, shard } = stageUnderTest().stage;
  return world.get('PersistentVolumeClaim', sharedBackupClaimName(shard));
}

describe('the way to the repository, on a real API server', () => {
  test('a Secret’s keys reach a pod by reference once it is made anew, and the others are told of', async () => {
    await prepare(stageUnderTest().stage);
    await setRepository({ type: 's3', s3: { ...bucket, credentialsSecret: 'backup-keys' } });
    await until('the change shows', () => podsUpToDate().startsWith('False TemplateChanged'));
    const atFirst = podsUpToDate();

    const pod = await remade();
    await until('the pod made anew is no longer named', () => {
      return podsUpToDate().startsWith('False') && !podsUpToDate().includes(pod.metadata.name);
    });

    for (const { metadata } of pods()) {
      expect(atFirst).toContain(metadata.name);
    }
    expect(pod.spec?.containers[0]?.env).toEqual(
      ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY'].map((key) => ({
        name: key,
        valueFrom: { secretKeyRef: { name: 'backup-keys', key } },
      })),
    );
    expect(pods()[0]?.spec?.containers[0]?.env).toBeUndefined();
  });

  test('a service account is that of the pod', async () => {
    const { namespace } = stageUnderTest().stage;
    await ask('POST', `/api/v1/namespaces/${namespace}/serviceaccounts`, {
      metadata: { name: 'backups' },
    });
    await setRepository({ type: 's3', s3: { ...bucket, serviceAccountName: 'backups' } });
    await until('the change shows', () => podsUpToDate().includes(lastPod().metadata.name));

    const pod = await remade();

    expect(pod.spec?.serviceAccountName).toBe('backups');
    expect(pod.spec?.containers[0]?.env).toBeUndefined();
  });

  test('a file system is one claim of the shard, which is made before the pod that mounts it', async () => {
    await setRepository({
      type: 'filesystem',
      filesystem: {
        path: '/backups',
        storage: { size: '5Gi', accessModes: ['ReadWriteMany'] },
      },
    });
    await until('the change shows', () => podsUpToDate().includes(lastPod().metadata.name));
    const before = sharedClaim();

    const pod = await remade();

    const { shard } = stageUnderTest().stage;
    const claim = required(sharedClaim(), 'the claim of the backups');
    expect(before).toBeUndefined();
    expect(claim.metadata).toMatchObject({
      name: `backup-data-${shard}`,
      labels: { 'millrace.dev/shard': shard },
    });
    expect(claim.metadata.labels).not.toHaveProperty('millrace.dev/index');
    expect(claim.metadata.ownerReferences).toBeUndefined();
    expect(claim.spec).toMatchObject({
      accessModes: ['ReadWriteMany'],
      resources: { requests: { storage: '5Gi' } },
    });
    expect(pod.spec?.volumes).toContainEqual({
      name: 'backup',
      persistentVolumeClaim: { claimName: claim.metadata.name },
    });
    expect(pod.spec?.containers[0]?.volumeMounts).toContainEqual({
      name: 'backup',
      mountPath: '/backups',
    });
  });

  test('it stays when members leave whose claims are deleted', async () => {
    const { stage, patchShard } = stageUnderTest();
    const { uid } = required(sharedClaim(), 'the claim of the backups').metadata;
    const [pool] = required(stage.world.get('Shard', stage.shard), 'the Shard').spec.pools;
    await patchShard({ spec: { pools: [{ ...pool, pvcPolicy: { whenScaled: 'Delete' } }] } });
    const before = pods().map(({ metadata }) => metadata.name);

    await setReplicas(stage, 2);
    await until('one has left, with its claim', () => {
      const shard = stage.world.get('Shard', stage.shard);
      const left = before.find((name) => stage.world.get('Pod', name) === undefined);
      return (
        shard !== undefined &&
        readDrainRecord(shard.metadata).kind === 'none' &&
        left !== undefined &&
        stage.world.get('PersistentVolumeClaim', claimName(left)) === undefined
      );
    });

    const claim = required(sharedClaim(), 'the claim of the backups');
    expect(claim.metadata.uid).toBe(uid);
    expect(claim.metadata.deletionTimestamp).toBeUndefined();
    expect(claim.metadata.annotations?.[releasedClaim]).toBeUndefined();
    expect(pods()).toHaveLength(2);
  });

  test('it stays when the Shard goes', async () => {
    const { stage } = stageUnderTest();
    const { uid } = required(sharedClaim(), 'the claim of the backups').metadata;

    await ask('DELETE', `${collectionPath('Shard', stage.namespace)}/${stage.shard}`, {});
    await until('its pods have gone with it', () => pods().length === 0);

    const claim = required(sharedClaim(), 'the claim of the backups');
    expect(claim.metadata.uid).toBe(uid);
    expect(claim.metadata.deletionTimestamp).toBeUndefined();
  });
});
