import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SQSClient, SendMessageCommand } from '@aws-sdk/client-sqs';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { makeHint, queueName } from '#events/hint.ts';
import { routing } from '#events/routes.ts';
import { installationOf } from '#infra/kubernetes/installation.ts';
import { findMissingPython } from '#infra/local/cloud/install.ts';
import { type Cloud, startCloud } from '#infra/local/cloud/start.ts';
import { readAuditLog } from '#infra/local/control-plane/audit-log.ts';
import { type ControlPlane, startControlPlane } from '#infra/local/control-plane/control-plane.ts';
import { makeGuardedFolder } from '#infra/local/control-plane/guard.ts';
import { printProgress } from '#infra/local/control-plane/progress.ts';
import { functionNames, stepNames } from '#shared/api/steps.ts';
import { readConfig } from '#shared/kernel/config.ts';
import { wallClock } from '#shared/kernel/instant.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import { resourceTypes } from '#shared/kube/resources.ts';
import { apiServerSchema, connectApiServer } from '#shared/outside/api-server.ts';
import { useInstalled } from '#test/cluster/installed.ts';
import { missingControlPlane } from '#test/cluster/local-control-plane.ts';
import {
  type Deployment,
  type Session,
  clientOf,
  clusterId,
  deploy,
  sessionOf,
  stage,
} from './deployment.ts';
import { type Authenticator, startAuthenticator } from './eks-authenticator.ts';

const cluster = 'orders';
const namespace = 'db';
const patienceMs = 90_000;

const userOf = (name: string) => `millrace-${name}`;

/** Where every check must run, a missing program is a failure; elsewhere these tests are skipped, and say so. */
const isRequired = (process.env['CI'] ?? '') !== '';
const missing = missingControlPlane ?? (isRequired ? undefined : await findMissingPython());
if (missing !== undefined) {
  process.stderr.write(`tests of signing in to EKS are skipped: ${missing}\n`);
}

describe.skipIf(missing !== undefined)('functions of a cluster in EKS', () => {
  const running = new AsyncDisposableStack();
  const entries = new Map<string, string>();
  let folder: string;
  let authenticator: Authenticator;
  let controlPlane: ControlPlane;
  let cloud: Cloud;
  let deployment: Deployment;
  const connections: KubeConnection[] = [];

  beforeAll(async () => {
    const printer = printProgress(process.stderr);
    running.defer(() => printer.close());
    const { onProgress } = printer;
    const guarded = await makeGuardedFolder(join(tmpdir(), 'millrace-eks-'));
    running.defer(() => guarded.remove());
    folder = guarded.path;
    cloud = running.use(await startCloud({ dataDir: join(folder, 'cloud'), onProgress }));
    authenticator = await startAuthenticator(folder, {
      cluster,
      stsEndpoint: () => cloud.endpoint,
      entries,
    });
    running.defer(() => authenticator.stop());
    const { apiServerFlags } = authenticator;
    controlPlane = running.use(await startControlPlane({ apiServerFlags, onProgress }));
  });

  const installed = useInstalled(
    () => controlPlane,
    'millrace',
    [],
    () =>
      installationOf({
        namespace: 'millrace',
        workNamespaces: [],
        secrets: [],
        services: [],
        users: Object.fromEntries(functionNames.map((name) => [name, [userOf(name)]])),
        relay: {
          clusterId,
          stage,
          region: 'eu-central-1',
          queueUrlPrefix: 'https://queues/0/',
          image: 'millrace-relay',
        },
      }),
  );

  beforeAll(async () => {
    const path = '/api/v1/namespaces';
    await installed().api.request({
      method: 'POST',
      path,
      body: { metadata: { name: namespace } },
    });
    deployment = await deploy({
      cloud,
      folder,
      namespaces: [namespace],
      kube: controlPlane.access(),
      parameters: { 'eks-cluster': cluster },
    });
    for (const name of functionNames) {
      entries.set(await deployment.roleOf(name), userOf(name));
    }
  });

  afterAll(async () => {
    connections.forEach((connection) => connection.close());
    await running.disposeAsync();
  });

  /** What the API server says to the question who asks, with what a function would sign in with. */
  async function whoIs(session: Session, asked = cluster): Promise<string> {
    vi.stubEnv('AWS_ACCESS_KEY_ID', session.accessKeyId);
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', session.secretAccessKey);
    vi.stubEnv('AWS_SESSION_TOKEN', session.sessionToken);
    onTestFinished(() => void vi.unstubAllEnvs());
    const { server, ca } = controlPlane;
    const config = readConfig(apiServerSchema, {
      MILLRACE_KUBE_SERVER: server,
      MILLRACE_KUBE_CA_DATA: Buffer.from(ca).toString('base64'),
      MILLRACE_EKS_CLUSTER: asked,
      AWS_REGION: 'eu-central-1',
    });
    const connection = await connectApiServer(config, 'test');
    connections.push(connection);
    const { status, body } = await connection.request({
      method: 'POST',
      path: '/apis/authentication.k8s.io/v1/selfsubjectreviews',
      body: { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' },
    });
    const review = body as { status: { userInfo: { username: string } } };
    return status === 201 ? review.status.userInfo.username : String(status);
  }

  test.each(stepNames)(
    '%s signs in as its role, and is known by its access entry',
    async (step) => {
      const { target: kind } =
        routing.routes.find((route) => route.step === step) ?? expect.unreachable();
      const { plural } = resourceTypes[kind];
      const hint = makeHint({
        step,
        cause: 'replay',
        source: clusterId,
        target: { kind, plural, namespace, name: 'orders', uid: 'a' },
        token: 'by hand',
        at: wallClock(),
      });
      const client = new SQSClient({
        ...clientOf(cloud, deployment.relay),
        useQueueUrlAsEndpoint: false,
      });
      onTestFinished(() => client.destroy());

      await client.send(
        new SendMessageCommand({
          QueueUrl: `${deployment.queueUrlPrefix}${queueName(stage, step)}`,
          MessageBody: JSON.stringify(hint),
          MessageGroupId: 'test',
        }),
      );

      const asked = async () =>
        (await readAuditLog(controlPlane.auditLogPath)).filter(
          ({ user, userAgent }) => user === userOf(step) && userAgent === `millrace/${step}`,
        );
      await expect
        .poll(asked, { timeout: patienceMs })
        .toContainEqual(expect.objectContaining({ verb: 'get', resource: plural, status: 404 }));
    },
  );

  test('a role without an access entry is nobody', async () => {
    const answer = await whoIs(await sessionOf(cloud, 'stranger'));

    expect(answer).toBe('401');
    expect(authenticator.refusals.at(-1)).toContain('no access entry');
  });

  test('a token for another cluster is none for this one: what STS is asked was not signed', async () => {
    entries.set('guest', 'guest');
    const session = await sessionOf(cloud, 'guest');

    const here = await whoIs(session);
    const elsewhere = await whoIs(session, 'another');

    expect([here, elsewhere]).toEqual(['guest', '401']);
    expect(authenticator.refusals.at(-1)).toContain('SignatureDoesNotMatch');
  });

  test('a token without the right key is none', async () => {
    const session = await sessionOf(cloud, 'guest');

    const answer = await whoIs({ ...session, secretAccessKey: 'guessed' });

    expect(answer).toBe('401');
  });
});
