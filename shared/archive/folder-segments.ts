import { type Dirent, createReadStream } from 'node:fs';
import { mkdir, readdir, rename, rm, rmdir, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { SegmentReader, SegmentWriter } from './archive.ts';

/** How long a folder keeps a segment, how much it holds at most, and how often that is looked after by a writer. */
const keptMs = 30 * 24 * 3_600_000;
const maxBytes = 256 * 1024 * 1024;
const tidyEveryMs = 10 * 60_000;

/** Behind the name of a segment that is being written. One that stays was left by a writer that was killed. */
const unfinishedEnd = '.unfinished';

export interface FolderBounds {
  readonly keptMs: number;
  readonly maxBytes: number;
}

/**
 * Segments as files below a folder, readable by their owner alone. A segment appears as a whole, or not at all. What is too
 * old goes, and the oldest where there is too much.
 */
export function folderSegments(
  folder: string,
  bounds: FolderBounds = { keptMs, maxBytes },
): SegmentReader & SegmentWriter {
  let tidiedAt = -Infinity;
  return {
    async put(key, bytes, signal) {
      const path = join(folder, key);
      await mkdir(dirname(path), { recursive: true, mode: 0o700 });
      const unfinished = `${path}${unfinishedEnd}`;
      await writeFile(unfinished, bytes, { mode: 0o600, signal });
      await rename(unfinished, path);
      if (Date.now() - tidiedAt > tidyEveryMs) {
        tidiedAt = Date.now();
        await tidy(folder, bounds);
      }
    },
    async *list(prefix, after) {
      const start = prefix.slice(0, prefix.lastIndexOf('/') + 1);
      for await (const key of keysBelow(folder, start)) {
        const isWhole = !key.endsWith(unfinishedEnd);
        if (isWhole && key.startsWith(prefix) && (after === undefined || key > after)) {
          yield key;
        }
      }
    },
    async *folders(prefix) {
      const entries = await entriesOf(join(folder, prefix));
      yield* entries.filter((each) => each.isDirectory()).map(({ name }) => `${prefix}${name}/`);
    },
    async *get(key) {
      try {
        yield* createReadStream(join(folder, key)) as AsyncIterable<Uint8Array>;
      } catch (error) {
        if (!isMissing(error)) {
          throw error;
        }
      }
    },
    close: () => undefined,
  };
}

/** The keys of all files in a folder, in their order, one folder in memory at a time. */
async function* keysBelow(root: string, folder: string): AsyncGenerator<string> {
  for (const entry of await entriesOf(join(root, folder))) {
    const key = `${folder}${entry.name}`;
    if (entry.isDirectory()) {
      yield* keysBelow(root, `${key}/`);
    } else {
      yield key;
    }
  }
}

/** What a folder holds, in the order of names. */
async function entriesOf(folder: string): Promise<readonly Dirent[]> {
  try {
    const entries = await readdir(folder, { withFileTypes: true });
    return entries.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  } catch (error) {
    // Nothing was recorded yet. Of an archive that is somebody else's typing error the caller hears that it is empty.
    if (isMissing(error)) {
      return [];
    }
    throw error;
  }
}

/** Two writers may tidy the same folder: what is gone already is gone. */
async function tidy(folder: string, { keptMs: kept, maxBytes: most }: FolderBounds): Promise<void> {
  const files: { readonly path: string; readonly writtenAt: number; readonly bytes: number }[] = [];
  for await (const key of keysBelow(folder, '')) {
    const path = join(folder, key);
    const found = await stat(path).catch(() => undefined);
    if (found !== undefined) {
      files.push({ path, writtenAt: found.mtimeMs, bytes: found.size });
    }
  }
  const oldest = Date.now() - kept;
  let bytes = 0;
  for (const file of files.toSorted((a, b) => b.writtenAt - a.writtenAt)) {
    bytes += file.bytes;
    if (file.writtenAt < oldest || bytes > most) {
      await rm(file.path, { force: true });
      await removeEmpty(folder, dirname(file.path));
    }
  }
}

/** Folders that nothing is left in, up to the archive's own. One that is not empty is kept by the file system. */
async function removeEmpty(root: string, folder: string): Promise<void> {
  const isGone =
    folder !== root &&
    (await rmdir(folder).then(
      () => true,
      () => false,
    ));
  if (isGone) {
    await removeEmpty(root, dirname(folder));
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}
