import { readFile, readdir } from 'node:fs/promises';

/** What Linux says of one process, with all its threads. */
export interface ProcessUsage {
  /** Processor time of its living threads since they began, in milliseconds. */
  readonly cpuMs: number;
  /** Resident memory now, in MiB. */
  readonly rssMib: number;
}

/**
 * Reads /proc, so on Linux only. Rejects for a process that has ended.
 *
 * Processor time is what the scheduler has measured for each living thread (`schedstat`, in nanoseconds). The better known
 * times of `stat` are samples taken a hundred times a second, and misjudge a process that works for a fraction of a
 * millisecond at a time.
 */
export async function usageOf(pid: number): Promise<ProcessUsage> {
  const [threads, status] = await Promise.all([
    readdir(`/proc/${pid}/task`),
    readFile(`/proc/${pid}/status`, 'utf8'),
  ]);
  const times = await Promise.all(
    threads.map(async (thread) => {
      const schedstat = await readFile(`/proc/${pid}/task/${thread}/schedstat`, 'utf8');
      return Number(schedstat.split(' ', 1)[0]);
    }),
  );
  const rssKib = Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]);
  return {
    cpuMs: times.reduce((sum, nanoseconds) => sum + nanoseconds, 0) / 1e6,
    rssMib: rssKib / 1024,
  };
}

/** Processor time of several processes since they were first asked for, in milliseconds, by name. */
export class CpuMeter {
  readonly #pids: () => Readonly<Record<string, number>>;
  #before: ReadonlyMap<string, number> = new Map();

  constructor(pids: () => Readonly<Record<string, number>>) {
    this.#pids = pids;
  }

  async start(): Promise<void> {
    this.#before = await this.#read();
  }

  async read(): Promise<ReadonlyMap<string, number>> {
    const now = await this.#read();
    return new Map([...now].map(([name, ms]) => [name, ms - (this.#before.get(name) ?? 0)]));
  }

  async #read(): Promise<Map<string, number>> {
    const entries = Object.entries(this.#pids()).map(
      async ([name, pid]) => [name, (await usageOf(pid)).cpuMs] as const,
    );
    return new Map(await Promise.all(entries));
  }
}
