import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import * as z from 'zod';

const name = 'running.json';

const runningSchema = z.object({
  v: z.literal(1),
  /** Of `millrace dev` itself. */
  pid: z.number().int().positive(),
  since: z.string(),
  /** The cluster id. */
  cluster: z.string(),
  stage: z.string(),
  region: z.string(),
  queue: z.url(),
  relay: z.url(),
  worker: z.url(),
  /** Where decisions are recorded; absent where they are not. */
  archive: z.string().optional(),
});

/** Where the parts of a `millrace dev` are, for other commands on the same machine. */
export type Running = z.infer<typeof runningSchema>;

/** @param folder the data folder of that `millrace dev` */
export async function writeRunning(folder: string, running: Running): Promise<void> {
  const draft = join(folder, `${name}.new`);
  await writeFile(draft, `${JSON.stringify(running)}\n`, { mode: 0o600 });
  await rename(draft, join(folder, name));
}

export async function removeRunning(folder: string): Promise<void> {
  await rm(join(folder, name), { force: true });
}

/** What runs on a data folder; `undefined` where nothing does. What a killed process has left behind counts as nothing. */
export async function readRunning(folder: string): Promise<Running | undefined> {
  let json: unknown;
  try {
    json = JSON.parse(await readFile(join(folder, name), 'utf8'));
  } catch {
    return undefined;
  }
  const parsed = runningSchema.safeParse(json);
  return parsed.success && isAlive(parsed.data.pid) ? parsed.data : undefined;
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // A process of somebody else's is one all the same.
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}
