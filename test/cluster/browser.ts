import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { type Browser, chromium } from 'playwright-core';
import { afterAll, beforeAll } from 'vitest';

/** Where every check must run, a missing browser is a failure; elsewhere what needs it is skipped, and says so. */
const isRequired = (process.env['CI'] ?? '') !== '';

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

/** Why no page can be opened here, for `describe.skipIf(missingBrowser)`. Always `undefined` in CI: there the start fails. */
export const missingBrowser: string | undefined =
  isRequired || findBrowser() !== undefined
    ? undefined
    : 'there is no Chromium on the PATH; on Debian: apt-get install chromium';

if (missingBrowser !== undefined) {
  process.stderr.write(`tests of the page are skipped: ${missingBrowser}\n`);
}

/** Starts the browser without a window. Its sandbox needs rights that a container's root has not; it opens our own page alone. */
export function startBrowser(): Promise<Browser> {
  const executablePath = findBrowser();
  if (executablePath === undefined) {
    throw new Error('there is no Chromium on the PATH; on Debian: apt-get install chromium');
  }
  return chromium.launch({ executablePath, args: ['--no-sandbox', '--headless=new'] });
}

/** Gives the suite it is called in a browser, from before its first to after its last test. */
export function useBrowser(): () => Browser {
  let browser: Browser | undefined;

  beforeAll(async () => {
    browser = missingBrowser === undefined ? await startBrowser() : undefined;
  });

  afterAll(async () => {
    await browser?.close();
  });

  return () => {
    if (browser === undefined) {
      throw new Error(missingBrowser ?? 'the browser runs only during tests');
    }
    return browser;
  };
}
