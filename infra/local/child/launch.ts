import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import * as z from 'zod';

const preload = fileURLToPath(new URL('die-with-parent.ts', import.meta.url));

/** Lines of stderr that an early death is explained with. */
const keptErrorLines = 20;

export interface LaunchOptions<T> {
  /** For messages: `the queue`. */
  readonly name: string;
  /** The TypeScript or JavaScript file to run. */
  readonly entry: URL;
  /** The child's whole environment. */
  readonly environment: Readonly<Record<string, string>>;
  /** What the child announces on stdout, in one JSON line with `"ready":true`, once it serves. */
  readonly announcement: z.ZodType<T>;
  /** How long it may take to announce itself. */
  readonly readyTimeoutMs: number;
  /** Every line the child writes to stdout, the announcement aside. */
  readonly onLine?: (line: string) => void;
  /** Every line the child writes to stderr. */
  readonly onErrorLine?: (line: string) => void;
}

export interface Child<T> {
  readonly pid: number;
  readonly announced: T;
  /** Resolves with `code 1` or `signal SIGKILL` when the process has ended, for whatever reason. */
  readonly exited: Promise<string>;
  /** Does nothing once the process has ended. */
  signal(signal: NodeJS.Signals): void;
  /** SIGTERM, then SIGKILL after the grace; resolves when the process has ended. */
  stop(graceMs: number): Promise<void>;
}

/**
 * Starts a Node process that dies with this one, and resolves when it has announced that it serves.
 *
 * Throws when it ends or stays silent before that; nothing is left running then.
 */
export async function launch<T>(options: LaunchOptions<T>): Promise<Child<T>> {
  const entry = fileURLToPath(options.entry);
  const child = spawn(process.execPath, ['--import', preload, entry], {
    env: options.environment,
    // Of its own process group: Ctrl-C reaches the parent alone, which then stops its children in order.
    detached: true,
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  const exited = endOf(child);
  const errorLines: string[] = [];
  createInterface({ input: child.stderr }).on('line', (line) => {
    errorLines.push(line);
    errorLines.splice(0, errorLines.length - keptErrorLines);
    options.onErrorLine?.(line);
  });
  const announced = await Promise.race([
    readAnnouncement(child, options),
    exited.then((end) => {
      const explanation = errorLines.length === 0 ? '' : `:\n${errorLines.join('\n')}`;
      throw new Error(`${options.name} ended before it was ready (${end})${explanation}`);
    }),
    silenceAfter(options.readyTimeoutMs, options.name),
  ]).catch(async (error: unknown) => {
    child.kill('SIGKILL');
    await exited;
    throw error;
  });
  return handleOf(child, announced, exited);
}

function handleOf<T>(child: ChildProcess, announced: T, exited: Promise<string>): Child<T> {
  return {
    pid: child.pid ?? 0,
    announced,
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

async function endOf(child: ChildProcess): Promise<string> {
  try {
    // `close` comes after the last line of its output, unlike `exit`.
    const [code, signal] = (await once(child, 'close')) as [number | null, string | null];
    return signal === null ? `code ${code}` : `signal ${signal}`;
  } catch (error) {
    return String(error);
  }
}

function readAnnouncement<T>(
  child: ChildProcess & { stdout: NodeJS.ReadableStream },
  options: LaunchOptions<T>,
): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  let isAnnounced = false;
  createInterface({ input: child.stdout }).on('line', (line) => {
    const body = isAnnounced ? undefined : parseAnnouncement(line);
    if (body === undefined) {
      options.onLine?.(line);
      return;
    }
    isAnnounced = true;
    const parsed = options.announcement.safeParse(body);
    if (parsed.success) {
      resolve(parsed.data);
    } else {
      reject(new Error(`${options.name} announced itself in an unknown form`));
    }
  });
  return promise;
}

function parseAnnouncement(line: string): unknown {
  try {
    const body: unknown = JSON.parse(line);
    return z.looseObject({ ready: z.literal(true) }).safeParse(body).success ? body : undefined;
  } catch {
    return undefined;
  }
}

function silenceAfter(timeoutMs: number, name: string): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>();
  setTimeout(
    () => reject(new Error(`${name} was not ready within ${timeoutMs / 1000} s`)),
    timeoutMs,
  ).unref();
  return promise;
}
