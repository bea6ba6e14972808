import { execFile } from 'node:child_process';
import { stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { makeGuardedFolder } from '#infra/local/control-plane/guard.ts';
import { handlerBudgetBytes } from '#infra/handler-budget.ts';
import { type StepName, stepNames } from '#shared/api/steps.ts';
import { bundlePeer } from './bundle-peer.ts';
import { median } from './distribution.ts';
import { type Figure, figure } from './figure.ts';
import type { Part } from './part.ts';

const run = promisify(execFile);
const root = new URL('../..', import.meta.url).pathname;

/** Runs of each import; the two are taken in turn, so that a machine that drifts drifts for both. */
const runs = 9;

/** The peer’s source. */
const peerSource =
  "import { CoreV1Api, KubeConfig } from '@kubernetes/client-node'; export const handler = () => new KubeConfig().makeApiClient(CoreV1Api);";

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
      const peer = join(folder.path, 'peer.mjs');
      await bundlePeer({ stdin: { contents: peerSource, resolveDir: root } }, peer);
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

async function measureStep(step: StepName, peer: string): Promise<Figure[]> {
  const bundle = join(root, 'dist', step, 'index.mjs');
  const sizes = { ours: (await stat(bundle)).size, theirs: (await stat(peer)).size };
  const times = await importTimes(bundle, peer);
  return [
    figure(`bundle: ${step}, entry file`, sizes.ours / 1000, 'kB', {
      goal: handlerBudgetBytes / 1000,
      peer: sizes.theirs / 1000,
    }),
    figure(`bundle: ${step}, import`, times.ours, 'ms', {
      goal: Number(times.theirs.toPrecision(4)),
      peer: times.theirs,
    }),
  ];
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
