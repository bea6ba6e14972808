import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

const run = promisify(execFile);

/**
 * The ids of all processes in a process group. One that is dead and only waits for its parent to take note is none:
 * where nobody collects orphans, as in many containers, it stays listed for ever.
 */
export async function livingMembersOf(group: number): Promise<readonly number[]> {
  const { stdout } = await run('ps', ['-A', '-o', 'pid=,pgid=,stat=']);
  return stdout
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter(([, pgid, stat]) => Number(pgid) === group && stat?.startsWith('Z') === false)
    .map(([pid]) => Number(pid));
}
