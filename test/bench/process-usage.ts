import { readFile } from 'node:fs/promises';

/** What Linux says of one process, with all its threads. */
export interface ProcessUsage {
  /** User and system time since its start, in milliseconds. */
  readonly cpuMs: number;
  /** Resident memory now, in MiB. */
  readonly rssMib: number;
}

/** Linux counts processor time in hundredths of a second for every program (USER_HZ, proc(5)). */
const millisecondsPerTick = 10;

/** Reads /proc, so on Linux only. Rejects for a process that has ended. */
export async function usageOf(pid: number): Promise<ProcessUsage> {
  const [stat, status] = await Promise.all([
    readFile(`/proc/${pid}/stat`, 'utf8'),
    readFile(`/proc/${pid}/status`, 'utf8'),
  ]);
  // The second field is the program's name in brackets and may hold blanks; utime and stime are fields 14 and 15.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const ticks = Number(fields[11]) + Number(fields[12]);
  const rssKib = Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]);
  return { cpuMs: ticks * millisecondsPerTick, rssMib: rssKib / 1024 };
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
