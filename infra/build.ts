import { execFile } from 'node:child_process';
import { gzipSync } from 'node:zlib';
import { cp, readFile, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify, styleText } from 'node:util';
import { type Plugin, build } from 'esbuild';
import { stepNames, sweepName } from '#shared/api/steps.ts';
import { bundleSettings } from './bundle-settings.ts';
import { handlerBudgetBytes } from './handler-budget.ts';

const run = promisify(execFile);
const root = new URL('..', import.meta.url).pathname;
const output = join(root, 'dist');

interface Bundle {
  /** The folder it goes to below `dist`. */
  readonly name: string;
  /** From the root. */
  readonly entry: string;
  readonly external: readonly string[];
  /** The most it may weigh without what it loads lazily, in bytes. */
  readonly budgetBytes: number;
}

/** The clients of the AWS SDK are part of the nodejs24.x runtime and stay outside; what else it has, the runtime may not. */
const clients = '@aws-sdk/client-*';

const steps: readonly Bundle[] = stepNames.map((step) => ({
  name: step,
  entry: `functions/${step}/handler.ts`,
  external: [clients],
  budgetBytes: handlerBudgetBytes,
}));

/** It sends as the relay does, with the chain of credentials for that. */
const sweep: Bundle = {
  name: sweepName,
  entry: `functions/${sweepName}/handler.ts`,
  external: [clients],
  budgetBytes: 250_000,
};

/**
 * Runs for ever, so its budget is memory: each kilobyte here costs several there, and one big package that is no longer
 * loaded lazily would double it. Nothing is outside: the image that runs it has Node and this folder.
 */
const relay: Bundle = {
  name: 'relay',
  entry: 'events/relay/main.ts',
  external: [],
  budgetBytes: 400_000,
};

/**
 * An ESM import of `node:http` reads all its exports, and among them are three that load Node's fetch library when they are
 * read: 12 MB of memory and most of the time that a handler's import takes, as measured on Node 24. Taken from Node as a
 * CommonJS module the exports stay unread until somebody uses them.
 */
const unreadHttp: Plugin = {
  name: 'unread-http',
  setup(building) {
    building.onResolve({ filter: /^(node:)?http$/ }, ({ kind }) =>
      // Names that are taken from a CommonJS module lazily are lost; see refuseNameless.
      kind === 'dynamic-import' ? undefined : { path: 'node:http', namespace: 'builtin' },
    );
    building.onLoad({ filter: /./, namespace: 'builtin' }, ({ path }) => ({
      contents: `module.exports = process.getBuiltinModule('${path}');`,
    }));
  },
};

/**
 * One bundle per function, and the relay's: ESM with source maps, lazily imported adapters in chunks of their own.
 * Exits 1 when a bundle is over its budget.
 */
await rm(output, { recursive: true, force: true });
for (const step of steps) {
  const folder = await bundle(step);
  await cp(join(root, 'node_modules/etcd3/proto'), join(folder, 'proto'), { recursive: true });
  await load(await modulesIn(folder));
}
await load(await modulesIn(await bundle(sweep)));
await checkRelay(await bundle(relay));
if (process.exitCode === 1) {
  console.error('a bundle is over its budget; see what grew with esbuild’s metafile analysis');
}

/** @returns the folder it is in */
async function bundle({ name, entry, external, budgetBytes }: Bundle): Promise<string> {
  const folder = join(output, name);
  const { metafile } = await build({
    entryPoints: { index: join(root, entry) },
    outdir: folder,
    outExtension: { '.js': '.mjs' },
    absWorkingDir: root,
    ...bundleSettings,
    splitting: true,
    sourcemap: true,
    sourcesContent: false,
    metafile: true,
    logLevel: 'warning',
    external: [...external],
    plugins: [unreadHttp],
    // Of a package in both forms the ESM one: only of that one can be left out what nobody uses.
    mainFields: ['module', 'main'],
  });
  refuseNameless(metafile.outputs);
  const eager = eagerFiles(metafile.outputs, `dist/${name}/index.mjs`);
  const bytes = eager.reduce((sum, file) => sum + (metafile.outputs[file]?.bytes ?? 0), 0);
  const compressed = (
    await Promise.all(eager.map(async (file) => gzipSync(await readFile(join(root, file))).length))
  ).reduce((sum, size) => sum + size, 0);
  const chunks = (await modulesIn(folder)).length - eager.length;
  const isOver = bytes > budgetBytes;
  console.log(
    [
      styleText(isOver ? 'red' : 'green', isOver ? '✗' : '✓'),
      name.padEnd(16),
      `${(bytes / 1000).toFixed(0)} of ${budgetBytes / 1000} kB at start`,
      `(${(compressed / 1000).toFixed(0)} kB compressed)`,
      `${chunks} chunk${chunks === 1 ? '' : 's'} loaded when needed`,
    ].join('  '),
  );
  if (isOver) {
    process.exitCode = 1;
  }
  return folder;
}

/**
 * A CommonJS package that is imported lazily has, unlike in Node, nothing but a default export in its chunk, and the
 * names that are taken from it are undefined. A file of our own between, which imports it statically, mends that.
 */
function refuseNameless(outputs: Record<string, { entryPoint?: string; exports: string[] }>): void {
  const nameless = Object.values(outputs).find(({ exports }) => exports.join() === 'default');
  if (nameless !== undefined) {
    throw new Error(`${nameless.entryPoint} is CommonJS and imported lazily; see refuseNameless`);
  }
}

async function modulesIn(folder: string): Promise<string[]> {
  const files = await readdir(folder);
  return files.filter((file) => file.endsWith('.mjs')).map((file) => join(folder, file));
}

/** A bundle that cannot be loaded is none: each of these files is, in a process of its own. */
async function load(files: readonly string[]): Promise<void> {
  const script = `for (const file of ${JSON.stringify(files)}) await import(file); process.exit();`;
  await run(process.execPath, ['--input-type=module', '--eval', script]);
}

/** Its entry runs at once, and must get as far as to miss its configuration. */
async function checkRelay(folder: string): Promise<void> {
  const entry = join(folder, 'index.mjs');
  await load((await modulesIn(folder)).filter((file) => file !== entry));
  const end = await run(process.execPath, [entry], { env: {} }).catch((error: unknown) => error);
  if (!(end instanceof Error && 'code' in end && end.code === 2)) {
    throw new Error('the relay’s bundle does not start', { cause: end });
  }
}

/** The files that are read before anything runs: the entry and what it imports statically. */
function eagerFiles(
  outputs: Record<string, { imports: { path: string; kind: string }[] }>,
  entry: string,
): readonly string[] {
  const seen = new Set<string>();
  const queue = [entry];
  for (let file = queue.pop(); file !== undefined; file = queue.pop()) {
    if (!seen.has(file)) {
      seen.add(file);
      const statics =
        outputs[file]?.imports.filter(({ kind }) => kind === 'import-statement') ?? [];
      queue.push(...statics.map(({ path }) => path).filter((path) => path in outputs));
    }
  }
  return [...seen];
}
