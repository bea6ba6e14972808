import { mkdir, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import * as z from 'zod';
import { type Child, type LaunchOptions, launch } from '#infra/local/child/launch.ts';
import { type DataPlaneControl, connectControl } from './control-client.ts';
import { type Settings, type SettingsInput, settingsSchema } from './settings.ts';

/** Lists pods once and opens two ports; the API server may still be warming up. */
const readyTimeoutMs = 60_000;

const stopGraceMs = 5_000;

const announcement = z.object({ adminUrl: z.url(), controlUrl: z.url() });

export interface DataPlane {
  /** Of the admin service's REST interface. The same over restarts, as the next one. */
  readonly adminUrl: string;
  readonly controlUrl: string;
  /** Of the process that runs, or ran last. */
  readonly pid: number;
  readonly faults: DataPlaneControl;
  /** SIGKILL; resolves when the process is gone. */
  kill(): Promise<void>;
  /** Starts it again on its folder and ports, after a kill where it still runs; resolves when it serves. */
  restart(): Promise<void>;
  /** SIGTERM; resolves when the process is gone. Its folder stays. */
  stop(): Promise<void>;
}

/**
 * Starts a data plane as a process of its own, which dies with this one, and resolves when it serves.
 *
 * @param input.server of the API server; `token` must be allowed to bind, patch and delete pods, to patch the status of
 *   claims, and to create and patch nodes
 */
export async function startDataPlane(
  input: SettingsInput & Pick<LaunchOptions<unknown>, 'onLine' | 'onErrorLine'>,
): Promise<DataPlane> {
  const { onLine, onErrorLine, ...rest } = input;
  const lines = {
    ...(onLine === undefined ? {} : { onLine }),
    ...(onErrorLine === undefined ? {} : { onErrorLine }),
  };
  const settings = settingsSchema.parse({ ...rest, dataDir: resolve(rest.dataDir) });
  let child = await launchProcess(settings, lines);
  const { adminUrl, controlUrl } = child.announced;
  const samePorts = {
    ...settings,
    adminPort: Number(new URL(adminUrl).port),
    controlPort: Number(new URL(controlUrl).port),
  };
  const kill = async (): Promise<void> => {
    child.signal('SIGKILL');
    await child.exited;
  };
  return {
    adminUrl,
    controlUrl,
    get pid() {
      return child.pid;
    },
    faults: connectControl(controlUrl),
    kill,
    async restart() {
      await kill();
      child = await launchProcess(samePorts, lines);
    },
    stop: () => child.stop(stopGraceMs),
  };
}

async function launchProcess(
  settings: Settings,
  lines: Pick<LaunchOptions<unknown>, 'onLine' | 'onErrorLine'>,
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
