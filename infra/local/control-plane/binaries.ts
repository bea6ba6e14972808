import { join } from 'node:path';
import { buildProgram, findGo } from './build.ts';
import { type BinarySettings, loadBinarySettings } from './config.ts';
import { isFile } from './is-file.ts';
import { type Program, type ProgramName, programs } from './program.ts';
import type { OnProgress } from './progress.ts';

/** A program is nowhere on this machine and cannot be built. The message names all three ways. */
export class ProgramUnavailable extends Error {
  readonly program: string;

  constructor(program: Program, findings: readonly string[]) {
    super(
      [
        `there is no ${program.name} to run, and any one of these would do:`,
        ...findings.map((finding) => `  - ${finding}`),
      ].join('\n'),
    );
    this.name = 'ProgramUnavailable';
    this.program = program.name;
  }
}

/** How a program can be had. */
type Source =
  | { readonly kind: 'present'; readonly path: string }
  | { readonly kind: 'buildable'; readonly path: string }
  | { readonly kind: 'unavailable'; readonly error: ProgramUnavailable };

/**
 * The path of a program: from the folder KUBEBUILDER_ASSETS names, else from the cache, else built into the cache.
 *
 * Throws {@link ProgramUnavailable} when there is none of the three.
 */
export function obtainProgram(
  name: ProgramName,
  onProgress?: OnProgress,
  settings?: BinarySettings,
): Promise<string> {
  return obtain(programs[name], onProgress, settings);
}

/** The same for a program that is no part of the control plane. */
export async function obtain(
  program: Program,
  onProgress?: OnProgress,
  settings: BinarySettings = loadBinarySettings(),
): Promise<string> {
  const source = await locate(program, settings);
  if (source.kind === 'unavailable') {
    throw source.error;
  }
  if (source.kind === 'buildable') {
    await buildProgram(program, source.path, settings.buildEnvironment, onProgress);
  }
  return source.path;
}

/** Why these programs, by default the control plane's, cannot run here; `undefined` when they can, be it after a build. */
export async function findMissingProgram(
  settings: BinarySettings = loadBinarySettings(),
  needed: readonly Program[] = Object.values(programs),
): Promise<ProgramUnavailable | undefined> {
  const sources = await Promise.all(needed.map((program) => locate(program, settings)));
  return sources.find((source) => source.kind === 'unavailable')?.error;
}

async function locate(program: Program, settings: BinarySettings): Promise<Source> {
  const { assetsDir, cacheDir } = settings;
  if (assetsDir !== undefined && (await isFile(join(assetsDir, program.name)))) {
    return { kind: 'present', path: join(assetsDir, program.name) };
  }
  const platform = `${process.platform}-${process.arch}`;
  const cached = join(cacheDir, `${program.name}-${program.version}-${platform}`, program.name);
  if (await isFile(cached)) {
    return { kind: 'present', path: cached };
  }
  const go = await findGo(program.moduleDir, settings.buildEnvironment);
  if (go.usable) {
    return { kind: 'buildable', path: cached };
  }
  return {
    kind: 'unavailable',
    error: new ProgramUnavailable(program, [
      assetsDir === undefined
        ? 'KUBEBUILDER_ASSETS: not set'
        : `KUBEBUILDER_ASSETS: ${assetsDir} holds no ${program.name}`,
      `cache: there is no ${cached}`,
      `build from source: ${go.why}`,
    ]),
  };
}
