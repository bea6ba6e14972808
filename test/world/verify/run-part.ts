import { Worker } from 'node:worker_threads';
import type { Part, PartOptions, PartReport } from './part.ts';
import type { WorkerTask } from './worker.ts';

type FromWorker = { readonly progress: string } | { readonly report: PartReport };

/** Runs a part in so many threads at once, each with its share, and adds up what they report. */
export async function runPart(
  part: Part,
  options: Omit<PartOptions, 'share'>,
  jobs: number,
  onProgress: (text: string) => void,
): Promise<PartReport> {
  const taken = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
  const reports = await Promise.all(
    Array.from({ length: jobs }, (_, index) =>
      runWorker(
        { part: part.name, options: { ...options, share: { index, of: jobs, taken } } },
        onProgress,
      ),
    ),
  );
  return reports.reduce(added);
}

function runWorker(task: WorkerTask, onProgress: (text: string) => void): Promise<PartReport> {
  const worker = new Worker(new URL('worker.ts', import.meta.url), { workerData: task });
  const { promise, resolve, reject } = Promise.withResolvers<PartReport>();
  worker.on('message', (message: FromWorker) => {
    if ('report' in message) {
      resolve(message.report);
    } else {
      onProgress(message.progress);
    }
  });
  worker.on('error', reject);
  worker.on('exit', (code) => reject(new Error(`a worker of ${task.part} ended with ${code}`)));
  return promise;
}

/** Sums, but for figures whose name begins with `most`. */
export function added(one: PartReport, other: PartReport): PartReport {
  const names = new Set([...Object.keys(one.figures), ...Object.keys(other.figures)]);
  const figures = Object.fromEntries(
    [...names].map((name) => {
      const [a = 0, b = 0] = [one.figures[name], other.figures[name]];
      return [name, name.startsWith('most') ? Math.max(a, b) : a + b];
    }),
  );
  return {
    figures,
    violations: [...one.violations, ...other.violations],
    evaluated: addedCounts(one.evaluated, other.evaluated),
    covered: [...new Set([...one.covered, ...other.covered])],
  };
}

function addedCounts(
  one: PartReport['evaluated'],
  other: PartReport['evaluated'],
): PartReport['evaluated'] {
  const ids = new Set([...Object.keys(one), ...Object.keys(other)]);
  return Object.fromEntries(
    [...ids].map((id) => {
      const sum: Record<string, number> = { ...one[id] };
      for (const [workload, count] of Object.entries(other[id] ?? {})) {
        sum[workload] = (sum[workload] ?? 0) + count;
      }
      return [id, sum];
    }),
  );
}
