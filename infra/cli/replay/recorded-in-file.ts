import { createReadStream } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type Recorded, recordedIn } from '#shared/archive/read-archive.ts';
import { UsageError } from '../usage-error.ts';

/**
 * The entries of a file of JSON lines, or in all `.jsonl` and `.jsonl.gz` below a folder, in the order of their names.
 *
 * @throws UsageError where there is no such file
 */
export async function* recordedInFile(path: string): AsyncGenerator<Recorded> {
  const found = await stat(path).catch(() => undefined);
  if (found === undefined) {
    throw new UsageError(`there is no file or folder ${path}`);
  }
  if (!found.isDirectory()) {
    yield* recordedIn(path, createReadStream(path));
    return;
  }
  const names = await readdir(path, { recursive: true });
  for (const name of names.filter((each) => /\.jsonl(\.gz)?$/.test(each)).toSorted()) {
    yield* recordedIn(name, createReadStream(join(path, name)));
  }
}
