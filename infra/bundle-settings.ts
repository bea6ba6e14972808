import type { BuildOptions } from 'esbuild';

/** How everything is bundled that runs in AWS or in the relay's image, and what it is measured beside. */
export const bundleSettings = {
  bundle: true,
  format: 'esm',
  platform: 'node',
  target: 'node24',
  minify: true,
  keepNames: true,
  // CommonJS packages inside an ESM bundle still ask for these three. etcd3 reads `${__dirname}/../proto` when it is
  // loaded, so it is told a folder beside the files that lie in the bundle's own `proto`.
  banner: {
    js: [
      "import { createRequire as __createRequire } from 'node:module';",
      'const require = __createRequire(import.meta.url);',
      "const __filename = import.meta.filename, __dirname = import.meta.dirname + '/lib';",
    ].join(''),
  },
} as const satisfies BuildOptions;
