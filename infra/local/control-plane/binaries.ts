import { join } from 'node:path';
import { buildProgram, findGo } from './build.ts';
import { type BinarySettings, loadBinarySettings } from './config.ts';
import { isFile } from './is-file.ts';
import { type Program, type ProgramName, programs } from './program.ts';
import type { OnProgress } from './progress.ts';

/** A program of the control plane is nowhere on this machine and cannot be built. The message names all three ways. */
export class ProgramUnavailable extends Error {
  readonly program: ProgramName;

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
export async function obtainProgram(
  name: ProgramName,
  onProgress?: OnProgress,
  settings: BinarySettings = loadBinarySettings(),
): Promise<string> {
  const source = await locate(programs[name], settings);
  if (source.kind === 'unavailable') {
    throw source.error;
  }
  if (source.kind === 'buildable') {
    await buildProgram(programs[name], source.path, settings.buildEnvironment, onProgress);
  }
  return source.path;
}

/** Why the control plane cannot run on this machine, or `undefined` when it can, be it after a build. */
export async function findMissingProgram(
  settings: BinarySettings = loadBinarySettings(),
): Promise<ProgramUnavailable | undefined> {
  const sources = await Promise.all(
    Object.values(programs).map((program) => locate(program, settings)),
  );
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
