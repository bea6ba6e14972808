import { statSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { describeError } from '#shared/kernel/errors.ts';
import { type GuardedProcess, startGuarded } from './guard.ts';
import { readLastLines } from './log-tail.ts';
import { type OnProgress, reportProgress } from './progress.ts';

/** Between two looks whether a component is ready. Each is one request to this machine. */
const probeIntervalMs = 50;

/** A warm start takes 4 s for all three; a cold disk or a loaded machine may need much more. */
const readyTimeoutMs = 90_000;

/** Etcd and the controller manager end within some milliseconds, as measured. */
const stopGraceMs = 5_000;

/** Lines of its log that a death is explained with. */
const explainingLines = 12;

/** Nothing else of our environment is handed on: etcd, for one, takes its configuration from ETCD_ variables. */
export const bareEnvironment = { PATH: '/usr/bin:/bin' };

/** A component ended, or never became ready. The message ends with the last lines of its log. */
export class ComponentDied extends Error {
  /** The port it was to listen on belongs to somebody else. */
  readonly isPortTaken: boolean;

  constructor(name: string, end: string, logPath: string, lines: readonly string[]) {
    super([`${name} ${end}; the last lines of ${logPath}:`, ...lines].join('\n'));
    this.name = 'ComponentDied';
    this.isPortTaken = lines.some((line) => line.includes('address already in use'));
  }
}

export interface ComponentPlan {
  /** For messages: `the API server`. */
  readonly name: string;
  readonly command: string;
  readonly flags: readonly string[];
  /** Gets what it writes to stdout and stderr. */
  readonly logPath: string;
  /** Its whole environment; a PATH and nothing else when absent. */
  readonly environment?: Readonly<Record<string, string>>;
  /** Whether it serves. A rejection means not yet, and its message why. */
  isReady(): Promise<boolean>;
  readonly onProgress?: OnProgress | undefined;
  /** Told in one message when the component ends though nobody killed or stopped it. */
  readonly onUnexpectedExit?: ((message: string) => void) | undefined;
}

/** One program of the control plane, that can be killed and started again in place. */
export interface Component {
  /** Of the process that runs, or ran last. */
  readonly pid: number;
  /** SIGKILL; resolves when the process is gone. */
  kill(): Promise<void>;
  /**
   * Starts it again with the same data, port and flags, after a kill where it still runs; resolves when ready.
   * Throws when it does not get there, be it that it was killed or stopped meanwhile.
   */
  restart(): Promise<void>;
  /** For good: SIGTERM, and SIGKILL after 5 s; resolves when the process is gone. */
  stop(): Promise<void>;
}

/** Starts a component and resolves when it is ready. Throws {@link ComponentDied}; nothing is left running then. */
export async function startComponent(plan: ComponentPlan): Promise<Component> {
  let current = startProcess(plan);
  let isStopped = false;
  await waitUntilReady(plan, current);
  return {
    get pid() {
      return current.process.pid;
    },
    kill: () => end(current, 0),
    async restart() {
      await end(current, 0);
      if (isStopped) {
        throw new Error(`${plan.name} was stopped for good`);
      }
      current = startProcess(plan);
      await waitUntilReady(plan, current);
    },
    async stop() {
      isStopped = true;
      await end(current, stopGraceMs);
    },
  };
}

interface Run {
  readonly process: GuardedProcess;
  /** Where its part of the log begins: what an earlier run wrote explains nothing. */
  readonly logOffset: number;
  isEndExpected: boolean;
}

async function end(run: Run, graceMs: number): Promise<void> {
  run.isEndExpected = true;
  if (graceMs === 0) {
    run.process.signal('SIGKILL');
    await run.process.exited;
  } else {
    await run.process.stop(graceMs);
  }
}

function startProcess(plan: ComponentPlan): Run {
  const { command, flags, logPath, environment = bareEnvironment } = plan;
  return {
    logOffset: statSync(logPath, { throwIfNoEntry: false })?.size ?? 0,
    process: startGuarded({ command, flags, logPath, environment }),
    isEndExpected: false,
  };
}

/** Ends the process where it does not become ready; watches over it from then on where it does. */
async function waitUntilReady(plan: ComponentPlan, run: Run): Promise<void> {
  try {
    await reportProgress(plan.onProgress, `starting ${plan.name}`, () =>
      probeUntilReady(plan, run),
    );
  } catch (error) {
    await end(run, 0);
    throw error;
  }
  void reportUnexpectedEnd(plan, run);
}

async function probeUntilReady(plan: ComponentPlan, run: Run): Promise<void> {
  const deadlineMs = performance.now() + readyTimeoutMs;
  const ended = run.process.exited.then((end) => ({ kind: 'ended' as const, end }));
  for (;;) {
    const look = await Promise.race([ended, probe(plan)]);
    if (look.kind === 'ready') {
      return;
    }
    if (look.kind === 'ended') {
      throw await death(plan, run, `ended with ${look.end} before it was ready`);
    }
    if (performance.now() > deadlineMs) {
      throw await death(plan, run, `was not ready within ${readyTimeoutMs / 1000} s (${look.why})`);
    }
    await Promise.race([ended, delay(probeIntervalMs)]);
  }
}

type Look = { readonly kind: 'ready' } | { readonly kind: 'notYet'; readonly why: string };

async function probe(plan: ComponentPlan): Promise<Look> {
  try {
    return (await plan.isReady())
      ? { kind: 'ready' }
      : { kind: 'notYet', why: 'it answers, but is not ready' };
  } catch (error) {
    return { kind: 'notYet', why: describeError(error) };
  }
}

async function reportUnexpectedEnd(plan: ComponentPlan, run: Run): Promise<void> {
  const end = await run.process.exited;
  if (!run.isEndExpected) {
    plan.onUnexpectedExit?.((await death(plan, run, `ended with ${end}`)).message);
  }
}

async function death(plan: ComponentPlan, run: Run, end: string): Promise<ComponentDied> {
  const lines = await readLastLines(plan.logPath, explainingLines, run.logOffset);
  return new ComponentDied(plan.name, end, plan.logPath, lines);
}
