import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import type { Shell } from '#infra/cli/completion/shells.ts';

const binary = fileURLToPath(new URL('../../../../../infra/cli/millrace.mjs', import.meta.url));

/** How each shell is started without anybody's settings, and how it loads the completion. */
const starts: Readonly<Record<Shell, { readonly words: string; readonly load: string }>> = {
  bash: { words: 'bash --noprofile --norc -i', load: 'source <(millrace completion bash)' },
  zsh: {
    words: 'zsh -f -i',
    load: 'autoload -U compinit; compinit -u -D; source <(millrace completion zsh)',
  },
  fish: { words: 'fish --no-config -i', load: 'millrace completion fish | source' },
};

/**
 * Types keys into a real shell on a terminal, and tells which command lines of `millrace` it then ran.
 *
 * @param lines each with its presses of the tab key as `\t`; a file `kubeconfig` and a folder `data` are there
 */
export async function typeIntoShell(
  shell: Shell,
  lines: readonly string[],
): Promise<readonly string[]> {
  const folder = await mkdtemp(join(tmpdir(), 'millrace-shell-'));
  try {
    await prepare(folder);
    const { words, load } = starts[shell];
    // `script` gives the shell a terminal.
    const child = spawn('script', ['-q', '-e', '-c', words, '/dev/null'], {
      cwd: folder,
      env: { HOME: folder, PATH: `${folder}:${process.env['PATH']}`, TERM: 'dumb' },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    child.stdin.end([load, ...lines, 'exit', ''].join('\n'));
    await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
    const ran = await readFile(join(folder, 'ran'), 'utf8');
    return ran.trimEnd().split('\n');
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** A `millrace` that completes as the real one, and of all else only writes down what it was asked to do. */
async function prepare(folder: string): Promise<void> {
  await mkdir(join(folder, 'data'));
  await writeFile(join(folder, 'kubeconfig'), '');
  await writeFile(join(folder, 'ran'), '');
  const stub = join(folder, 'millrace');
  await writeFile(
    stub,
    `#!/bin/sh
case "$1" in
  complete|completion) exec '${process.execPath}' '${binary}' "$@" ;;
  *) echo "$*" >> '${join(folder, 'ran')}' ;;
esac
`,
  );
  await chmod(stub, 0o755);
}
