import { execFile, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import https from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { KubeConfig, VersionApi } from '@kubernetes/client-node';
import { describe, expect, onTestFinished, test } from 'vitest';
import { type AuditedRequest, readAuditLog } from '#infra/local/control-plane/audit-log.ts';
import { ComponentDied } from '#infra/local/control-plane/component.ts';
import { type ControlPlane, startControlPlane } from '#infra/local/control-plane/control-plane.ts';
import { startEtcd } from '#infra/local/control-plane/etcd.ts';
import { isFree } from '#infra/local/control-plane/port.ts';
import type { KubeResponse } from '#shared/kube/connection.ts';
import { connectKube } from '#shared/kube/http-connection.ts';
import { version } from '#shared/api/version.ts';
import { missingControlPlane, useControlPlane } from './local-control-plane.ts';

const run = promisify(execFile);

const patience = { timeout: 30_000, interval: 50 };

interface Ask {
  readonly method?: 'GET' | 'POST' | 'DELETE';
  readonly body?: unknown;
  readonly user?: string;
}

/** One request over TLS that is checked against the control plane's own authority. */
async function ask(controlPlane: ControlPlane, path: string, ask: Ask = {}): Promise<KubeResponse> {
  const connection = connectKube(controlPlane.access(ask.user));
  try {
    return await connection.request({ method: ask.method ?? 'GET', path, body: ask.body });
  } finally {
    connection.close();
  }
}

function statusOf(response: KubeResponse): number {
  return response.status;
}

const aClaim = {
  apiVersion: 'v1',
  kind: 'PersistentVolumeClaim',
  metadata: { name: 'data' },
  spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
};

const aPodWithTheClaim = {
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'member' },
  spec: {
    nodeName: 'node-1',
    containers: [{ name: 'database', image: 'database' }],
    volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }],
  },
};

async function createNamespace(controlPlane: ControlPlane, name: string): Promise<KubeResponse> {
  const body = { apiVersion: 'v1', kind: 'Namespace', metadata: { name } };
  return ask(controlPlane, '/api/v1/namespaces', { method: 'POST', body });
}

describe.skipIf(missingControlPlane !== undefined)('the local control plane', () => {
  const controlPlane = useControlPlane({
    users: [
      { name: 'system:serviceaccount:millrace:relay', groups: ['system:serviceaccounts:millrace'] },
      { name: 'ada, "the first"', groups: ['readers', 'system:masters'] },
    ],
  });

  test('is ready and tells its version', async () => {
    const ready = await ask(controlPlane(), '/readyz');
    const version = await ask(controlPlane(), '/version');

    expect(ready).toMatchObject({ status: 200, body: 'ok' });
    expect(version.body).toMatchObject({ major: '1', gitVersion: expect.stringMatching(/^v1\./) });
  });

  test('is reached by the Kubernetes client through its kubeconfig', async () => {
    const config = new KubeConfig();
    config.loadFromFile(controlPlane().kubeconfigPath);

    const version = await config.makeApiClient(VersionApi).getCode();

    expect(version.major).toBe('1');
  });

  test('is not trusted by a client that does not know its authority', async () => {
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();

    https.get(`${controlPlane().server}/readyz`, resolve).on('error', reject);

    await expect(promise).rejects.toThrow(/certificate/);
  });

  test('keeps its secrets to its owner', async () => {
    const { dataDir, kubeconfigPath } = controlPlane();

    const modes = await Promise.all(
      [
        dataDir,
        kubeconfigPath,
        join(dataDir, 'tokens.csv'),
        join(dataDir, 'service-accounts.key'),
      ].map(async (path) => (await stat(path)).mode & 0o077),
    );

    expect(modes).toEqual([0, 0, 0, 0]);
  });

  test('creates a namespace with its service account, and deletes it with what is in it', async () => {
    const path = '/api/v1/namespaces/short-lived';

    const created = await createNamespace(controlPlane(), 'short-lived');
    await expect
      .poll(() => ask(controlPlane(), `${path}/serviceaccounts/default`).then(statusOf), patience)
      .toBe(200);
    const deleted = await ask(controlPlane(), path, { method: 'DELETE' });

    expect([created.status, deleted.status]).toEqual([201, 200]);
    await expect.poll(() => ask(controlPlane(), path).then(statusOf), patience).toBe(404);
  });

  test('protects a claim until the pod that uses it is gone', async () => {
    const core = '/api/v1/namespaces/default';
    const created = await Promise.all([
      ask(controlPlane(), `${core}/persistentvolumeclaims`, { method: 'POST', body: aClaim }),
      ask(controlPlane(), `${core}/pods`, { method: 'POST', body: aPodWithTheClaim }),
    ]);
    const claim = () => ask(controlPlane(), `${core}/persistentvolumeclaims/data`);

    const deleted = await ask(controlPlane(), `${core}/persistentvolumeclaims/data`, {
      method: 'DELETE',
    });
    // The controller has looked at the claim by the time it has brought a later one, used by nobody, to its end.
    const later = { ...aClaim, metadata: { name: 'later' } };
    await ask(controlPlane(), `${core}/persistentvolumeclaims`, { method: 'POST', body: later });
    await ask(controlPlane(), `${core}/persistentvolumeclaims/later`, { method: 'DELETE' });
    await expect
      .poll(
        () => ask(controlPlane(), `${core}/persistentvolumeclaims/later`).then(statusOf),
        patience,
      )
      .toBe(404);
    const whileUsed = await claim();
    await ask(controlPlane(), `${core}/pods/member`, {
      method: 'DELETE',
      body: { gracePeriodSeconds: 0 },
    });

    expect([...created, deleted].map(statusOf)).toEqual([201, 201, 200]);
    expect(whileUsed.body).toMatchObject({
      metadata: {
        deletionTimestamp: expect.any(String),
        finalizers: ['kubernetes.io/pvc-protection'],
      },
    });
    await expect.poll(() => claim().then(statusOf), patience).toBe(404);
  });

  test('allows its other users what RBAC allows, by name and group', async () => {
    const relay = { user: 'system:serviceaccount:millrace:relay' };
    const review = { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' };

    const refused = await ask(controlPlane(), '/api/v1/pods', relay);
    const allowed = await ask(controlPlane(), '/api/v1/pods', { user: 'ada, "the first"' });
    const seen = await ask(controlPlane(), '/apis/authentication.k8s.io/v1/selfsubjectreviews', {
      method: 'POST',
      body: review,
      user: 'ada, "the first"',
    });

    expect([refused.status, allowed.status]).toEqual([403, 200]);
    expect(seen.body).toMatchObject({
      status: {
        userInfo: {
          username: 'ada, "the first"',
          groups: ['readers', 'system:masters', 'system:authenticated'],
        },
      },
    });
  });

  test('refuses a user it was not started with', () => {
    expect(() => controlPlane().access('nobody')).toThrow('without a user nobody');
  });

  test('writes down who asked for what', async () => {
    const relay = 'system:serviceaccount:millrace:relay';
    const isMine = ({ user, resource }: AuditedRequest) =>
      user === relay && resource === 'configmaps';

    await ask(controlPlane(), '/api/v1/namespaces/default/configmaps', { user: relay });
    await ask(controlPlane(), '/api/v1/namespaces/default/configmaps/x', { user: relay });

    const userAgent = `millrace/${version}`;
    const mine = async () => (await readAuditLog(controlPlane().auditLogPath)).filter(isMine);
    await expect
      .poll(mine, patience)
      .toEqual([
        expect.objectContaining({ verb: 'list', namespace: 'default', status: 403 }),
        expect.objectContaining({ verb: 'get', name: 'x', status: 403, userAgent }),
      ]);
  });

  test('keeps address, authority and data over a restart of the API server, etcd and controllers', async () => {
    const before = controlPlane().pids;
    await createNamespace(controlPlane(), 'long-lived');

    await controlPlane().restart('apiServer');
    const afterApiServer = await ask(controlPlane(), '/api/v1/namespaces/long-lived');
    await controlPlane().restart('etcd');
    await controlPlane().restart('controllerManager');

    expect(afterApiServer.status).toBe(200);
    await expect
      .poll(() => ask(controlPlane(), '/api/v1/namespaces/long-lived').then(statusOf), patience)
      .toBe(200);
    const after = controlPlane().pids;
    expect(after.etcd).not.toBe(before.etcd);
    expect(after.apiServer).not.toBe(before.apiServer);
    expect(after.controllerManager).not.toBe(before.controllerManager);
  });

  test('is unreachable while its API server is killed', async () => {
    await controlPlane().kill('apiServer');

    await expect(ask(controlPlane(), '/readyz')).rejects.toThrow('ECONNREFUSED');
    expect(await isFree(Number(new URL(controlPlane().server).port))).toBe(true);

    await controlPlane().restart('apiServer');
    expect(await ask(controlPlane(), '/readyz')).toMatchObject({ status: 200 });
  });
});

describe.skipIf(missingControlPlane !== undefined)('a control plane that is stopped', () => {
  test('ends open watches, its processes and its own folder at once', async () => {
    const controlPlane = await startControlPlane();
    const connection = connectKube(controlPlane.access());
    const path = '/api/v1/pods';
    const watch = await connection.stream({ method: 'GET', path, query: { watch: 'true' } });
    const watched = watch.lines[Symbol.asyncIterator]().next();

    const startedAtMs = performance.now();
    await Promise.all([expect(watched).rejects.toThrow(), controlPlane.stop()]);
    const elapsedMs = performance.now() - startedAtMs;

    connection.close();
    expect(await commandsNaming(controlPlane.dataDir)).toEqual([]);
    expect(existsSync(controlPlane.dataDir)).toBe(false);
    expect(elapsedMs).toBeLessThan(4_000);
  });
});

describe.skipIf(missingControlPlane !== undefined)('a control plane on a given folder', () => {
  test('finds its data there at the next start, and leaves the folder', async () => {
    const dataDir = join(await makeFolder(), 'data');
    const first = await startControlPlane({ dataDir });
    await createNamespace(first, 'kept');
    await first.stop();

    await using second = await startControlPlane({ dataDir });

    expect(statusOf(await ask(second, '/api/v1/namespaces/kept'))).toBe(200);
    await second.stop();
    expect(existsSync(dataDir)).toBe(true);
  });

  test('that does not start says why, and leaves nothing running', async () => {
    const dataDir = await makeFolder();

    const start = startControlPlane({ dataDir, apiServerFlags: ['--no-such-flag'] });

    await expect(start).rejects.toBeInstanceOf(ComponentDied);
    await expect(start).rejects.toThrow(/^the API server ended with code 1 .*unknown flag/s);
    expect(await commandsNaming(dataDir)).toEqual([]);
  });
});

/** A folder for one test, removed after it however it ends. */
async function makeFolder(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'millrace-control-plane-test-'));
  onTestFinished(() => rm(path, { recursive: true, force: true }));
  return path;
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}

/** One call to the key-value service through etcd's JSON gateway. */
async function callEtcd(endpoint: string, method: string, body: object): Promise<unknown> {
  const response = await fetch(`${endpoint}/v3/kv/${method}`, {
    method: 'POST',
    body: JSON.stringify(body),
  });
  return response.json();
}

describe.skipIf(missingControlPlane !== undefined)('an etcd of its own', () => {
  test('keeps its data over a kill, a restart and another start on the same folder', async () => {
    const dataDir = await makeFolder();
    const first = await startEtcd({ dataDir });
    await callEtcd(first.endpoint, 'put', { key: base64('a'), value: base64('1') });
    await first.kill();
    await first.restart();
    const restarted = await callEtcd(first.endpoint, 'range', { key: base64('a') });
    await first.stop();

    const second = await startEtcd({ dataDir });
    const started = await callEtcd(second.endpoint, 'range', { key: base64('a') });
    await second.stop();

    expect(restarted).toMatchObject({ kvs: [{ value: base64('1') }] });
    expect(started).toMatchObject({ kvs: [{ value: base64('1') }] });
  });
});

describe.skipIf(missingControlPlane !== undefined)('after kill -9 of its parent', () => {
  test('the control plane is gone, its ports are free and its folder is removed', async () => {
    const fixture = fileURLToPath(new URL('fixtures/control-plane-parent.ts', import.meta.url));
    const parent = spawn(process.execPath, [fixture], { stdio: ['ignore', 'pipe', 'inherit'] });
    const lines = createInterface({ input: parent.stdout })[Symbol.asyncIterator]();
    const { value: line = 'nothing, since the parent ended' } = await lines.next();
    const started = JSON.parse(line) as Pick<ControlPlane, 'server' | 'etcdEndpoint' | 'dataDir'>;
    const ports = [started.server, started.etcdEndpoint].map((url) => Number(new URL(url).port));
    expect(await Promise.all(ports.map(isFree))).toEqual([false, false]);
    expect((await commandsNaming(started.dataDir)).length).toBeGreaterThanOrEqual(3);

    parent.kill('SIGKILL');

    await expect.poll(() => commandsNaming(started.dataDir), patience).toEqual([]);
    await expect.poll(() => Promise.all(ports.map(isFree)), patience).toEqual([true, true]);
    await expect.poll(() => existsSync(started.dataDir), patience).toBe(false);
  });
});

/** The command lines of all processes that name this path; one that is dead already has none. */
async function commandsNaming(path: string): Promise<readonly string[]> {
  const { stdout } = await run('ps', ['-A', '-o', 'args=']);
  return stdout.split('\n').filter((args) => args.includes(path));
}
