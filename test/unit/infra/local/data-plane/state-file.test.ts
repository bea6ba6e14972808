import { mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { StateFile } from '#infra/local/data-plane/state-file.ts';
import { aSettledCluster } from './simulated-cluster.ts';

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-state-'));
});

afterEach(() => rm(folder, { recursive: true }));

describe('the state file', () => {
  test('gives back what was kept last', () => {
    const { state } = aSettledCluster();

    new StateFile(folder).keep({ ...state, nextOrder: 1 });
    new StateFile(folder).keep(state);

    expect(new StateFile(folder).load()).toEqual(state);
  });

  test('is nothing in a folder that was never used', () => {
    expect(new StateFile(join(folder, 'new')).load()).toBeUndefined();
  });

  test('is never half of a state, though a write was cut off', async () => {
    const { state } = aSettledCluster();
    new StateFile(folder).keep(state);
    const half = (await readFile(join(folder, 'state.json'), 'utf8')).slice(0, 100);
    await writeFile(join(folder, 'state.json.new'), half);

    expect(new StateFile(folder).load()).toEqual(state);
  });

  test('leaves nothing but itself', async () => {
    new StateFile(folder).keep(aSettledCluster().state);

    expect(await readdir(folder)).toEqual(['state.json']);
  });

  test('of another layout is refused', async () => {
    await writeFile(join(folder, 'state.json'), '{"version":0,"state":{}}');

    expect(() => new StateFile(folder).load()).toThrow(/is no state of this version/);
  });
});
