import { randomBytes } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { KubeAccess } from '#shared/kube/connection.ts';
import { connectKube } from '#shared/kube/http-connection.ts';
import { type ApiServer, type User, type UserWithToken, startApiServer } from './api-server.ts';
import { obtainProgram } from './binaries.ts';
import type { Component } from './component.ts';
import type { BinarySettings } from './config.ts';
import { startControllerManager } from './controller-manager.ts';
import { type Etcd, startEtcd } from './etcd.ts';
import { makeGuardedFolder } from './guard.ts';
import { writeKubeconfig } from './kubeconfig.ts';
import { type OnProgress, reportProgress } from './progress.ts';

export type ComponentName = 'etcd' | 'apiServer' | 'controllerManager';

export interface ControlPlaneOptions {
  /** Kept, and used again by the next start on it; without it a folder of its own that goes with the control plane. */
  readonly dataDir?: string;
  /** Who can sign in besides the administrator; what they may do is up to RBAC objects. */
  readonly users?: readonly User[];
  /** Appended to the API server's command line: `--max-requests-inflight=1`. */
  readonly apiServerFlags?: readonly string[];
  readonly onProgress?: OnProgress;
  /** Told in one message when a component ends though nobody killed or stopped it. */
  readonly onUnexpectedExit?: (message: string) => void;
  readonly binaries?: BinarySettings;
}

export interface ControlPlane extends AsyncDisposable {
  /** `https://127.0.0.1:<port>`; the same over restarts of the API server. */
  readonly server: string;
  /** PEM. */
  readonly ca: string;
  /** Signs in as the administrator. */
  readonly kubeconfigPath: string;
  /** Of a user in the group `system:masters`. */
  readonly adminToken: string;
  /** By user name. */
  readonly tokens: ReadonlyMap<string, string>;
  /** Every request with its user, as JSON lines; see `readAuditLog`. */
  readonly auditLogPath: string;
  /** Also of the logs: `etcd.log`, `api-server.log`, `controller-manager.log`. */
  readonly dataDir: string;
  /** `http://127.0.0.1:<port>` of the etcd that holds the cluster's state. */
  readonly etcdEndpoint: string;
  readonly pids: Readonly<Record<ComponentName, number>>;
  /** How to reach it as one of the users, as the administrator without a name. Throws for a user it does not know. */
  access(userName?: string): KubeAccess;
  /** SIGKILL; resolves when the process is gone. */
  kill(component: ComponentName): Promise<void>;
  /** Starts it again in place, after a SIGKILL where it still runs; resolves when it is ready. */
  restart(component: ComponentName): Promise<void>;
  /** Ends everything, in order; resolves when all processes are gone and a folder of its own is removed. */
  stop(): Promise<void>;
}

const adminName = 'millrace-admin';
const controllerManagerName = 'system:kube-controller-manager';

const tokenBytes = 24;

const probeIntervalMs = 50;

/** It is there within 100 ms, as measured; a loaded machine may need more. */
const serviceAccountTimeoutMs = 60_000;

/**
 * Starts a real etcd, API server and controller manager, and resolves when a pod could be created in the namespace
 * `default`. They listen on 127.0.0.1 only and end with this process, however it ends.
 *
 * Throws `ProgramUnavailable` when there is nothing to run, `ComponentDied` with the last log lines when one does not
 * start; nothing is left running then.
 */
export async function startControlPlane(options: ControlPlaneOptions = {}): Promise<ControlPlane> {
  const users = withTokens([
    { name: adminName, groups: ['system:masters'] },
    // Its controllers share this one identity, so it must be allowed what all of them together are.
    { name: controllerManagerName, groups: ['system:masters'] },
    ...(options.users ?? []),
  ]);
  const commands = await obtainCommands(options);
  await using started = new AsyncDisposableStack();
  const dataDir = await prepareFolder(options.dataDir, started);
  const components = await startComponents(options, commands, dataDir, users, started);
  const { server, ca } = components.apiServer;
  const accessOf = (name = adminName): KubeAccess => {
    const token = tokenOf(users, name);
    return { server, ca, credentials: async () => ({ token }) };
  };
  await reportProgress(options.onProgress, 'waiting for the first service account', () =>
    waitForServiceAccount(accessOf()),
  );
  const adminToken = tokenOf(users, adminName);
  const kubeconfigPath = join(dataDir, 'admin.kubeconfig');
  await writeKubeconfig(kubeconfigPath, { server, ca, user: adminName, token: adminToken });
  const componentOf = (name: ComponentName) =>
    name === 'apiServer' ? components.apiServer.component : components[name];
  const running = started.move();
  let stopped: Promise<void> | undefined;
  const stop = () => (stopped ??= running.disposeAsync());
  return {
    server,
    ca,
    kubeconfigPath,
    adminToken,
    tokens: new Map(users.map(({ name, token }) => [name, token])),
    auditLogPath: components.apiServer.auditLogPath,
    dataDir,
    etcdEndpoint: components.etcd.endpoint,
    get pids() {
      return {
        etcd: components.etcd.pid,
        apiServer: components.apiServer.component.pid,
        controllerManager: components.controllerManager.pid,
      };
    },
    access: accessOf,
    kill: (name) => componentOf(name).kill(),
    restart: (name) => componentOf(name).restart(),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

interface Commands {
  readonly apiServer: string;
  readonly controllerManager: string;
}

/** Finds or builds what is needed before anything is started, one after the other: a build uses all processors. */
async function obtainCommands({ onProgress, binaries }: ControlPlaneOptions): Promise<Commands> {
  await obtainProgram('etcd', onProgress, binaries);
  return {
    apiServer: await obtainProgram('kube-apiserver', onProgress, binaries),
    controllerManager: await obtainProgram('kube-controller-manager', onProgress, binaries),
  };
}

async function prepareFolder(
  given: string | undefined,
  started: AsyncDisposableStack,
): Promise<string> {
  if (given === undefined) {
    const folder = await makeGuardedFolder(join(tmpdir(), 'millrace-control-plane-'));
    started.defer(() => folder.remove());
    return folder.path;
  }
  const path = resolve(given);
  await mkdir(path, { recursive: true, mode: 0o700 });
  return path;
}

async function startComponents(
  options: ControlPlaneOptions,
  commands: Commands,
  dataDir: string,
  users: readonly UserWithToken[],
  started: AsyncDisposableStack,
): Promise<{ etcd: Etcd; apiServer: ApiServer; controllerManager: Component }> {
  const { onProgress, onUnexpectedExit, binaries } = options;
  const common = { dataDir, onProgress, onUnexpectedExit };
  const etcd = await startEtcd({ ...common, binaries });
  started.defer(() => etcd.stop());
  const apiServer = await startApiServer({
    ...common,
    command: commands.apiServer,
    etcdEndpoint: etcd.endpoint,
    users,
    probeToken: tokenOf(users, adminName),
    flags: options.apiServerFlags ?? [],
  });
  // All it has to keep is in etcd, and its own orderly end would wait for every open watch.
  started.defer(() => apiServer.component.kill());
  const kubeconfigPath = join(dataDir, 'controller-manager.kubeconfig');
  await writeKubeconfig(kubeconfigPath, {
    server: apiServer.server,
    ca: apiServer.ca,
    user: controllerManagerName,
    token: tokenOf(users, controllerManagerName),
  });
  const controllerManager = await startControllerManager({
    ...common,
    command: commands.controllerManager,
    kubeconfigPath,
  });
  started.defer(() => controllerManager.stop());
  return { etcd, apiServer, controllerManager };
}

function withTokens(users: readonly User[]): readonly UserWithToken[] {
  const names = users.map(({ name }) => name);
  const repeated = names.find((name, index) => names.indexOf(name) !== index);
  if (repeated !== undefined) {
    throw new TypeError(`two users of the control plane have the name ${repeated}`);
  }
  return users.map((user) => ({ ...user, token: randomBytes(tokenBytes).toString('hex') }));
}

function tokenOf(users: readonly UserWithToken[], name: string): string {
  const user = users.find((user) => user.name === name);
  if (user === undefined) {
    throw new TypeError(`the control plane was started without a user ${name}`);
  }
  return user.token;
}

/** Without the account `default` of its namespace no pod is admitted there. */
async function waitForServiceAccount(access: KubeAccess): Promise<void> {
  const connection = connectKube(access);
  const path = '/api/v1/namespaces/default/serviceaccounts/default';
  const deadlineMs = performance.now() + serviceAccountTimeoutMs;
  try {
    for (;;) {
      const { status } = await connection.request({ method: 'GET', path });
      if (status === 200) {
        return;
      }
      if (performance.now() > deadlineMs) {
        throw new Error(`the API server still answers ${status} for ${path}`);
      }
      await delay(probeIntervalMs);
    }
  } finally {
    connection.close();
  }
}
