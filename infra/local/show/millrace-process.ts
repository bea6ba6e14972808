import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import * as z from 'zod';
import type { DecisionLine } from '#infra/cli/dev/decision-line.ts';
import { readEnvironment } from '#infra/cli/settings.ts';
import { freeze } from './freeze.ts';

const ownCommand = fileURLToPath(new URL('../../cli/millrace.mjs', import.meta.url));

/** Part of its queues' names, whatever the caller's environment says. */
export const queueStage = 'local';

export const partNames = ['relay', 'worker', 'queue'] as const;
export type Part = (typeof partNames)[number];

const readyLine = z.object({
  ready: z.literal(true),
  relay: z.url(),
  queue: z.url(),
  pids: z.record(z.enum(partNames), z.number()),
});
const restartedLine = z.object({ restarted: z.enum(partNames), pid: z.number() });
const decisionLine = z.looseObject({ step: z.string(), target: z.string(), outcome: z.string() });

/** `millrace dev` as anybody would run it, seen through what it prints. */
export interface MillraceProcess {
  readonly relayUrl: string;
  readonly queueUrl: string;
  pidOf(part: Part): number;
  /** kill -9; resolves when `dev` has said that the part runs again. */
  killAndAwaitRestart(part: Part): Promise<void>;
  /**
   * kill -9, and `dev`, which would have the part running again within a second, is held (SIGSTOP). Disposing of the answer
   * lets it go on, and resolves when it has said that the part runs again; so does {@link stop}.
   */
  killAndKeepDown(part: Part): Promise<AsyncDisposable>;
  /** SIGSTOP: the part hangs, and nobody restarts it. Disposing of the answer lets it go on; so does {@link stop}. */
  freeze(part: Part): Promise<AsyncDisposable>;
  stop(): Promise<void>;
  /** kill -9 of `dev` itself, which takes its parts with it; resolves when it is gone. */
  kill(): Promise<void>;
}

export interface MillraceOptions {
  /** The path of another installation's `millrace.mjs`; of this one when not given. */
  readonly command?: string;
  readonly kubeconfig: string;
  readonly namespace: string;
  readonly dataDir: string;
  /** How often the sweep looks for what is overdue; as `dev` has it when not given. */
  readonly sweepSeconds?: number;
  /** Records every decision and hint, not only what fails. */
  readonly isRecorded?: boolean;
  readonly onDecision: (decision: DecisionLine) => void;
  /** A line of its stderr: progress, warnings, deaths of its children. */
  readonly onRemark: (line: string) => void;
}

/** `dev` as its lines tell of it. */
interface Dev {
  readonly child: ChildProcess;
  readonly announced: z.infer<typeof readyLine>;
  readonly pidOf: (part: Part) => number;
  /** Resolves when `dev` says that it has started the part again. */
  readonly restartOf: (part: Part) => Promise<void>;
}

/** Starts `millrace dev --install` and resolves when it is ready. */
export async function startMillrace(options: MillraceOptions): Promise<MillraceProcess> {
  const { child, announced, pidOf, restartOf } = await launchDev(options);
  const frozen = new AsyncDisposableStack();
  return {
    relayUrl: announced.relay,
    queueUrl: announced.queue,
    pidOf,
    async killAndAwaitRestart(part) {
      const again = restartOf(part);
      process.kill(pidOf(part), 'SIGKILL');
      await again;
    },
    async killAndKeepDown(part) {
      const again = restartOf(part);
      const held = frozen.use(await freeze(pidOfChild(child)));
      process.kill(pidOf(part), 'SIGKILL');
      return {
        async [Symbol.asyncDispose]() {
          await held[Symbol.asyncDispose]();
          await again;
        },
      };
    },
    freeze: async (part) => frozen.use(await freeze(pidOf(part))),
    async stop() {
      // A part that hangs would hold up the others, which finish what they have begun.
      await frozen.disposeAsync();
      await end(child, 'SIGTERM');
    },
    kill: () => end(child, 'SIGKILL'),
  };
}

async function launchDev(options: MillraceOptions): Promise<Dev> {
  const { sweepSeconds, command = ownCommand } = options;
  const child = spawn(process.execPath, [command, ...wordsOf(options)], {
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true,
    env: {
      ...readEnvironment(),
      ...(sweepSeconds === undefined ? {} : { MILLRACE_SWEEP_SECONDS: String(sweepSeconds) }),
    },
  });
  const errors: string[] = [];
  createInterface({ input: child.stderr }).on('line', (line) => {
    errors.push(line);
    options.onRemark(line);
  });
  const pids = new Map<Part, number>();
  const restarts = new Set<(part: Part) => void>();
  const ready = new Promise<z.infer<typeof readyLine>>((resolve, reject) => {
    child.once('exit', (code) =>
      reject(new Error(`millrace dev ended with code ${code}:\n${errors.slice(-10).join('\n')}`)),
    );
    createInterface({ input: child.stdout }).on('line', (line) => {
      const body: unknown = JSON.parse(line);
      const started = readyLine.safeParse(body);
      const restarted = restartedLine.safeParse(body);
      if (started.success) {
        resolve(started.data);
      } else if (restarted.success) {
        pids.set(restarted.data.restarted, restarted.data.pid);
        restarts.forEach((listener) => listener(restarted.data.restarted));
      } else if (decisionLine.safeParse(body).success) {
        options.onDecision(body as DecisionLine);
      }
    });
  });
  const announced = await ready;
  partNames.forEach((part) => pids.set(part, announced.pids[part]));
  return {
    child,
    announced,
    pidOf(part) {
      const pid = pids.get(part);
      if (pid === undefined) {
        throw new Error(`the ${part} has no process`);
      }
      return pid;
    },
    restartOf: (part) =>
      new Promise((resolve) => {
        const listener = (restarted: Part) => {
          if (restarted === part) {
            restarts.delete(listener);
            resolve();
          }
        };
        restarts.add(listener);
      }),
  };
}

function pidOfChild({ pid }: ChildProcess): number {
  if (pid === undefined) {
    throw new Error('millrace dev has no process');
  }
  return pid;
}

function wordsOf(options: MillraceOptions): readonly string[] {
  const { kubeconfig, namespace, dataDir, isRecorded = false } = options;
  const settings = {
    '--kubeconfig': kubeconfig,
    '--namespace': namespace,
    '--data-dir': dataDir,
    '--stage': queueStage,
  };
  const recording = isRecorded ? ['--record'] : [];
  return ['dev', '--json', '--install', ...recording, ...Object.entries(settings).flat()];
}

async function end(child: ChildProcess, signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) {
    return;
  }
  const exited = once(child, 'exit');
  child.kill(signal);
  await exited;
}
