import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type BinarySettings, loadBinarySettings } from '#infra/local/control-plane/config.ts';
import { makeGuardedFolder, startGuarded } from '#infra/local/control-plane/guard.ts';
import { isFile } from '#infra/local/control-plane/is-file.ts';
import { readLastLines } from '#infra/local/control-plane/log-tail.ts';
import { type OnProgress, reportProgress } from '#infra/local/control-plane/progress.ts';

const run = promisify(execFile);

const requirementsPath = fileURLToPath(new URL('requirements.txt', import.meta.url));

/** The pinned packages are complete from this Python on; older ones need more. */
const oldestPython = { major: 3, minor: 11 };

/** Lines of pip's output that a failure is explained with. */
const explainingLines = 15;

/** What `pip install` may do: take exactly the pinned files, run nothing of theirs, and look for nothing else. */
const installFlags = ['--no-deps', '--require-hashes', '--only-binary', ':all:', '--no-input'];

/**
 * The Python interpreter of an environment that holds the AWS stand-in and cfn-lint, made in the cache on first use.
 *
 * Throws with the last lines of pip where it cannot be made; nothing is left behind then.
 */
export async function obtainCloudPython(
  onProgress?: OnProgress,
  settings: BinarySettings = loadBinarySettings(),
): Promise<string> {
  const folder = await environmentFolder(settings);
  const python = pythonIn(folder);
  if (!(await isFile(python))) {
    await reportProgress(
      onProgress,
      'installing the AWS stand-in and cfn-lint (only this once)',
      () => makeEnvironment(folder, settings),
    );
  }
  return python;
}

/** Why the AWS stand-in cannot run on this machine, or `undefined` when it can, be it after an installation. */
export async function findMissingPython(
  settings: BinarySettings = loadBinarySettings(),
): Promise<string | undefined> {
  if (await isFile(pythonIn(await environmentFolder(settings)))) {
    return undefined;
  }
  const { major, minor } = oldestPython;
  const needed = `Python ${major}.${minor} or newer with its modules venv and ensurepip is needed`;
  try {
    // Debian has both modules in a package of their own, and venv finds out late that the other one is missing.
    const script = 'import ensurepip, venv, sys; print("%d.%d" % sys.version_info[:2])';
    const { stdout } = await run('python3', ['-c', script], { env: settings.buildEnvironment });
    const [foundMajor = 0, foundMinor = 0] = stdout.trim().split('.').map(Number);
    const isRecent = foundMajor > major || (foundMajor === major && foundMinor >= minor);
    return isRecent ? undefined : `python3 is Python ${stdout.trim()}; ${needed}`;
  } catch {
    return `no usable python3 on the PATH; ${needed}`;
  }
}

/** A folder per set of packages: a changed pin never meets what an older one left. */
async function environmentFolder({ cacheDir }: BinarySettings): Promise<string> {
  const digest = createHash('sha256').update(await readFile(requirementsPath));
  const platform = `${process.platform}-${process.arch}`;
  return join(cacheDir, `cloud-${digest.digest('hex').slice(0, 12)}-${platform}`);
}

function pythonIn(folder: string): string {
  return join(folder, 'bin', 'python');
}

/** It appears complete or not at all. Python finds its packages from where it lies, so it can be moved. */
async function makeEnvironment(target: string, settings: BinarySettings): Promise<void> {
  const folder = await makeGuardedFolder(`${target}.part-`);
  try {
    const made = join(folder.path, 'environment');
    const logPath = join(folder.path, 'install.log');
    await runLogged('python3', ['-m', 'venv', made], logPath, settings);
    const pip = ['-m', 'pip', 'install', ...installFlags, '--requirement', requirementsPath];
    await runLogged(pythonIn(made), pip, logPath, settings);
    await rename(made, target).catch(async (error: unknown) => {
      // Another process made the same one meanwhile.
      if (!(await isFile(pythonIn(target)))) {
        throw error;
      }
    });
  } finally {
    await folder.remove();
  }
}

async function runLogged(
  command: string,
  flags: readonly string[],
  logPath: string,
  { buildEnvironment }: BinarySettings,
): Promise<void> {
  const end = await startGuarded({ command, flags, logPath, environment: buildEnvironment }).exited;
  if (end !== 'code 0') {
    const lines = await readLastLines(logPath, explainingLines);
    throw new Error(
      `installing the AWS stand-in and cfn-lint ended with ${end}:\n${lines.join('\n')}`,
    );
  }
}
