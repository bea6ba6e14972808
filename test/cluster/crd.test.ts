import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import * as z from 'zod';
import { installDefinitions } from '#infra/cli/install.ts';
import { servedKinds } from '#infra/kubernetes/crd.ts';
import { rulesOf } from '#infra/kubernetes/structural-schema.ts';
import type { KubeConnection, KubeResponse } from '#shared/kube/connection.ts';
import { connectKube } from '#shared/kube/http-connection.ts';
import { missingControlPlane, useControlPlane } from './local-control-plane.ts';

type Json = Record<string, unknown>;

const collections = '/apis/millrace.dev/v1alpha1/namespaces';
const plurals: { readonly [kind: string]: string } = {
  Database: 'databases',
  GoverseCluster: 'goverseclusters',
  Shard: 'shards',
};

let api: KubeConnection;

const service = { name: 'topo', port: 2379 };
const endpoint = 'http://topo:2379';

function aDatabase(spec: Json = {}, name = 'main'): Json {
  return {
    apiVersion: 'millrace.dev/v1alpha1',
    kind: 'Database',
    metadata: { name },
    spec: {
      name: 'postgres',
      dataPlane: {
        kind: 'multigres',
        topology: { endpoints: [endpoint] },
        admin: { url: 'http://multiadmin:18000' },
      },
      ...spec,
    },
  };
}

function aGoverseCluster(spec: Json = {}, name = 'games'): Json {
  return {
    apiVersion: 'millrace.dev/v1alpha1',
    kind: 'GoverseCluster',
    metadata: { name },
    spec: { topology: { endpoints: [endpoint] }, ...spec },
  };
}

function withEtcd(topology: Json): Json {
  return aGoverseCluster({ topology });
}

function withTopology(topology: Json): Json {
  return aDatabase({ dataPlane: { topology, admin: { url: 'http://multiadmin:18000' } } });
}

function withAdmin(admin: Json): Json {
  return aDatabase({ dataPlane: { topology: { endpoints: [endpoint] }, admin } });
}

function withRepository(repository: Json): Json {
  return aDatabase({ backup: { repository } });
}

function withBucket(change: Json = {}): Json {
  return withRepository({
    type: 's3',
    s3: { bucket: 'backups', region: 'eu-west-1', ...change },
  });
}

function withFilesystem(change: Json = {}): Json {
  return withRepository({
    type: 'filesystem',
    filesystem: { path: '/backups', storage: { size: '10Gi' }, ...change },
  });
}

const container = { name: 'multipooler', image: 'multipooler:1' };

function aPool(change: Json = {}): Json {
  return {
    name: 'main',
    cells: ['zone-a'],
    replicasPerCell: 3,
    storage: { size: '10Gi' },
    podTemplate: { spec: { containers: [container] } },
    ...change,
  };
}

function anAttachedPool(change: Json = {}): Json {
  return { name: 'main', cells: ['zone-a'], ...change };
}

function aShard(spec: Json = {}, name = 'orders'): Json {
  return {
    apiVersion: 'millrace.dev/v1alpha1',
    kind: 'Shard',
    metadata: { name },
    spec: { databaseRef: { name: 'main' }, pools: [aPool()], ...spec },
  };
}

function withPool(change: Json): Json {
  return aShard({ pools: [aPool(change)] });
}

function withSchedule(change: Json): Json {
  const schedule = { name: 'nightly', cron: '0 2 * * *', type: 'full', ...change };
  return aShard({ backup: { schedules: [schedule] } });
}

function withJobs(jobTemplate: Json | undefined, engine = 'job'): Json {
  const schedule = { name: 'nightly', cron: '0 2 * * *', type: 'full', engine };
  return aShard({ backup: { schedules: [schedule], jobTemplate } });
}

function withJobSpec(podSpec: Json): Json {
  return withJobs({ spec: { containers: [container], ...podSpec } });
}

function withJobMetadata(metadata: Json): Json {
  return withJobs({ metadata, spec: { containers: [container] } });
}

function withPodSpec(podSpec: Json): Json {
  return withPool({ podTemplate: { spec: { containers: [container], ...podSpec } } });
}

function withPodMetadata(metadata: Json): Json {
  return withPool({ podTemplate: { metadata, spec: { containers: [container] } } });
}

/** So many values, each made of its number. */
function many<Value>(count: number, make: (index: string) => Value): Value[] {
  return Array.from({ length: count }, (_, index) => make(String(index)));
}

/**
 * What a rule admits and what it refuses: new objects, or where there is a `before`, updates of it. `says` is the
 * beginning of the rule's message, which tells several rules of one field apart.
 */
interface Case {
  readonly rule: `${'Database' | 'GoverseCluster' | 'Shard'} ${string}`;
  readonly says: string;
  readonly before?: Json;
  readonly admitted: readonly Json[];
  readonly refused: readonly Json[];
  /** How the messages of the rules begin that refuse these objects as well. */
  readonly alsoRefusedBy?: string;
}

const databaseCases: readonly Case[] = [
  {
    rule: 'Database ',
    says: 'choose a metadata.name',
    admitted: [aDatabase({}, 'a'.repeat(30)), aDatabase({}, '0')],
    refused: [aDatabase({}, 'a'.repeat(31)), aDatabase({}, 'orders.eu')],
  },
  {
    rule: 'Database spec',
    says: 'set spec.name to postgres',
    admitted: [aDatabase()],
    refused: [aDatabase({ name: 'orders' })],
  },
  {
    rule: 'Database spec.name',
    says: 'spec.name cannot be changed',
    before: aDatabase(),
    admitted: [aDatabase({ paused: true })],
    refused: [aDatabase({ name: 'orders' })],
    alsoRefusedBy: 'set spec.name to postgres',
  },
  {
    rule: 'Database spec.dataPlane.topology',
    says: 'give either endpoints',
    admitted: [withTopology({ service }), withTopology({ endpoints: [endpoint] })],
    refused: [withTopology({ service, endpoints: [endpoint] }), withTopology({})],
  },
  {
    rule: 'Database spec.dataPlane.topology',
    says: 'give https endpoints',
    admitted: [
      withTopology({ endpoints: ['https://topo:2379'], tlsSecret: 'topo-tls' }),
      withTopology({ service, tlsSecret: 'topo-tls' }),
    ],
    refused: [withTopology({ endpoints: [endpoint], tlsSecret: 'topo-tls' })],
  },
  {
    rule: 'Database spec.dataPlane.topology.endpoints',
    says: 'give all endpoints',
    admitted: [withTopology({ endpoints: ['https://a:2379', 'https://b:2379'] })],
    refused: [withTopology({ endpoints: ['https://a:2379', 'http://b:2379'] })],
  },
  {
    rule: 'Database spec.dataPlane.topology.endpoints[]',
    says: 'write an endpoint as',
    admitted: [
      withTopology({ endpoints: ['http://[fd00::1]:2379', 'http://topo.db.svc:2379'] }),
      withTopology({ endpoints: ['http://10.0.0.1:2379'] }),
    ],
    refused: [
      withTopology({ endpoints: ['http://topo'] }),
      withTopology({ endpoints: ['http://topo:2379/'] }),
      withTopology({ endpoints: ['http://root:secret@topo:2379'] }),
    ],
  },
  {
    rule: 'Database spec.dataPlane.topology.service.namespace',
    says: 'use lower-case letters',
    admitted: [withTopology({ service: { ...service, namespace: 'topology' } })],
    refused: [withTopology({ service: { ...service, namespace: '../kube-system' } })],
  },
  {
    rule: 'Database spec.dataPlane.topology.service.name',
    says: 'use lower-case letters',
    admitted: [withTopology({ service })],
    refused: [withTopology({ service: { ...service, name: 'topo:2379' } })],
  },
  {
    rule: 'Database spec.dataPlane.topology.tlsSecret',
    says: 'give the name of a Secret',
    admitted: [withTopology({ service, tlsSecret: 'topo.tls' })],
    refused: [withTopology({ service, tlsSecret: '-----BEGIN' })],
  },
  {
    rule: 'Database spec.dataPlane.topology.authSecret',
    says: 'give the name of a Secret',
    admitted: [withTopology({ service, authSecret: 'topo-auth' })],
    refused: [withTopology({ service, authSecret: 'root:secret' })],
  },
  {
    rule: 'Database spec.dataPlane.topology.globalRoot',
    says: 'write globalRoot as a path',
    admitted: [withTopology({ service, globalRoot: '/multigres/test.1/global' })],
    refused: [
      withTopology({ service, globalRoot: '/multigres/global/' }),
      withTopology({ service, globalRoot: 'multigres' }),
    ],
  },
  {
    rule: 'Database spec.backup.repository',
    says: 'give s3',
    admitted: [withBucket()],
    refused: [withRepository({ type: 's3' })],
  },
  {
    rule: 'Database spec.backup.repository',
    says: 'give filesystem',
    admitted: [withFilesystem()],
    refused: [
      withRepository({ type: 'filesystem' }),
      withRepository({
        type: 's3',
        s3: { bucket: 'backups', region: 'eu-west-1' },
        filesystem: { path: '/backups', storage: { size: '1Gi' } },
      }),
    ],
  },
  {
    rule: 'Database spec.backup.repository.s3',
    says: 'give credentialsSecret or',
    admitted: [
      withBucket({ credentialsSecret: 'keys' }),
      withBucket({ serviceAccountName: 'pooler' }),
    ],
    refused: [withBucket({ credentialsSecret: 'keys', serviceAccountName: 'pooler' })],
  },
  {
    rule: 'Database spec.backup.repository.s3.bucket',
    says: 'give the name of a bucket',
    admitted: [withBucket({ bucket: 'orders.eu-1' }), withBucket({ bucket: 'a'.repeat(63) })],
    refused: [
      withBucket({ bucket: 'ab' }),
      withBucket({ bucket: 'Backups' }),
      withBucket({ bucket: 'a..b' }),
      withBucket({ bucket: '10.0.0.1' }),
      withBucket({ bucket: 'backups/orders' }),
      withBucket({ bucket: '-backups' }),
    ],
  },
  {
    rule: 'Database spec.backup.repository.s3.region',
    says: 'give the region',
    admitted: [withBucket({ region: 'us-gov-west-1' })],
    refused: [withBucket({ region: 'eu-west-1.evil.example' }), withBucket({ region: '-' })],
  },
  {
    rule: 'Database spec.backup.repository.s3.endpoint',
    says: 'write the endpoint as',
    admitted: [
      withBucket({ endpoint: 'https://minio.db.svc:9000' }),
      withBucket({ endpoint: 'https://s3.example.com' }),
      withBucket({ endpoint: 'http://[fd00::1]:9000' }),
    ],
    refused: [
      withBucket({ endpoint: 'minio:9000' }),
      withBucket({ endpoint: 'https://key:secret@minio:9000' }),
      withBucket({ endpoint: 'https://minio:9000/' }),
      withBucket({ endpoint: 'https://minio:9000/?x=1' }),
      withBucket({ endpoint: 'ftp://minio:9000' }),
    ],
  },
  {
    rule: 'Database spec.backup.repository.s3.keyPrefix',
    says: 'write keyPrefix as a path',
    admitted: [withBucket({ keyPrefix: 'backups/orders_1.eu' }), withBucket({ keyPrefix: '...' })],
    refused: [
      withBucket({ keyPrefix: '/backups' }),
      withBucket({ keyPrefix: 'backups/' }),
      withBucket({ keyPrefix: 'a//b' }),
      withBucket({ keyPrefix: 'a/../b' }),
      withBucket({ keyPrefix: '.' }),
      withBucket({ keyPrefix: 'a b' }),
    ],
  },
  {
    rule: 'Database spec.backup.repository.s3.credentialsSecret',
    says: 'give the name of a Secret',
    admitted: [withBucket({ credentialsSecret: 'backup.keys' })],
    refused: [withBucket({ credentialsSecret: 'AKIA' })],
  },
  {
    rule: 'Database spec.backup.repository.s3.serviceAccountName',
    says: 'give the name of a ServiceAccount',
    admitted: [withBucket({ serviceAccountName: 'pooler' })],
    refused: [withBucket({ serviceAccountName: 'arn:aws:iam::1:role/pooler' })],
  },
  {
    rule: 'Database spec.backup.repository.filesystem.path',
    says: 'write path as an absolute path',
    admitted: [withFilesystem({ path: '/srv/backups.1' })],
    refused: [
      withFilesystem({ path: 'backups' }),
      withFilesystem({ path: '/backups/' }),
      withFilesystem({ path: '/' }),
      withFilesystem({ path: '/backups/../etc' }),
    ],
  },
  {
    rule: 'Database spec.backup.repository.filesystem.storage.size',
    says: 'give the size as a quantity',
    admitted: [withFilesystem({ storage: { size: '1Ti' } })],
    refused: [withFilesystem({ storage: { size: '0' } })],
  },
  {
    rule: 'Database spec.backup.repository.filesystem.storage.className',
    says: 'give the name of a StorageClass',
    admitted: [withFilesystem({ storage: { size: '1Gi', className: 'efs' } })],
    refused: [withFilesystem({ storage: { size: '1Gi', className: 'EFS' } })],
  },
  {
    rule: 'Database spec.dataPlane.admin',
    says: 'give either url',
    admitted: [withAdmin({ service }), withAdmin({ url: 'https://multiadmin' })],
    refused: [withAdmin({ service, url: 'http://multiadmin:18000' }), withAdmin({})],
  },
  {
    rule: 'Database spec.dataPlane.admin.url',
    says: 'write the url as',
    admitted: [withAdmin({ url: 'https://multiadmin:18000/behind/a/path' })],
    refused: [
      withAdmin({ url: 'multiadmin:18000' }),
      withAdmin({ url: 'ftp://multiadmin' }),
      withAdmin({ url: 'http://root:secret@multiadmin' }),
      withAdmin({ url: 'http://multiadmin/?a=b' }),
    ],
  },
  {
    rule: 'Database spec.dataPlane.admin.service.namespace',
    says: 'use lower-case letters',
    admitted: [withAdmin({ service: { ...service, namespace: 'admin' } })],
    refused: [withAdmin({ service: { ...service, namespace: 'Admin' } })],
  },
  {
    rule: 'Database spec.dataPlane.admin.service.name',
    says: 'use lower-case letters',
    admitted: [withAdmin({ service })],
    refused: [withAdmin({ service: { ...service, name: 'multiadmin/proxy' } })],
  },
];

const shardCases: readonly Case[] = [
  {
    rule: 'Shard ',
    says: 'choose a metadata.name',
    admitted: [aShard({}, 'a'.repeat(30)), aShard({}, '0-orders')],
    refused: [aShard({}, 'a'.repeat(31)), aShard({}, 'orders.eu')],
  },
  {
    rule: 'Shard spec.databaseRef.name',
    says: 'use lower-case letters',
    admitted: [aShard({ databaseRef: { name: '0-main' } })],
    refused: [aShard({ databaseRef: { name: 'Main' } })],
  },
  {
    rule: 'Shard spec.databaseRef.name',
    says: 'databaseRef.name cannot be changed',
    before: aShard(),
    admitted: [aShard({ paused: true })],
    refused: [aShard({ databaseRef: { name: 'other' } })],
  },
  {
    rule: 'Shard spec.tableGroup',
    says: 'leave tableGroup out',
    admitted: [aShard({ tableGroup: 'default' })],
    refused: [aShard({ tableGroup: 'other' })],
  },
  {
    rule: 'Shard spec.tableGroup',
    says: 'tableGroup cannot be changed',
    before: aShard(),
    admitted: [aShard({ tableGroup: 'default' })],
    refused: [aShard({ tableGroup: 'other' })],
    alsoRefusedBy: 'leave tableGroup out',
  },
  {
    rule: 'Shard spec.shard',
    says: 'leave shard out',
    admitted: [aShard({ shard: '0-inf' })],
    refused: [aShard({ shard: '0-8' })],
  },
  {
    rule: 'Shard spec.shard',
    says: 'shard cannot be changed',
    before: aShard(),
    admitted: [aShard({ shard: '0-inf' })],
    refused: [aShard({ shard: '0-8' })],
    alsoRefusedBy: 'leave shard out',
  },
  {
    rule: 'Shard spec.pools',
    says: 'keep every pool',
    before: aShard(),
    admitted: [aShard({ pools: [aPool({ name: 'more' }), aPool()] })],
    refused: [aShard({ pools: [aPool({ name: 'renamed' })] })],
  },
  {
    rule: 'Shard spec.pools[]',
    says: 'podTemplate can be neither',
    before: aShard(),
    admitted: [withPodSpec({ priorityClassName: 'high' })],
    refused: [aShard({ pools: [anAttachedPool({ storage: { size: '10Gi' } })] })],
  },
  {
    rule: 'Shard spec.pools[]',
    says: 'podTemplate can be neither',
    before: aShard({ pools: [anAttachedPool()] }),
    admitted: [aShard({ pools: [anAttachedPool({ replicasPerCell: 2 })] })],
    refused: [aShard()],
  },
  {
    rule: 'Shard spec.pools[]',
    says: 'give storage with podTemplate',
    admitted: [aShard({ pools: [anAttachedPool()] }), aShard()],
    refused: [withPool({ storage: undefined })],
  },
  {
    rule: 'Shard spec.pools[].name',
    says: 'use lower-case letters',
    admitted: [withPool({ name: 'a'.repeat(25) })],
    refused: [withPool({ name: 'main_1' }), withPool({ name: 'main-' })],
  },
  {
    rule: 'Shard spec.pools[].cells',
    says: 'name each cell once',
    admitted: [withPool({ cells: ['zone-a', 'zone-b'] })],
    refused: [withPool({ cells: ['zone-a', 'zone-b', 'zone-a'] })],
  },
  {
    rule: 'Shard spec.pools[].cells',
    says: 'keep every cell',
    before: withPool({ cells: ['zone-a', 'zone-b'] }),
    admitted: [withPool({ cells: ['zone-c', 'zone-b', 'zone-a'] })],
    refused: [withPool({ cells: ['zone-a'] }), withPool({ cells: ['zone-a', 'zone-x'] })],
  },
  {
    rule: 'Shard spec.pools[].cells[]',
    says: 'use lower-case letters',
    admitted: [withPool({ cells: ['a'.repeat(30), '1'] })],
    refused: [withPool({ cells: ['zone.a'] })],
  },
  {
    rule: 'Shard spec.pools[].replicasPerCell',
    says: 'set replicasPerCell to 1 or more',
    admitted: [withPool({ replicasPerCell: 1 }), withPool({ replicasPerCell: 32 })],
    refused: [withPool({ replicasPerCell: 0 }), withPool({ replicasPerCell: 33 })],
  },
  {
    rule: 'Shard spec.pools[].storage',
    says: 'storage cannot be changed',
    before: aShard(),
    admitted: [withPool({ storage: { size: '10Gi', accessModes: ['ReadWriteOnce'] } })],
    refused: [
      withPool({ storage: { size: '20Gi' } }),
      withPool({ storage: { size: '10Gi', className: 'fast' } }),
    ],
  },
  {
    rule: 'Shard spec.pools[].storage.size',
    says: 'give the size as a quantity',
    admitted: [withPool({ storage: { size: '1.5Ti' } }), withPool({ storage: { size: '5e9' } })],
    refused: [withPool({ storage: { size: 'large' } }), withPool({ storage: { size: '0Gi' } })],
  },
  {
    rule: 'Shard spec.pools[].storage.className',
    says: 'give the name of a StorageClass',
    admitted: [withPool({ storage: { size: '1Gi', className: 'fast.example.com' } })],
    refused: [withPool({ storage: { size: '1Gi', className: 'Fast SSD' } })],
  },
  {
    rule: 'Shard spec.pools[].podTemplate.metadata.labels',
    says: 'leave labels of millrace.dev/ out',
    admitted: [withPodMetadata({ labels: { app: 'orders', 'team.dev/name': 'a' } })],
    refused: [withPodMetadata({ labels: { 'millrace.dev/shard': 'other' } })],
  },
  {
    rule: 'Shard spec.pools[].podTemplate.metadata.annotations',
    says: 'leave annotations of millrace.dev out',
    admitted: [withPodMetadata({ annotations: { 'prometheus.io/scrape': 'true' } })],
    refused: [
      withPodMetadata({ annotations: { 'millrace.dev/drain': 'all of them' } }),
      withPodMetadata({ annotations: { 'drain.millrace.dev/state': 'finished' } }),
    ],
  },
  {
    rule: 'Shard spec.pools[].podTemplate.spec',
    says: 'leave nodeName out',
    admitted: [withPodSpec({ nodeSelector: { disk: 'fast' } })],
    refused: [withPodSpec({ nodeName: 'node-1' })],
  },
  {
    rule: 'Shard spec.pools[].podTemplate.spec',
    says: 'leave hostname and subdomain out',
    admitted: [withPodSpec({ dnsPolicy: 'ClusterFirst' })],
    refused: [withPodSpec({ hostname: 'orders' }), withPodSpec({ subdomain: 'orders' })],
  },
  {
    rule: 'Shard spec.pools[].podTemplate.spec',
    says: 'leave restartPolicy',
    admitted: [withPodSpec({ restartPolicy: 'Always' })],
    refused: [withPodSpec({ restartPolicy: 'Never' }), withPodSpec({ activeDeadlineSeconds: 60 })],
  },
  {
    rule: 'Shard spec.pools[].podTemplate.spec',
    says: 'give terminationGracePeriodSeconds',
    admitted: [withPodSpec({ terminationGracePeriodSeconds: 1 })],
    refused: [withPodSpec({ terminationGracePeriodSeconds: 0 })],
  },
  {
    rule: 'Shard spec.pools[].podTemplate.spec.volumes',
    says: 'leave the volume data out',
    admitted: [withPodSpec({ volumes: [{ name: 'scratch', emptyDir: {} }] })],
    refused: [withPodSpec({ volumes: [{ name: 'data', emptyDir: {} }] })],
  },
  {
    rule: 'Shard spec.drain.deadline',
    says: 'give deadline as a duration',
    admitted: ['10s', '5m', '1h30m', '90000ms', '1.5h'].map((deadline) =>
      aShard({ drain: { deadline } }),
    ),
    refused: ['9s', 'soon', '5', '-5m', '1d', '0.1m'].map((deadline) =>
      aShard({ drain: { deadline } }),
    ),
  },
  {
    rule: 'Shard spec.backup',
    says: 'give jobTemplate too',
    admitted: [
      withJobSpec({}),
      withJobs(undefined, 'admin'),
      withJobs({ spec: { containers: [container] } }, 'admin'),
    ],
    refused: [withJobs(undefined)],
  },
  {
    rule: 'Shard spec.backup.jobTemplate.spec',
    says: 'leave restartPolicy out',
    admitted: [withJobSpec({ restartPolicy: 'Never' }), withJobSpec({ activeDeadlineSeconds: 60 })],
    refused: [withJobSpec({ restartPolicy: 'OnFailure' })],
  },
  {
    rule: 'Shard spec.backup.jobTemplate.metadata.labels',
    says: 'leave labels of millrace.dev/ out',
    admitted: [withJobMetadata({ labels: { app: 'backup' } })],
    refused: [withJobMetadata({ labels: { 'millrace.dev/shard': 'orders' } })],
  },
  {
    rule: 'Shard spec.backup.jobTemplate.metadata.annotations',
    says: 'leave annotations of millrace.dev out',
    admitted: [withJobMetadata({ annotations: { 'sidecar.istio.io/inject': 'false' } })],
    refused: [withJobMetadata({ annotations: { 'drain.millrace.dev/state': 'finished' } })],
  },
  {
    rule: 'Shard spec.cleanup.quietFor',
    says: 'give quietFor as a duration of at least 5s',
    admitted: ['5s', '10m', '1h30m'].map((quietFor) => aShard({ cleanup: { quietFor } })),
    refused: ['4s', 'soon', '-5m'].map((quietFor) => aShard({ cleanup: { quietFor } })),
  },
  {
    rule: 'Shard spec.cleanup.deleteAfter',
    says: 'give deleteAfter as a duration, for example 24h',
    admitted: [aShard({ cleanup: { quietFor: '5s', deleteAfter: '5s' } })],
    refused: ['soon', '1d'].map((deleteAfter) => aShard({ cleanup: { deleteAfter } })),
  },
  {
    rule: 'Shard spec.cleanup',
    says: 'give a deleteAfter that is not shorter than quietFor',
    admitted: [aShard({ cleanup: { quietFor: '1h', deleteAfter: '60m' } })],
    refused: [aShard({ cleanup: { quietFor: '1h', deleteAfter: '59m' } })],
  },
  {
    rule: 'Shard spec.cleanup.maxPerPass',
    says: 'set maxPerPass to 1 or more, and at most 8',
    admitted: [1, 8].map((maxPerPass) => aShard({ cleanup: { maxPerPass } })),
    refused: [0, 9].map((maxPerPass) => aShard({ cleanup: { maxPerPass } })),
  },
  {
    rule: 'Shard spec.backup.schedules[]',
    says: 'give either cron or every',
    admitted: [withSchedule({}), withSchedule({ cron: undefined, every: '6h' })],
    refused: [withSchedule({ every: '6h' }), withSchedule({ cron: undefined })],
  },
  {
    rule: 'Shard spec.backup.schedules[]',
    says: 'give a jitter that is shorter',
    admitted: [
      withSchedule({ cron: undefined, every: '10m', jitter: '299s' }),
      withSchedule({ jitter: '12h' }),
    ],
    refused: [withSchedule({ cron: undefined, every: '10m', jitter: '5m' })],
  },
  {
    rule: 'Shard spec.backup.schedules[].name',
    says: 'use lower-case letters',
    admitted: [withSchedule({ name: 'nightly-1' })],
    refused: ['Nightly', '-nightly', '@now'].map((name) => withSchedule({ name })),
  },
  {
    rule: 'Shard spec.backup.schedules[].cron',
    says: 'write cron with five fields',
    admitted: ['*/5 * * * *', '0 2 * * MON-FRI', '0 2 L * *'].map((cron) => withSchedule({ cron })),
    refused: ['0 0 2 * * *', '0 2 * *', '@daily', '? 2 * * *', '0  2 * * *'].map((cron) =>
      withSchedule({ cron }),
    ),
  },
  {
    rule: 'Shard spec.backup.schedules[].every',
    says: 'give every as a duration of at least 10s',
    admitted: ['10s', '1h30m'].map((every) => withSchedule({ cron: undefined, every })),
    refused: ['9s', '10.5s', '10500ms', 'daily'].map((every) =>
      withSchedule({ cron: undefined, every }),
    ),
  },
  {
    rule: 'Shard spec.backup.schedules[].timeZone',
    says: 'give timeZone as a name',
    admitted: ['UTC', 'Europe/London', 'Etc/GMT+5'].map((timeZone) => withSchedule({ timeZone })),
    refused: ['+01:00', 'Europe London'].map((timeZone) => withSchedule({ timeZone })),
  },
  {
    rule: 'Shard spec.backup.schedules[].startingDeadline',
    says: 'give startingDeadline as a duration of at least 5m',
    admitted: [withSchedule({ startingDeadline: '5m' })],
    refused: ['299s', 'soon'].map((startingDeadline) => withSchedule({ startingDeadline })),
  },
  {
    rule: 'Shard spec.backup.schedules[].runDeadline',
    says: 'give runDeadline as a duration of at least 1m',
    admitted: [withSchedule({ runDeadline: '1m' })],
    refused: [withSchedule({ runDeadline: '59s' })],
  },
  {
    rule: 'Shard spec.backup.schedules[].jitter',
    says: 'give jitter as a duration in whole seconds',
    admitted: [withSchedule({ jitter: '0s' })],
    refused: ['1.5m', '100ms'].map((jitter) => withSchedule({ jitter })),
  },
];

const clusterCases: readonly Case[] = [
  {
    rule: 'GoverseCluster ',
    says: 'choose a metadata.name',
    admitted: [aGoverseCluster({}, 'a'.repeat(30))],
    refused: [aGoverseCluster({}, 'a'.repeat(31)), aGoverseCluster({}, 'games.eu')],
  },
  {
    rule: 'GoverseCluster spec.topology',
    says: 'give either endpoints',
    admitted: [withEtcd({ service }), withEtcd({ endpoints: [endpoint] })],
    refused: [withEtcd({ service, endpoints: [endpoint] }), withEtcd({})],
  },
  {
    rule: 'GoverseCluster spec.topology',
    says: 'give https endpoints',
    admitted: [withEtcd({ endpoints: ['https://etcd:2379'], tlsSecret: 'etcd' })],
    refused: [withEtcd({ endpoints: [endpoint], tlsSecret: 'etcd' })],
  },
  {
    rule: 'GoverseCluster spec.topology.endpoints',
    says: 'give all endpoints with http',
    admitted: [withEtcd({ endpoints: ['http://a:2379', 'http://b:2379'] })],
    refused: [withEtcd({ endpoints: ['http://a:2379', 'https://b:2379'] })],
  },
  {
    rule: 'GoverseCluster spec.topology.endpoints[]',
    says: 'write an endpoint as',
    admitted: [withEtcd({ endpoints: ['http://[fd00::1]:2379'] })],
    refused: ['http://etcd', 'http://etcd:2379/'].map((each) => withEtcd({ endpoints: [each] })),
  },
  {
    rule: 'GoverseCluster spec.topology.service.namespace',
    says: 'use lower-case letters',
    admitted: [withEtcd({ service: { ...service, namespace: 'games' } })],
    refused: [withEtcd({ service: { ...service, namespace: 'Games' } })],
  },
  {
    rule: 'GoverseCluster spec.topology.service.name',
    says: 'use lower-case letters',
    admitted: [withEtcd({ service })],
    refused: [withEtcd({ service: { ...service, name: '-etcd' } })],
  },
  {
    rule: 'GoverseCluster spec.topology.tlsSecret',
    says: 'give the name of a Secret',
    admitted: [withEtcd({ service, tlsSecret: 'etcd.tls' })],
    refused: [withEtcd({ service, tlsSecret: 'etcd/tls' })],
  },
  {
    rule: 'GoverseCluster spec.topology.authSecret',
    says: 'give the name of a Secret',
    admitted: [withEtcd({ service, authSecret: 'etcd' })],
    refused: [withEtcd({ service, authSecret: 'Etcd' })],
  },
  {
    rule: 'GoverseCluster spec.topology.prefix',
    says: 'write prefix as a path',
    admitted: ['/goverse', '/games/eu-1'].map((prefix) => withEtcd({ service, prefix })),
    refused: ['goverse', '/goverse/', '/'].map((prefix) => withEtcd({ service, prefix })),
  },
  {
    rule: 'GoverseCluster spec.topology.prefix',
    says: 'prefix cannot be changed',
    before: withEtcd({ service }),
    admitted: [withEtcd({ service, prefix: '/goverse' })],
    refused: [withEtcd({ service, prefix: '/other' })],
  },
  {
    rule: 'GoverseCluster spec.shards',
    says: 'shards cannot be changed',
    before: aGoverseCluster(),
    admitted: [aGoverseCluster({ shards: 8_192 })],
    refused: [aGoverseCluster({ shards: 16 })],
  },
  {
    rule: 'GoverseCluster spec.shutdown.timeout',
    says: 'give timeout as a duration from 5s to 1h',
    admitted: ['5s', '1h'].map((timeout) => aGoverseCluster({ shutdown: { timeout } })),
    refused: ['4s', '61m', 'soon'].map((timeout) => aGoverseCluster({ shutdown: { timeout } })),
  },
];

const cases = [...databaseCases, ...clusterCases, ...shardCases];

/** Every rule of the generated definitions. */
const rules = servedKinds.flatMap(({ kind, schema }) =>
  rulesOf(schema).map(({ path, message }) => ({ rule: `${kind} ${path}`, message })),
);

function isOf({ rule, says }: Case, other: { readonly rule: string; readonly message: string }) {
  return other.rule === rule && other.message.startsWith(says);
}

const namespaceSchema = z.object({ metadata: z.object({ name: z.string() }) });

/** Every object gets a namespace of its own, so that names do not meet. */
async function aNamespace(): Promise<string> {
  const body = { metadata: { generateName: 'crd-' } };
  const answer = await api.request({ method: 'POST', path: '/api/v1/namespaces', body });
  return namespaceSchema.parse(answer.body).metadata.name;
}

async function create(object: Json, namespace?: string): Promise<KubeResponse> {
  const plural = plurals[String(object['kind'])];
  const path = `${collections}/${namespace ?? (await aNamespace())}/${plural}`;
  return api.request({ method: 'POST', path, body: object });
}

/** Writes an object anew, or over `before`. */
async function write(object: Json, before: Json | undefined): Promise<KubeResponse> {
  if (before === undefined) {
    return create(object);
  }
  const namespace = await aNamespace();
  const created = await create(before, namespace);
  expect(created.status, JSON.stringify(created.body)).toBe(201);
  const metadata = z
    .object({ metadata: z.object({ name: z.string(), resourceVersion: z.string() }) })
    .parse(created.body).metadata;
  return api.request({
    method: 'PUT',
    path: `${collections}/${namespace}/${plurals[String(object['kind'])]}/${metadata.name}`,
    body: { ...object, metadata },
  });
}

/** Why an object was refused: one sentence for each field. */
function causesOf({ body }: KubeResponse): readonly string[] {
  const schema = z.object({
    details: z.object({ causes: z.array(z.object({ message: z.string() })) }),
  });
  return schema.parse(body).details.causes.map(({ message }) => message);
}

/** So many different names of one length. */
function longNames(count: number, length: number): string[] {
  return many(count, (index) => `${'a'.repeat(length - 2)}${index.padStart(2, '0')}`);
}

const statusSchema = z.object({ status: z.unknown() });

function conditionOf(type: string, status: string): Json {
  return {
    type,
    status,
    observedGeneration: 1,
    lastTransitionTime: '2026-01-01T00:00:00Z',
    reason: 'Tested',
    message: '',
  };
}

/** The path of a Shard of its own, created with a status, which is ignored. */
async function aServedShard(): Promise<string> {
  const namespace = await aNamespace();
  const created = await create({ ...aShard(), status: { observedGeneration: 9 } }, namespace);
  expect(created.status).toBe(201);
  expect(created.body).not.toHaveProperty('status');
  return `${collections}/${namespace}/shards/orders`;
}

async function apply(path: string, fieldManager: string, status: Json): Promise<KubeResponse> {
  return api.request({
    method: 'PATCH',
    path: `${path}/status`,
    query: { fieldManager },
    contentType: 'application/apply-patch+yaml',
    body: {
      apiVersion: 'millrace.dev/v1alpha1',
      kind: 'Shard',
      metadata: { name: 'orders' },
      status,
    },
  });
}

describe.skipIf(missingControlPlane !== undefined)('the API', () => {
  const controlPlane = useControlPlane();

  beforeAll(async () => {
    api = connectKube(controlPlane().access());
    await installDefinitions(api);
  });

  afterAll(() => {
    api.close();
  });

  describe('has rules that', () => {
    test('have a case each, and every case is of a rule', () => {
      const untested = rules.filter((rule) => !cases.some((one) => isOf(one, rule)));
      const idle = cases.filter((one) => rules.filter((rule) => isOf(one, rule)).length !== 1);

      expect(rules.length).toBeGreaterThan(20);
      expect(untested).toEqual([]);
      expect(idle).toEqual([]);
    });

    test.each(cases)('$rule: $says', async (one) => {
      const messages = rules.filter((rule) => isOf(one, rule)).map(({ message }) => message);
      const expected = [
        ...messages,
        ...(one.alsoRefusedBy === undefined ? [] : [one.alsoRefusedBy]),
      ];

      const admissions = await Promise.all(one.admitted.map((object) => write(object, one.before)));
      const refusals = await Promise.all(one.refused.map((object) => write(object, one.before)));

      for (const admission of admissions) {
        expect(admission.status, JSON.stringify(admission.body)).toBeLessThan(300);
      }
      for (const refusal of refusals) {
        expect(refusal.status, JSON.stringify(refusal.body)).toBe(422);
        const causes = causesOf(refusal);
        expect(
          causes.filter((cause) => !expected.some((text) => cause.includes(text))),
          'nothing else refuses it',
        ).toEqual([]);
        expect(causes).toHaveLength(expected.length);
      }
    });
  });

  describe('has a schema that', () => {
    test.each([
      ['a Shard without pools', aShard({ pools: [] }), 'spec.pools'],
      ['nine pools', aShard({ pools: many(9, (name) => aPool({ name })) }), 'at most 8 items'],
      ['two pools of one name', aShard({ pools: [aPool(), aPool()] }), 'Duplicate value'],
      ['a pool without cells', withPool({ cells: [] }), 'spec.pools[0].cells'],
      ['17 cells', withPool({ cells: many(17, String) }), 'at most 16 items'],
      ['a pool name of 26 characters', withPool({ name: 'a'.repeat(26) }), 'than 25'],
      ['a cell name of 31 characters', withPool({ cells: ['a'.repeat(31)] }), 'than 30'],
      ['a policy nobody knows', withPool({ pvcPolicy: { whenScaled: 'Keep' } }), 'whenScaled'],
      [
        'a claim that cannot be written to',
        withPool({ storage: { size: '1Gi', accessModes: ['ReadOnlyMany'] } }),
        'accessModes',
      ],
      ['a pod template without containers', withPodSpec({ containers: [] }), 'containers'],
      ['a container without a name', withPodSpec({ containers: [{}] }), 'name: Required value'],
      [
        'two containers of one name',
        withPodSpec({ containers: [container, container] }),
        'Duplicate value',
      ],
      ['a port that is none', withAdmin({ service: { name: 'admin', port: 65_536 } }), 'port'],
      [
        'a data plane nobody knows',
        aDatabase({ dataPlane: { kind: 'other', topology: { service }, admin: { service } } }),
        'kind',
      ],
    ])('refuses %s', async (_what, object, says) => {
      const answer = await create(object);

      expect(answer.status, JSON.stringify(answer.body)).toBe(422);
      expect(z.object({ message: z.string() }).parse(answer.body).message).toContain(says);
    });

    test('fills in every default of a Shard and prunes what it does not know, but no part of a pod spec', async () => {
      const podSpec = { containers: [{ ...container, tty: true }], priorityClassName: 'high' };
      const given = {
        databaseRef: { name: 'main', namespace: 'other' },
        backup: {
          schedules: [{ name: 'nightly', cron: '0 2 * * *', type: 'full', engine: 'job' }],
          jobTemplate: { metadata: { labels: { a: 'b' }, name: 'x' }, spec: podSpec },
          window: 'at night',
        },
        pools: [
          {
            name: 'main',
            cells: ['zone-a'],
            storage: { size: '1Gi' },
            podTemplate: { metadata: { labels: { a: 'b' }, name: 'x' }, spec: podSpec },
          },
        ],
      };

      const answer = await create(aShard(given));

      expect(answer.status, JSON.stringify(answer.body)).toBe(201);
      expect(z.object({ spec: z.unknown() }).parse(answer.body).spec).toEqual({
        databaseRef: { name: 'main' },
        tableGroup: 'default',
        shard: '0-inf',
        paused: false,
        pools: [
          {
            name: 'main',
            cells: ['zone-a'],
            replicasPerCell: 1,
            storage: { size: '1Gi', accessModes: ['ReadWriteOnce'] },
            podTemplate: { metadata: { labels: { a: 'b' } }, spec: podSpec },
            pvcPolicy: { whenScaled: 'Retain' },
          },
        ],
        drain: { deadline: '5m' },
        backup: {
          schedules: [
            {
              name: 'nightly',
              cron: '0 2 * * *',
              timeZone: 'UTC',
              type: 'full',
              engine: 'job',
              suspend: false,
              catchUp: 'latest',
              startingDeadline: '1h',
              runDeadline: '6h',
              jitter: '0s',
              onUnknown: 'report',
            },
          ],
          jobTemplate: { metadata: { labels: { a: 'b' } }, spec: podSpec },
        },
        cleanup: { enabled: true, quietFor: '10m', deleteAfter: '24h', maxPerPass: 1 },
      });
    });

    test('fills in every default of a Database', async () => {
      const answer = await create(
        aDatabase({ dataPlane: { topology: { service }, admin: { service } } }),
      );

      expect(z.object({ spec: z.unknown() }).parse(answer.body).spec).toEqual({
        name: 'postgres',
        paused: false,
        dataPlane: {
          kind: 'multigres',
          topology: { service, globalRoot: '/multigres/global' },
          admin: { service },
        },
      });
    });

    test('fills in what a shared file system is mounted as, and nothing of a bucket', async () => {
      const filesystem = await create(withFilesystem());
      const bucket = await create(withBucket());

      const repositoryOf = (answer: KubeResponse) =>
        z
          .object({ spec: z.object({ backup: z.object({ repository: z.unknown() }) }) })
          .parse(answer.body).spec.backup.repository;
      expect(repositoryOf(filesystem)).toEqual({
        type: 'filesystem',
        filesystem: {
          path: '/backups',
          storage: { size: '10Gi', accessModes: ['ReadWriteOnce'] },
        },
      });
      expect(repositoryOf(bucket)).toEqual({
        type: 's3',
        s3: { bucket: 'backups', region: 'eu-west-1' },
      });
    });

    test('admits the largest Shard there can be', async () => {
      const volumes = longNames(64, 63).map((name) => ({ name, emptyDir: {} }));
      const containers = longNames(32, 63).map((name) => ({ ...container, name }));
      const podTemplate = { spec: { containers, volumes } };
      const pools = longNames(8, 25).map((name) =>
        aPool({ name, cells: longNames(16, 30), replicasPerCell: 32, podTemplate }),
      );
      const schedules = longNames(8, 20).map((name) => ({
        name,
        cron: Array.from({ length: 5 }, () => '1,2,3,4,5,6,7,8').join(' '),
        type: 'incremental',
        jitter: '1h30m',
      }));
      const backup = { schedules, jobTemplate: podTemplate };
      const before = aShard({ pools, backup });

      const answer = await write(aShard({ pools, backup, paused: true }), before);

      expect(answer.status, JSON.stringify(answer.body).slice(0, 2000)).toBe(200);
    });
  });

  describe('has a status of a Shard that', () => {
    test('is a subresource: a write of the object does not change it, a write of it moves no generation', async () => {
      const path = await aServedShard();

      const answer = await apply(path, 'pool-pods', { observedGeneration: 1 });

      expect(answer.status, JSON.stringify(answer.body)).toBe(200);
      expect(answer.body).toMatchObject({ metadata: { generation: 1 } });
      expect(statusSchema.parse(answer.body).status).toEqual({ observedGeneration: 1 });
    });

    test('has a part for each step: what one applies or leaves out does not touch the other’s', async () => {
      const path = await aServedShard();
      const drained = conditionOf('Drained', 'True');
      const ready = conditionOf('Ready', 'True');
      const inA = { name: 'main', cell: 'zone-a', desired: 3, ready: 3 };
      const inB = { name: 'main', cell: 'zone-b', desired: 3, ready: 0 };
      const primary = { pod: '', pooler: 'zone-a/orders-0', rule: '3.1' };

      await apply(path, 'drain-step', {
        conditions: [drained],
        primary,
        drain: { pod: 'orders-1', cause: 'surplus', since: '2026-01-01T00:00:00Z' },
      });
      await apply(path, 'pool-pods', { conditions: [ready], pools: [inA, inB] });
      await apply(path, 'pool-pods', { conditions: [ready], pools: [inA] });
      const answer = await apply(path, 'drain-step', { conditions: [drained], primary });

      expect(answer.status, JSON.stringify(answer.body)).toBe(200);
      expect(statusSchema.parse(answer.body).status).toEqual({
        conditions: [drained, ready],
        pools: [inA],
        primary,
      });
    });

    test('is shown by kubectl get in the promised columns', async () => {
      const path = await aServedShard();
      await apply(path, 'pool-pods', { conditions: [conditionOf('Ready', 'False')] });
      await apply(path, 'drain-step', {
        primary: { pod: 'orders-0', pooler: 'zone-a/orders-0', rule: '3.1' },
        drain: { pod: 'orders-1', cause: 'requested', since: '2026-01-01T00:00:00Z' },
      });
      await apply(path, 'backup-trigger', {
        lastBackup: { any: new Date(Date.now() - 3 * 3_600_000).toISOString() },
        nextBackup: '2100-01-01T00:00:00Z',
      });

      const answer = await api.request({
        method: 'GET',
        path,
        accept: 'application/json;as=Table;v=v1;g=meta.k8s.io',
      });

      const table = z
        .object({
          columnDefinitions: z.array(z.object({ name: z.string(), priority: z.number() })),
          rows: z.array(z.object({ cells: z.array(z.unknown()) })),
        })
        .parse(answer.body);
      const shown = table.columnDefinitions.filter(({ priority }) => priority === 0);
      expect(shown.map(({ name }) => name)).toEqual([
        'Name',
        'Ready',
        'Primary',
        'Draining',
        'Last Backup',
        'Next Backup',
        'Age',
      ]);
      expect(table.rows[0]?.cells.slice(0, 6)).toEqual([
        'orders',
        'False',
        'orders-0',
        'orders-1',
        '3h',
        '2100-01-01T00:00:00Z',
      ]);
    });
  });

  test('both kinds are found by their short names and their category', async () => {
    const answer = await api.request({ method: 'GET', path: '/apis/millrace.dev/v1alpha1' });

    const { resources } = z
      .object({
        resources: z.array(
          z.object({
            name: z.string(),
            shortNames: z.array(z.string()).optional(),
            categories: z.array(z.string()).optional(),
          }),
        ),
      })
      .parse(answer.body);
    expect(resources.toSorted((a, b) => (a.name < b.name ? -1 : 1))).toEqual([
      { name: 'databases', shortNames: ['mdb'], categories: ['millrace'] },
      { name: 'databases/status' },
      { name: 'goverseclusters', shortNames: ['gvc'], categories: ['millrace'] },
      { name: 'goverseclusters/status' },
      { name: 'shards', shortNames: ['shd'], categories: ['millrace'] },
      { name: 'shards/status' },
    ]);
  });
});
