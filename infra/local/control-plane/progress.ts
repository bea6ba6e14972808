import { createLogUpdate } from 'log-update';

/** What is being done, and for how long already. */
export interface ProgressUpdate {
  /** `starting etcd`; the same text as long as it is the same activity. */
  readonly activity: string;
  readonly elapsedMs: number;
}

export type OnProgress = (update: ProgressUpdate) => void;

/** How often an activity reports that it goes on. */
const reportIntervalMs = 1_000;

/** Anything shorter needs no line. */
const noteworthyMs = 2_000;

/** Between two lines about the same activity, where lines cannot be redrawn. */
const lineIntervalMs = 15_000;

/** Does the work and reports at its begin, then each second, and at its end. */
export async function reportProgress<T>(
  onProgress: OnProgress | undefined,
  activity: string,
  work: () => Promise<T>,
): Promise<T> {
  const startedAtMs = performance.now();
  const report = () => onProgress?.({ activity, elapsedMs: performance.now() - startedAtMs });
  report();
  const timer = setInterval(report, reportIntervalMs);
  try {
    return await work();
  } finally {
    clearInterval(timer);
    report();
  }
}

export interface ProgressPrinter {
  readonly onProgress: OnProgress;
  /** Leaves the last line as it is. */
  close(): void;
}

/**
 * Prints what takes longer than 2 s: on a terminal one line per activity that is redrawn each second, elsewhere a
 * plain line at first and then every 15 s.
 */
export function printProgress(stream: NodeJS.WriteStream): ProgressPrinter {
  // Some terminals of build services say they have no rows; nothing would ever be drawn there.
  return stream.isTTY && stream.rows > 0
    ? redrawnLine(stream)
    : plainLines((line) => stream.write(`${line}\n`));
}

function redrawnLine(stream: NodeJS.WriteStream): ProgressPrinter {
  const draw = createLogUpdate(stream, { showCursor: true });
  let drawn: string | undefined;
  return {
    onProgress(update) {
      if (drawn !== undefined && drawn !== update.activity) {
        draw.done();
        drawn = undefined;
      }
      if (update.elapsedMs >= noteworthyMs) {
        draw(lineOf(update));
        drawn = update.activity;
      }
    },
    close: () => draw.done(),
  };
}

/** The printer for a stream that cannot go back. */
export function plainLines(write: (line: string) => void): ProgressPrinter {
  let printed: ProgressUpdate | undefined;
  return {
    onProgress(update) {
      const dueMs =
        printed?.activity === update.activity ? printed.elapsedMs + lineIntervalMs : noteworthyMs;
      if (update.elapsedMs >= dueMs) {
        write(lineOf(update));
        printed = update;
      }
    },
    close: () => {
      // Every line is complete already.
    },
  };
}

function lineOf({ activity, elapsedMs }: ProgressUpdate): string {
  const seconds = Math.floor(elapsedMs / 1000);
  const minutes = Math.floor(seconds / 60);
  return `${activity} … ${minutes === 0 ? '' : `${minutes} m `}${seconds % 60} s`;
}
