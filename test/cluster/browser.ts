import type { Browser } from 'playwright-core';
import { afterAll, beforeAll } from 'vitest';
import { findBrowser, startBrowser } from './chromium.ts';

/** Where every check must run, a missing browser is a failure; elsewhere what needs it is skipped, and says so. */
const isRequired = (process.env['CI'] ?? '') !== '';

/** Why no page can be opened here, for `describe.skipIf(missingBrowser)`. Always `undefined` in CI: there the start fails. */
export const missingBrowser: string | undefined =
  isRequired || findBrowser() !== undefined
    ? undefined
    : 'there is no Chromium on the PATH; on Debian: apt-get install chromium';

if (missingBrowser !== undefined) {
  process.stderr.write(`tests of the page are skipped: ${missingBrowser}\n`);
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
