import { pino, type DestinationStream, type Logger } from 'pino';

export type { Logger };

/**
 * JSON lines on stdout, no worker threads. Messages are constants; what varies is in fields.
 * Secrets never reach a field: the redaction is the second line of defence, not the first.
 */
export function createLogger(
  level: string,
  bindings: Record<string, unknown>,
  destination?: DestinationStream,
): Logger {
  const options = {
    level,
    base: bindings,
    timestamp: () => `,"at":"${new Date().toISOString()}"`,
    formatters: { level: (label: string) => ({ level: label }) },
    redact: {
      paths: ['token', 'password', 'authorization', '*.token', '*.password', '*.authorization'],
      censor: '[hidden]',
    },
  };
  return destination === undefined ? pino(options) : pino(options, destination);
}
