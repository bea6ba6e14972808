import { homedir } from 'node:os';
import { isAbsolute, join, resolve } from 'node:path';
import * as z from 'zod';

/** Where the control plane's programs may come from. */
export interface BinarySettings {
  /** A folder with etcd and kube-apiserver that somebody else provides. */
  readonly assetsDir?: string;
  /** Holds what was built before, one folder per program and version. */
  readonly cacheDir: string;
  /** The environment of the Go tool: proxies, module cache, toolchain are the user's choice. */
  readonly buildEnvironment: Readonly<Record<string, string>>;
}

// Unset and empty mean the same, and the base directory specification tells to ignore a relative cache path.
const environmentSchema = z.object({
  KUBEBUILDER_ASSETS: z.string().optional(),
  XDG_CACHE_HOME: z.string().optional(),
});

/** Reads KUBEBUILDER_ASSETS and XDG_CACHE_HOME (`~/.cache` without it). */
export function loadBinarySettings(
  environment: Readonly<Record<string, string | undefined>> = process.env,
): BinarySettings {
  const { KUBEBUILDER_ASSETS: assetsDir = '', XDG_CACHE_HOME: cacheHome = '' } =
    environmentSchema.parse(environment);
  return {
    ...(assetsDir === '' ? {} : { assetsDir: resolve(assetsDir) }),
    cacheDir: join(isAbsolute(cacheHome) ? cacheHome : join(homedir(), '.cache'), 'millrace'),
    buildEnvironment: Object.fromEntries(
      Object.entries(environment).flatMap(([name, value]) =>
        value === undefined ? [] : [[name, value]],
      ),
    ),
  };
}
