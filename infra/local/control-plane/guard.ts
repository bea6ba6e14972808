import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { Socket } from 'node:net';
import { dirname } from 'node:path';

/**
 * Programs that know nothing of us must end with us, also when this process is killed without a chance to tell them.
 *
 * Node gives every program a socket as its descriptor 3, whose other end this process holds. A small shell, the guard,
 * reads from it and gets an end-of-file at the instant this process is gone, whatever ended it; then it kills the
 * program's whole process group, itself included. The program is started by `exec`, so it has the process id that
 * was spawned, and it does not hold the socket. So the end of the socket tells this process that the guard was
 * killed, and the program is then stopped: nothing runs unguarded. Only who kills both, this process and the guard,
 * leaves a program behind.
 *
 * The group cannot be mistaken for another: its number stays taken as long as the guard is in it.
 */
const guardedProgram = `
( read -r _ <&3; kill -s KILL -- "-$$" ) &
exec "$@" 3<&-
`;

/** Removing is tried again for 10 s: a program that is just being killed may still write into the folder. */
const guardedFolder = `
read -r _ <&3
tries=50
until rm -rf -- "$1" || [ "$tries" -eq 0 ]; do tries=$((tries - 1)); sleep 0.2; done
`;

export interface GuardedProcess {
  readonly pid: number;
  /** Resolves with `code 1` or `signal SIGKILL` when the program and its guard have ended, for whatever reason. */
  readonly exited: Promise<string>;
  /** Does nothing once the program has ended. */
  signal(signal: NodeJS.Signals): void;
  /** SIGTERM, then SIGKILL after the grace; resolves when the program has ended. */
  stop(graceMs: number): Promise<void>;
}

export interface GuardedProgram {
  readonly command: string;
  readonly flags: readonly string[];
  /** Gets everything the program writes to stdout and stderr, appended. */
  readonly logPath: string;
  /** The program's whole environment. */
  readonly environment: Readonly<Record<string, string>>;
  readonly workingDir?: string;
}

/** Starts a program that dies with this process. One that cannot be run ends with `code 126` or `code 127`. */
export function startGuarded(program: GuardedProgram): GuardedProcess {
  const log = openSync(program.logPath, 'a', 0o600);
  const child = spawn(
    '/bin/sh',
    ['-c', guardedProgram, 'guard', program.command, ...program.flags],
    {
      cwd: program.workingDir ?? dirname(program.logPath),
      // A session of its own: Ctrl-C on the terminal must reach this process only, which stops its programs in order.
      detached: true,
      env: program.environment,
      stdio: ['ignore', log, log, 'pipe'],
    },
  );
  closeSync(log);
  const lifeline = lifelineOf(child);
  lifeline.once('end', () => child.kill('SIGKILL'));
  lifeline.resume();
  const exited = endOf(child, lifeline);
  return {
    pid: child.pid ?? 0,
    exited,
    signal: (signal) => void child.kill(signal),
    async stop(graceMs) {
      child.kill('SIGTERM');
      const timer = setTimeout(() => child.kill('SIGKILL'), graceMs);
      await exited;
      clearTimeout(timer);
    },
  };
}

export interface GuardedFolder {
  readonly path: string;
  remove(): Promise<void>;
}

/**
 * Makes a folder that is removed with everything in it by `remove`, or when this process ends without it.
 *
 * @param prefix the start of its absolute path, to which a random part is added
 */
export async function makeGuardedFolder(prefix: string): Promise<GuardedFolder> {
  await mkdir(dirname(prefix), { recursive: true });
  const path = await mkdtemp(prefix);
  const child = spawn('/bin/sh', ['-c', guardedFolder, 'guard', path], {
    cwd: '/',
    detached: true,
    stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
  });
  // A forgotten folder does not keep this process from ending; it is removed then.
  child.unref();
  const lifeline = lifelineOf(child);
  lifeline.unref();
  const removed = endOf(child, lifeline);
  return {
    path,
    async remove() {
      child.ref();
      lifeline.ref();
      lifeline.end();
      lifeline.resume();
      await removed;
      // For the case that somebody killed the guard before.
      await rm(path, { recursive: true, force: true });
    },
  };
}

function lifelineOf(child: ChildProcess): Socket {
  const lifeline = child.stdio[3];
  if (!(lifeline instanceof Socket)) {
    throw new TypeError('a guard needs a socket as descriptor 3');
  }
  // A guard that is killed first breaks the socket; its end is seen and handled as the child's end.
  lifeline.on('error', () => {});
  return lifeline;
}

async function endOf(child: ChildProcess, lifeline: Socket): Promise<string> {
  try {
    const exited = once(child, 'exit').then((values) => {
      // Ends the guard as well, and whatever the program left in its group; `close` comes when they are gone.
      lifeline.end();
      return values as [number | null, string | null];
    });
    const [[code, signal]] = await Promise.all([exited, once(child, 'close')]);
    return signal === null ? `code ${code}` : `signal ${signal}`;
  } catch (error) {
    return String(error);
  }
}
