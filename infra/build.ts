import { execFile } from 'node:child_process';
import { gzipSync } from 'node:zlib';
import { cp, readFile, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify, styleText } from 'node:util';
import { build } from 'esbuild';
import { stepNames } from '#shared/api/steps.ts';

/** The most a handler may weigh without what it loads lazily, in bytes: what a cold start reads and parses. */
const budgetBytes = 400_000;

const root = new URL('..', import.meta.url).pathname;
const output = join(root, 'dist');

/**
 * One bundle per handler: ESM with source maps, its lazily imported adapters in chunks of their own.
 * The AWS SDK is part of the nodejs24.x runtime and stays outside. Exits 1 when a bundle is over its budget.
 */
await rm(output, { recursive: true, force: true });
let isOverBudget = false;
for (const step of stepNames) {
  const { metafile } = await build({
    entryPoints: { index: join(root, 'functions', step, 'handler.ts') },
    outdir: join(output, step),
    outExtension: { '.js': '.mjs' },
    absWorkingDir: root,
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node24',
    sourcemap: true,
    sourcesContent: false,
    minify: true,
    keepNames: true,
    metafile: true,
    logLevel: 'warning',
    external: ['@aws-sdk/*'],
    // CommonJS packages inside an ESM bundle still ask for these three. etcd3 reads `${__dirname}/../proto` when it is
    // loaded, so it is told a folder beside the files that lie in the bundle's own `proto`.
    banner: {
      js: [
        "import { createRequire as __createRequire } from 'node:module';",
        'const require = __createRequire(import.meta.url);',
        "const __filename = import.meta.filename, __dirname = import.meta.dirname + '/lib';",
      ].join(''),
    },
  });
  await cp(join(root, 'node_modules/etcd3/proto'), join(output, step, 'proto'), {
    recursive: true,
  });
  const entry = `dist/${step}/index.mjs`;
  const eager = eagerFiles(metafile.outputs, entry);
  const bytes = eager.reduce((sum, file) => sum + (metafile.outputs[file]?.bytes ?? 0), 0);
  const compressed = (
    await Promise.all(eager.map(async (file) => gzipSync(await readFile(join(root, file))).length))
  ).reduce((sum, size) => sum + size, 0);
  const files = (await readdir(join(output, step))).filter((file) => file.endsWith('.mjs'));
  const chunks = files.length - eager.length;
  await loadEach(files.map((file) => join(output, step, file)));
  const isOver = bytes > budgetBytes;
  isOverBudget ||= isOver;
  console.log(
    [
      styleText(isOver ? 'red' : 'green', isOver ? '✗' : '✓'),
      step.padEnd(16),
      `${(bytes / 1000).toFixed(0)} of ${budgetBytes / 1000} kB at start`,
      `(${(compressed / 1000).toFixed(0)} kB compressed)`,
      `${chunks} chunk${chunks === 1 ? '' : 's'} loaded when needed`,
    ].join('  '),
  );
}
if (isOverBudget) {
  console.error('a bundle is over its budget; see what grew with esbuild’s metafile analysis');
  process.exitCode = 1;
}

/** A bundle that cannot be loaded is none: every file of it is, in a process of its own. */
async function loadEach(files: readonly string[]): Promise<void> {
  const script = `for (const file of ${JSON.stringify(files)}) await import(file); process.exit();`;
  await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', script]);
}

/** The files that are read before the handler can run: the entry and what it imports statically. */
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
