import { defineConfig } from 'vitest/config';

/**
 * The unit tests that mutation testing runs for each mutant. Without the properties over thousands of random snapshots:
 * they would take an hour more, and each row is to have a test of its own that fails without it.
 */
// oxlint-disable-next-line import/no-default-export -- the form in which vitest reads a configuration
export default defineConfig({
  test: {
    root: new URL('../../..', import.meta.url).pathname,
    include: [
      'test/unit/functions/**/*.test.ts',
      'test/unit/shared/kernel/**/*.test.ts',
      'test/unit/events/relay/**/*.test.ts',
    ],
    exclude: ['**/*propert*.test.ts'],
    testTimeout: 60_000,
  },
});
