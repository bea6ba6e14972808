import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type http from 'node:http';
import type { AddressInfo } from 'node:net';
import * as z from 'zod';
import { logLevel, readConfig } from '#shared/kernel/config.ts';
import { describeError } from '#shared/kernel/errors.ts';
import { type Logger, createLogger } from '#shared/kernel/logger.ts';
import { connectKube } from '#shared/kube/http-connection.ts';
import { AdminServer } from './admin-server.ts';
import { createControlServer } from './control-server.ts';
import { Engine } from './engine.ts';
import { Kubelet } from './kubelet.ts';
import { type Settings, settingsSchema } from './settings.ts';
import { type DataPlaneConfig, type DataPlaneOutput, createState } from './state.ts';
import { StateFile } from './state-file.ts';
import { TopologyLink } from './topology-link.ts';

const configuration = z.object({
  /** A file, because what it holds signs in to the API server. */
  MILLRACE_DATA_PLANE_SETTINGS: z.string().min(1),
  MILLRACE_LOG_LEVEL: logLevel,
});

/** Runs one data plane until SIGTERM or SIGINT. */
async function main(): Promise<void> {
  const config = readConfig(configuration);
  const log = createLogger(config.MILLRACE_LOG_LEVEL, { component: 'data-plane' });
  const text = readFileSync(config.MILLRACE_DATA_PLANE_SETTINGS, 'utf8');
  const settings = settingsSchema.parse(JSON.parse(text));
  const engine = openEngine(settings);
  const connection = connectKube({
    server: settings.server,
    ...(settings.ca === undefined ? {} : { ca: settings.ca }),
    credentials: async () => ({ token: settings.token }),
  });
  const topology = new TopologyLink(settings.etcdEndpoint, engine, log);
  const { nodeName, selector } = settings;
  const kubelet = new Kubelet({ connection, engine, nodeName, selector, log });
  const admin = new AdminServer((request) => engine.take({ kind: 'adminAsked', request }));
  const control = createControlServer(engine);
  await listen(admin.server, settings.adminPort);
  await listen(control, settings.controlPort);
  engine.run((output) => carryOut(output, { topology, kubelet, admin }));
  await kubelet.start();

  let isStopping = false;
  const stop = async (): Promise<void> => {
    if (isStopping) {
      return;
    }
    isStopping = true;
    engine.stop();
    topology.close();
    connection.close();
    await kubelet.stop();
    process.exit(0);
  };
  process.once('SIGTERM', () => void stop());
  process.once('SIGINT', () => void stop());
  announce(admin.server, control, log);
}

/** Goes on with what the folder holds; what can be told anew at each start is taken from the settings. */
function openEngine(settings: Settings): Engine {
  const file = new StateFile(settings.dataDir);
  const { speed, shard, globalRoot, cellRoot, requiredCount, legacyPods, seed, cells } = settings;
  const serverAddress = new URL(settings.etcdEndpoint).host;
  const config: DataPlaneConfig = {
    speed,
    shard,
    globalRoot,
    cellRoot,
    serverAddress,
    requiredCount,
    legacyPods,
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

function announce(admin: http.Server, control: http.Server, log: Logger): void {
  const urlOf = (server: http.Server) =>
    `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const urls = { adminUrl: urlOf(admin), controlUrl: urlOf(control) };
  log.info(urls, 'the data plane runs');
  process.stdout.write(`${JSON.stringify({ ready: true, ...urls })}\n`);
}

main().catch((error: unknown) => {
  process.stderr.write(`${describeError(error)}\n`);
  process.exit(1);
});
