import { randomUUID } from 'node:crypto';
import { createInterface } from 'node:readline';
import { Worker } from 'node:worker_threads';
import type { Context, ScheduledEvent, SQSEvent } from 'aws-lambda';
import { describeError } from '#shared/kernel/errors.ts';

/** Memory of one sandbox. A function that needs more loses its thread, not the worker. */
const memoryMb = 512;

/** Of it, what new objects get: a worker has many sandboxes, and V8 would let each take as much as a process of its own. */
const youngMb = 16;

export interface SandboxOptions {
  /** `millrace-<stage>-<folder under functions/>` */
  readonly functionName: string;
  readonly functionArn: string;
  /** The module that exports `handler`. */
  readonly handler: URL;
  /** The function's whole environment. */
  readonly environment: Readonly<Record<string, string>>;
  /** After so long an invocation is cut off, with its thread. */
  readonly timeoutMs: number;
  /** How long the module may take to load, which does not count against the invocation. */
  readonly initTimeoutMs: number;
  /** Every line the function writes to `process.stdout` or `process.stderr`. */
  readonly onLine: (line: string) => void;
}

/** How an invocation ended. Only `returned` leaves a warm sandbox with its state behind, and `failed` by a throw. */
export type InvocationResult =
  | { readonly kind: 'returned'; readonly requestId: string; readonly value: unknown }
  | { readonly kind: 'failed'; readonly requestId: string; readonly why: string };

/** A function's context as data; `getRemainingTimeInMillis` is made inside the sandbox. */
type ContextData = Omit<Context, 'getRemainingTimeInMillis' | 'done' | 'fail' | 'succeed'>;

/** What a function is invoked with: a batch of its queue, or the tick of a schedule. */
type InvocationEvent = SQSEvent | ScheduledEvent;

/** What goes into the thread. */
export interface Invocation {
  readonly event: InvocationEvent;
  readonly context: ContextData;
  readonly deadlineMs: number;
}

/** What comes out of the thread. */
export type SandboxReply =
  | { readonly kind: 'initialised' }
  | { readonly kind: 'returned'; readonly json: string }
  | { readonly kind: 'failed'; readonly why: string };

/**
 * One place a function runs in: a thread with its own modules, globals and environment, made at the first invocation,
 * kept warm after it, and thrown away when it times out or crashes.
 */
export interface Sandbox {
  /** Runs one invocation. The next may start only when it has ended. */
  invoke(event: InvocationEvent): Promise<InvocationResult>;
  close(): Promise<void>;
}

export function createSandbox(options: SandboxOptions): Sandbox {
  let warm: Worker | undefined;

  async function discard(): Promise<void> {
    const thread = warm;
    warm = undefined;
    await thread?.terminate();
  }

  async function ready(): Promise<Worker | string> {
    if (warm !== undefined) {
      return warm;
    }
    warm = startThread(options, (thread) => {
      if (warm === thread) {
        warm = undefined;
      }
    });
    const thread = warm;
    const reply = await replyOf(thread, options.initTimeoutMs, 'loading its module');
    if (reply.kind === 'initialised') {
      return thread;
    }
    await discard();
    return reply.kind === 'failed' ? reply.why : 'it answered before it was asked';
  }

  return {
    async invoke(event) {
      const requestId = randomUUID();
      const thread = await ready();
      if (typeof thread === 'string') {
        return { kind: 'failed', requestId, why: thread };
      }
      const answer = replyOf(thread, options.timeoutMs, 'the invocation');
      const invocation: Invocation = {
        event,
        context: contextOf(options, requestId),
        deadlineMs: Date.now() + options.timeoutMs,
      };
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- threads have no origin
      thread.postMessage(invocation);
      const reply = await answer;
      if (reply.kind === 'returned') {
        return { kind: 'returned', requestId, value: JSON.parse(reply.json) as unknown };
      }
      if (reply.kind === 'lost') {
        await discard();
      }
      return {
        kind: 'failed',
        requestId,
        why: reply.kind === 'initialised' ? 'it started again by itself' : reply.why,
      };
    },
    close: discard,
  };
}

function startThread(options: SandboxOptions, onExit: (thread: Worker) => void): Worker {
  const thread = new Worker(new URL('sandbox-thread.ts', import.meta.url), {
    workerData: { handlerUrl: options.handler.href },
    env: {
      ...options.environment,
      AWS_LAMBDA_FUNCTION_NAME: options.functionName,
      AWS_LAMBDA_FUNCTION_MEMORY_SIZE: String(memoryMb),
      AWS_LAMBDA_FUNCTION_VERSION: '$LATEST',
    },
    // Nothing of this process's own flags: a preload meant for it must not run in every sandbox.
    execArgv: [],
    resourceLimits: {
      maxOldGenerationSizeMb: memoryMb - youngMb,
      maxYoungGenerationSizeMb: youngMb,
    },
    stdout: true,
    stderr: true,
  });
  createInterface({ input: thread.stdout }).on('line', options.onLine);
  createInterface({ input: thread.stderr }).on('line', options.onLine);
  // An idle sandbox may crash too: a rejection nobody awaited. The next invocation then starts a cold one.
  thread.on('error', (error) => options.onLine(describeError(error)));
  thread.once('exit', () => onExit(thread));
  return thread;
}

/** The thread's next message; `lost` when it ends or stays silent first, after which the thread is of no use. */
function replyOf(
  thread: Worker,
  timeoutMs: number,
  what: string,
): Promise<SandboxReply | { readonly kind: 'lost'; readonly why: string }> {
  return new Promise((resolve) => {
    const settle = (reply: SandboxReply | { kind: 'lost'; why: string }): void => {
      clearTimeout(timer);
      thread.off('message', settle);
      thread.off('error', onError);
      thread.off('exit', onExit);
      resolve(reply);
    };
    const onError = (error: unknown): void => {
      settle({ kind: 'lost', why: `the sandbox crashed: ${describeError(error)}` });
    };
    const onExit = (code: number): void => {
      settle({ kind: 'lost', why: `the sandbox ended with code ${code}` });
    };
    const timer = setTimeout(() => {
      settle({ kind: 'lost', why: `${what} timed out after ${timeoutMs / 1000} s` });
    }, timeoutMs);
    thread.on('message', settle);
    thread.on('error', onError);
    thread.on('exit', onExit);
  });
}

function contextOf(options: SandboxOptions, requestId: string): ContextData {
  return {
    awsRequestId: requestId,
    callbackWaitsForEmptyEventLoop: true,
    functionName: options.functionName,
    functionVersion: '$LATEST',
    invokedFunctionArn: options.functionArn,
    memoryLimitInMB: String(memoryMb),
    logGroupName: `/aws/lambda/${options.functionName}`,
    logStreamName: 'local',
  };
}
