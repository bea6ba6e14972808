import { pino, type DestinationStream, type Logger } from 'pino';
import { version } from '#shared/api/version.ts';
import { mappedStack } from './mapped-stack.ts';

export type { Logger };

/**
 * JSON lines on stdout, no worker threads. Messages are constants; what varies is in fields. Each line says which release
 * wrote it: during an upgrade two of them work side by side.
 * Secrets never reach a field: the redaction is the second line of defence, not the first.
 */
export function createLogger(
  level: string,
  bindings: Record<string, unknown>,
  destination?: DestinationStream,
): Logger {
  const options = {
    level,
    base: { ...bindings, version },
    timestamp: () => `,"at":"${new Date().toISOString()}"`,
    serializers: {
      err: (error: Error) => {
        const told = pino.stdSerializers.err(error);
        return { ...told, stack: mappedStack(told.stack) };
      },
    },
    formatters: { level: (label: string) => ({ level: label }) },
    redact: {
      paths: ['token', 'password', 'authorization', '*.token', '*.password', '*.authorization'],
      censor: '[hidden]',
    },
  };
  return destination === undefined ? pino(options) : pino(options, destination);
}
