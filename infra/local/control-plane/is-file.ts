import { stat } from 'node:fs/promises';

/** Whether there is a file, or a link to one, at this path. */
export async function isFile(path: string): Promise<boolean> {
  const found = await stat(path).catch(() => undefined);
  return found?.isFile() ?? false;
}
