import { readFile } from 'node:fs/promises';
import type { Command } from 'commander';
import { describe, expect, test } from 'vitest';
import { makeProgram } from '#infra/cli/program.ts';
import { type Run, runMillrace } from './run-millrace.ts';

const commands = program()
  .commands.map((command) => command.name())
  .filter((name) => name !== 'complete');

const readHelp = memoised((name: string) => runMillrace([name, '--help']));

describe('millrace --help', { timeout: 30_000 }, () => {
  test('names every command under what it is for, and fits 80 columns', async () => {
    const { exitCode, stdout } = await runMillrace(['--help']);

    const headings = [...stdout.matchAll(/^(\S.*):$/gm)].map(([, heading]) => heading);
    expect(exitCode).toBe(0);
    expect(headings).toEqual([
      'Options',
      'Run',
      'Look',
      'Repair',
      'Install',
      'Environment',
      'Exit codes',
    ]);
    for (const name of commands) {
      expect(stdout).toMatch(new RegExp(`^  ${name} +[a-z]`, 'm'));
    }
    expect(tooWide(stdout)).toEqual([]);
  });

  test('is what help without a command says', async () => {
    expect(await runMillrace(['help'])).toEqual(await runMillrace(['--help']));
  });
});

describe.each(commands)('millrace %s --help', { timeout: 30_000 }, (name) => {
  test('says what it does, by what, and how it ends', async () => {
    const { exitCode, stdout } = await readHelp(name);

    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/^Usage: .+\n\n[A-Z][^]+?\.\n\n/);
    expect(stdout).toContain('\nOptions:\n');
    expect(stdout).toMatch(/\nExit codes:\n {2}0 {2}\S[^]+\n {2}2 {2}\S/);
    expect(tooWide(stdout.replace(/\nExamples?:\n[^]+?\n\n/, ''))).toEqual([]);
  });

  test('has an example that can be given as it stands', async () => {
    const examples = examplesIn((await readHelp(name)).stdout);

    expect(examples.length).toBeGreaterThan(0);
    for (const words of examples) {
      expect(words[0]).toBe('millrace');
      expect(await parsedCommand(words.slice(1))).toBe(name);
    }
  });

  test('is what help says of it', async () => {
    expect(await runMillrace(['help', name])).toEqual(await readHelp(name));
  });
});

describe('a word that nobody knows', { timeout: 30_000 }, () => {
  test.each([
    [['docter'], "unknown command 'docter'", 'doctor'],
    [['help', 'docter'], "unknown command 'docter'", 'doctor'],
    [['doctor', '--kubeconfg', 'a'], "unknown option '--kubeconfg'", '--kubeconfig'],
  ])('in %j is answered by the nearest one', async (words, complaint, nearest) => {
    const { exitCode, stdout, stderr } = await runMillrace(words);

    expect(exitCode).toBe(2);
    expect(stdout).toBe('');
    expect(stderr).toContain(`millrace: ${complaint}\n(Did you mean ${nearest}?)\n`);
  });
});

test('every variable that the settings come from is named by dev, which heeds them all', async () => {
  const settings = await readFile(
    new URL('../../../../infra/cli/settings.ts', import.meta.url),
    'utf8',
  );
  const names = new Set(
    [...settings.matchAll(/(?:variable: |environment\[)'([A-Z_]+)'/g)].map(([, name]) => name),
  );

  const { stdout } = await readHelp('dev');

  expect(names.size).toBeGreaterThan(10);
  for (const name of names) {
    expect(stdout).toMatch(new RegExp(`^  ${name} +\\S`, 'm'));
  }
});

function program(): Command {
  return makeProgram(() => undefined);
}

/** The command that takes these words, without doing anything. Throws where none takes them. */
async function parsedCommand(words: readonly string[]): Promise<string | undefined> {
  const parsing = program();
  let taken: string | undefined;
  for (const command of parsing.commands) {
    command.action(() => {
      taken = command.name();
    });
  }
  await parsing.parseAsync(words, { from: 'user' });
  return taken;
}

/** The words of each example's `millrace`, without the shell around it. */
function examplesIn(help: string): readonly (readonly string[])[] {
  const section = /\nExamples?:\n([^]+?)(?:\n\n|$)/.exec(help)?.[1] ?? '';
  return section
    .replaceAll(/ \\\n +/g, ' ')
    .split('\n')
    .map((line) => {
      const command = /^ {2}\$ (?:.*[(|] *)?(millrace [^|)]+)/.exec(line)?.[1] ?? line;
      return command.trim().split(' ');
    });
}

function tooWide(text: string): readonly string[] {
  return text.split('\n').filter((line) => line.length > 80);
}

function memoised(read: (name: string) => Promise<Run>): (name: string) => Promise<Run> {
  const known = new Map<string, Promise<Run>>();
  return (name) => {
    const run = known.get(name) ?? read(name);
    known.set(name, run);
    return run;
  };
}
