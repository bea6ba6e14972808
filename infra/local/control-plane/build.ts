import { execFile } from 'node:child_process';
import { mkdir, open, rename, rm, stat, utimes } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { makeGuardedFolder, startGuarded } from './guard.ts';
import { isFile } from './is-file.ts';
import { readLastLines } from './log-tail.ts';
import { type Program, oldestGo } from './program.ts';
import { type OnProgress, reportProgress } from './progress.ts';

const run = promisify(execFile);

/** A builder says this often that it is alive, … */
const heartbeatIntervalMs = 2_000;
/** … and is taken for dead after this much silence. Two builders at once are slow, but harm nothing. */
const silenceMs = 30_000;

/** No path of this machine and no state of this repository in what is built. */
const buildFlags = ['-trimpath', '-buildvcs=false'];

/** Whether the Go tool can build the modules; `why` is what a person reads after "build from source: ". */
export type GoTool = { readonly usable: true } | { readonly usable: false; readonly why: string };

/**
 * Asks the Go tool itself, in the module's folder: an older Go fetches the right one there, where the user allows it.
 */
export async function findGo(
  moduleDir: string,
  environment: Readonly<Record<string, string>>,
): Promise<GoTool> {
  const needed = `Go ${oldestGo.major}.${oldestGo.minor} or newer is needed (https://go.dev/dl)`;
  let version;
  try {
    const { stdout } = await run('go', ['env', 'GOVERSION'], { cwd: moduleDir, env: environment });
    version = stdout.trim();
  } catch (error) {
    const isMissing = error instanceof Error && 'code' in error && error.code === 'ENOENT';
    const refusal = error instanceof Error && 'stderr' in error ? String(error.stderr).trim() : '';
    return {
      usable: false,
      why: isMissing
        ? `no go on the PATH; ${needed}`
        : `go refused: ${refusal === '' ? String(error) : refusal}; ${needed}`,
    };
  }
  const [, major, minor] = /^go(\d+)\.(\d+)/.exec(version) ?? [];
  const isRecent =
    Number(major) > oldestGo.major ||
    (Number(major) === oldestGo.major && Number(minor) >= oldestGo.minor);
  return isRecent ? { usable: true } : { usable: false, why: `found ${version}; ${needed}` };
}

/**
 * Builds a program into the cache. Resolves at once when it is there by the time it is our turn.
 *
 * The file appears complete or not at all. Throws with the compiler's last lines when the build fails.
 *
 * @param target the absolute path of the program to make
 */
export async function buildProgram(
  program: Program,
  target: string,
  environment: Readonly<Record<string, string>>,
  onProgress?: OnProgress,
): Promise<void> {
  await mkdir(dirname(target), { recursive: true });
  const lockPath = `${target}.building`;
  const title = `${program.name} ${program.version}`;
  await reportProgress(onProgress, `waiting for another process to build ${title}`, () =>
    waitForTurn(lockPath),
  );
  const heartbeat = setInterval(() => {
    const now = new Date();
    utimes(lockPath, now, now).catch(() => {
      // Somebody took us for dead, or removed the cache: the rename at the end is safe in both cases.
    });
  }, heartbeatIntervalMs);
  try {
    if (!(await isFile(target))) {
      const estimate = `about ${program.usualBuildMinutes} min on two cores`;
      await reportProgress(
        onProgress,
        `building ${title} from source (only this once, ${estimate})`,
        () => compile(program, target, environment),
      );
    }
  } finally {
    clearInterval(heartbeat);
    await rm(lockPath, { force: true });
  }
}

async function compile(
  program: Program,
  target: string,
  environment: Readonly<Record<string, string>>,
): Promise<void> {
  // In the folder of the target, since a rename is atomic only within one file system.
  const folder = await makeGuardedFolder(`${target}.part-`);
  try {
    const made = join(folder.path, program.name);
    const logPath = join(folder.path, 'build.log');
    const build = startGuarded({
      command: 'go',
      flags: ['build', ...buildFlags, '-ldflags', program.linkerFlags, '-o', made, program.package],
      logPath,
      workingDir: program.moduleDir,
      environment: {
        ...environment,
        // As the official builds: no C compiler needed, and no dependence on the C library of this machine.
        CGO_ENABLED: '0',
        GOWORK: 'off',
        GOTMPDIR: folder.path,
      },
    });
    const end = await build.exited;
    if (end !== 'code 0') {
      const lines = await readLastLines(logPath, 15);
      throw new Error(
        `building ${program.name} ${program.version} ended with ${end}:\n${lines.join('\n')}`,
      );
    }
    await rename(made, target);
  } finally {
    await folder.remove();
  }
}

/** Resolves when the lock file is ours: nobody else held it, or its holder stopped breathing. */
async function waitForTurn(lockPath: string): Promise<void> {
  for (;;) {
    try {
      await (await open(lockPath, 'wx')).close();
      return;
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) {
        throw error;
      }
    }
    const held = await stat(lockPath).catch(() => undefined);
    if (held !== undefined && Date.now() - held.mtimeMs > silenceMs) {
      await rm(lockPath, { force: true });
      continue;
    }
    await delay(250);
  }
}
