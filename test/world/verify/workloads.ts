import { readdirSync } from 'node:fs';
import type { PlanName } from '#test/world/run/plans.ts';
import type { Workload } from '#test/world/run/workload.ts';

const folder = new URL('../workloads/', import.meta.url);

/** Every workload of every file in test/world/workloads. A new step adds a file there, and nothing else. */
export async function everyWorkload(): Promise<readonly Workload[]> {
  const found: Workload[] = [];
  for (const file of readdirSync(folder).toSorted()) {
    const module: object = (await import(new URL(file, folder).href)) as object;
    if ('workloads' in module && Array.isArray(module.workloads)) {
      found.push(...(module.workloads as Workload[]));
    }
  }
  const names = new Set(found.map(({ name }) => name));
  if (names.size !== found.length || found.length === 0) {
    throw new Error('two workloads have the same name, or there are none');
  }
  return found;
}

/** Throws for a name that no workload has. */
export async function workloadOf({ workload: wanted }: PlanName): Promise<Workload> {
  const workload = (await everyWorkload()).find(({ name }) => name === wanted);
  if (workload === undefined) {
    throw new Error(`there is no workload ${JSON.stringify(wanted)}`);
  }
  return workload;
}
