import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { openSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { runMillrace } from './run-millrace.ts';

const binary = fileURLToPath(new URL('../../../../infra/cli/millrace.mjs', import.meta.url));
const terminal = new URL('../../../../infra/cli/terminal.ts', import.meta.url).href;

/** Nothing listens on port 1. */
const nobody = 1;

let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-ends-'));
});

afterAll(() => rm(folder, { recursive: true }));

async function aKubeconfig(port: number): Promise<string> {
  const file = join(folder, `kubeconfig-${port}`);
  await writeFile(
    file,
    `
apiVersion: v1
kind: Config
current-context: one
clusters: [{name: one, cluster: {server: 'https://127.0.0.1:${port}'}}]
contexts: [{name: one, context: {cluster: one, user: one}}]
users: [{name: one, user: {token: canary}}]
`,
  );
  return file;
}

const onCluster: readonly (readonly [string, readonly string[]])[] = [
  ['dev', []],
  ['relay', ['--queue-endpoint', 'http://127.0.0.1:1']],
  ['doctor', []],
  ['reset', ['shd/orders', 'drain-step', '-n', 'db', '--yes']],
];

describe('a command ends', { timeout: 30_000 }, () => {
  test.each([...onCluster.map(([name]) => name), 'config', 'manifests', 'completion', 'help'])(
    'with 2 where %s does not know the option',
    async (name) => {
      const { exitCode, stdout, stderr } = await runMillrace([name, '--no-such-option']);

      expect(exitCode).toBe(2);
      expect(stdout).toBe('');
      expect(stderr).toMatch(/^millrace: [a-z]/);
    },
  );

  test.each([...onCluster, ['config', []] as const])(
    'with 2 where %s finds no kubeconfig',
    async (name, words) => {
      const { exitCode, stdout, stderr } = await runMillrace([
        name,
        ...words,
        '--kubeconfig',
        join(folder, 'no-such-file'),
      ]);

      expect(exitCode).toBe(2);
      expect(stdout).toBe('');
      expect(stderr).toMatch(/^millrace: [a-z]/);
    },
  );

  test.each(onCluster)('with 1 where %s does not reach the cluster', async (name, words) => {
    const kubeconfig = await aKubeconfig(nobody);

    const { exitCode } = await runMillrace([name, ...words, '--kubeconfig', kubeconfig]);

    expect(exitCode).toBe(1);
  });

  test('by the signal where Ctrl-C comes while it waits', async () => {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const kubeconfig = await aKubeconfig((server.address() as AddressInfo).port);
    const child = spawn(process.execPath, [binary, 'doctor', '--kubeconfig', kubeconfig], {
      env: { HOME: folder },
      stdio: 'ignore',
    });

    await once(server, 'connection');
    child.kill('SIGINT');

    expect(await once(child, 'close')).toEqual([null, 'SIGINT']);
    server.close();
  });
});

describe('where nobody reads to the end', { timeout: 30_000 }, () => {
  async function unread(words: readonly string[]) {
    const child = spawn(process.execPath, [binary, ...words], {
      env: { HOME: folder },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    child.stdout.destroy();
    const [stderr, [exitCode]] = await Promise.all([text(child.stderr), once(child, 'close')]);
    return { exitCode: exitCode as unknown, stderr };
  }

  test.each([[['manifests']], [['--help']], [['doctor', '--help']], [['completion', 'zsh']]])(
    '%j ends well, and without a word',
    async (words) => {
      expect(await unread(words)).toEqual({ exitCode: 0, stderr: '' });
    },
  );

  test('a command still says by its exit code what it found', async () => {
    const kubeconfig = await aKubeconfig(nobody);

    expect(await unread(['doctor', '--kubeconfig', kubeconfig])).toEqual({
      exitCode: 1,
      stderr: '',
    });
  });

  test.runIf(process.platform === 'linux')('a full disk is no reader that left', () => {
    const { status, stderr } = spawnSync(process.execPath, [binary, 'manifests'], {
      stdio: ['ignore', openSync('/dev/full', 'w'), 'pipe'],
      encoding: 'utf8',
    });

    expect(status).toBe(1);
    expect(stderr).toMatch(/^millrace: the output cannot be written: ENOSPC/);
  });
});

const hasTerminal = spawnSync('script', ['--version']).status === 0;

describe.runIf(hasTerminal || process.env['CI'] !== undefined)('who is asked', () => {
  /** Presses keys once the question is there. */
  async function asked(keys: string) {
    const program = `import { confirm } from '${terminal}';
      console.log('said ' + await confirm('sure?'));`;
    const file = join(folder, 'asking.mjs');
    await writeFile(file, program);
    const child = spawn(
      'script',
      ['-q', '-e', '-c', `'${process.execPath}' ${file}`, '/dev/null'],
      {
        stdio: ['pipe', 'pipe', 'inherit'],
      },
    );
    let shown = '';
    for await (const part of child.stdout) {
      const hadQuestion = shown.includes('[y/N] ');
      shown += String(part);
      if (!hadQuestion && shown.includes('[y/N] ')) {
        child.stdin.write(keys);
      }
    }
    child.stdin.end();
    return { shown, exitCode: child.exitCode ?? (await once(child, 'close'))[0] };
  }

  test.each([
    ['y\n', 'said true'],
    ['Yes\n', 'said true'],
    ['\n', 'said false'],
    ['yesterday\n', 'said false'],
    ['\u0004', 'said false'],
  ])('and presses %j has %s', async (keys, said) => {
    const { shown, exitCode } = await asked(keys);

    expect(shown).toContain(said);
    expect(exitCode).toBe(0);
  });

  test('and presses Ctrl-C ends the command as everywhere', async () => {
    const { shown, exitCode } = await asked('\u0003');

    expect(shown).not.toContain('said');
    expect(exitCode).toBe(130);
  });
});
