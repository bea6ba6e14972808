import { execFile } from 'node:child_process';
import { stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { makeGuardedFolder } from '#infra/local/control-plane/guard.ts';
import { stepNames } from '#shared/api/steps.ts';
import { median } from './distribution.ts';
import { type Figure, figure } from './figure.ts';
import type { Part } from './part.ts';

const run = promisify(execFile);
const root = new URL('../..', import.meta.url).pathname;

/** Runs of each import; the two are taken in turn, so that a machine that drifts drifts for both. */
const runs = 9;

/** What a cold start reads and parses may weigh, in kB: the budget of the build. */
const bundleGoalKb = 400;

/**
 * What a cold start of a handler costs: the size of the bundle's entry file, and how long its import takes in a process
 * of its own. The peer is a handler as one would write it first, with all of `@kubernetes/client-node`, bundled alike.
 */
export const handlerStart: Part = {
  name: 'bundle',
  title: 'size and import time of the handlers, beside one that imports @kubernetes/client-node',
  async measure({ log }) {
    log('building the bundles');
    const folder = await makeGuardedFolder(join(tmpdir(), 'millrace-bench-'));
    try {
      await run(process.execPath, [join(root, 'infra/build.ts')]);
      const peer = await bundlePeer(folder.path);
      const figures: Figure[] = [];
      for (const step of stepNames) {
        log(`importing ${step} and the peer ${runs} times each`);
        figures.push(...(await measureStep(step, peer)));
      }
      return figures;
    } finally {
      await folder.remove();
    }
  },
};

async function measureStep(step: string, peer: string): Promise<Figure[]> {
  const bundle = join(root, 'dist', step, 'index.mjs');
  const sizes = { ours: (await stat(bundle)).size, theirs: (await stat(peer)).size };
  const times = await importTimes(bundle, peer);
  return [
    figure(`bundle: ${step}, entry file`, sizes.ours / 1000, 'kB', {
      goal: bundleGoalKb,
      peer: sizes.theirs / 1000,
    }),
    figure(`bundle: ${step}, import`, times.ours, 'ms', {
      goal: Number(times.theirs.toPrecision(4)),
      peer: times.theirs,
    }),
  ];
}

async function bundlePeer(target: string): Promise<string> {
  const outfile = join(target, 'peer.mjs');
  await build({
    stdin: {
      contents:
        "import { CoreV1Api, KubeConfig } from '@kubernetes/client-node'; export const handler = () => new KubeConfig().makeApiClient(CoreV1Api);",
      resolveDir: root,
    },
    outfile,
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'node24',
    minify: true,
    keepNames: true,
    logLevel: 'error',
    banner: {
      js: "import { createRequire as __createRequire } from 'node:module'; const require = __createRequire(import.meta.url);",
    },
  });
  return outfile;
}

/** Medians in milliseconds. */
async function importTimes(
  ours: string,
  theirs: string,
): Promise<{ ours: number; theirs: number }> {
  const times: { ours: number[]; theirs: number[] } = { ours: [], theirs: [] };
  for (let turn = 0; turn <= runs; turn += 1) {
    const pair = { ours: await importTime(ours), theirs: await importTime(theirs) };
    // The first pair reads both files from the disk.
    if (turn > 0) {
      times.ours.push(pair.ours);
      times.theirs.push(pair.theirs);
    }
  }
  return { ours: median(times.ours), theirs: median(times.theirs) };
}

/** Milliseconds from before to after the import, in a process of its own. */
async function importTime(file: string): Promise<number> {
  const script = `const before = performance.now(); await import(${JSON.stringify(file)}); console.log(performance.now() - before); process.exit();`;
  const { stdout } = await run(process.execPath, ['--input-type=module', '--eval', script]);
  return Number(stdout);
}
