import { createHash } from 'node:crypto';
import { copyFile, mkdir, readFile, rename } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type BinarySettings, loadBinarySettings } from '#infra/local/control-plane/config.ts';
import { makeGuardedFolder, startGuarded } from '#infra/local/control-plane/guard.ts';
import { isFile } from '#infra/local/control-plane/is-file.ts';
import { readLastLines } from '#infra/local/control-plane/log-tail.ts';

const pinned = fileURLToPath(new URL('runtime-client', import.meta.url));
const pinnedFiles = ['package.json', 'package-lock.json'];

/** Lines of npm's output that a failure is explained with. */
const explainingLines = 15;

/**
 * The file that Lambda's Node runtime starts a function with: the published runtime client, built in the cache on first
 * use, which takes about a minute and needs cmake, make and a C++ compiler.
 *
 * It is no dependency of the project: its native part is built by install scripts, and nobody else runs any.
 *
 * @throws Error with the last lines of npm where it cannot be built; nothing is left behind then
 */
export async function obtainRuntimeClient(
  log: (text: string) => void,
  settings: BinarySettings = loadBinarySettings(),
): Promise<string> {
  const folder = await folderFor(settings);
  if (!(await isBuilt(folder))) {
    log('building Lambda’s runtime client (about a minute, only this once)');
    await build(folder, settings);
  }
  return join(clientIn(folder), 'index.mjs');
}

/** One for each set of pinned packages: a changed pin never meets what an older one left. */
async function folderFor({ cacheDir }: BinarySettings): Promise<string> {
  const digest = createHash('sha256').update(await readFile(join(pinned, 'package-lock.json')));
  const platform = `${process.platform}-${process.arch}`;
  return join(cacheDir, `lambda-client-${digest.digest('hex').slice(0, 12)}-${platform}`);
}

/** It appears complete or not at all. */
async function build(target: string, { buildEnvironment }: BinarySettings): Promise<void> {
  const folder = await makeGuardedFolder(`${target}.part-`);
  try {
    const made = join(folder.path, 'package');
    await mkdir(made);
    for (const name of pinnedFiles) {
      await copyFile(join(pinned, name), join(made, name));
    }
    const logPath = join(folder.path, 'install.log');
    const end = await startGuarded({
      command: 'npm',
      flags: ['ci', '--no-audit', '--no-fund'],
      logPath,
      workingDir: made,
      environment: { ...buildEnvironment, ...(await ownHeaders()) },
    }).exited;
    if (end !== 'code 0' || !(await isBuilt(made))) {
      const lines = await readLastLines(logPath, explainingLines);
      throw new Error(`building Lambda’s runtime client ended with ${end}:\n${lines.join('\n')}`);
    }
    await rename(made, target).catch(async (error: unknown) => {
      // Another process made the same one meanwhile.
      if (!(await isBuilt(target))) {
        throw error;
      }
    });
  } finally {
    await folder.remove();
  }
}

function clientIn(folder: string): string {
  return join(folder, 'node_modules', 'aws-lambda-ric');
}

function isBuilt(folder: string): Promise<boolean> {
  return isFile(join(clientIn(folder), 'rapid-client.node'));
}

/** Where this Node came with its headers nothing is downloaded to compile against. */
async function ownHeaders(): Promise<Record<string, string>> {
  const home = dirname(dirname(process.execPath));
  const isThere = await isFile(join(home, 'include/node/node_api.h'));
  return isThere ? { npm_config_nodedir: home } : {};
}
