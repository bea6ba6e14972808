import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { stripVTControlCharacters } from 'node:util';
import { afterAll, describe, expect, test } from 'vitest';
import { runMillrace } from './run-millrace.ts';

const binary = fileURLToPath(new URL('../../../../infra/cli/millrace.mjs', import.meta.url));

const folder = mkdtempSync(join(tmpdir(), 'millrace-terminal-'));
const kubeconfig = join(folder, `a-kubeconfig-with-${'a-long-'.repeat(10)}name`);
writeFileSync(
  kubeconfig,
  `
apiVersion: v1
kind: Config
current-context: one
clusters: [{name: one, cluster: {server: 'https://127.0.0.1:1'}}]
contexts: [{name: one, context: {cluster: one, user: one}}]
users: [{name: one, user: {token: canary}}]
`,
);

afterAll(() => rmSync(folder, { recursive: true }));

const words = ['config', '--kubeconfig', kubeconfig];

/** `script` of util-linux makes a terminal; in CI it is there. */
const hasTerminal =
  process.env['CI'] !== undefined || spawnSync('script', ['--version']).status === 0;

function onTerminal(
  more: readonly string[] = [],
  environment: Readonly<Record<string, string>> = {},
): string {
  const line = [process.execPath, binary, ...words, ...more].join(' ');
  const { stdout } = spawnSync('script', ['-qec', `stty cols 60; ${line}`, '/dev/null'], {
    env: { HOME: folder, PATH: process.env['PATH'], TERM: 'xterm-256color', ...environment },
    encoding: 'utf8',
  });
  return stdout.replaceAll('\r\n', '\n');
}

describe.runIf(hasTerminal)('on a terminal', { timeout: 30_000 }, () => {
  test('there are colours, and each row of a table is one line', () => {
    const shown = onTerminal();

    expect(shown).toContain('\u001B[1mSETTING');
    expect(shown).toContain('…');
    for (const line of stripVTControlCharacters(shown).split('\n')) {
      expect(line.length).toBeLessThanOrEqual(60);
    }
  });

  test('there are no colours with NO_COLOR', () => {
    expect(onTerminal([], { NO_COLOR: '1' })).not.toContain('\u001B');
  });

  test('what programs read is neither cut nor coloured', async () => {
    const json = onTerminal(['--json']);

    expect(json).toBe((await runMillrace([...words, '--json'], { HOME: folder })).stdout);
    expect(json).toContain(kubeconfig);
  });
});

describe('where there is no terminal', { timeout: 30_000 }, () => {
  test('there are no colours, and nothing is cut', async () => {
    const { stdout } = await runMillrace(words);

    expect(stdout).not.toContain('\u001B');
    expect(stdout).not.toContain('…');
    expect(stdout).toContain(kubeconfig);
  });

  test('there are colours with FORCE_COLOR', async () => {
    const { stdout } = await runMillrace(words, { FORCE_COLOR: '1' });

    expect(stdout).toContain('\u001B[1mSETTING');
  });
});
