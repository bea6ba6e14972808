import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { makeGuardedFolder, startGuarded } from '#infra/local/control-plane/guard.ts';
import { livingMembersOf } from './process-table.ts';

const environment = { PATH: '/usr/bin:/bin' };
const patience = { timeout: 10_000, interval: 20 };

let dir: string;
let logPath: string;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'millrace-guard-test-'));
  logPath = join(dir, 'program.log');
});

afterEach(async () => {
  await rm(dir, { recursive: true, force: true });
});

function start(command: string, ...flags: string[]) {
  return startGuarded({ command, flags, logPath, environment });
}

describe('a guarded program', () => {
  test('has the process id that is told, and its output in the log', async () => {
    const program = start('/bin/sh', '-c', 'echo "I am $$"; echo "trouble" >&2');

    const end = await program.exited;

    expect(end).toBe('code 0');
    expect(await readFile(logPath, 'utf8')).toBe(`I am ${program.pid}\ntrouble\n`);
  });

  test('ends with the code or the signal it ended with', async () => {
    const failing = start('/bin/sh', '-c', 'exit 7');
    const killed = start('/bin/sh', '-c', 'kill -s KILL $$');
    const missing = start(join(dir, 'no-such-program'));

    const ends = await Promise.all([failing.exited, killed.exited, missing.exited]);

    expect(ends).toEqual(['code 7', 'signal SIGKILL', 'code 127']);
  });

  test('in a folder that does not exist ends with the reason', async () => {
    const workingDir = join(dir, 'nowhere');
    const program = startGuarded({ command: 'true', flags: [], logPath, environment, workingDir });

    const end = await program.exited;

    expect(end).toContain('ENOENT');
  });

  test('takes its guard and the processes it left behind along', async () => {
    const program = start('/bin/sh', '-c', 'sleep 600 & exit 0');

    await program.exited;

    await expect.poll(() => livingMembersOf(program.pid), patience).toEqual([]);
  });

  test('is asked to end, and killed when it does not within the grace', async () => {
    const polite = start('sleep', '600');
    const deaf = start('/bin/sh', '-c', 'trap "" TERM; echo deaf; while :; do sleep 0.1; done');
    await expect.poll(() => readFile(logPath, 'utf8'), patience).toContain('deaf');

    await Promise.all([polite.stop(10_000), deaf.stop(100)]);

    expect([await polite.exited, await deaf.exited]).toEqual(['signal SIGTERM', 'signal SIGKILL']);
  });

  test('is killed when its guard is, so that it never runs unguarded', async () => {
    const program = start('sleep', '600');
    await expect.poll(() => livingMembersOf(program.pid), patience).toHaveLength(2);
    const members = await livingMembersOf(program.pid);
    const guard = members.find((pid) => pid !== program.pid) ?? 0;

    process.kill(guard, 'SIGKILL');

    expect(await program.exited).toBe('signal SIGKILL');
  });
});

describe('a guarded folder', () => {
  test('is removed with its content on request', async () => {
    const folder = await makeGuardedFolder(join(dir, 'missing', 'folder-'));
    await writeFile(join(folder.path, 'file'), 'content');

    await folder.remove();

    expect(existsSync(folder.path)).toBe(false);
  });
});

describe.each(['SIGKILL', 'SIGTERM', 'SIGINT'] as const)('after %s of the parent', (signal) => {
  test('its program, the guards and its folder are gone', async () => {
    const fixture = fileURLToPath(new URL('fixtures/parent.ts', import.meta.url));
    const parent = spawn(process.execPath, [fixture, dir], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const lines = createInterface({ input: parent.stdout })[Symbol.asyncIterator]();
    const { value: line = 'nothing, since the parent ended' } = await lines.next();
    const { pid, folder } = JSON.parse(line) as { pid: number; folder: string };
    await expect.poll(() => livingMembersOf(pid), patience).toHaveLength(2);
    expect(existsSync(folder)).toBe(true);

    parent.kill(signal);

    await expect.poll(() => livingMembersOf(pid), patience).toEqual([]);
    await expect.poll(() => existsSync(folder), patience).toBe(false);
  });
});
