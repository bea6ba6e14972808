import { join } from 'node:path';
import { tmpdir } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { type Children, startChildren } from '#infra/cli/dev/children.ts';
import { writeCredentials } from '#infra/cli/dev/credentials.ts';
import { describeTrouble, parseDecision } from '#infra/cli/dev/decision-line.ts';
import { installDefinitions } from '#infra/cli/install.ts';
import { readEnvironment, resolveSettings } from '#infra/cli/settings.ts';
import { type AuditedRequest, readAuditLog } from '#infra/local/control-plane/audit-log.ts';
import { type ControlPlane, startControlPlane } from '#infra/local/control-plane/control-plane.ts';
import { type Etcd, startEtcd } from '#infra/local/control-plane/etcd.ts';
import { makeGuardedFolder } from '#infra/local/control-plane/guard.ts';
import { writeKubeconfig } from '#infra/local/control-plane/kubeconfig.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import { connectKube } from '#shared/kube/http-connection.ts';
import { createNamespace, namespace } from './objects.ts';
import type { PartOptions } from './part.ts';

/** What hints are sent for. */
export const clusterId = 'bench';

/** Millrace signs in as a user of its own, so that the audit log tells its requests from the benchmark's. */
export const millraceUser = 'millrace';

/** Troubles that are told; further ones are only counted. */
const troublesTold = 5;

/** A control plane with Millrace's definitions, and an etcd for topologies. */
export interface Cluster extends AsyncDisposable {
  /** Goes with it. */
  readonly folder: string;
  readonly controlPlane: ControlPlane;
  readonly topologyEtcd: Etcd;
  /** Signs in as the administrator. */
  readonly connection: KubeConnection;
  /** Signs in as Millrace. */
  readonly kubeconfigPath: string;
}

/** Millrace as `millrace dev` runs it: relay, embedded queue and worker, each a process. */
export interface Millrace extends AsyncDisposable {
  readonly children: Children;
  /** What it has done since it was started. */
  work(): Promise<WorkDone>;
}

export interface WorkDone {
  /** Hints that the queue has acknowledged. */
  readonly hints: number;
  /** Decisions of each step. */
  readonly looks: ReadonlyMap<string, number>;
}

export interface ClusterOptions {
  /** Whether the API server logs each request, which costs it time. */
  readonly isAudited: boolean;
}

export async function startCluster(
  { log }: Pick<PartOptions, 'log'>,
  { isAudited }: ClusterOptions,
): Promise<Cluster> {
  await using stack = new AsyncDisposableStack();
  const guarded = await makeGuardedFolder(join(tmpdir(), 'millrace-bench-'));
  stack.defer(() => guarded.remove());
  const folder = guarded.path;
  log('starting a control plane');
  const controlPlane = stack.use(
    await startControlPlane({
      dataDir: join(folder, 'control-plane'),
      users: [{ name: millraceUser, groups: ['system:masters'] }],
      apiServerFlags: isAudited ? [] : ['--audit-log-path='],
    }),
  );
  const topologyEtcd = stack.use(await startEtcd({ dataDir: join(folder, 'topology') }));
  const connection = connectKube(controlPlane.access());
  stack.defer(() => connection.close());
  await installDefinitions(connection);
  await createNamespace(connection);
  const kubeconfigPath = join(folder, 'kubeconfig');
  const { server, ca, tokens } = controlPlane;
  const token = tokens.get(millraceUser) ?? '';
  await writeKubeconfig(kubeconfigPath, { server, ca, user: millraceUser, token });
  const owned = stack.move();
  return {
    folder,
    controlPlane,
    topologyEtcd,
    connection,
    kubeconfigPath,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/**
 * Ends the controller manager, once what it has to make is there. At every change of a pod its disruption controller
 * would write the status of a budget, on the same few processors; whoever runs a cluster has others for that.
 */
export async function endControllers({ controlPlane }: Cluster): Promise<void> {
  await controlPlane.kill('controllerManager');
}

export async function startMillrace(
  { folder, controlPlane, kubeconfigPath }: Cluster,
  { log }: Pick<PartOptions, 'log'>,
): Promise<Millrace> {
  const environment = readEnvironment();
  const flags = { kubeconfig: kubeconfigPath, namespace: [namespace], clusterId };
  const looks = new Map<string, number>();
  let troubles = 0;
  const hearTrouble = (text: string): void => {
    troubles += 1;
    if (troubles <= troublesTold) {
      log(text);
    }
  };
  const children = await startChildren({
    settings: resolveSettings(flags, environment),
    clusterId,
    queueFolder: join(folder, 'queue'),
    archive: { kind: 'folder', path: join(folder, 'archive') },
    credentials: await writeCredentials(join(folder, 'sign-in'), controlPlane.access(millraceUser)),
    environment,
    onLine(child, line) {
      const decision = parseDecision(line);
      if (decision !== undefined) {
        looks.set(decision.step, (looks.get(decision.step) ?? 0) + 1);
        return;
      }
      const trouble = describeTrouble(child, line);
      if (trouble !== undefined) {
        hearTrouble(trouble);
      }
    },
    onErrorLine: (child, line) => hearTrouble(`${child}: ${line}`),
    // A part that died and came back would measure the restart.
    onDeath: (child, why) => hearTrouble(`the ${child} ${why}: the figures are worth nothing`),
    onRestart: () => undefined,
  });
  return {
    children,
    work: async () => ({ hints: await hintsOf(children.relayUrl), looks: new Map(looks) }),
    [Symbol.asyncDispose]: () => children.stop(),
  };
}

async function hintsOf(relayUrl: string): Promise<number> {
  const text = await (await fetch(new URL('/metrics', relayUrl))).text();
  return [...text.matchAll(/^millrace_relay_hints_total\{[^}]*\} (\d+)/gm)].reduce(
    (sum, [, count]) => sum + Number(count),
    0,
  );
}

/** The log may lag behind by moments; each look at it reads all of it. */
const auditLooks = 20;
const auditPauseMs = 500;

/** Requests of Millrace's to the API server since the log's begin. Complete: a marker of ours is waited for. */
export async function auditedRequests({
  connection,
  controlPlane,
}: Cluster): Promise<readonly AuditedRequest[]> {
  const marker = `${process.pid}-${performance.now()}`;
  await connection.request({ method: 'GET', path: '/version', query: { marker } });
  for (let look = 0; look < auditLooks; look += 1) {
    const log = await readAuditLog(controlPlane.auditLogPath);
    if (log.some(({ path }) => path === `/version?marker=${marker}`)) {
      return log.filter(({ user }) => user === millraceUser);
    }
    await delay(auditPauseMs);
  }
  throw new Error('the audit log does not show the last request');
}
