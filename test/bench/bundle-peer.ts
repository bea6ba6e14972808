import { type BuildOptions, build } from 'esbuild';

/** Bundles what ours is measured beside in the way ours is bundled, so that neither gains by it. */
export async function bundlePeer(
  source: Required<Pick<BuildOptions, 'stdin'>> | Required<Pick<BuildOptions, 'entryPoints'>>,
  outfile: string,
): Promise<void> {
  await build({
    ...source,
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
}
