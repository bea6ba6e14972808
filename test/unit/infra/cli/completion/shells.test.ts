import { spawnSync } from 'node:child_process';
import { describe, expect, test } from 'vitest';
import { answer, shells } from '#infra/cli/completion/shells.ts';
import { makeProgram } from '#infra/cli/program.ts';
import { typeIntoShell } from './type-into-shell.ts';

/** `script` of util-linux gives a shell its terminal. In CI bash is tried in any case. */
const canBeTried = (shell: string) =>
  (shell === 'bash' && process.env['CI'] !== undefined) ||
  [shell, 'script'].every((program) => spawnSync(program, ['--version']).status === 0);

describe.each(shells)('in a real %s', { timeout: 60_000 }, (shell) => {
  if (!canBeTried(shell)) {
    console.warn(`completion in ${shell} is NOT TRIED: install ${shell} and script (util-linux)`);
  }

  test.runIf(canBeTried(shell))('the tab key completes what is begun', async () => {
    const ran = await typeIntoShell(shell, [
      'millrace conf\t--out\tjs\t',
      'millrace config --output=y\t',
      'millrace reset shd/orders-0 dr\t-n db',
      'millrace config --kubeconfig kube\t',
      'millrace config --kubeconfig=kube\t',
      'millrace dev --data-dir da\t',
    ]);

    // Behind a folder zsh takes its slash away again.
    expect(ran.map((line) => line.trimEnd().replace(/\/$/, ''))).toEqual([
      'config --output json',
      'config --output=yaml',
      'reset shd/orders-0 drain-step -n db',
      'config --kubeconfig kubeconfig',
      'config --kubeconfig=kubeconfig',
      'dev --data-dir data',
    ]);
  });
});

describe('what a shell is answered', () => {
  const program = makeProgram(() => undefined);

  test('is a word per line and what it means', () => {
    expect(answer(program, 'zsh', ['doct'])).toEqual(['doctor\tcheck that Millrace can work here']);
  });

  test('is the whole word behind an equals sign, but in bash, which takes the word apart', () => {
    expect(answer(program, 'zsh', ['config', '--output=y'])).toEqual(['--output=yaml\t']);
    expect(answer(program, 'bash', ['config', '--output', '=', 'y'])).toEqual(['yaml\t']);
    expect(answer(program, 'bash', ['config', '--output', '='])).toHaveLength(3);
    expect(answer(program, 'bash', ['config', '--output', '=', 'yaml', '--js'])).toEqual([
      '--json\tshort for --output json',
    ]);
  });

  test('leaves files and folders to the shell', () => {
    expect(answer(program, 'bash', ['config', '--kubeconfig', ''])).toEqual([':files']);
    expect(answer(program, 'fish', ['dev', '--data-dir=/v'])).toEqual([':folders']);
  });
});
