import middy from '@middy/core';
import type { Context } from 'aws-lambda';
import type { Logger } from './logger.ts';
import type { Telemetry } from './telemetry.ts';

/** What is kept free at the end of an invocation, in milliseconds, to answer whoever invoked. */
const closingTimeMs = 1_000;

/** What every function needs besides what it does. */
export interface SandboxParts {
  readonly logger: Logger;
  /** Aborts after so many milliseconds. */
  readonly deadlineIn: (delayMs: number) => AbortSignal;
  /** Where its numbers go; nowhere when absent. */
  readonly telemetry?: Telemetry;
}

/**
 * A Lambda handler whose clients are made on the first invocation of its sandbox and kept. Each log line carries the id
 * of its invocation, and whether that one made them.
 *
 * @param assemble makes the clients; where it fails the invocation does too, and the next one tries again
 */
export function inSandbox<Event, Result, Parts extends SandboxParts>(
  assemble: () => Promise<Parts>,
  run: (event: Event, remainingMs: () => number, parts: Parts) => Promise<Result>,
) {
  let parts: Promise<Parts> | undefined;
  const handler = async (event: Event, context: Context): Promise<Result> => {
    const isColdStart = parts === undefined;
    parts ??= assemble().catch((error: unknown) => {
      parts = undefined;
      throw error;
    });
    const ready = await parts;
    const logger = ready.logger.child({
      requestId: context.awsRequestId,
      ...(isColdStart ? { coldStart: true } : {}),
    });
    return run(event, () => context.getRemainingTimeInMillis(), { ...ready, logger });
  };
  return middy(handler);
}

/** Aborts what an invocation still waits for while there is time left to answer. */
export function deadlineOf(
  { deadlineIn }: Pick<SandboxParts, 'deadlineIn'>,
  remainingMs: () => number,
): AbortSignal {
  return deadlineIn(Math.max(0, remainingMs() - closingTimeMs));
}
