/**
 * How an invocation can end badly. The class says what the platform must do with the message next, not what went wrong.
 * Anything thrown that is neither of these is a defect or an unknown: it is retried until the dead-letter queue.
 */
export class TerminalError extends Error {
  /** A CamelCase constant; becomes log field, Event reason and metric label. */
  readonly reason: string;

  constructor(reason: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'TerminalError';
    this.reason = reason;
  }
}

/** Give the message back; look again after `afterSeconds`, or after the usual backoff when it is not given. */
export class RetryableError extends Error {
  readonly reason: string;
  readonly afterSeconds: number | undefined;

  constructor(reason: string, message: string, options?: ErrorOptions & { afterSeconds?: number }) {
    super(message, options);
    this.name = 'RetryableError';
    this.reason = reason;
    this.afterSeconds = options?.afterSeconds;
  }
}

/** A defect of ours: the executor refused an effect. Never retried into success, so it ends in the dead-letter queue. */
export class RefusedEffect extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'RefusedEffect';
  }
}

/** One line for logs and conditions: an error's message, never its stack or its fields. */
export function describeError(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
