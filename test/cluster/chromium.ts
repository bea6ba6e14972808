import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { type Browser, chromium } from 'playwright-core';

/** The names under which distributions install it; Debian's is the first. */
const programs = ['chromium', 'chromium-browser', 'google-chrome'];

/** The browser of this machine: none is downloaded. `undefined` where there is none. */
export function findBrowser(): string | undefined {
  const folders = (process.env['PATH'] ?? '').split(delimiter);
  return programs
    .flatMap((program) => folders.map((folder) => join(folder, program)))
    .find(isRunnable);
}

function isRunnable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Starts the browser without a window. Its sandbox needs rights that a container's root has not; it opens our own page alone. */
export function startBrowser(): Promise<Browser> {
  const executablePath = findBrowser();
  if (executablePath === undefined) {
    throw new Error('there is no Chromium on the PATH; on Debian: apt-get install chromium');
  }
  return chromium.launch({ executablePath, args: ['--no-sandbox', '--headless=new'] });
}
