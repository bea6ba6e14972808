import { once } from 'node:events';

/** That somebody wants this process to end. */
export interface AskedToStop extends Disposable {
  /** Aborts when it is asked. */
  readonly signal: AbortSignal;
  /** Resolves when it is asked. */
  readonly asked: Promise<unknown>;
}

export interface StopOptions {
  /** Called at the first; what it returns is the reason that the signal aborts for. */
  readonly onAsked?: () => unknown;
  /** Asks as well when it aborts. */
  readonly also?: AbortSignal;
}

const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** Hears Ctrl-C, SIGTERM and the end of the terminal. The first of them asks; a second one ends the process at once. */
export function askedToStop({ onAsked, also }: StopOptions = {}): AskedToStop {
  const stopping = new AbortController();
  const hear = (): void => {
    if (stopping.signal.aborted) {
      process.exit(1);
    }
    stopping.abort(onAsked?.());
  };
  for (const signal of signals) {
    process.on(signal, hear);
  }
  const signal = also === undefined ? stopping.signal : AbortSignal.any([stopping.signal, also]);
  return {
    signal,
    asked: signal.aborted ? Promise.resolve() : once(signal, 'abort'),
    [Symbol.dispose]() {
      for (const each of signals) {
        process.off(each, hear);
      }
    },
  };
}
