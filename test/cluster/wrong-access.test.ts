import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { type Server as HttpServer, createServer as createPlainServer } from 'node:http';
import { createServer } from 'node:https';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import * as z from 'zod';
import { writeKubeconfig } from '#infra/local/control-plane/kubeconfig.ts';
import { findFreePort } from '#infra/local/control-plane/port.ts';
import { connectKube } from '#shared/kube/http-connection.ts';
import { accessInCluster } from '#shared/kube/kubeconfig.ts';
import { connectOutside } from '#shared/outside/connect.ts';
import { runMillrace } from '#test/unit/infra/cli/run-millrace.ts';
import { LineLog } from '#test/unit/infra/local/worker/line-log.ts';
import { type Authority, type Identity, makeAuthority } from './certificates.ts';
import { missingControlPlane, useControlPlane } from './local-control-plane.ts';

/** How somebody believes to reach the API server. */
interface Access {
  readonly server: string;
  readonly ca: string;
  readonly token: string;
}

/** What a person has got wrong, and what each program says about it. */
interface Mistake {
  readonly mistake: string;
  readonly make: () => Promise<Access> | Access;
  /** In the log of a function and of the relay. */
  readonly says: RegExp;
  /** Of which `millrace doctor` says that it failed. */
  readonly check: string;
}

const relayEntry = fileURLToPath(new URL('../../events/relay/main.ts', import.meta.url));

const signal = new AbortController().signal;

describe.skipIf(missingControlPlane !== undefined)('whoever is told wrongly', () => {
  const controlPlane = useControlPlane();
  let folder: string;
  let authority: Authority;
  let identity: Identity;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'millrace-access-'));
    authority = await makeAuthority(folder);
    identity = await authority.sign('server');
  });

  afterAll(() => rm(folder, { recursive: true }));

  function right(): Access {
    const { server, ca, adminToken: token } = controlPlane();
    return { server, ca, token };
  }

  async function listen(server: HttpServer): Promise<string> {
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    return `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  /** Has a certificate for its address, and a welcome for everybody. */
  function aWebSite(onRequest: () => void = () => undefined): Promise<string> {
    return listen(
      createServer({ cert: identity.certificate, key: identity.key }, (_, response) => {
        onRequest();
        response.setHeader('content-type', 'text/html');
        response.end('<html>Welcome</html>');
      }),
    );
  }

  const mistakes: readonly Mistake[] = [
    {
      mistake: 'a port on which nobody listens',
      make: async () => ({ ...right(), server: `https://127.0.0.1:${await findFreePort()}` }),
      says: /nobody listens at 127\.0\.0\.1:\d+: check \S.*ECONNREFUSED/,
      check: 'API server reachable',
    },
    {
      mistake: 'a name that does not resolve',
      make: () => ({ ...right(), server: 'https://kubernetes.invalid' }),
      says: /the name kubernetes\.invalid does not resolve: check \S/,
      check: 'API server reachable',
    },
    {
      mistake: 'the address of something else',
      make: async () => ({ ...right(), ca: authority.ca, server: await aWebSite() }),
      says: /what answers at 127\.0\.0\.1:\d+ is no API server: check \S/,
      check: 'API server reachable',
    },
    {
      mistake: 'the address of something without TLS',
      make: async () => ({
        ...right(),
        server: await listen(createPlainServer((_, response) => response.end())),
      }),
      says: /what listens at 127\.0\.0\.1:\d+ does not speak HTTPS: check \S/,
      check: 'API server reachable',
    },
    {
      mistake: 'the authority of another cluster',
      make: () => ({ ...right(), ca: authority.ca }),
      says: /certificate of 127\.0\.0\.1:\d+ is not signed by the authority that was given: give the cluster’s own/,
      check: 'API server certificate',
    },
    {
      mistake: 'a token that has ended',
      make: () => ({ ...right(), token: 'it was good once' }),
      says: /401.*knows nobody by these credentials: (put a new token into|renew)/,
      check: 'signed in',
    },
  ];

  test.each(mistakes)('$mistake: a function says so, and what to do', async ({ make, says }) => {
    const { kube } = await functionWith(await make());

    const read = await kube.get({ kind: 'Shard', namespace: 'db', name: 'orders' }, signal);
    const list = await kube.list('Pod', { namespace: 'db' }, signal);

    expect(read).toEqual({ kind: 'unknown', why: expect.stringMatching(says) });
    expect(list).toEqual({ kind: 'unknown', why: expect.stringMatching(says) });
  });

  test.each(mistakes)('$mistake: the relay says so, and what to do', async ({ make, says }) => {
    const kubeconfig = await kubeconfigWith(await make());
    const log = new LineLog();
    const relay = spawn(process.execPath, [relayEntry], {
      env: {
        MILLRACE_CLUSTER_ID: 'test',
        MILLRACE_STAGE: 'test',
        MILLRACE_NAMESPACES: 'db',
        MILLRACE_QUEUE_ENDPOINT: 'http://127.0.0.1:1',
        MILLRACE_RELAY_PORT: '0',
        KUBECONFIG: kubeconfig,
        AWS_REGION: 'us-east-1',
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    onTestFinished(async () => {
      relay.kill('SIGKILL');
      await once(relay, 'close');
    });
    createInterface(relay.stdout).on('line', log.add);

    const [line] = await log.until({ msg: 'watch failed' });

    expect(line).toMatchObject({ why: expect.stringMatching(says) });
  });

  test.each(mistakes)('$mistake: the doctor names it', async ({ make, check }) => {
    const kubeconfig = await kubeconfigWith(await make());

    const { stdout, exitCode } = await runMillrace([
      'doctor',
      '--json',
      '--kubeconfig',
      kubeconfig,
    ]);

    const { checks } = z
      .object({ checks: z.array(z.looseObject({ name: z.string(), result: z.string() })) })
      .parse(JSON.parse(stdout));
    expect(exitCode).toBe(1);
    expect(checks).toContainEqual(
      expect.objectContaining({ name: check, result: 'failed', advice: expect.any(String) }),
    );
  });

  test('nobody sends anything, a token least of all, to a server of another authority', async () => {
    let requests = 0;
    const server = await aWebSite(() => (requests += 1));
    const { kube } = await functionWith({ ...right(), server });

    const read = await kube.get({ kind: 'Shard', namespace: 'db', name: 'orders' }, signal);

    expect(read).toMatchObject({ why: expect.stringContaining('not signed by the authority') });
    expect(requests).toBe(0);
  });

  test('a pod signs in by the files of its service account, on EKS as anywhere', async () => {
    const { server, ca, token } = right();
    await writeFile(join(folder, 'ca.crt'), ca);
    await writeFile(join(folder, 'token'), token);
    vi.stubEnv('KUBERNETES_SERVICE_HOST', new URL(server).hostname);
    vi.stubEnv('KUBERNETES_SERVICE_PORT', new URL(server).port);
    onTestFinished(() => void vi.unstubAllEnvs());

    const connection = connectKube(await accessInCluster(folder));
    onTestFinished(() => connection.close());
    const { status } = await connection.request({ method: 'GET', path: '/api/v1/namespaces' });

    expect(status).toBe(200);
  });

  /** What a function of Lambda has, but for where its token is. */
  async function functionWith({ server, ca, token }: Access) {
    const path = join(folder, 'function.token');
    await writeFile(path, token);
    return connectOutside(
      {
        MILLRACE_CLUSTER_ID: 'test',
        MILLRACE_KUBE_SERVER: server,
        MILLRACE_KUBE_CA_DATA: Buffer.from(ca).toString('base64'),
        MILLRACE_KUBE_TOKEN_FILE: path,
      },
      'drain-step',
    );
  }

  async function kubeconfigWith(access: Access): Promise<string> {
    const path = join(folder, 'kubeconfig');
    await writeKubeconfig(path, { ...access, user: 'somebody' });
    return path;
  }
});
