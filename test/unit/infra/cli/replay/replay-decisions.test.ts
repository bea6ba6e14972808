import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { segmentKey } from '#shared/archive/archive.ts';
import type { DecisionEntry } from '#shared/archive/entry.ts';
import { folderSegments } from '#shared/archive/folder-segments.ts';
import { decideAgain } from '#infra/cli/replay/decide-again.ts';
import { recordedInFile } from '#infra/cli/replay/recorded-in-file.ts';
import { type ChangedDecision, replayDecisions } from '#infra/cli/replay/replay-decisions.ts';
import { aSnapshotOf, now } from '#test/unit/functions/pool-pods/a-snapshot.ts';
import { runMillrace } from '../run-millrace.ts';
import { anEntry, linesOf, recorded, segmentOf } from './a-recording.ts';

let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-decisions-'));
});

afterAll(() => rm(folder, { recursive: true }));

async function write(name: string, content: string | Uint8Array): Promise<string> {
  const path = join(folder, name);
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, content);
  return path;
}

/** With a member missing, and something that was decided otherwise then. */
async function aChangedEntry(changes: Partial<DecisionEntry['decision']> = {}) {
  const entry = await anEntry(aSnapshotOf(2).wanting(3));
  const { decision } = entry;
  return {
    ...entry,
    ...(decision === undefined ? {} : { decision: { ...decision, ...changes } }),
  };
}

describe('recorded decisions, made again', () => {
  test('are the same where nothing has changed', async () => {
    const looks = [aSnapshotOf(3), aSnapshotOf(2).wanting(3), aSnapshotOf(0).withPausedDatabase()];
    const entries = await Promise.all(looks.map((look) => anEntry(look)));

    const counts = await replayDecisions(recorded(...entries));

    expect(counts).toMatchObject({ compared: 3, same: 3, different: 0 });
  });

  test('differ where a rule of the step was another one, and are named', async () => {
    const changed: ChangedDecision[] = [];
    const entry = await aChangedEntry({ reason: 'ObjectsUpdated' });

    const counts = await replayDecisions(recorded(await anEntry(), entry), {
      onChanged: (each) => changed.push(each),
    });

    expect(counts).toMatchObject({ compared: 2, same: 1, different: 1, inWords: 0 });
    expect(changed).toMatchObject([
      {
        step: 'pool-pods',
        where: 'entry 2',
        differences: [{ field: 'reason', was: 'ObjectsUpdated', is: 'ObjectsMade' }],
        isInWords: false,
      },
    ]);
  });

  test('that differ in a sentence alone are told apart', async () => {
    const counts = await replayDecisions(recorded(await aChangedEntry({ message: 'making' })));

    expect(counts).toMatchObject({ different: 1, inWords: 1 });
  });

  test('count as different where it throws now', async () => {
    const counts = await replayDecisions(recorded(await anEntry()), {
      decide: async () => ({ kind: 'threw', why: 'a defect' }),
    });

    expect(counts).toMatchObject({ compared: 1, different: 1, inWords: 0 });
  });

  test('are not compared without a snapshot, with one of another form, or of a newer release', async () => {
    const unreadable: string[] = [];
    const entries = await Promise.all([
      anEntry(undefined, { snapshot: undefined, cut: true }),
      anEntry(undefined, { snapshot: { shard: 'another form' } }),
      anEntry(undefined, { version: '99.0.0' }),
    ]);

    const counts = await replayDecisions(recorded(...entries), {
      onUnreadable: (where) => unreadable.push(where),
    });

    expect(counts).toMatchObject({ compared: 0, withoutSnapshot: 1, unreadable: 1, newer: 1 });
    expect(unreadable).toEqual(['entry 2']);
  });

  test('are made as of the instant of then', async () => {
    const instants: number[] = [];

    await replayDecisions(recorded(await anEntry()), {
      decide: (step, snapshot, at) => {
        instants.push(at);
        return decideAgain(step, snapshot, at);
      },
    });

    expect(instants).toEqual([now]);
  });
});

describe('recorded decisions are found', () => {
  test('in a folder, compressed or not, in the order of their names', async () => {
    const entry = await anEntry();
    await write('kept/b.jsonl', linesOf(entry, entry));
    await write('kept/a/a.jsonl.gz', await segmentOf(entry));
    await write('kept/README.md', 'no entries');

    const found = await Array.fromAsync(recordedInFile(join(folder, 'kept')));

    expect(found.map(({ where }) => where)).toEqual([
      'a/a.jsonl.gz, entry 1',
      'b.jsonl, entry 1',
      'b.jsonl, entry 2',
    ]);
  });
});

describe('millrace replay --decisions', { timeout: 30_000 }, () => {
  const run = (...words: readonly string[]) => runMillrace(['replay', '--decisions', ...words]);

  test('ends with 0 where all are the same', async () => {
    const file = await write('same.jsonl', linesOf(await anEntry()));

    const { exitCode, stdout, stderr } = await run('--file', file);

    expect([exitCode, stderr]).toEqual([0, '']);
    expect(stdout).toBe('1 decision compared: 1 the same, 0 different\n');
  });

  test('shows what differs, and ends with 1', async () => {
    const file = await write('other.jsonl', linesOf(await aChangedEntry({ reason: 'Paused' })));

    const { exitCode, stdout } = await run('--file', file);

    expect(exitCode).toBe(1);
    expect(stdout).toContain('shd/db/orders  pool-pods  2026-01-01T00:00:00.000Z');
    expect(stdout).toContain('  reason\n  - Paused\n  + ObjectsMade\n');
    expect(stdout).toContain('1 decision compared: 0 the same, 1 different');
  });

  test('lets words differ where it is told to', async () => {
    const file = await write('words.jsonl', linesOf(await aChangedEntry({ message: 'making' })));

    const told = await run('--file', file, '--ignore-words');
    const strict = await run('--file', file, '--json');

    expect([told.exitCode, strict.exitCode]).toEqual([0, 1]);
    expect(told.stdout).toContain('1 of these in words alone');
    expect(JSON.parse(strict.stdout)).toMatchObject({
      counts: { compared: 1, inWords: 1 },
      changed: [{ target: 'shd/db/orders', isInWords: true }],
    });
  });

  test('fails where nothing was compared, and says what was there', async () => {
    const lines = `${linesOf(await anEntry(undefined, { snapshot: undefined }))}no entry\n`;
    const file = await write('nothing.jsonl', lines);

    const { exitCode, stdout, stderr } = await run('--file', file);

    expect(exitCode).toBe(1);
    expect(stdout).toContain('nothing was compared\n1 not compared, without a snapshot');
    expect(stdout).toContain('1 not compared, unreadable');
    expect(stderr).toContain('line 2: it is no entry');
  });

  test('passes over what was not asked for', async () => {
    const file = await write('asked.jsonl', linesOf(await anEntry()));

    const { exitCode, stdout } = await run('--file', file, '--target', 'shd/db/other');

    expect(exitCode).toBe(1);
    expect(stdout).toContain('nothing was compared\n1 passed over');
  });

  test('reads an archive', async () => {
    const archive = join(folder, 'an-archive');
    const shelf = { kind: 'decision', cluster: 'one', step: 'pool-pods' } as const;
    const signal = new AbortController().signal;
    await folderSegments(archive).put(
      segmentKey(shelf, now, 'writer'),
      await segmentOf(await anEntry()),
      signal,
    );

    const { exitCode, stdout } = await run('--archive', `file://${archive}`);

    expect([exitCode, stdout]).toEqual([0, '1 decision compared: 1 the same, 0 different\n']);
  });

  test('says where to look where nothing is found at all', async () => {
    const { exitCode, stdout } = await run('--archive', `file://${join(folder, 'nowhere')}`);

    expect(exitCode).toBe(1);
    expect(stdout).toBe(
      'nothing was compared: there is no decision there. Look at the address, and at the cluster, the steps and the time that are asked for.\n',
    );
  });

  test.each([
    [['--file', 'a', '--archive', 'file:///b'], 'one of them'],
    [[], '--archive <url> or --file <path>'],
    [['--file', '/nowhere.jsonl'], 'there is no file or folder /nowhere.jsonl'],
    [['--archive', 'https://b'], 'is no archive; write it as s3://bucket'],
    [['--file', 'a', '--yes'], '--decisions sends nothing: leave out --yes'],
    [
      ['--file', 'a', '--step', 'other'],
      "argument 'other' is invalid. Allowed choices are drain-step",
    ],
  ])('%j is a usage error that says what to do', async (words, said) => {
    const { exitCode, stderr } = await run(...words);

    expect(exitCode).toBe(2);
    expect(stderr).toContain(said);
  });
});
