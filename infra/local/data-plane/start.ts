import { mkdir, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import * as z from 'zod';
import { type Child, type LaunchOptions, launch } from '#infra/local/child/launch.ts';
import { type DataPlaneControl, connectControl } from './control-client.ts';
import {
  type Settings,
  type SettingsInput,
  type SingleSettingsInput,
  settingsSchema,
  singleSettingsSchema,
} from './settings.ts';

/** Lists pods once and opens two ports for each data plane; the API server may still be warming up. */
const readyTimeoutMs = 60_000;

const stopGraceMs = 5_000;

const announcement = z.object({
  dataPlanes: z.array(z.object({ adminUrl: z.url(), controlUrl: z.url() })),
});

/** Where one data plane can be asked, and broken. */
export interface DataPlaneAccess {
  /** Of the admin service's REST interface. The same over restarts, as the next one. */
  readonly adminUrl: string;
  readonly controlUrl: string;
  readonly faults: DataPlaneControl;
}

export interface DataPlaneProcess {
  /** Of the process that runs, or ran last. */
  readonly pid: number;
  /** SIGKILL; resolves when the process is gone. */
  kill(): Promise<void>;
  /** Starts it again on its folder and ports, after a kill where it still runs; resolves when it serves. */
  restart(): Promise<void>;
  /** SIGTERM; resolves when the process is gone. Its folder stays. */
  stop(): Promise<void>;
}

export interface DataPlane extends DataPlaneAccess, DataPlaneProcess {}

/** Several data planes in one process: one node with the members of many shards. */
export interface DataPlanes extends DataPlaneProcess {
  /** In the order in which they were asked for. */
  readonly each: readonly DataPlaneAccess[];
}

type Lines = Pick<LaunchOptions<unknown>, 'onLine' | 'onErrorLine'>;

/**
 * Starts a data plane as a process of its own, which dies with this one, and resolves when it serves.
 *
 * @param input.server of the API server; `token` must be allowed to bind, patch and delete pods, to patch the status of
 *   claims, and to create and patch nodes
 */
export async function startDataPlane(input: SingleSettingsInput & Lines): Promise<DataPlane> {
  const { onLine, onErrorLine, ...settings } = input;
  const {
    server,
    ca,
    token,
    etcdEndpoint,
    etcdAccess,
    dataDir,
    speed,
    nodeName,
    selector,
    ...dataPlane
  } = singleSettingsSchema.parse(settings);
  const planes = await startDataPlanes({
    server,
    ca,
    token,
    etcdEndpoint,
    etcdAccess,
    dataDir,
    speed,
    nodeName,
    selector,
    dataPlanes: [dataPlane],
    ...linesOf({ onLine, onErrorLine }),
  });
  const [access] = planes.each;
  if (access === undefined) {
    throw new Error('the data plane announced no address');
  }
  return {
    ...access,
    get pid() {
      return planes.pid;
    },
    kill: () => planes.kill(),
    restart: () => planes.restart(),
    stop: () => planes.stop(),
  };
}

/** Starts one process for many data planes, each with pods, etcd prefixes and ports of its own; else as the single one. */
export async function startDataPlanes(input: SettingsInput & Lines): Promise<DataPlanes> {
  const { onLine, onErrorLine, ...rest } = input;
  const lines = linesOf({ onLine, onErrorLine });
  const settings = settingsSchema.parse({ ...rest, dataDir: resolve(rest.dataDir) });
  let child = await launchProcess(settings, lines);
  const announced = child.announced.dataPlanes;
  const samePorts = {
    ...settings,
    dataPlanes: settings.dataPlanes.map((plane, place) => ({
      ...plane,
      adminPort: portOf(announced[place]?.adminUrl),
      controlPort: portOf(announced[place]?.controlUrl),
    })),
  };
  const kill = async (): Promise<void> => {
    child.signal('SIGKILL');
    await child.exited;
  };
  return {
    each: announced.map((urls) => ({ ...urls, faults: connectControl(urls.controlUrl) })),
    get pid() {
      return child.pid;
    },
    kill,
    async restart() {
      await kill();
      child = await launchProcess(samePorts, lines);
    },
    stop: () => child.stop(stopGraceMs),
  };
}

function linesOf({ onLine, onErrorLine }: { [K in keyof Lines]: Lines[K] | undefined }): Lines {
  return {
    ...(onLine === undefined ? {} : { onLine }),
    ...(onErrorLine === undefined ? {} : { onErrorLine }),
  };
}

function portOf(url: string | undefined): number {
  return url === undefined ? 0 : Number(new URL(url).port);
}

async function launchProcess(
  settings: Settings,
  lines: Lines,
): Promise<Child<z.infer<typeof announcement>>> {
  await mkdir(settings.dataDir, { recursive: true, mode: 0o700 });
  const path = join(settings.dataDir, 'settings.json');
  await writeFile(path, JSON.stringify(settings, null, 2), { mode: 0o600 });
  return launch({
    name: 'the data plane',
    entry: new URL('main.ts', import.meta.url),
    environment: { MILLRACE_DATA_PLANE_SETTINGS: path },
    announcement,
    readyTimeoutMs,
    ...lines,
  });
}
