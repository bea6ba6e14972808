import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type FauxqsServer, startFauxqs } from 'fauxqs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import * as z from 'zod';
import { queueName } from '#events/hint.ts';
import { identityOf } from '#events/relay/identity.ts';
import { installationOf } from '#infra/kubernetes/installation.ts';
import { versionLabel } from '#infra/kubernetes/manifest.ts';
import { leaseName } from '#infra/kubernetes/rbac.ts';
import { relayName } from '#infra/kubernetes/relay.ts';
import { launch } from '#infra/local/child/launch.ts';
import { readAuditLog } from '#infra/local/control-plane/audit-log.ts';
import { writeKubeconfig } from '#infra/local/control-plane/kubeconfig.ts';
import { stepNames } from '#shared/api/steps.ts';
import { version } from '#shared/api/version.ts';
import { embeddedQueueUrlPrefix } from '#shared/queue/sqs-sender.ts';
import { attachedShardManifest } from '#test/builders/manifest.ts';
import { runMillrace } from '../unit/infra/cli/run-millrace.ts';
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

  /** A process with the identity and the environment that the Deployment gives to its pods. */
  async function startRelay(onLine: (line: string) => void = () => undefined) {
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
    return launch({
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
      onLine,
    });
  }

  test('its pods are admitted where nothing that asks for more would be', async () => {
    expect(await tryPod({})).toBe(201);
    expect(await tryPod({ securityContext: {} })).toBe(403);
    expect(await tryPod({ ports: [{ hostPort: 8080, containerPort: 8080 }] })).toBe(403);
  });

  test('signed in as itself it leads, hints, is ready, and is refused nothing', async () => {
    const relay = await startRelay();

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

  test('beside a leader of another release it stands by and says so, and doctor says what to do', async () => {
    const leader = identityOf('other', '9.0.0', 'uuid');
    await installed().apply(leaseHeldBy(leader));
    await makePod('other', '9.0.0');
    await makePod('this', version);
    const lines: string[] = [];
    const relay = await startRelay((line) => lines.push(line));
    await expect.poll(() => lines.join('\n'), patience).toContain('"standing by"');
    const metrics = await (await fetch(`${relay.announced.url}/metrics`)).text();
    await relay.stop(20_000);

    const { stdout } = await runMillrace([
      'doctor',
      '--json',
      '--kubeconfig',
      controlPlane().kubeconfigPath,
    ]);

    expect(lines.find((line) => line.includes('"standing by"'))).toContain(
      `a relay of 9.0.0 leads, and this is ${version}`,
    );
    expect(metrics).toContain(`millrace_build_info{version="${version}"} 1`);
    const { checks } = z
      .object({ checks: z.array(z.looseObject({ name: z.string() })) })
      .parse(JSON.parse(stdout));
    expect(checks).toContainEqual({
      name: 'version of the relay',
      result: 'failed',
      found: `2 of ${version} and 9.0.0, other leads with 9.0.0`,
      advice: expect.stringContaining('rollout'),
    });
  });

  function leaseHeldBy(holderIdentity: string) {
    const renewTime = new Date().toISOString().replace('Z', '000Z');
    return {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { name: leaseName, namespace: own },
      spec: { holderIdentity, leaseDurationSeconds: 3600, renewTime, acquireTime: renewTime },
    };
  }

  /** As the Deployment of that release would; nothing schedules it here. */
  async function makePod(name: string, release: string): Promise<void> {
    const { metadata, spec } = await template();
    const answer = await installed().api.request({
      method: 'POST',
      path: `/api/v1/namespaces/${own}/pods`,
      body: { metadata: { name, labels: { ...metadata.labels, [versionLabel]: release } }, spec },
    });
    expect(answer.status, JSON.stringify(answer.body)).toBe(201);
  }
});
