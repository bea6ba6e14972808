import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { type Running, readRunning, removeRunning, writeRunning } from '#infra/cli/dev/running.ts';

const running: Running = {
  v: 1,
  pid: process.pid,
  since: '2026-01-01T00:00:00Z',
  cluster: 'c',
  stage: 'local',
  region: 'us-east-1',
  queue: 'http://127.0.0.1:1',
  relay: 'http://127.0.0.1:2',
  worker: 'http://127.0.0.1:3',
  archive: 'file:///archive',
};

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-running-'));
  onTestFinished(() => rm(folder, { recursive: true }));
});

test('what runs is found by its data folder until it ends, by its owner alone', async () => {
  expect(await readRunning(folder)).toBeUndefined();

  await writeRunning(folder, running);

  expect(await readRunning(folder)).toEqual(running);
  expect((await stat(join(folder, 'running.json'))).mode & 0o777).toBe(0o600);
  await removeRunning(folder);
  expect(await readRunning(folder)).toBeUndefined();
});

test('what a killed process has left behind counts as nothing', async () => {
  const child = spawn(process.execPath, ['--eval', 'setInterval(() => {}, 1000)']);
  await writeRunning(folder, { ...running, pid: child.pid ?? 0 });
  expect(await readRunning(folder)).toBeDefined();

  child.kill('SIGKILL');
  await once(child, 'exit');

  expect(await readRunning(folder)).toBeUndefined();
});

test.each(['', '{', '{"v":2}', '[]'])('a file with %j in it says nothing', async (text) => {
  await writeFile(join(folder, 'running.json'), text);

  expect(await readRunning(folder)).toBeUndefined();
});
