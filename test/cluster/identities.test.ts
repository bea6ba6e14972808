import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import * as z from 'zod';
import { drainStep } from '#functions/drain-step/step.ts';
import { etcdCleanup } from '#functions/etcd-cleanup/step.ts';
import { poolPods } from '#functions/pool-pods/step.ts';
import {
  type Access,
  accessOf,
  leaseAccess,
  relayAccess,
  sweepAccess,
} from '#infra/kubernetes/access.ts';
import { declarations } from '#infra/kubernetes/declarations.ts';
import { type IdentityName, identityNames, leaseName } from '#infra/kubernetes/rbac.ts';
import { installationOf } from '#infra/kubernetes/installation.ts';
import { readAuditLog } from '#infra/local/control-plane/audit-log.ts';
import { type Etcd, startEtcd } from '#infra/local/control-plane/etcd.ts';
import { type DataPlane, startDataPlane } from '#infra/local/data-plane/start.ts';
import { drainRequest } from '#shared/api/annotations.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import { collectionPath, kubeClient } from '#shared/kube/http-kube.ts';
import { isReady } from '#shared/kube/readiness.ts';
import type { JsonObject } from '#shared/kube/json.ts';
import { type KubeObject, type ResourceKind, resourceTypes } from '#shared/kube/resources.ts';
import { databaseManifest, pooledShardManifest } from '#test/builders/manifest.ts';
import { runMillrace } from '../unit/infra/cli/run-millrace.ts';
import { useInstalled } from './installed.ts';
import { missingControlPlane, useControlPlane } from './local-control-plane.ts';
import { lookAs } from './look-as.ts';

const own = 'millrace';
const namespace = 'default';

const secret = { namespace, name: 'backup-keys' };
const service = { namespace, name: 'topo:2379' };

const verbs = ['get', 'list', 'watch', 'create', 'update', 'patch', 'delete', 'deletecollection'];

/** What nobody who only runs steps may ever do, besides what is compared by kind. */
const neverGranted = [
  { group: '', resource: 'secrets', verb: 'list' },
  { group: '', resource: 'pods', subresource: 'exec', verb: 'create' },
  { group: '', resource: 'serviceaccounts', subresource: 'token', verb: 'create' },
  { group: '', resource: 'services', subresource: 'proxy', name: 'kubernetes:443', verb: 'get' },
  { group: '', resource: 'nodes', subresource: 'proxy', verb: 'get' },
  { group: '', resource: 'configmaps', verb: 'patch' },
  { group: 'rbac.authorization.k8s.io', resource: 'clusterroles', verb: 'bind' },
  { group: 'rbac.authorization.k8s.io', resource: 'rolebindings', verb: 'create' },
  {
    group: 'admissionregistration.k8s.io',
    resource: 'validatingadmissionpolicybindings',
    verb: 'delete',
  },
];

interface Question {
  readonly group: string;
  readonly resource: string;
  readonly verb: string;
  readonly subresource?: string;
  readonly name?: string;
  readonly namespace?: string;
}

const reviewSchema = z.looseObject({ status: z.looseObject({ allowed: z.boolean() }) });

async function isAllowed(connection: KubeConnection, question: Question): Promise<boolean> {
  const answer = await connection.request({
    method: 'POST',
    path: '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews',
    body: {
      apiVersion: 'authorization.k8s.io/v1',
      kind: 'SelfSubjectAccessReview',
      spec: { resourceAttributes: question },
    },
  });
  return reviewSchema.parse(answer.body).status.allowed;
}

/** What an identity has declared at the API server, objects that the user names aside. */
function declaredOf(identity: IdentityName): readonly Access[] {
  const all =
    identity === 'relay'
      ? relayAccess
      : identity === 'sweep'
        ? sweepAccess
        : accessOf(declarations[identity]);
  return all.filter(({ kind }) => kind !== 'Secret');
}

const questions = (Object.keys(resourceTypes) as ResourceKind[]).flatMap((kind) =>
  ([undefined, 'status'] as const).flatMap((subresource) =>
    verbs.map((verb) => ({ kind, verb, ...(subresource === undefined ? {} : { subresource }) })),
  ),
);

function told({ kind, verb, subresource }: Access): string {
  return `${verb} ${kind}${subresource === undefined ? '' : `/${subresource}`}`;
}

describe.skipIf(missingControlPlane !== undefined)('an identity of Millrace', () => {
  const controlPlane = useControlPlane({
    users: [{ name: 'data-plane', groups: ['system:masters'] }],
  });
  const installed = useInstalled(controlPlane, own, identityNames, () =>
    installationOf({
      namespace: own,
      workNamespaces: [],
      secrets: [secret],
      services: [service],
      relay: {
        clusterId: 'test',
        stage: 'test',
        region: 'us-east-1',
        queueUrlPrefix: 'https://queues/0/',
        image: 'millrace-relay',
      },
    }),
  );

  test.each(identityNames)('%s may do what it declares and nothing else (Z4)', async (identity) => {
    const connection = installed().as(identity);

    const granted: string[] = [];
    for (const question of questions) {
      const { group, plural: resource, namespaced } = resourceTypes[question.kind];
      const { verb, subresource } = question;
      const asked = {
        group,
        resource,
        verb,
        ...(subresource === undefined ? {} : { subresource }),
      };
      // Where it may only in a namespace it must not count as allowed, and the other way round.
      if (await isAllowed(connection, namespaced ? { ...asked, namespace } : asked)) {
        granted.push(told(question));
      }
    }
    const beyond: Question[] = [];
    for (const question of neverGranted) {
      if (await isAllowed(connection, { ...question, namespace })) {
        beyond.push(question);
      }
    }

    expect(granted.toSorted()).toEqual(declaredOf(identity).map(told).toSorted());
    expect(beyond).toEqual([]);
  });

  test.each(identityNames)(
    '%s reaches named Secrets and Services only if it reads such',
    async (identity) => {
      const connection = installed().as(identity);
      const reads =
        identity === 'relay' || identity === 'sweep' ? [] : declarations[identity].reads;
      const readsSecret = reads.some(
        (permission) => permission.api === 'kubernetes' && permission.kind === 'Secret',
      );
      const reachesService = reads.some(({ api }) =>
        ['topology', 'goverse', 'admin'].includes(api),
      );

      const ask = (name: string, where: string, resource: string, subresource?: string) =>
        isAllowed(connection, {
          group: '',
          resource,
          verb: 'get',
          name,
          namespace: where,
          ...(subresource === undefined ? {} : { subresource }),
        });

      expect(await ask(secret.name, namespace, 'secrets')).toBe(readsSecret);
      expect(await ask('another', namespace, 'secrets')).toBe(false);
      expect(await ask(secret.name, own, 'secrets')).toBe(false);
      expect(await ask(service.name, namespace, 'services', 'proxy')).toBe(reachesService);
      expect(await ask('topo:2380', namespace, 'services', 'proxy')).toBe(false);
    },
  );

  test('the relay alone may lead, by the one Lease in Millrace’s own namespace', async () => {
    for (const identity of identityNames) {
      const connection = installed().as(identity);
      const allowed: string[] = [];
      for (const { verb } of leaseAccess) {
        const question = { group: 'coordination.k8s.io', resource: 'leases', verb };
        const name = verb === 'create' ? {} : { name: leaseName };
        if (await isAllowed(connection, { ...question, ...name, namespace: own })) {
          allowed.push(verb);
        }
        expect(await isAllowed(connection, { ...question, ...name, namespace })).toBe(false);
      }
      expect(allowed).toEqual(identity === 'relay' ? leaseAccess.map(({ verb }) => verb) : []);
      expect(
        await isAllowed(connection, {
          group: 'coordination.k8s.io',
          resource: 'leases',
          verb: 'update',
          name: 'another',
          namespace: own,
        }),
      ).toBe(false);
    }
  });

  describe('with a data plane', () => {
    let folder: string;
    let etcd: Etcd;
    let dataPlane: DataPlane;

    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), 'millrace-identities-'));
      etcd = await startEtcd({ dataDir: join(folder, 'topology') });
      const { server, ca, tokens } = controlPlane();
      dataPlane = await startDataPlane({
        server,
        ca,
        token: tokens.get('data-plane') ?? '',
        etcdEndpoint: etcd.endpoint,
        etcdAccess: { otherEndpoints: [] },
        dataDir: join(folder, 'data-plane'),
        speed: 8,
        cells: ['zone-a'],
      });
    });

    afterAll(async () => {
      await dataPlane.stop();
      await etcd.stop();
      await rm(folder, { recursive: true });
    });

    async function create(kind: ResourceKind, manifest: JsonObject): Promise<string> {
      const answer = await installed().api.request({
        method: 'POST',
        path: collectionPath(kind, namespace),
        body: manifest,
      });
      expect(answer.status, JSON.stringify(answer.body)).toBe(201);
      return z.looseObject({ metadata: z.looseObject({ uid: z.string() }) }).parse(answer.body)
        .metadata.uid;
    }

    async function pods(): Promise<readonly KubeObject<'Pod'>[]> {
      const read = await kubeClient(installed().api).list('Pod', { namespace });
      return read.kind === 'present' ? read.value : expect.unreachable(`they are ${read.kind}`);
    }

    async function conditionOf(type: string) {
      const read = await kubeClient(installed().api).get({
        kind: 'Shard',
        namespace,
        name: 'orders',
      });
      const shard = read.kind === 'present' ? read.value : expect.unreachable(`it is ${read.kind}`);
      return shard.status?.conditions?.find((condition) => condition.type === type);
    }

    /** An Event that was there before is looked at, which nobody may, and nobody needs the answer. */
    async function refusedRequests() {
      const log = await readAuditLog(controlPlane().auditLogPath);
      return log.filter(
        ({ user, status, resource }) =>
          user.startsWith(`system:serviceaccount:${own}:`) &&
          (status === 401 || status === 403) &&
          resource !== 'events',
      );
    }

    test('each step, signed in as itself, makes, drains and replaces members to the end', async () => {
      await create(
        'Database',
        databaseManifest('main', { endpoint: etcd.endpoint, adminUrl: dataPlane.adminUrl }),
      );
      const uid = await create('Shard', pooledShardManifest('orders'));
      const target = { namespace, name: 'orders', uid };
      const lookOfAll = async () => {
        await lookAs(installed().as('pool-pods'), poolPods, target);
        await lookAs(installed().as('drain-step'), drainStep, target);
        await lookAs(installed().as('etcd-cleanup'), etcdCleanup, target);
      };
      const lookUntil = async (isSo: () => Promise<boolean>) => {
        do {
          await lookOfAll();
        } while (!(await isSo()));
      };
      await lookUntil(async () => {
        const members = await pods();
        return (
          members.length === 3 &&
          members.every(isReady) &&
          (await conditionOf('Drained'))?.status === 'True'
        );
      });
      const before = await pods();
      const leaver = before.at(-1);

      await installed().api.request({
        method: 'PATCH',
        path: `${collectionPath('Pod', namespace)}/${leaver?.metadata.name ?? ''}`,
        contentType: 'application/merge-patch+json',
        body: { metadata: { annotations: { [drainRequest]: 'its node goes' } } },
      });
      await lookUntil(async () => {
        const members = await pods();
        return (
          members.every(({ metadata }) => metadata.uid !== leaver?.metadata.uid) &&
          members.length === 3 &&
          members.every(isReady) &&
          (await conditionOf('Drained'))?.status === 'True'
        );
      });

      expect((await conditionOf('TopologyClean'))?.status).toBe('True');
      expect(await refusedRequests()).toEqual([]);
    });
  });

  test('are what doctor asks about, and it says by which options the rest is granted', async () => {
    const { api } = installed();
    const body = {
      apiVersion: 'millrace.dev/v1alpha1',
      kind: 'Database',
      metadata: { name: 'named' },
      spec: {
        name: 'postgres',
        dataPlane: {
          kind: 'multigres',
          topology: {
            service: { name: 'topo', port: 2379 },
            tlsSecret: 'etcd-tls',
            authSecret: secret.name,
            globalRoot: '/multigres/global',
          },
          admin: { service: { name: 'multiadmin', port: 18_000 } },
        },
      },
    };
    const made = await api.request({
      method: 'POST',
      path: collectionPath('Database', namespace),
      body,
    });
    expect(made.status, JSON.stringify(made.body)).toBe(201);
    const kubeconfig = controlPlane().kubeconfigPath;

    const { stdout } = await runMillrace([
      'doctor',
      '--accounts',
      own,
      '--json',
      '--kubeconfig',
      kubeconfig,
    ]);

    const { checks } = z.object({ checks: z.array(checkSchema) }).parse(JSON.parse(stdout));
    const permissions = checks.filter(({ name }) => name.startsWith('permissions of '));
    expect(permissions.map(({ result }) => result)).toEqual(permissions.map(() => 'ok'));
    expect(permissions).toHaveLength(identityNames.length + 1);
    expect(checks).toContainEqual({
      name: 'Secrets and Services by name',
      result: 'failed',
      found: 'some are not granted',
      advice:
        'give `millrace manifests` --service default/https:topo:2379 --secret default/etcd-tls --service default/multiadmin:18000 besides',
    });
  });

  test('have nothing where nobody has installed them', async () => {
    const kubeconfig = controlPlane().kubeconfigPath;

    const { exitCode, stdout } = await runMillrace([
      'doctor',
      '--accounts',
      'elsewhere',
      '--json',
      '--kubeconfig',
      kubeconfig,
    ]);

    const { checks } = z.object({ checks: z.array(checkSchema) }).parse(JSON.parse(stdout));
    const permissions = checks.filter(({ name }) => name.startsWith('permissions of '));
    expect(exitCode).toBe(1);
    expect(permissions.map(({ result }) => result)).toEqual(permissions.map(() => 'failed'));
  });
});

const checkSchema = z.object({
  name: z.string(),
  result: z.string(),
  found: z.string(),
  advice: z.string().optional(),
});
