import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command, CommanderError, InvalidArgumentError } from 'commander';
import { describeError } from '#shared/kernel/errors.ts';
import { ProgramUnavailable } from '#infra/local/control-plane/binaries.ts';
import { Meter } from './meter.ts';
import { type Screen, type SceneResult, jsonScreen, lineScreen, terminalScreen } from './screen.ts';
import { prepare } from './acts.ts';
import { scenes } from './scenes.ts';
import type { Scene, Stage } from './stage.ts';
import { archiveFolder, buildStage, shownTarget } from './build-stage.ts';

/** How many times faster than measured the stand-in data plane runs, unless it is said otherwise. */
const usualSpeed = 4;

interface Options {
  readonly scene: readonly string[];
  readonly speed: number;
  readonly json: boolean;
  readonly record?: string;
}

/**
 * The main job, live: brings up a control plane and a stand-in data plane, runs `millrace dev` on them, plays the
 * scenes and checks each by reading the API server and etcd.
 *
 * @returns the exit code: 0 when every scene held, 1 when one did not, 2 for a wrong call or a missing program
 */
export async function runShow(args: readonly string[]): Promise<0 | 1 | 2> {
  const options = parse(args);
  if (typeof options === 'number') {
    return options;
  }
  const screen = screenFor(options);
  const folder = await mkdtemp(join(tmpdir(), 'millrace-'));
  const interrupted = new AbortController();
  const interrupt = () => interrupted.abort(new Error('interrupted'));
  process.once('SIGINT', interrupt);
  process.once('SIGTERM', interrupt);
  try {
    const results = await playOnStage(options, folder, screen, interrupted.signal);
    if (options.record !== undefined) {
      await cp(archiveFolder(folder), options.record, { recursive: true });
    }
    // Everything has ended by now, so the summary is the last that is said.
    screen.summary(results);
    return results.every(({ ok }) => ok) ? 0 : 1;
  } catch (error) {
    screen.close();
    process.stderr.write(`${describeError(error)}\n`);
    return error instanceof ProgramUnavailable ? 2 : 1;
  } finally {
    screen.close();
    await rm(folder, { recursive: true, force: true });
  }
}

async function playOnStage(
  options: Options,
  folder: string,
  screen: Screen,
  signal: AbortSignal,
): Promise<readonly SceneResult[]> {
  const toPlay = chosen(options);
  const hasBucket = toPlay.some(({ needsBucket }) => needsBucket === true);
  const { speed, record } = options;
  const isRecorded = record !== undefined;
  await using built = await buildStage({ folder, speed, screen, signal, hasBucket, isRecorded });
  return await playAll(toPlay, built.stage, built.meter, screen, signal);
}

function parse(args: readonly string[]): Options | 0 | 2 {
  const names = scenes.map(({ name }) => name);
  const command = new Command('npm start --')
    .description(
      'Plays the main job on a real API server and etcd with a stand-in data plane, and checks every scene.',
    )
    .option(
      '--scene <name>',
      `play only this scene; repeatable: ${names.join(', ')}`,
      collectScene,
      [] as string[],
    )
    .option(
      '--speed <factor>',
      'how many times faster than measured the stand-in data plane runs',
      parseSpeed,
      usualSpeed,
    )
    .option('--record <folder>', 'record every decision and hint, and keep that archive here')
    .option('--json', 'one JSON object per line; the last one is the summary', false)
    .addHelpText('after', '\nExample: npm start -- --scene primary --speed 1')
    .configureOutput({
      outputError: (text, write) => write(text.replace(/^error: /, 'npm start: ')),
    })
    .exitOverride();
  try {
    return command.parse(args, { from: 'user' }).opts<Options>();
  } catch (error) {
    return error instanceof CommanderError && error.exitCode === 0 ? 0 : 2;
  }
}

function collectScene(name: string, before: readonly string[]): string[] {
  if (!scenes.some((scene) => scene.name === name)) {
    throw new InvalidArgumentError(`there are: ${scenes.map((scene) => scene.name).join(', ')}`);
  }
  return [...before, name];
}

function parseSpeed(text: string): number {
  const speed = Number(text);
  if (!Number.isFinite(speed) || speed < 0.1 || speed > 20) {
    throw new InvalidArgumentError('give a number between 0.1 and 20');
  }
  return speed;
}

function screenFor({ json }: Options): Screen {
  if (json) {
    return jsonScreen(process.stdout);
  }
  return process.stdout.isTTY
    ? terminalScreen(process.stdout, shownTarget)
    : lineScreen(process.stdout, shownTarget);
}

function chosen({ scene }: Options): readonly Scene[] {
  return scene.length === 0 ? scenes : scenes.filter(({ name }) => scene.includes(name));
}

async function playAll(
  toPlay: readonly Scene[],
  stage: Stage,
  meter: Meter,
  screen: Screen,
  signal: AbortSignal,
): Promise<readonly SceneResult[]> {
  const results: SceneResult[] = [];
  for (const scene of toPlay) {
    signal.throwIfAborted();
    if (scene.name !== 'create' && scene.isWithoutShard !== true) {
      await untilInterrupted(prepare(stage), signal);
    }
    screen.scene(scene.name, scene.title);
    const result = await play(scene, stage, meter, signal);
    results.push(result);
    screen.result(result);
    if (!result.ok) {
      break;
    }
  }
  return results;
}

async function play(
  scene: Scene,
  stage: Stage,
  meter: Meter,
  signal: AbortSignal,
): Promise<SceneResult> {
  const before = await meter.read();
  const startedAtMs = performance.now();
  const why = await untilInterrupted(scene.play(stage), signal).then(
    () => undefined,
    (error: unknown) => describeError(error),
  );
  const seconds = Math.round((performance.now() - startedAtMs) / 100) / 10;
  // Of a scene that was cut off, the relay may not be there to be asked.
  const after = await meter.read().catch((error: unknown) => {
    if (why === undefined) {
      throw error;
    }
    return before;
  });
  return {
    name: scene.name,
    ok: why === undefined,
    seconds,
    apiWrites: after.apiWrites - before.apiWrites,
    hints: after.hints - before.hints,
    ...(why === undefined ? {} : { why }),
  };
}

async function untilInterrupted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return Promise.race([
    work,
    new Promise<never>((_, reject) => {
      signal.throwIfAborted();
      signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
    }),
  ]);
}
