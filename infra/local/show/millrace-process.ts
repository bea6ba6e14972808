import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import * as z from 'zod';
import type { DecisionLine } from '#infra/cli/dev/decision-line.ts';

const command = fileURLToPath(new URL('../../cli/millrace.mjs', import.meta.url));

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
  pidOf(part: Part): number;
  /** kill -9; resolves when `dev` has said that the part runs again. */
  killAndAwaitRestart(part: Part): Promise<void>;
  stop(): Promise<void>;
}

export interface MillraceOptions {
  readonly kubeconfig: string;
  readonly namespace: string;
  readonly dataDir: string;
  readonly onDecision: (decision: DecisionLine) => void;
  /** A line of its stderr: progress, warnings, deaths of its children. */
  readonly onRemark: (line: string) => void;
}

/** Starts `millrace dev --install` and resolves when it is ready. */
export async function startMillrace(options: MillraceOptions): Promise<MillraceProcess> {
  const child = spawn(
    process.execPath,
    [
      command,
      'dev',
      '--json',
      '--install',
      '--kubeconfig',
      options.kubeconfig,
      '--namespace',
      options.namespace,
      '--data-dir',
      options.dataDir,
    ],
    { stdio: ['pipe', 'pipe', 'pipe'], detached: true },
  );
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
    relayUrl: announced.relay,
    pidOf: (part) => pids.get(part) ?? 0,
    async killAndAwaitRestart(part) {
      const again = new Promise<void>((resolve) => {
        const listener = (restarted: Part) => {
          if (restarted === part) {
            restarts.delete(listener);
            resolve();
          }
        };
        restarts.add(listener);
      });
      process.kill(pids.get(part) ?? 0, 'SIGKILL');
      await again;
    },
    stop: () => stop(child),
  };
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) {
    return;
  }
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  await exited;
}
