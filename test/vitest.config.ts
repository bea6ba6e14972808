import { defineConfig } from 'vitest/config';

/**
 * Three projects: `unit` needs nothing but Node; `cluster` runs against a real API server and etcd, two files at
 * a time, because each brings up a control plane of its own and waits for most of its time; `deploy` adds a stand-in for AWS and deploys to it. A test's
 * time limit ends one that hangs; it says nothing about speed, and holds on a machine many times slower.
 */
export default defineConfig({
  test: {
    root: new URL('..', import.meta.url).pathname,
    projects: [
      {
        test: {
          name: 'unit',
          include: ['test/unit/**/*.test.ts'],
          testTimeout: 120_000,
          hookTimeout: 120_000,
        },
      },
      {
        test: {
          name: 'cluster',
          include: ['test/cluster/**/*.test.ts'],
          maxWorkers: 2,
          testTimeout: 120_000,
          hookTimeout: 900_000,
          sequence: { groupOrder: 1 },
        },
      },
      {
        test: {
          name: 'deploy',
          include: ['test/deploy/**/*.test.ts'],
          fileParallelism: false,
          testTimeout: 120_000,
          hookTimeout: 900_000,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
});
