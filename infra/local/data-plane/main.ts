import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type http from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import * as z from 'zod';
import { shardLabel } from '#shared/api/labels.ts';
import { logLevel, readConfig } from '#shared/kernel/config.ts';
import { describeError } from '#shared/kernel/errors.ts';
import { type Logger, createLogger } from '#shared/kernel/logger.ts';
import { connectKube } from '#shared/kube/http-connection.ts';
import { parseEndpoint } from '#shared/topology/address.ts';
import { type EtcdStore, anyMember } from '#shared/topology/etcd-store.ts';
import { etcd3Store } from '#shared/topology/etcd3-store.ts';
import { AdminServer } from './admin-server.ts';
import { createControlServer } from './control-server.ts';
import { etcdRemoval } from './etcd-removal.ts';
import { Engine } from './engine.ts';
import { Kubelet, type KubeletOptions } from './kubelet.ts';
import { type DataPlaneSettings, type Settings, settingsSchema } from './settings.ts';
import { type DataPlaneConfig, type DataPlaneOutput, createState } from './state.ts';
import { StateFile } from './state-file.ts';
import { type TopologyEtcd, TopologyLink } from './topology-link.ts';

const configuration = z.object({
  /** A file, because what it holds signs in to the API server. */
  MILLRACE_DATA_PLANE_SETTINGS: z.string().min(1),
  MILLRACE_LOG_LEVEL: logLevel,
});

/** Runs a node and its data planes until SIGTERM or SIGINT. */
async function main(): Promise<void> {
  const config = readConfig(configuration);
  const log = createLogger(config.MILLRACE_LOG_LEVEL, { component: 'data-plane' });
  const text = readFileSync(config.MILLRACE_DATA_PLANE_SETTINGS, 'utf8');
  const settings = settingsSchema.parse(JSON.parse(text));
  const connection = connectKube({
    server: settings.server,
    ...(settings.ca === undefined ? {} : { ca: settings.ca }),
    credentials: async () => ({ token: settings.token }),
  });
  const store = openStore(settings);
  const etcd = { store, remove: etcdRemoval(store) };
  const planes = settings.dataPlanes.map((plane) => openDataPlane(settings, plane, etcd, log));
  const kubelet = new Kubelet({
    connection,
    engines: planes.map(({ engine }) => engine),
    engineOf: engineFinder(planes),
    nodeName: settings.nodeName,
    selector: settings.selector,
    log,
  });
  for (const { engine, topology, admin, control, ports } of planes) {
    await listen(admin.server, ports.admin);
    await listen(control, ports.control);
    engine.run((output) => carryOut(output, { topology, kubelet, admin }));
  }
  await kubelet.start();

  let isStopping = false;
  const stop = async (): Promise<void> => {
    if (isStopping) {
      return;
    }
    isStopping = true;
    for (const { engine, topology } of planes) {
      engine.stop();
      topology.close();
    }
    store.close();
    connection.close();
    await kubelet.stop();
    process.exit(0);
  };
  process.once('SIGTERM', () => void stop());
  process.once('SIGINT', () => void stop());
  announce(planes, log);
}

function openStore({ etcdEndpoint, etcdAccess }: Settings): EtcdStore {
  const { otherEndpoints, ...credentials } = etcdAccess;
  const member = (endpoint: string) => etcd3Store(parseEndpoint(endpoint), credentials);
  return anyMember([member(etcdEndpoint), ...otherEndpoints.map(member)]);
}

interface OpenDataPlane {
  readonly shardName: string | undefined;
  readonly engine: Engine;
  readonly topology: TopologyLink;
  readonly admin: AdminServer;
  readonly control: http.Server;
  readonly ports: { readonly admin: number; readonly control: number };
}

function openDataPlane(
  settings: Settings,
  plane: DataPlaneSettings,
  etcd: TopologyEtcd,
  log: Logger,
): OpenDataPlane {
  const engine = openEngine(settings, plane);
  const { shardName, adminPort, controlPort } = plane;
  return {
    shardName,
    engine,
    topology: new TopologyLink(etcd, engine, log),
    admin: new AdminServer((request) => engine.take({ kind: 'adminAsked', request })),
    control: createControlServer(engine),
    ports: { admin: adminPort, control: controlPort },
  };
}

/** The one without a shard's name has every pod of the node. */
function engineFinder(planes: readonly OpenDataPlane[]): KubeletOptions['engineOf'] {
  const byName = new Map(planes.map(({ shardName, engine }) => [shardName, engine]));
  return ({ metadata }) => byName.get(undefined) ?? byName.get(metadata.labels?.[shardLabel]);
}

/** Goes on with what the folder holds; what can be told anew at each start is taken from the settings. */
function openEngine(
  { dataDir, speed, etcdEndpoint, etcdAccess }: Settings,
  plane: DataPlaneSettings,
): Engine {
  const {
    shardName,
    shard,
    globalRoot,
    cellRoot,
    requiredCount,
    legacyPods,
    backupMs,
    seed,
    cells,
  } = plane;
  const file = new StateFile(shardName === undefined ? dataDir : join(dataDir, shardName));
  const serverAddress = new URL(etcdEndpoint).host;
  const otherServerAddresses = etcdAccess.otherEndpoints.map((endpoint) => new URL(endpoint).host);
  const config: DataPlaneConfig = {
    speed,
    shard,
    globalRoot,
    cellRoot,
    serverAddress,
    otherServerAddresses,
    requiredCount,
    legacyPods,
    backupMs,
  };
  const kept = file.load();
  const state =
    kept === undefined
      ? createState(config, { nowMs: Date.now(), seed, cells })
      : { ...kept, config };
  return new Engine(state, (next) => file.keep(next));
}

function carryOut(
  output: DataPlaneOutput,
  shell: {
    readonly topology: TopologyLink;
    readonly kubelet: Kubelet;
    readonly admin: AdminServer;
  },
): void {
  switch (output.kind) {
    case 'readTopology':
      void shell.topology.read(output);
      return;
    case 'writeRecord':
      void shell.topology.write(output);
      return;
    case 'nodeChanged':
      shell.kubelet.lookAtAll();
      return;
    case 'podChanged':
      shell.kubelet.lookAt(output.podUid);
      return;
    case 'adminReply':
      shell.admin.reply(output.requestId, output.reply);
      return;
    case 'adminDrop':
      shell.admin.drop(output.requestId);
  }
}

async function listen(server: http.Server, port: number): Promise<void> {
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
}

function announce(planes: readonly OpenDataPlane[], log: Logger): void {
  const urlOf = (server: http.Server) =>
    `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const dataPlanes = planes.map(({ admin, control }) => ({
    adminUrl: urlOf(admin.server),
    controlUrl: urlOf(control),
  }));
  log.info({ dataPlanes: dataPlanes.length }, 'the data planes run');
  process.stdout.write(`${JSON.stringify({ ready: true, dataPlanes })}\n`);
}

main().catch((error: unknown) => {
  process.stderr.write(`${describeError(error)}\n`);
  process.exit(1);
});
