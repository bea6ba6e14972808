import { beforeAll, describe, expect, test, vi } from 'vitest';
import * as z from 'zod';
import type { Manifest } from '#infra/kubernetes/manifest.ts';
import { type IdentityName, identityNames, usersOf } from '#infra/kubernetes/rbac.ts';
import { installationOf } from '#infra/kubernetes/installation.ts';
import {
  backupNow,
  drainMirror,
  drainRequest,
  recordAnnotation,
  releaseMirror,
  releasedClaim,
  traceparentAnnotation,
  traceparentTime,
} from '#shared/api/annotations.ts';
import { goverseLabel, shardLabel } from '#shared/api/labels.ts';
import type { KubeRequest } from '#shared/kube/connection.ts';
import { collectionPath } from '#shared/kube/http-kube.ts';
import { type ResourceKind, apiVersionOf } from '#shared/kube/resources.ts';
import { attachedShardManifest, databaseManifest } from '#test/builders/manifest.ts';
import { useInstalled } from './installed.ts';
import { missingControlPlane, useControlPlane } from './local-control-plane.ts';

const own = 'millrace';
const namespace = 'default';
const grants = { namespace: own, workNamespaces: [], secrets: [], services: [] };
const patience = { timeout: 60_000, interval: 50 };

/** Whoever asks: the cluster's administrator, or an identity of Millrace that has all of the administrator's rights. */
type Caller = IdentityName | 'admin';

/** Only what is admitted is asked here, so nothing else may stand in the way. */
const everything: Manifest = {
  apiVersion: 'rbac.authorization.k8s.io/v1',
  kind: 'ClusterRoleBinding',
  metadata: { name: 'everything' },
  roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
  subjects: identityNames.map((name) => ({ kind: 'ServiceAccount', name, namespace: own })),
};

const messageSchema = z.looseObject({ message: z.string() });
const metadataSchema = z.looseObject({
  metadata: z.looseObject({ name: z.string(), uid: z.string() }),
});
const policiesSchema = z.looseObject({
  items: z.array(
    z.looseObject({
      metadata: z.looseObject({ name: z.string() }),
      status: z
        .looseObject({
          observedGeneration: z.number().optional(),
          typeChecking: z
            .looseObject({ expressionWarnings: z.array(z.unknown()).optional() })
            .optional(),
        })
        .optional(),
    }),
  ),
});

describe.skipIf(missingControlPlane !== undefined)('the admission policies (Z5)', () => {
  const controlPlane = useControlPlane();
  const installed = useInstalled(controlPlane, own, identityNames, () => [
    ...installationOf({
      ...grants,
      relay: {
        clusterId: 'test',
        stage: 'test',
        region: 'us-east-1',
        queueUrlPrefix: 'https://queues/0/',
        image: 'millrace-relay',
      },
    }),
    everything,
  ]);

  beforeAll(async () => {
    if (missingControlPlane !== undefined) {
      return;
    }
    await create('Shard', attachedShardManifest('orders'));
    await create('Database', databaseManifest('main'));
    await create('GoverseCluster', {
      apiVersion: 'millrace.dev/v1alpha1',
      kind: 'GoverseCluster',
      metadata: { name: 'objects' },
      spec: { topology: { endpoints: ['http://127.0.0.1:1'] } },
    });
    // A policy is in force a moment after it was accepted, and so is a binding.
    for (const [caller, target, step] of [
      ['admin', 'orders', 'drain-step'],
      ['drain-step', 'orders', 'pool-pods'],
    ] as const) {
      await vi.waitFor(async () => {
        const outcome = await annotate(caller, 'Shard', target, { [recordAnnotation(step)]: '{}' });
        expect(outcome).toMatch(/^403/);
      }, patience);
    }
  });

  async function send(caller: Caller, request: KubeRequest): Promise<string> {
    const connection = caller === 'admin' ? installed().api : installed().as(caller);
    const answer = await connection.request(request);
    const said = messageSchema.safeParse(answer.body);
    return answer.status < 300
      ? 'admitted'
      : `${answer.status} ${said.success ? said.data.message : ''}`;
  }

  function pathOf(kind: ResourceKind, name: string): string {
    return `${collectionPath(kind, namespace)}/${name}`;
  }

  async function create(kind: ResourceKind, manifest: object): Promise<string> {
    const answer = await installed().api.request({
      method: 'POST',
      path: collectionPath(kind, namespace),
      body: { apiVersion: apiVersionOf(kind), kind, ...manifest },
    });
    expect(answer.status, JSON.stringify(answer.body)).toBe(201);
    return metadataSchema.parse(answer.body).metadata.uid;
  }

  function tryCreate(caller: Caller, kind: ResourceKind, manifest: object): Promise<string> {
    return send(caller, {
      method: 'POST',
      path: collectionPath(kind, namespace),
      query: { dryRun: 'All' },
      body: { apiVersion: apiVersionOf(kind), kind, ...manifest },
    });
  }

  function patch(
    caller: Caller,
    kind: ResourceKind,
    name: string,
    body: object,
    subresource = '',
  ): Promise<string> {
    return send(caller, {
      method: 'PATCH',
      path: `${pathOf(kind, name)}${subresource}`,
      contentType: 'application/merge-patch+json',
      body,
    });
  }

  function annotate(
    caller: Caller,
    kind: ResourceKind,
    name: string,
    annotations: { readonly [key: string]: string | null },
    subresource = '',
  ): Promise<string> {
    return patch(caller, kind, name, { metadata: { annotations } }, subresource);
  }

  function tryDelete(
    caller: Caller,
    kind: ResourceKind,
    name: string,
    options: object,
  ): Promise<string> {
    return send(caller, {
      method: 'DELETE',
      path: pathOf(kind, name),
      // Options in the body leave those of the query unread.
      body: { ...options, dryRun: ['All'] },
    });
  }

  function aPod(name: string, metadata: object = {}, spec: object = {}) {
    return {
      metadata: { name, labels: { [shardLabel]: 'orders' }, ...metadata },
      spec: { containers: [{ name: 'multipooler', image: 'multipooler' }], ...spec },
    };
  }

  const refused = (policy: string): RegExp => new RegExp(`^403 .*${policy}`);

  test('read every expression without a warning', async () => {
    await expect
      .poll(async () => {
        const answer = await installed().api.request({
          method: 'GET',
          path: '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies',
        });
        return policiesSchema
          .parse(answer.body)
          .items.map(({ metadata, status }) => [
            metadata.name,
            status?.observedGeneration,
            status?.typeChecking?.expressionWarnings,
          ]);
      }, patience)
      .toEqual(
        [
          'claims',
          'events',
          'jobs',
          'owned',
          'pod-subresources',
          'pods',
          'records',
          'statuses',
          'targets',
        ].map((name) => [`millrace-${name}`, 1, undefined]),
      );
  });

  describe('for everybody else', () => {
    test.each([
      ['Shard', 'orders', 'drain-step'],
      ['Database', 'main', 'backup-config'],
      ['GoverseCluster', 'objects', 'shard-release'],
    ] as const)(
      'a record on a %s can be neither made, changed nor taken away',
      async (kind, name, step) => {
        const key = recordAnnotation(step);

        const made = await annotate('admin', kind, name, { [key]: '{"v":1}' });
        const byStep = await annotate(step, kind, name, { [key]: '{"v":1}' });
        const changed = await annotate('admin', kind, name, { [key]: '{"v":2}' });
        const taken = await annotate('admin', kind, name, { [key]: null });
        const cleared = await annotate(step, kind, name, { [key]: null });

        expect([made, changed, taken]).toEqual(
          Array.from({ length: 3 }, () => expect.stringMatching(refused('millrace-records'))),
        );
        expect([byStep, cleared]).toEqual(['admitted', 'admitted']);
      },
    );

    test('the trace of a change is theirs to leave, with the change and without', async () => {
      const annotations = { [traceparentAnnotation]: 'anything', [traceparentTime]: '1' };

      const alone = await annotate('admin', 'Shard', 'orders', annotations);
      const byStep = await annotate('drain-step', 'Shard', 'orders', { [traceparentTime]: '2' });
      const taken = await annotate('drain-step', 'Shard', 'orders', {
        [traceparentAnnotation]: null,
      });

      expect(alone).toBe('admitted');
      expect(byStep).toMatch(refused('millrace-targets'));
      expect(taken).toMatch(refused('millrace-targets'));
    });

    test('a target with a record may be created, since a foreign uid is ignored', async () => {
      const { metadata, ...rest } = attachedShardManifest('restored');
      const annotations = { [recordAnnotation('drain-step')]: '{"v":1,"uid":"another"}' };

      expect(
        await tryCreate('admin', 'Shard', { ...rest, metadata: { name: 'restored', annotations } }),
      ).toBe('admitted');
      expect(metadata).toEqual({ name: 'restored' });
    });

    test('a mirror is out of reach by every way to a pod', async () => {
      await create('Pod', aPod('member-0'));
      const mirror = { [drainMirror]: 'finished' };

      expect(await annotate('admin', 'Pod', 'member-0', mirror)).toMatch(
        refused('millrace-records'),
      );
      expect(await annotate('admin', 'Pod', 'member-0', { [releaseMirror]: 'released' })).toMatch(
        refused('millrace-records'),
      );
      expect(await annotate('admin', 'Pod', 'member-0', mirror, '/status')).toMatch(
        refused('millrace-records'),
      );
      const binding = (annotations: object) => ({
        method: 'POST' as const,
        path: `${pathOf('Pod', 'member-0')}/binding`,
        query: { dryRun: 'All' },
        body: {
          apiVersion: 'v1',
          kind: 'Binding',
          metadata: { name: 'member-0', annotations },
          target: { kind: 'Node', name: 'somewhere' },
        },
      });
      expect(await send('admin', binding(mirror))).toMatch(refused('millrace-records'));
      expect(await send('admin', binding({}))).toBe('admitted');
    });

    test('nothing else is held up, on whatever is annotated to the limit', async () => {
      await create('Pod', aPod('crowded'));
      // Some 20,000 annotations in 250,000 bytes.
      const crowd = Object.fromEntries(Array.from({ length: 20_000 }, (_, i) => [`a${i}`, 'abcd']));

      expect(await annotate('admin', 'Pod', 'crowded', crowd)).toBe('admitted');
      expect(await annotate('admin', 'Pod', 'crowded', { [drainRequest]: 'please' })).toBe(
        'admitted',
      );
      expect(
        await patch('admin', 'Pod', 'crowded', { status: { phase: 'Running' } }, '/status'),
      ).toBe('admitted');
      expect(await annotate('admin', 'Shard', 'orders', { [backupNow]: 'full/1' })).toBe(
        'admitted',
      );
      expect(await patch('admin', 'Shard', 'orders', { spec: { paused: false } })).toBe('admitted');
      expect(await annotate('admin', 'Pod', 'crowded', { [drainMirror]: 'finished' })).toMatch(
        refused('millrace-records'),
      );
      expect(await annotate('drain-step', 'Pod', 'crowded', { [drainMirror]: 'draining' })).toBe(
        'admitted',
      );
    });
  });

  describe('for a step, whatever its rights', () => {
    test('a target’s record is its own, and everything else of it is not', async () => {
      const key = recordAnnotation('pool-pods');
      await annotate('pool-pods', 'Shard', 'orders', { [key]: '{}' });

      const attempts = {
        another: await annotate('drain-step', 'Shard', 'orders', { [key]: '{"v":2}' }),
        removed: await annotate('drain-step', 'Shard', 'orders', { [key]: null }),
        request: await annotate('drain-step', 'Shard', 'orders', { [backupNow]: 'full/2' }),
        foreign: await annotate('drain-step', 'Shard', 'orders', { theirs: '1' }),
        spec: await patch('drain-step', 'Shard', 'orders', { spec: { paused: true } }),
        labels: await patch('drain-step', 'Shard', 'orders', { metadata: { labels: { a: 'b' } } }),
        finalizer: await patch('drain-step', 'Shard', 'orders', {
          metadata: { finalizers: ['millrace.dev/a'] },
        }),
        both: await patch('drain-step', 'Shard', 'orders', {
          metadata: { annotations: { [recordAnnotation('drain-step')]: '{}' } },
          spec: { paused: true },
        }),
        deleted: await tryDelete('drain-step', 'Shard', 'orders', {}),
        created: await tryCreate('drain-step', 'Shard', attachedShardManifest('made')),
      };

      for (const [what, outcome] of Object.entries(attempts)) {
        expect(outcome, what).toMatch(refused('millrace-targets'));
      }
    });

    test('its conditions are its own', async () => {
      const condition = (type: string, status = 'True') => ({
        type,
        status,
        reason: 'Because',
        message: '',
        lastTransitionTime: '2026-01-01T00:00:00Z',
        observedGeneration: 1,
      });
      const apply = (caller: Caller, type: string, status?: string) =>
        send(caller, {
          method: 'PATCH',
          path: `${pathOf('Shard', 'orders')}/status`,
          query: { fieldManager: caller, force: 'true' },
          contentType: 'application/apply-patch+yaml',
          body: {
            apiVersion: 'millrace.dev/v1alpha1',
            kind: 'Shard',
            metadata: { name: 'orders' },
            status: { conditions: [condition(type, status)] },
          },
        });

      expect(await apply('drain-step', 'Drained')).toBe('admitted');
      expect(await apply('etcd-cleanup', 'TopologyClean')).toBe('admitted');
      expect(await apply('drain-step', 'Drained', 'False')).toBe('admitted');
      expect(await apply('etcd-cleanup', 'Drained')).toMatch(refused('millrace-statuses'));
      expect(await apply('etcd-cleanup', 'Ready')).toMatch(refused('millrace-statuses'));
    });

    test('a pod is deleted by its uid, gracefully, once its drain is finished', async () => {
      const uid = await create('Pod', aPod('member-1', {}, { nodeName: 'somewhere' }));
      const preconditions = { uid };

      const early = await tryDelete('drain-step', 'Pod', 'member-1', { preconditions });
      await annotate('drain-step', 'Pod', 'member-1', { [drainMirror]: 'finished' });
      const attempts = {
        early,
        unfenced: await tryDelete('drain-step', 'Pod', 'member-1', {}),
        forced: await tryDelete('drain-step', 'Pod', 'member-1', {
          preconditions,
          gracePeriodSeconds: 0,
        }),
        another: await tryDelete('pool-pods', 'Pod', 'member-1', { preconditions }),
        all: await send('drain-step', {
          method: 'DELETE',
          path: collectionPath('Pod', namespace),
          query: { dryRun: 'All' },
        }),
      };

      for (const [what, outcome] of Object.entries(attempts)) {
        expect(outcome, what).toMatch(refused('millrace-pods'));
      }
      expect(await tryDelete('drain-step', 'Pod', 'member-1', { preconditions })).toBe('admitted');
    });

    test('no pod is evicted, bound, entered or given a status', async () => {
      await create('Pod', aPod('whole', {}, { nodeName: 'somewhere' }));
      const path = pathOf('Pod', 'whole');

      const attempts = {
        evicted: await send('drain-step', {
          method: 'POST',
          path: `${path}/eviction`,
          body: { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { name: 'whole' } },
        }),
        marked: await annotate('drain-step', 'Pod', 'whole', { [drainMirror]: 'a' }, '/status'),
        entered: await send('pool-pods', {
          method: 'POST',
          path: `${path}/exec`,
          query: { command: 'sh', stdin: 'true' },
        }),
      };

      for (const [what, outcome] of Object.entries(attempts)) {
        expect(outcome, what).toMatch(refused('millrace-pod-subresources'));
      }
    });

    test('a pod that never ran anywhere is deleted too, at once, as the API server does it', async () => {
      const uid = await create('Pod', aPod('unscheduled'));
      await annotate('drain-step', 'Pod', 'unscheduled', { [drainMirror]: 'finished' });

      expect(await tryDelete('drain-step', 'Pod', 'unscheduled', { preconditions: { uid } })).toBe(
        'admitted',
      );
    });

    test('a pod gets its own mirror, or from who makes it its labels, and nothing else', async () => {
      await create('Pod', aPod('member-2'));
      await create('Pod', aPod('member-3', { ownerReferences: [await shardAsOwner()] }));
      await create('Pod', aPod('node-0', { labels: { [goverseLabel]: 'objects' } }));
      await create('Pod', aPod('stranger', { labels: {} }));

      const admitted = {
        mirror: await annotate('drain-step', 'Pod', 'member-2', { [drainMirror]: 'draining' }),
        release: await annotate('shard-release', 'Pod', 'node-0', { [releaseMirror]: 'draining' }),
        labels: await patch('pool-pods', 'Pod', 'member-3', {
          metadata: { labels: { team: 'a' }, annotations: { theirs: '1' } },
        }),
      };
      const attempts = {
        another: await annotate('shard-release', 'Pod', 'member-2', { [drainMirror]: 'finished' }),
        foreign: await annotate('drain-step', 'Pod', 'member-2', { theirs: '1' }),
        request: await annotate('drain-step', 'Pod', 'member-2', { [drainRequest]: null, a: 'b' }),
        stranger: await annotate('drain-step', 'Pod', 'stranger', { [drainMirror]: 'draining' }),
        labels: await patch('drain-step', 'Pod', 'member-2', { metadata: { labels: { a: 'b' } } }),
        maker: await annotate('pool-pods', 'Pod', 'member-3', { [drainMirror]: 'finished' }),
        asked: await annotate('pool-pods', 'Pod', 'member-3', { [drainRequest]: 'go' }),
        unowned: await patch('pool-pods', 'Pod', 'member-2', { metadata: { labels: { a: 'b' } } }),
        image: await patch('pool-pods', 'Pod', 'member-3', {
          spec: { activeDeadlineSeconds: 5 },
        }),
        made: await tryCreate('pool-pods', 'Pod', aPod('made')),
        madeByAnother: await tryCreate(
          'drain-step',
          'Pod',
          aPod('made', { ownerReferences: [await shardAsOwner()] }),
        ),
      };

      expect(new Set(Object.values(admitted))).toEqual(new Set(['admitted']));
      for (const [what, outcome] of Object.entries(attempts)) {
        expect(outcome, what).toMatch(refused('millrace-pods'));
      }
    });

    test('claims are made for a Shard, marked and deleted by uid, and never changed', async () => {
      const aClaim = (name: string, metadata: object = { labels: { [shardLabel]: 'orders' } }) => ({
        metadata: { name, ...metadata },
        spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
      });
      const uid = await create('PersistentVolumeClaim', aClaim('data-0'));
      const strange = await create('PersistentVolumeClaim', aClaim('theirs', {}));
      const mark = { [releasedClaim]: 'a-uid' };
      const of = 'PersistentVolumeClaim';

      const admitted = {
        made: await tryCreate('pool-pods', of, aClaim('made')),
        marked: await annotate('drain-step', of, 'data-0', mark),
        unmarked: await annotate('pool-pods', of, 'data-0', { [releasedClaim]: null }),
        deleted: await tryDelete('drain-step', of, 'data-0', { preconditions: { uid } }),
      };
      const attempts = {
        unfenced: await tryDelete('drain-step', of, 'data-0', {}),
        byAnother: await tryDelete('pool-pods', of, 'data-0', { preconditions: { uid } }),
        strange: await tryDelete('drain-step', of, 'theirs', { preconditions: { uid: strange } }),
        foreign: await annotate('drain-step', of, 'data-0', { theirs: '1' }),
        markedByAnother: await annotate('etcd-cleanup', of, 'data-0', mark),
        finalizers: await patch('drain-step', of, 'data-0', { metadata: { finalizers: null } }),
        made: await tryCreate('pool-pods', of, aClaim('made', {})),
      };

      expect(new Set(Object.values(admitted)), JSON.stringify(admitted)).toEqual(
        new Set(['admitted']),
      );
      for (const [what, outcome] of Object.entries(attempts)) {
        expect(outcome, what).toMatch(refused('millrace-claims'));
      }
    });

    test('Jobs, Services, budgets and Events are a Shard’s, and stay', async () => {
      const owner = { ownerReferences: [await shardAsOwner()] };
      const aJob = (name: string, metadata: object = owner) => ({
        metadata: { name, ...metadata },
        spec: {
          suspend: true,
          template: {
            spec: { restartPolicy: 'Never', containers: [{ name: 'backup', image: 'backup' }] },
          },
        },
      });
      const aService = (name: string, metadata: object = owner) => ({
        metadata: { name, ...metadata },
        spec: { clusterIP: 'None', selector: { a: 'b' } },
      });
      const anEvent = (apiVersion: string) => ({
        metadata: { name: 'told' },
        involvedObject: { apiVersion, kind: 'Shard', name: 'orders', namespace },
        reason: 'Because',
        type: 'Normal',
      });
      const uid = await create('Job', aJob('nightly'));
      await create('Service', aService('orders'));

      const admitted = {
        job: await tryCreate('backup-trigger', 'Job', aJob('made')),
        kept: await patch('backup-trigger', 'Job', 'nightly', {
          spec: { ttlSecondsAfterFinished: 60 },
        }),
        service: await tryCreate('pool-pods', 'Service', aService('made')),
        selector: await patch('pool-pods', 'Service', 'orders', { spec: { selector: { a: 'c' } } }),
        event: await tryCreate('drain-step', 'Event', anEvent('millrace.dev/v1alpha1')),
      };
      const attempts = {
        job: await tryCreate('backup-trigger', 'Job', aJob('made', {})),
        jobByAnother: await tryCreate('pool-pods', 'Job', aJob('made')),
        started: await patch('backup-trigger', 'Job', 'nightly', { spec: { suspend: false } }),
        wide: await patch('backup-trigger', 'Job', 'nightly', { spec: { parallelism: 5 } }),
        jobDeleted: await tryDelete('backup-trigger', 'Job', 'nightly', { preconditions: { uid } }),
        service: await tryCreate('pool-pods', 'Service', aService('made', {})),
        serviceGiven: await patch('pool-pods', 'Service', 'orders', {
          metadata: { ownerReferences: null },
        }),
        serviceDeleted: await tryDelete('pool-pods', 'Service', 'orders', {}),
        event: await tryCreate('drain-step', 'Event', anEvent('v1')),
      };

      expect(new Set(Object.values(admitted)), JSON.stringify(admitted)).toEqual(
        new Set(['admitted']),
      );
      for (const [what, outcome] of Object.entries(attempts)) {
        expect(outcome, what).toMatch(refused('millrace-(jobs|owned|events)'));
      }
    });

    async function shardAsOwner(): Promise<object> {
      const answer = await installed().api.request({
        method: 'GET',
        path: pathOf('Shard', 'orders'),
      });
      const { name, uid } = metadataSchema.parse(answer.body).metadata;
      return { apiVersion: 'millrace.dev/v1alpha1', kind: 'Shard', name, uid, controller: true };
    }
  });

  test('know each identity by the name that the API server gives its service account', async () => {
    const answer = await installed()
      .as('drain-step')
      .request({
        method: 'POST',
        path: '/apis/authentication.k8s.io/v1/selfsubjectreviews',
        body: { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' },
      });

    const { status } = z
      .looseObject({
        status: z.looseObject({ userInfo: z.looseObject({ username: z.string() }) }),
      })
      .parse(answer.body);
    expect(usersOf('drain-step', grants)).toEqual([status.userInfo.username]);
  });
});
