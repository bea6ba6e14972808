import { mkdtemp, readdir, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type FolderBounds, folderSegments } from '#shared/archive/folder-segments.ts';

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'archive-'));
});

afterEach(() => rm(folder, { recursive: true }));

const roomy: FolderBounds = { keptMs: 3_600_000, maxBytes: 1_000_000 };
const signal = AbortSignal.timeout(60_000);

async function bytesOf(source: AsyncIterable<Uint8Array>): Promise<string> {
  return Buffer.concat(await Array.fromAsync(source)).toString();
}

describe('an archive in a folder', () => {
  test('gives back what was put, in the order of the keys, behind a key', async () => {
    const archive = folderSegments(folder, roomy);
    for (const key of ['d/c/2026/02/b.jsonl.gz', 'd/c/2026/01/a.jsonl.gz', 'd/x/2026/a.jsonl.gz']) {
      await archive.put(key, Buffer.from(key), signal);
    }

    expect(await Array.fromAsync(archive.list('d/c/'))).toEqual([
      'd/c/2026/01/a.jsonl.gz',
      'd/c/2026/02/b.jsonl.gz',
    ]);
    expect(await Array.fromAsync(archive.list('d/c/', 'd/c/2026/01/z'))).toEqual([
      'd/c/2026/02/b.jsonl.gz',
    ]);
    expect(await bytesOf(archive.get('d/x/2026/a.jsonl.gz'))).toBe('d/x/2026/a.jsonl.gz');
  });

  test('is empty before anything was put, and has no bytes for what is gone', async () => {
    const archive = folderSegments(join(folder, 'new'), roomy);

    expect(await Array.fromAsync(archive.list('d/'))).toEqual([]);
    expect(await bytesOf(archive.get('d/a.jsonl.gz'))).toBe('');
  });

  test('can be read by its owner alone', async () => {
    const archive = folderSegments(folder, roomy);

    await archive.put('d/a.jsonl.gz', Buffer.from('a'), signal);

    expect((await stat(join(folder, 'd'))).mode & 0o077).toBe(0);
    expect((await stat(join(folder, 'd/a.jsonl.gz'))).mode & 0o077).toBe(0);
  });

  test('shows nothing of a segment that was never finished', async () => {
    const archive = folderSegments(folder, roomy);
    await archive.put('d/a.jsonl.gz', Buffer.from('a'), signal);
    await writeFile(join(folder, 'd/b.jsonl.gz.unfinished'), 'half');

    expect(await Array.fromAsync(archive.list('d/'))).toEqual(['d/a.jsonl.gz']);
  });

  test('lets go what is too old, unfinished or not, with the folder that it was in', async () => {
    await folderSegments(folder, roomy).put('decisions/old/a.jsonl.gz', Buffer.from('a'), signal);
    const unfinished = join(folder, 'decisions/old/b.jsonl.gz.unfinished');
    await writeFile(unfinished, 'half');
    const longAgo = new Date(Date.now() - 2 * roomy.keptMs);
    await utimes(join(folder, 'decisions/old/a.jsonl.gz'), longAgo, longAgo);
    await utimes(unfinished, longAgo, longAgo);

    await folderSegments(folder, roomy).put('decisions/new/c.jsonl.gz', Buffer.from('c'), signal);

    expect(await readdir(join(folder, 'decisions'))).toEqual(['new']);
  });

  test('lets go the oldest where there is too much', async () => {
    const full: FolderBounds = { ...roomy, maxBytes: 250 };
    for (const [place, name] of ['a', 'b', 'c'].entries()) {
      await folderSegments(folder, full).put(`d/${name}.jsonl.gz`, Buffer.alloc(100), signal);
      const time = new Date(Date.now() - (10 - place) * 1000);
      await utimes(join(folder, `d/${name}.jsonl.gz`), time, time);
    }
    await folderSegments(folder, full).put('d/d.jsonl.gz', Buffer.alloc(100), signal);

    expect(await readdir(join(folder, 'd'))).toEqual(['c.jsonl.gz', 'd.jsonl.gz']);
  });
});
