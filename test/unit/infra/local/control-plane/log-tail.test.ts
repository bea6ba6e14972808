import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { readLastLines } from '#infra/local/control-plane/log-tail.ts';

let path: string;

beforeEach(async () => {
  path = join(await mkdtemp(join(tmpdir(), 'millrace-log-test-')), 'program.log');
});

afterEach(async () => {
  await rm(join(path, '..'), { recursive: true, force: true });
});

describe('the last lines of a log', () => {
  test('are as many as asked for, the newest last', async () => {
    await writeFile(path, 'one\ntwo\n\nthree\n');

    expect(await readLastLines(path, 2)).toEqual(['two', 'three']);
  });

  test('are found in a log of any size', async () => {
    await writeFile(path, `${'x'.repeat(200_000)}\nlast\n`);

    expect(await readLastLines(path, 1)).toEqual(['last']);
  });

  test('leave out what was there before a given point', async () => {
    await writeFile(path, 'old\nnew\n');

    expect(await readLastLines(path, 5, 4)).toEqual(['new']);
    expect(await readLastLines(path, 5, 1000)).toEqual([]);
  });

  test('are none when there is no log', async () => {
    expect(await readLastLines(path, 5)).toEqual([]);
  });
});
