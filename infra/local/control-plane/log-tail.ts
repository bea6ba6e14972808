import { open } from 'node:fs/promises';

/** More than the lines that explain a death are never needed. */
const tailBytes = 16 * 1024;

/**
 * The last lines of a log file; none when there is no such file.
 *
 * @param since leaves out what is before this offset in bytes
 */
export async function readLastLines(
  path: string,
  count: number,
  since = 0,
): Promise<readonly string[]> {
  let file;
  try {
    file = await open(path, 'r');
  } catch {
    return [];
  }
  try {
    const { size } = await file.stat();
    const from = Math.min(size, Math.max(since, size - tailBytes));
    const { buffer, bytesRead } = await file.read(Buffer.alloc(size - from), 0, size - from, from);
    return buffer
      .toString('utf8', 0, bytesRead)
      .split('\n')
      .filter((line) => line !== '')
      .slice(-count);
  } finally {
    await file.close();
  }
}
