import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  CreateBucketCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  PutBucketVersioningCommand,
  type S3Client,
} from '@aws-sdk/client-s3';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { backupConfig } from '#functions/backup-config/step.ts';
import { accessOf } from '#infra/kubernetes/access.ts';
import { installDefinitions } from '#infra/cli/install.ts';
import { readAuditLog } from '#infra/local/control-plane/audit-log.ts';
import { type Etcd, startEtcd } from '#infra/local/control-plane/etcd.ts';
import { confirmRepository, recordAnnotation } from '#shared/api/annotations.ts';
import type { Database } from '#shared/api/database.ts';
import { parseOwner } from '#shared/api/repository-owner.ts';
import type { Decision } from '#shared/kernel/decision.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import { connectKube } from '#shared/kube/http-connection.ts';
import { collectionPath, kubeClient } from '#shared/kube/http-kube.ts';
import { type KubeObject, resourceTypes } from '#shared/kube/resources.ts';
import { DatabaseSchema } from '#shared/topology/proto/clustermetadata_pb.ts';
import { clientOf, missingBucket, region, useBucketServer } from './local-bucket.ts';
import { missingControlPlane, useControlPlane } from './local-control-plane.ts';
import { lookAs } from './look-as.ts';

const namespace = 'default';
const name = 'main';
const clusterId = 'test';
const account = 'backup-config';
const key = '/multigres/global/databases/postgres/Database';

const missing = missingControlPlane ?? missingBucket;

describe.skipIf(missing !== undefined)(
  'backup-config, on a real API server, etcd and bucket',
  () => {
    const controlPlane = useControlPlane({ users: [{ name: account, groups: [] }] });
    const buckets = useBucketServer();
    let folder: string;
    let etcd: Etcd;
    let api: KubeConnection;
    let own: KubeConnection;
    let client: S3Client;
    const decisions: Decision[] = [];

    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), 'millrace-backup-config-'));
      etcd = await startEtcd({ dataDir: join(folder, 'topology') });
      api = connectKube(controlPlane().access());
      own = connectKube({ ...controlPlane().access(account), userAgent: 'millrace/backup-config' });
      client = clientOf(buckets());
      await installDefinitions(api);
      await grant();
      await client.send(new CreateBucketCommand({ Bucket: 'first' }));
      await client.send(
        new PutBucketVersioningCommand({
          Bucket: 'first',
          VersioningConfiguration: { Status: 'Enabled' },
        }),
      );
      await client.send(new CreateBucketCommand({ Bucket: 'second' }));
      await createSecret();
    });

    beforeEach(() => void decisions.splice(0));

    afterAll(async () => {
      api.close();
      own.close();
      client.destroy();
      await etcd.stop();
      await rm(folder, { recursive: true, force: true });
    });

    test('claims the repository, tells the data plane and says so; then a look writes nothing (X7, C3, C6)', async () => {
      await putRecord(recordBytes('/from-the-bootstrap'));
      await createDatabase({ bucket: 'first', credentialsSecret: 'keys' });
      const refused = await settle();
      await confirmAsTold();

      const settled = await settle();
      const before = await requestsOfStep();
      const again = await settle();
      const after = await requestsOfStep();

      expect(refused.reason).toBe('BackupsWouldBeOrphaned');
      // The server of these tests does not encrypt.
      expect(settled).toMatchObject({ outcome: 'settled', reason: 'RepositoryWithWarnings' });
      expect(again).toMatchObject({ outcome: 'settled', effects: [] });
      expect(after.length).toBeGreaterThan(before.length);
      expect(after.slice(before.length).filter(({ verb }) => isWrite(verb))).toEqual([]);
      const database = await readDatabase();
      expect(conditionOf(database, 'BackupConfigured')).toMatchObject({ status: 'True' });
      expect(conditionOf(database, 'Ready')).toMatchObject({
        status: 'True',
        observedGeneration: 1,
      });
      expect(database.status).toMatchObject({
        observedGeneration: 1,
        repository: { owner: `${clusterId}/${namespace}/${name}` },
      });
      expect(database.metadata.annotations).not.toHaveProperty([recordAnnotation('backup-config')]);
      expect(await ownerIn('first')).toEqual({
        cluster: clusterId,
        namespace,
        name,
        uid: database.metadata.uid,
      });
      const record = await readRecord();
      expect(record.place).toMatchObject({
        bucket: 'first',
        region,
        endpoint: buckets().endpoint,
        keyPrefix: `${namespace}/${name}`,
        useEnvCredentials: true,
      });
      expect(record).toMatchObject({ authoritativeGeneration: 7n, cells: ['zone-a'], kept: 2 });
      const told = JSON.stringify([database, decisions]) + JSON.stringify(after);
      expect(told).not.toContain(buckets().root.secretAccessKey);
    });

    test('moves to another place once a person has confirmed it, and keeps the first until then (C5)', async () => {
      await patchRepository({ bucket: 'second' });

      const refused = await settle();
      const placeBefore = (await readRecord()).place;
      const statusBefore = (await readDatabase()).status;
      await confirmAsTold();
      await settle();

      expect(refused.reason).toBe('BackupsWouldBeOrphaned');
      expect(placeBefore).toMatchObject({ bucket: 'first' });
      expect(statusBefore?.conditions?.find(({ type }) => type === 'Stalled')?.status).toBe('True');
      expect(await readRecord()).toMatchObject({ place: { bucket: 'second' }, kept: 2 });
      expect((await readDatabase()).status?.repository?.hash).not.toBe(
        statusBefore?.repository?.hash,
      );
    });

    test('says which bucket is missing, and changes nothing (C5)', async () => {
      await patchRepository({ bucket: 'nowhere' });

      const decision = await settle();

      expect(decision).toMatchObject({ outcome: 'blocked', reason: 'BucketMissing' });
      const condition = conditionOf(await readDatabase(), 'BackupConfigured');
      expect(condition).toMatchObject({ status: 'False', reason: 'BucketMissing' });
      expect(condition?.message).toContain('there is no bucket nowhere');
      expect(await readRecord()).toMatchObject({ place: { bucket: 'second' } });
      await patchRepository({ bucket: 'second' });
      expect(await settle()).toMatchObject({ outcome: 'settled' });
    });

    test('of a Database that is made again adopts its own repository (C4)', async () => {
      const { uid: former } = (await readDatabase()).metadata;
      await write('DELETE', `${collectionPath('Database', namespace)}/${name}`);
      await createDatabase({ bucket: 'second', credentialsSecret: 'keys' });

      const decision = await settle();

      const { uid } = (await readDatabase()).metadata;
      expect(uid).not.toBe(former);
      expect(decisions.map(({ reason }) => reason)).toContain('RepositoryAdopted');
      expect(decision.outcome).toBe('settled');
      expect(await ownerIn('second')).toMatchObject({ name, uid });
    });

    test('of another Database does not take it (C4)', async () => {
      const s3 = { bucket: 'second', keyPrefix: `${namespace}/${name}`, credentialsSecret: 'keys' };
      await createDatabase(s3, 'intruder');

      const decision = await settle('intruder');

      expect(decision).toMatchObject({ outcome: 'blocked', reason: 'RepositoryOfOthers' });
      expect(await ownerIn('second')).toMatchObject({ name });
      await write('DELETE', `${collectionPath('Database', namespace)}/intruder`);
    });

    test('claims it again where somebody removed the owner object', async () => {
      await client.send(new DeleteObjectCommand({ Bucket: 'second', Key: ownerKey }));

      await settle();

      expect(decisions.map(({ reason }) => reason)).toContain('RepositoryClaimed');
      expect(await ownerIn('second')).toMatchObject({ name });
    });

    test('with a Secret that is gone says so, and goes on once it is back', async () => {
      await write('DELETE', `${collectionPath('Secret', namespace)}/keys`);
      const gone = await settle();
      await createSecret();

      expect(gone).toMatchObject({ outcome: 'blocked', reason: 'CredentialsMissing' });
      expect(await settle()).toMatchObject({ outcome: 'settled' });
    });

    test('two handlers at once end as one would (C1)', async () => {
      await patchRepository({ bucket: 'first' });
      await settle();
      await confirmAsTold();

      await Promise.all([settle(), settle(), settle()]);

      expect(await settle()).toMatchObject({ outcome: 'settled', effects: [] });
      expect(await readRecord()).toMatchObject({ place: { bucket: 'first' }, kept: 2 });
    });

    test('says that it cannot be claimed where the server counts the mark of its deletion as an object', async () => {
      await client.send(new DeleteObjectCommand({ Bucket: 'first', Key: ownerKey }));

      const decision = await settle();

      expect(decision).toMatchObject({ outcome: 'blocked', reason: 'RepositoryUnclaimable' });
    });

    const ownerKey = `${namespace}/${name}/millrace-owner.json`;

    /** Looks until one acts no more. */
    async function settle(target = name): Promise<Decision> {
      for (let look = 0; look < 12; look += 1) {
        const decision = await lookAt(target);
        if (decision !== undefined && decision.outcome !== 'acting') {
          return decision;
        }
      }
      throw new Error(`not settled: ${decisions.map(({ reason }) => reason).join(', ')}`);
    }

    /** One message, as a queue hands it over; `undefined` where the look came to no decision. */
    async function lookAt(target: string): Promise<Decision | undefined> {
      const { uid } = (await readDatabase(target)).metadata;
      const decision = await lookAs(own, backupConfig, { namespace, name: target, uid });
      decisions.push(...(decision === undefined ? [] : [decision]));
      return decision;
    }

    /** The step's user may do what the step declares, and nothing else (Z4). */
    async function grant(): Promise<void> {
      const rules = accessOf(backupConfig).map(({ kind, verb, subresource }) => {
        const { group, plural } = resourceTypes[kind];
        const resources = [subresource === undefined ? plural : `${plural}/${subresource}`];
        return { apiGroups: [group], resources, verbs: [verb] };
      });
      const rbac = '/apis/rbac.authorization.k8s.io/v1';
      const metadata = { name: account };
      await write('POST', `${rbac}/clusterroles`, { metadata, rules });
      await write('POST', `${rbac}/clusterrolebindings`, {
        metadata,
        roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: account },
        subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: account }],
      });
    }

    async function createSecret(): Promise<void> {
      const { accessKeyId, secretAccessKey } = buckets().root;
      await write('POST', collectionPath('Secret', namespace), {
        metadata: { name: 'keys' },
        stringData: { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey },
      });
    }

    async function createDatabase(s3: object, as = name): Promise<void> {
      await write('POST', collectionPath('Database', namespace), {
        apiVersion: 'millrace.dev/v1alpha1',
        kind: 'Database',
        metadata: { name: as },
        spec: {
          name: 'postgres',
          dataPlane: {
            topology: { endpoints: [etcd.endpoint] },
            admin: { url: 'http://127.0.0.1:1' },
          },
          backup: {
            repository: { type: 's3', s3: { region, endpoint: buckets().endpoint, ...s3 } },
          },
        },
      });
    }

    async function patchRepository(s3: object): Promise<void> {
      await patchDatabase({ spec: { backup: { repository: { s3 } } } });
    }

    /** Does what the condition says, as a person would. */
    async function confirmAsTold(): Promise<void> {
      const said = conditionOf(await readDatabase(), 'BackupConfigured')?.message ?? '';
      const hash = new RegExp(`${confirmRepository}=([0-9a-f]{12})$`).exec(said)?.[1];
      expect(hash, said).toBeDefined();
      await patchDatabase({ metadata: { annotations: { [confirmRepository]: hash } } });
    }

    async function patchDatabase(body: object): Promise<void> {
      const answer = await api.request({
        method: 'PATCH',
        path: `${collectionPath('Database', namespace)}/${name}`,
        contentType: 'application/merge-patch+json',
        body,
      });
      expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    }

    async function readDatabase(target = name): Promise<KubeObject<'Database'>> {
      const read = await kubeClient(api).get({ kind: 'Database', namespace, name: target });
      return read.kind === 'present' ? read.value : expect.unreachable(`it is ${read.kind}`);
    }

    async function write(method: 'POST' | 'DELETE', path: string, body?: object): Promise<void> {
      const answer = await api.request({ method, path, ...(body === undefined ? {} : { body }) });
      expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(300);
    }

    async function ownerIn(bucket: string) {
      const { Body } = await client.send(new GetObjectCommand({ Bucket: bucket, Key: ownerKey }));
      return parseOwner((await Body?.transformToString()) ?? '');
    }

    async function putRecord(value: Uint8Array): Promise<void> {
      await askEtcd('put', { key: encode(key), value: encode(value) });
    }

    /** What the data plane would read. */
    async function readRecord() {
      const answer = (await askEtcd('range', { key: encode(key) })) as {
        kvs: [{ value: string }];
      };
      const value = Buffer.from(answer.kvs[0].value, 'base64');
      const { backupLocation, cells } = fromBinary(DatabaseSchema, value);
      return {
        place: backupLocation?.location.value,
        authoritativeGeneration: backupLocation?.authoritativeGeneration,
        cells,
        kept: value.toString('latin1').split(unknownText).length - 1,
      };
    }

    async function askEtcd(what: string, body: object): Promise<unknown> {
      const response = await fetch(`${etcd.endpoint}/v3/kv/${what}`, {
        method: 'POST',
        body: JSON.stringify(body),
      });
      return response.json();
    }

    async function requestsOfStep() {
      const log = await readAuditLog(controlPlane().auditLogPath);
      return log.filter(({ user }) => user === account);
    }
  },
);

const unknownText = 'of a later version';

/** As somebody's bootstrap writes it, with a field of a later version in the record and in the location. */
function recordBytes(path: string): Uint8Array {
  const later = new BinaryWriter().tag(99, WireType.LengthDelimited).string(unknownText).finish();
  const database = create(DatabaseSchema, { name: 'postgres', cells: ['zone-a'] });
  const filesystem = field(
    1,
    new BinaryWriter().tag(1, WireType.LengthDelimited).string(path).finish(),
  );
  const generation = new BinaryWriter().tag(4, WireType.Varint).int64(7n).finish();
  return Buffer.concat([
    toBinary(DatabaseSchema, database),
    field(2, Buffer.concat([filesystem, generation, later])),
    later,
  ]);
}

function field(number: number, content: Uint8Array): Uint8Array {
  return new BinaryWriter().tag(number, WireType.LengthDelimited).bytes(content).finish();
}

function encode(value: string | Uint8Array): string {
  return Buffer.from(value).toString('base64');
}

function conditionOf({ status }: Database, type: string) {
  return status?.conditions?.find((condition) => condition.type === type);
}

function isWrite(verb: string): boolean {
  return !['get', 'list', 'watch'].includes(verb);
}
