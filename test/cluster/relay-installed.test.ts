import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type FauxqsServer, startFauxqs } from 'fauxqs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import * as z from 'zod';
import { queueName } from '#events/hint.ts';
import { installationOf } from '#infra/kubernetes/installation.ts';
import { relayName } from '#infra/kubernetes/relay.ts';
import { launch } from '#infra/local/child/launch.ts';
import { readAuditLog } from '#infra/local/control-plane/audit-log.ts';
import { writeKubeconfig } from '#infra/local/control-plane/kubeconfig.ts';
import { stepNames } from '#shared/api/steps.ts';
import { embeddedQueueUrlPrefix } from '#shared/queue/sqs-sender.ts';
import { attachedShardManifest } from '#test/builders/manifest.ts';
import { useInstalled } from './installed.ts';
import { missingControlPlane, useControlPlane } from './local-control-plane.ts';

const own = 'millrace';
const patience = { timeout: 60_000, interval: 20 };

const deploymentSchema = z.looseObject({
  spec: z.looseObject({
    template: z.looseObject({
      metadata: z.looseObject({ labels: z.record(z.string(), z.string()) }),
      spec: z.looseObject({
        containers: z.tuple([
          z.looseObject({ env: z.array(z.object({ name: z.string(), value: z.string() })) }),
        ]),
      }),
    }),
  }),
});

describe.skipIf(missingControlPlane !== undefined)('the relay as it is installed', () => {
  const controlPlane = useControlPlane();
  let folder: string;
  let queue: FauxqsServer;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'millrace-installed-'));
    queue = await startFauxqs({ port: 0, logger: false, dataDir: join(folder, 'queue') });
    for (const step of stepNames) {
      queue.createQueue(queueName('test', step));
    }
  });

  afterAll(async () => {
    await queue.stop();
    await rm(folder, { recursive: true });
  });

  const installed = useInstalled(controlPlane, own, ['relay'], () =>
    installationOf({
      namespace: own,
      workNamespaces: [],
      secrets: [],
      services: [],
      relay: {
        clusterId: 'test',
        stage: 'test',
        region: 'us-east-1',
        queueUrlPrefix: embeddedQueueUrlPrefix(queue.address),
        queueEndpoint: queue.address,
        image: 'relay',
      },
    }),
  );

  async function template() {
    const answer = await installed().api.request({
      method: 'GET',
      path: `/apis/apps/v1/namespaces/${own}/deployments/${relayName}`,
    });
    return deploymentSchema.parse(answer.body).spec.template;
  }

  /** Asks whether such a pod would be admitted, and makes none. */
  async function tryPod(container: object) {
    const { metadata, spec } = await template();
    const [relay] = spec.containers;
    const answer = await installed().api.request({
      method: 'POST',
      path: `/api/v1/namespaces/${own}/pods`,
      query: { dryRun: 'All' },
      body: {
        metadata: { name: 'relay', labels: metadata.labels },
        spec: { ...spec, containers: [{ ...relay, ...container }] },
      },
    });
    return answer.status;
  }

  test('its pods are admitted where nothing that asks for more would be', async () => {
    expect(await tryPod({})).toBe(201);
    expect(await tryPod({ securityContext: {} })).toBe(403);
    expect(await tryPod({ ports: [{ hostPort: 8080, containerPort: 8080 }] })).toBe(403);
  });

  test('signed in as itself it leads, hints, is ready, and is refused nothing', async () => {
    const { spec } = await template();
    const { server, ca } = controlPlane();
    const kubeconfig = join(folder, 'relay.kubeconfig');
    await writeKubeconfig(kubeconfig, {
      server,
      ca,
      user: 'relay',
      token: installed().token('relay'),
    });
    const environment = Object.fromEntries(
      spec.containers[0].env.map(({ name, value }) => [name, value]),
    );
    const relay = await launch({
      name: 'the relay',
      entry: new URL('../../events/relay/main.ts', import.meta.url),
      environment: {
        ...environment,
        // A port of its own, and what a pod has instead of a kubeconfig.
        MILLRACE_RELAY_PORT: '0',
        KUBECONFIG: kubeconfig,
        AWS_ACCESS_KEY_ID: 'test',
        AWS_SECRET_ACCESS_KEY: 'test',
      },
      announcement: z.object({ url: z.url() }),
      readyTimeoutMs: 60_000,
    });

    const answer = await installed().api.request({
      method: 'POST',
      path: '/apis/millrace.dev/v1alpha1/namespaces/default/shards',
      body: attachedShardManifest('orders'),
    });
    expect(answer.status).toBe(201);
    await expect
      .poll(
        () => queue.inspectQueue(queueName('test', 'drain-step'))?.messages.ready.length,
        patience,
      )
      .toBeGreaterThan(0);
    const ready = await fetch(`${relay.announced.url}/readyz`);
    await relay.stop(20_000);

    expect(ready.status).toBe(200);
    const log = await readAuditLog(controlPlane().auditLogPath);
    const mine = log.filter(({ user }) => user === `system:serviceaccount:${own}:relay`);
    expect(mine.length).toBeGreaterThan(5);
    expect(mine.filter(({ status }) => status === 401 || status === 403)).toEqual([]);
    expect(
      new Set(
        mine
          .filter(({ verb }) => !['list', 'watch', 'get'].includes(verb))
          .map(({ verb, resource }) => `${verb} ${resource}`),
      ),
    ).toEqual(new Set(['create leases', 'update leases']));
  });
});
