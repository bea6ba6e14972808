import { type BuildOptions, build } from 'esbuild';
import { bundleSettings } from '#infra/bundle-settings.ts';

/** Bundles what ours is measured beside in the way ours is bundled, so that neither gains by it. */
export async function bundlePeer(
  source: Required<Pick<BuildOptions, 'stdin'>> | Required<Pick<BuildOptions, 'entryPoints'>>,
  outfile: string,
): Promise<void> {
  await build({ ...bundleSettings, ...source, outfile, logLevel: 'error' });
}
