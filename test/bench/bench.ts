import { execFile } from 'node:child_process';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { arch, cpus, platform, tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { stepNames } from '#shared/api/steps.ts';

/**
 * Measures what a cold start of a handler costs, beside a handler that imports `@kubernetes/client-node` in the same run.
 * Figures that miss their goal are shown like the others. `--json` prints one line for machines.
 */
interface Figure {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  readonly goal: string;
  readonly met: boolean;
  /** The same for the peer of this run. */
  readonly peer?: number;
}

const run = promisify(execFile);
const root = new URL('../..', import.meta.url).pathname;

/** Runs of each import; the two are taken in turn, so that a machine that drifts drifts for both. */
const runs = 9;

const folder = await mkdtemp(join(tmpdir(), 'millrace-bench-'));
try {
  await run(process.execPath, [join(root, 'infra/build.ts')]);
  const peer = await bundlePeer(folder);
  const figures: Figure[] = [];
  for (const step of stepNames) {
    const bundle = join(root, 'dist', step, 'index.mjs');
    const { size } = await stat(bundle);
    const peerSize = (await stat(peer)).size;
    figures.push(
      figure(
        `${step} bundle, entry file`,
        size / 1000,
        'kB',
        '≤ 400',
        size <= 400_000,
        peerSize / 1000,
      ),
    );
    const { ours, theirs } = await importTimes(bundle, peer);
    figures.push(figure(`${step} import`, ours, 'ms', '≤ the peer’s', ours <= theirs, theirs));
  }
  report(figures);
} finally {
  await rm(folder, { recursive: true, force: true });
}

/** A handler as one would write it first: the whole client library, bundled in the same way. */
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

async function importTimes(
  ours: string,
  theirs: string,
): Promise<{ ours: number; theirs: number }> {
  const times: { ours: number[]; theirs: number[] } = { ours: [], theirs: [] };
  for (let turn = 0; turn <= runs; turn += 1) {
    const pair = { ours: await importTime(ours), theirs: await importTime(theirs) };
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

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

function figure(
  name: string,
  value: number,
  unit: string,
  goal: string,
  met: boolean,
  peer: number,
): Figure {
  const rounded = (amount: number) => Math.round(amount * 10) / 10;
  return { name, value: rounded(value), unit, goal, met, peer: rounded(peer) };
}

function report(figures: readonly Figure[]): void {
  if (process.argv.includes('--json')) {
    console.log(JSON.stringify({ machine: machine(), versions: process.versions.node, figures }));
    return;
  }
  console.log(
    `${machine()}, Node.js ${process.versions.node}; medians of ${runs} runs, the peer imports @kubernetes/client-node\n`,
  );
  for (const { name, value, unit, goal, met, peer } of figures) {
    const ratio =
      peer === undefined ? '' : `  peer ${peer} ${unit} (${(value / peer).toFixed(2)} of it)`;
    console.log(
      `${met ? '✓' : '✗'} ${name.padEnd(32)} ${String(value).padStart(8)} ${unit}  goal ${goal}${ratio}`,
    );
  }
}

function machine(): string {
  return `${platform()} ${arch()}, ${cpus().length} × ${cpus()[0]?.model.trim() ?? 'processor'}`;
}
