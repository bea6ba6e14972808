import { parentPort, workerData } from 'node:worker_threads';
import { describeError } from '#shared/kernel/errors.ts';
import type { Invocation, SandboxReply } from './sandbox.ts';

/**
 * One sandbox's inside: imports the function once, then runs one invocation after the other, as Lambda's runtime does.
 * Whoever started the thread never sends a second invocation before it has the answer to the first.
 */
const { handlerUrl } = workerData as { handlerUrl: string };

async function initialise(): Promise<void> {
  const module = (await import(handlerUrl)) as { handler?: unknown };
  const { handler } = module;
  if (typeof handler !== 'function') {
    throw new TypeError(`${handlerUrl} exports no function named handler`);
  }
  parentPort?.on('message', (invocation: Invocation) => {
    run(handler as Handler, invocation).then(reply, (error: unknown) => {
      reply({ kind: 'failed', why: describeFailure(error) });
    });
  });
  reply({ kind: 'initialised' });
}

type Handler = (event: unknown, context: unknown) => unknown;

async function run(handler: Handler, invocation: Invocation): Promise<SandboxReply> {
  const { event, context, deadlineMs } = invocation;
  const answer = await handler(event, {
    ...context,
    getRemainingTimeInMillis: () => Math.max(0, deadlineMs - Date.now()),
  });
  // Undefined where the answer has no JSON form; a cycle or a bigint throws and fails the invocation.
  const json = JSON.stringify(answer) as string | undefined;
  return { kind: 'returned', json: json ?? 'null' };
}

function reply(message: SandboxReply): void {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- threads have no origin
  parentPort?.postMessage(message);
}

function describeFailure(error: unknown): string {
  return error instanceof Error && error.stack !== undefined ? error.stack : describeError(error);
}

initialise().catch((error: unknown) => {
  reply({ kind: 'failed', why: describeFailure(error) });
});
