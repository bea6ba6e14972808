import { mkdtemp, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { StateFile } from '#infra/local/data-plane/state-file.ts';
import { noBackups } from '#infra/local/data-plane/state.ts';
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

  test.each([0, 1, 100, -100, -3])(
    'is never half of a state, though a write was cut off after %i bytes',
    async (length) => {
      const { state } = aSettledCluster();
      const file = new StateFile(folder);
      file.keep({ ...state, nextOrder: 1_000_001 });
      file.keep({ ...state, nextOrder: 1_000_002 });
      const older = await readFile(join(folder, 'state-1.json'), 'utf8');
      file.keep({ ...state, nextOrder: 1_000_003 });
      const newer = await readFile(join(folder, 'state-1.json'), 'utf8');
      const cut = newer.slice(0, length) + older.slice(newer.slice(0, length).length);
      await writeFile(join(folder, 'state-1.json'), cut);

      const loaded = new StateFile(folder).load();

      expect(newer.length).toBe(older.length);
      expect(loaded?.nextOrder).toBe(1_000_002);
    },
  );

  test('goes on from the last whole state, and keeps that until the next one is whole', async () => {
    const { state } = aSettledCluster();
    const file = new StateFile(folder);
    file.keep({ ...state, nextOrder: 1 });
    file.keep({ ...state, nextOrder: 2 });
    const next = new StateFile(folder);
    next.load();

    next.keep({ ...state, nextOrder: 3 });

    expect(new StateFile(folder).load()?.nextOrder).toBe(3);
    await writeFile(join(folder, 'state-1.json'), '');
    expect(new StateFile(folder).load()?.nextOrder).toBe(2);
  });

  test('is nothing when its very first write was cut off', async () => {
    new StateFile(folder).keep(aSettledCluster().state);
    await truncate(join(folder, 'state-1.json'), 100);

    expect(new StateFile(folder).load()).toBeUndefined();
  });

  test('gives back a short state after a long one', () => {
    const { state } = aSettledCluster();
    const file = new StateFile(folder);
    file.keep(state);
    file.keep(state);

    file.keep({ ...state, members: {}, nextOrder: 7 });

    expect(new StateFile(folder).load()).toEqual({ ...state, members: {}, nextOrder: 7 });
  });

  test('is refused where nothing of it can be read', async () => {
    await writeFile(join(folder, 'state-0.json'), 'x');
    await writeFile(join(folder, 'state-1.json'), 'x');

    expect(() => new StateFile(folder).load()).toThrow(/hold no state/);
  });

  test('of the version before backups is one without any', async () => {
    const { state } = aSettledCluster();
    const { backups: _backups, ...before } = state;
    const line = JSON.stringify({ version: 2, sequence: 7, state: before, end: 7 });
    await writeFile(join(folder, 'state-1.json'), `${line}\n`);

    const file = new StateFile(folder);
    const loaded = file.load();
    file.keep(state);

    expect(loaded).toEqual({ ...before, backups: noBackups });
    expect(new StateFile(folder).load()).toEqual(state);
  });

  test('of another layout is refused', async () => {
    await writeFile(join(folder, 'state-0.json'), '{"version":0,"state":{}}');

    expect(() => new StateFile(folder).load()).toThrow(/is no state of this version/);
  });
});
