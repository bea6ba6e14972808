import { appendFile, mkdtemp, readFile, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import {
  type JournalFile,
  auditName,
  openJournal,
  readOpenLetters,
} from '#events/replay/journal-file.ts';
import { plusSeconds } from '#shared/kernel/instant.ts';
import { start } from './letter-world.ts';

let folder: string;

beforeEach(async () => {
  const parent = await mkdtemp(join(tmpdir(), 'millrace-journal-'));
  folder = join(parent, 'replay');
  onTestFinished(() => rm(parent, { recursive: true }));
});

/** A journal that is closed at the end, so that a test may leave it as a kill does. */
async function begin(...of: Parameters<typeof openJournal>): Promise<JournalFile> {
  const journal = await openJournal(...of);
  onTestFinished(() => journal.end({}).catch(() => undefined));
  return journal;
}

test('the next journal knows what the one before has left open', async () => {
  const first = await begin(folder, start, {});
  await first.note('sending', ['a', 'b', 'c', 'd']);
  await first.note('sent', ['a', 'b']);
  await first.note('notSent', ['c']);
  await first.note('deleted', ['a']);

  const next = await begin(folder, plusSeconds(start, 1), {});

  expect(['a', 'b', 'c', 'd'].map((letter) => next.stateOf(letter))).toEqual([
    undefined,
    'sent',
    undefined,
    'sending',
  ]);
});

test('half a line, which a kill leaves behind, hides nothing of what stands before it', async () => {
  const first = await begin(folder, start, {});
  await first.note('sending', ['a']);
  await first.note('sent', ['a']);
  await appendFile(first.path, '{"deleted":["a"');

  const open = await readOpenLetters(folder);

  expect(open.stateOf('a')).toBe('sent');
});

test('what a later replay finished is closed for all that follow', async () => {
  const first = await begin(folder, start, {});
  await first.note('sending', ['a']);
  const second = await begin(folder, plusSeconds(start, 1), {});
  await second.note('sending', ['a']);
  await second.note('sent', ['a']);
  await second.note('deleted', ['a']);

  expect((await readOpenLetters(folder)).size).toBe(0);
});

test('hints of a file leave nothing open', async () => {
  const journal = await begin(folder, start, {}, 'hints');
  await journal.note('sending', ['line 1']);
  await journal.note('sent', ['line 1']);

  expect((await readOpenLetters(folder)).size).toBe(0);
  expect(await readFile(journal.path, 'utf8')).toContain('{"hints":{"sent":["line 1"]}}');
});

test('notes that come together are all written', async () => {
  const journal = await begin(folder, start, {});
  const letters = Array.from({ length: 500 }, (_, place) => `letter-${place}`);

  await Promise.all(letters.map((letter) => journal.note('sending', [letter])));

  const open = await readOpenLetters(folder);
  expect(letters.filter((letter) => open.stateOf(letter) !== 'sending')).toEqual([]);
});

test('a journal goes when no letter can be left of what it tells, and the audit stays', async () => {
  const old = await begin(folder, start, { by: 'somebody' });
  await old.end({ end: 'done' });

  await begin(folder, plusSeconds(start, 16 * 86_400), { by: 'somebody else' });

  const audit = await readFile(join(folder, auditName), 'utf8');
  expect(await readdir(folder)).toHaveLength(2);
  expect(audit.trim().split('\n')).toHaveLength(3);
  expect(audit).toContain('"by":"somebody"');
});

test('only its owner reads it', async () => {
  const journal = await begin(folder, start, {});
  const copies = await journal.keep([{ queue: 'q', id: 'a', why: 'it is no hint', body: 'x' }]);

  const modes = await Promise.all(
    [journal.path, copies, folder].map(async (path) => (await stat(path)).mode & 0o777),
  );

  expect(modes).toEqual([0o600, 0o600, 0o700]);
  expect(await readFile(copies, 'utf8')).toBe(
    '{"queue":"q","id":"a","why":"it is no hint","body":"x"}\n',
  );
});
